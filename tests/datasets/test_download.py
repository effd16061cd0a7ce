"""Downloads against a server on this machine: whole and verified, or nothing left."""

import hashlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from verax.datasets import download as module
from verax.datasets.download import DownloadError, cache_folder, download, verified, write_atomically

BODY = bytes(range(256)) * 4096
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """One behaviour per path."""

    def do_GET(self):
        getattr(self, "get_" + self.path.strip("/"))()

    def answer(self, status, *headers, body=b""):
        self.server.asked.append(self.path)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def get_whole(self):
        self.answer(200, ("Content-Length", str(len(BODY))), body=BODY)

    def get_unannounced(self):
        self.answer(200, body=BODY)

    def get_short(self):
        self.answer(200, ("Content-Length", str(len(BODY))), body=BODY[:1000])

    def get_chunked(self):
        self.protocol_version = "HTTP/1.1"
        self.close_connection = True
        self.answer(200, ("Transfer-Encoding", "chunked"), body=b"400\r\n" + BODY[:100])

    def get_nothing(self):
        self.close_connection = True

    def get_absent(self):
        self.answer(404, ("Content-Length", "5"), body=b"gone!")

    def get_moved(self):
        self.answer(302, ("Location", "/whole"), ("Content-Length", "0"))

    def get_elsewhere(self):
        self.answer(302, ("Location", "ftp://127.0.0.1/file"), ("Content-Length", "0"))

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def files(folder: Path):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", ["whole", "unannounced", "moved"])
@pytest.mark.parametrize("sha256", [SHA, SHA.upper(), None])
def test_a_file_arrives_whole(server, tmp_path, path, sha256):
    to = tmp_path / "new" / "file.bin"
    assert download(f"{server.address}/{path}", to, sha256=sha256) == to
    assert to.read_bytes() == BODY
    assert files(tmp_path) == ["file.bin"]


@pytest.mark.parametrize(("path", "total"), [("whole", len(BODY)), ("unannounced", None)])
def test_progress_counts_up_to_the_end(server, tmp_path, path, total):
    seen = []
    download(f"{server.address}/{path}", tmp_path / "f", sha256=None, progress=lambda *now: seen.append(now))
    assert len(seen) > 1
    assert [received for received, _ in seen] == sorted(received for received, _ in seen)
    assert seen[-1][0] == len(BODY)
    assert {announced for _, announced in seen} == {total}


@pytest.mark.parametrize(
    ("path", "sha256", "reason"),
    [
        ("whole", "0" * 64, f"its sha256 is {SHA}, expected was {'0' * 64}"),
        ("short", SHA, f"broke off after 1000 of {len(BODY)} bytes"),
        ("short", None, f"broke off after 1000 of {len(BODY)} bytes"),
        ("chunked", None, "IncompleteRead"),
        ("nothing", None, "closed connection"),
        ("absent", SHA, "404"),
        ("elsewhere", None, "unknown url type: ftp"),
    ],
)
@pytest.mark.parametrize("before", [None, b"an older file"])
def test_a_failure_leaves_no_half_file_and_says_what_to_do(server, tmp_path, path, sha256, reason, before):
    to, url = tmp_path / "file.bin", f"{server.address}/{path}"
    if before is not None:
        to.write_bytes(before)
    with pytest.raises(DownloadError) as caught:
        download(url, to, sha256=sha256)
    for part in (reason, url, f"download it by hand and save it as {to}", "pass the path"):
        assert part in str(caught.value)
    assert files(tmp_path) == ([] if before is None else ["file.bin"])
    assert before is None or to.read_bytes() == before


def test_a_refused_connection_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(DownloadError, match=r"refused.*by hand"):
            download(f"http://127.0.0.1:{taken.getsockname()[1]}/file", tmp_path / "f", sha256=None)
    assert files(tmp_path) == []


def test_a_server_that_falls_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DownloadError, match="timed out"):
        download(f"http://127.0.0.1:{silent.getsockname()[1]}/file", tmp_path / "f", sha256=None)
    assert files(tmp_path) == []


def test_an_interrupt_leaves_nothing(server, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(f"{server.address}/whole", tmp_path / "f", sha256=None, progress=interrupt)
    assert files(tmp_path) == []


def test_a_verified_file_is_not_downloaded_again_and_a_damaged_one_is(server, tmp_path):
    to = tmp_path / "file.bin"
    for content, asked in ((BODY, 0), (BODY[:-1], 1)):
        to.write_bytes(content)
        download(f"{server.address}/whole", to, sha256=SHA)
        assert to.read_bytes() == BODY
        assert len(server.asked) == asked


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://host/file", "data:,x", "host/file", "http://", ""])
def test_only_http_addresses_are_taken(tmp_path, url):
    with pytest.raises(ValueError, match="url: expected an http or https address"):
        download(url, tmp_path / "f", sha256=None)


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, SHA + "0"])
def test_a_checksum_that_is_none_is_refused(tmp_path, sha256):
    with pytest.raises(ValueError, match="sha256: expected 64 hexadecimal digits"):
        download("http://127.0.0.1/x", tmp_path / "f", sha256=sha256)


def test_verified_wants_the_file_and_its_checksum(tmp_path):
    path = tmp_path / "f"
    assert not verified(path, SHA)
    assert not verified(tmp_path, SHA)
    path.write_bytes(BODY)
    assert verified(path, SHA)
    path.write_bytes(BODY + b"!")
    assert not verified(path, SHA)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"

    def full(_):
        raise OSError("No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"three")
    assert path.read_bytes() == b"two"
    assert files(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("given", "wanted"), [("/somewhere", "/somewhere"), ("relative", "~/.cache"), ("", "~/.cache")]
)
def test_the_cache_folder_is_the_users(monkeypatch, given, wanted):
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert cache_folder() == Path(wanted).expanduser() / "verax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "verax"
