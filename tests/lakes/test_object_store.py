"""A lake in an S3 store, on a server of this machine: the same scores, resumed, and refused in a line."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lakes.lakes import NAMES, SETTINGS, SmallLake, same
from lakes.s3_server import S3Server, s3_server
from verax.cli.lake import named_addresses
from verax.lakes import Settings, urls
from verax.lakes.score import PartScorer
from verax.lakes.storage import folder_of

fs = pytest.importorskip("pyarrow.fs")
PC = Settings(("pc",))
ZSTD = bytes.fromhex("28b52ffd")  # how a compressed page begins
LARGE = 11 << 20  # more than what is sent at once
WRITES = f"""
import sys
from verax.lakes.storage import folder_of
folder_of(sys.stdin.read()).write("part-0.0123456789abcdef.parquet", bytes({LARGE}))
"""


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those of nobody; and file systems that were opened with others are forgotten."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    urls.file_system.cache_clear()
    yield
    urls.file_system.cache_clear()


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


class Store:
    """A small lake, and the same in a bucket."""

    def __init__(self, folder: Path, server: S3Server) -> None:
        self.local = SmallLake(folder)
        self.bucket = "lake"
        self.server = server
        self.query = f"?endpoint_override={server.address}&scheme=http&region=us-east-1"
        self.system: Any = fs.S3FileSystem(
            endpoint_override=server.address,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )
        self.system.create_dir(self.bucket)
        for name in ("rows", *NAMES):
            for path in sorted((folder / name).iterdir()):
                self.put(f"{name}/{path.name}", path.read_bytes())

    def put(self, name: str, content: bytes) -> None:
        with self.system.open_output_stream(f"{self.bucket}/{name}") as file:
            file.write(content)

    def url(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}{self.query}"

    def score(self, out: str = "scores", **settings: Any) -> Any:
        given = {"shap": self.url("shap/part-?.parquet"), "lime": self.url("lime")}
        return self.local.score_at(self.url("rows/*.parquet"), given, self.url(out), **{"settings": PC} | settings)

    def parts(self, out: str = "scores") -> dict[str, int]:
        """Files of scores, with the time of their writing."""
        listed = self.system.get_file_info(fs.FileSelector(f"{self.bucket}/{out}", allow_not_found=True))
        return {one.path: one.mtime_ns for one in listed if one.path.endswith(".parquet")}

    def table(self, out: str = "scores") -> pl.DataFrame:
        folder = folder_of(self.url(out))
        return pl.concat([pl.read_parquet(folder.read(file.name)) for file in folder.files()])


@pytest.fixture
def store(tmp_path: Path, server: S3Server) -> Store:
    return Store(tmp_path, server)


def after(parts: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something as soon as so many parts are stored."""
    real, scored = PartScorer.score, []

    def score(self: PartScorer, task: Any) -> Any:
        scored.append(real(self, task))
        if len(scored) == parts:
            action()
        return scored[-1]

    monkeypatch.setattr(PartScorer, "score", score)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_same_scores_as_in_folders_and_nothing_is_scored_twice(store: Store) -> None:
    store.local.score()
    assert store.score(settings=SETTINGS).computed == 4
    assert same(store.table(), store.local.table())
    before = store.parts()
    assert store.score(settings=SETTINGS).computed == 0
    assert store.parts() == before


def test_the_environment_says_which_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{store.server.address}")
    store.query = ""
    assert store.score("deep/scores").out == f"s3://{store.bucket}/deep/scores"
    assert len(store.parts("deep/scores")) == 4


def test_what_was_finished_stays_after_a_stop_and_is_not_scored_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        after(2, patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.score()
    before = store.parts()
    assert len(before) == 2
    assert store.score().computed == 2
    assert before.items() <= store.parts().items()


def test_a_process_that_is_killed_while_it_writes_leaves_no_part(store: Store) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITES], stdin=subprocess.PIPE)

    def kill_at_the_end(sent: int) -> None:
        if sent == LARGE:  # all is there, and nobody said yet that it is all
            child.kill()

    store.server.after_part = kill_at_the_end
    child.communicate(store.url("scores").encode())  # it begins when it knows where
    assert child.returncode == -signal.SIGKILL
    assert len(store.server.uploads) == 1
    assert store.parts() == {}
    assert store.score().computed == 4


def test_a_damaged_part_of_the_scores_is_scored_anew(store: Store) -> None:
    store.score()
    name = min(store.parts()).partition("/")[2]
    store.put(name, b"otherwise")
    lines: list[str] = []
    assert store.score(log=lines.append).computed == 1
    assert any(f"s3://{store.bucket}/{name}: damaged" in line for line in lines)


