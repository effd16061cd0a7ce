"""What a file may become when it is opened is bounded, the message names the limit, and the limit can be raised."""

import gzip
import io
import urllib.error
import urllib.request
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.response import addinfourl

import numpy as np
import polars as pl
import pytest

from verax.data.array_files import read_arrays
from verax.data.file import load_file
from verax.paper.downloads import DownloadError, bounded_downloads
from verax.paper.images import read_image

Image = pytest.importorskip("PIL.Image")

BYTES = 3_000_000
LIMIT = str(BYTES / 2 / 2**30)
RAISED = str(BYTES * 2 / 2**30)


def npz(path: Path) -> None:
    np.savez_compressed(path, inputs=np.zeros((BYTES // 80, 10)), labels=np.arange(BYTES // 80) % 2)


def parquet(path: Path) -> None:
    pl.DataFrame({"a": np.zeros(BYTES // 16), "b": np.ones(BYTES // 16)}).write_parquet(path)


@pytest.mark.parametrize(("name", "write"), [("x.npz", npz), ("x.parquet", parquet)])
def test_small_files_that_unpack_to_much_are_refused(
    name: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    write(path)
    assert path.stat().st_size < BYTES / 20
    monkeypatch.setenv("VERAX_MAX_GIB", LIMIT)
    for read in (read_arrays, load_file) if name == "x.npz" else (read_arrays,):
        with pytest.raises(ValueError, match=r"x\.\w+: holds .* above the limit of .*; set VERAX_MAX_GIB to more"):
            read(path)
    monkeypatch.setenv("VERAX_MAX_GIB", RAISED)
    assert read_arrays(path)


def test_an_array_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    """A header may promise what the file does not hold; no room is made for it."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)})
    (tmp_path / "x.npy").write_bytes(header.getvalue())
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match=rf"{name}: cannot be read as an {name[1:]} file"):
            read_arrays(tmp_path / name)


@pytest.mark.parametrize("text", ["much", "0", "-1", "nan"])
def test_a_limit_that_is_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npz(tmp_path / "x.npz")
    monkeypatch.setenv("VERAX_MAX_GIB", text)
    with pytest.raises(ValueError, match="VERAX_MAX_GIB: expected a number greater than 0"):
        read_arrays(tmp_path / "x.npz")


def test_images_of_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "x.png")
    monkeypatch.setenv("VERAX_MAX_PIXELS", "599")
    with pytest.raises(ValueError, match="more pixels than the limit of 599; set VERAX_MAX_PIXELS to raise it"):
        read_image(tmp_path / "x.png", 8)
    monkeypatch.setenv("VERAX_MAX_PIXELS", "600")
    assert read_image(tmp_path / "x.png", 8).shape == (3, 8, 8)


def test_pillows_own_limit_is_told_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(ValueError, match="set VERAX_MAX_PIXELS to raise it"):
        read_image(tmp_path / "x.png", 8)
    monkeypatch.setenv("VERAX_MAX_PIXELS", "10000")
    assert read_image(tmp_path / "x.png", 8).shape == (3, 8, 8)


@pytest.mark.parametrize("kind", ["EPS", "GIF", "TIFF", "BMP", "PPM", "JPEG2000"])
def test_only_the_named_formats_are_opened(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file is called: an EPS that is called .jpg would start Ghostscript."""

    def started(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("a program was started")

    path = tmp_path / "x.jpg"
    with path.open("wb") as file:
        Image.new("RGB", (8, 8)).save(file, format=kind)
    monkeypatch.setattr("subprocess.Popen", started)
    with pytest.raises(ValueError, match="no image in one of the formats JPEG, PNG, WEBP"):
        read_image(path, 8)


class Server(urllib.request.HTTPHandler):
    """Answers every request with one body, in the place of the network."""

    def __init__(self, body: bytes, code: int = 200, packed: bool = False) -> None:
        super().__init__()
        self.body, self.code, self.packed = body, code, packed

    def http_open(self, request: urllib.request.Request) -> addinfourl:
        headers = Message()
        if self.packed:
            headers["Content-Encoding"] = "gzip"
        answer = addinfourl(io.BytesIO(self.body), headers, request.full_url, self.code)
        answer.msg = "told"  # type: ignore[attr-defined]
        return answer


@pytest.fixture
def serve() -> Any:
    def install(server: Server) -> None:
        urllib.request.install_opener(urllib.request.build_opener(server))

    yield install
    urllib.request.install_opener(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("packed", [False, True])
def test_downloads_are_cut_off(packed: bool, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bytes(BYTES)
    serve(Server(gzip.compress(body) if packed else body, packed=packed))
    monkeypatch.setenv("VERAX_MAX_GIB", LIMIT)
    with bounded_downloads(), pytest.raises(DownloadError, match=r"more than the limit of .* VERAX_MAX_GIB"):
        urllib.request.urlopen("http://data.example/x")
    monkeypatch.setenv("VERAX_MAX_GIB", RAISED)
    with bounded_downloads(), urllib.request.urlopen("http://data.example/x") as answer:
        assert answer.read() == body
        assert answer.info().get("Content-Encoding") is None
    with urllib.request.urlopen("http://data.example/x") as answer:  # as before
        assert answer.info().get("Content-Encoding") == ("gzip" if packed else None)


def test_errors_of_a_server_stay_what_they_are(serve: Any) -> None:
    serve(Server(b"not here", code=404))
    with bounded_downloads(), pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen("http://data.example/x")