def test_a_damaged_part_of_the_rows_is_named_and_what_was_finished_stays(store: Store) -> None:
    content = store.local.path("rows", 3).read_bytes()
    at = content.rindex(ZSTD)
    store.put("rows/part-3.parquet", content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(ValueError, match=r"^s3://.*/rows/part-3\.parquet: cannot be read as \.parquet file"):
        store.score()
    assert len(store.parts()) == 3
    store.put("rows/part-3.parquet", content)
    assert store.score().computed == 1


def test_rows_that_vanish_in_the_middle(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    after(2, monkeypatch, lambda: store.system.delete_dir_contents(f"{store.bucket}/rows"))
    with pytest.raises(FileNotFoundError, match=r"^s3://.*/rows/part-\d\.parquet: there is no such file any more; put"):
        store.score()
    assert len(store.parts()) == 2


def test_a_bucket_that_vanishes_in_the_middle_or_was_never_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    there, store.bucket = store.bucket, "nowhere-at-all"
    with pytest.raises(OSError, match=r"^s3://nowhere-at-all/rows: there is no such bucket; look at its name"):
        store.score()
    store.bucket = there
    out = store.url("scores").replace(there, "nowhere-at-all")
    with pytest.raises(OSError, match=r"^s3://nowhere-at-all/scores: there is no such bucket"):
        store.local.score_at(str(store.local.folder / "rows"), {"shap": store.url("shap")}, out)
    after(2, monkeypatch, lambda: store.system.delete_dir(there))
    with pytest.raises(
        FileNotFoundError, match=rf"^s3://{there}/rows/part-\d\.parquet: there is no such file any more"
    ):
        store.score()


def test_a_bucket_that_vanishes_while_a_part_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of reading is another one then."""
    kind: Any = type(folder_of(store.url("rows")))
    real = kind.open

    def then_lost(self: Any, name: str) -> Any:
        file = real(self, name)
        if self.address(name).endswith("rows/part-2.parquet") and store.parts():
            store.system.delete_dir(store.bucket)
        return file

    monkeypatch.setattr(kind, "open", then_lost)
    with pytest.raises(FileNotFoundError, match=r"/rows/part-2\.parquet: there is no such file any more"):
        store.score()


def test_credentials_that_nobody_knows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        with pytest.raises(OSError, match=r"/rows: access is denied \(INVALID_ACCESS_KEY_ID .*; look at the credent"):
            store.score()
    urls.file_system.cache_clear()
    after(2, monkeypatch, store.server.known.clear)
    with pytest.raises(OSError, match=r"/part-\d\.parquet: access is denied \(ACCESS_DENIED during HeadObject"):
        store.score()


def test_credentials_that_do_not_allow_it(store: Store) -> None:
    store.server.allowed = False
    with pytest.raises(
        OSError, match=r"/rows: access is denied \(ACCESS_DENIED during [^:]*: Access Denied\); look at"
    ):
        store.score()


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "silent"])
def test_a_server_that_is_not_there_or_never_answers(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "_SECONDS", 1.0)
    monkeypatch.setattr(urls, "_TRIES", 1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        query = f"?endpoint_override=127.0.0.1:{listener.getsockname()[1]}&scheme=http&region=us-east-1"
        with pytest.raises(OSError, match=r"^s3://lake/rows: cannot be reached \(NETWORK.*; look at the address and"):
            folder_of(f"s3://lake/rows{query}").files()
        if silent:
            listener.setblocking(False)
            listener.accept()[0].close()
            with pytest.raises(BlockingIOError):  # it was tried once, as was said
                listener.accept()


def test_secrets_of_a_url_are_shown_to_nobody() -> None:
    url = "s3://key:s3cret@lake/shap/*.parquet?region=eu-west-1"
    assert named_addresses([url]) == {"shap": url}
    folder = folder_of("s3://key:s3cret@lake/shap/?region=eu-west-1")
    assert folder.root == "s3://lake/shap"
    assert "s3cret" not in repr(folder)
    for wrong in ("s3://key:s3cret@lake/rows?colour=red", "s3://key:s3cret@lake/my rows"):
        with pytest.raises(ValueError, match=r"^s3://lake/.*(parameter in S3 URI: 'colour'|syntax error)") as found:
            folder_of(wrong).files()
        assert "s3cret" not in str(found.value)
