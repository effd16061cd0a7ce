"""A lake in an S3 store, on a server of this machine: the same scores, resumed, and refused in a line."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scale.lakes import METRICS, NAMES, ROWS, SmallLake, agrees
from verax.core import folders
from verax.core.folders import open_folder
from verax.scale.run import BatchWriter

fs = pytest.importorskip("pyarrow.fs")
server = pytest.importorskip("moto.server")
backends = pytest.importorskip("moto.s3.models").s3_backends
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
BUCKET = "lake"
ZSTD = bytes.fromhex("28b52ffd")  # how a compressed page begins
LARGE = 25 << 20  # more than what is sent at once
WRITES = f"""
from verax.core.folders import open_folder
open_folder("s3://{BUCKET}/scores").write("scores.0123456789abcdef.parquet", bytes({LARGE}))
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that only this machine reaches."""
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"{host}:{port}"
    running.stop()


@pytest.fixture(autouse=True)
def environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of nobody, and a server without buckets."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{address}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    backends.reset()


class Store:
    """A small lake, and the same in a bucket."""

    def __init__(self, folder: Path) -> None:
        self.local, self.bucket = SmallLake(folder), BUCKET
        self.system: Any = fs.S3FileSystem(
            endpoint_override=os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        self.system.create_dir(self.bucket)
        for name in ("rows", *NAMES):
            for path in sorted((folder / name).iterdir()):
                self.put(f"{name}/{path.name}", path.read_bytes())

    def put(self, name: str, content: bytes) -> None:
        with self.system.open_output_stream(f"{self.bucket}/{name}") as file:
            file.write(content)

    def score(self, out: str = "scores", **settings: Any) -> Any:
        addresses = {"shap": f"s3://{self.bucket}/shap/part-?.parquet", "lime": f"s3://{self.bucket}/lime"}
        rows, out = f"s3://{self.bucket}/rows/*.parquet", f"s3://{self.bucket}/{out}"
        return self.local.score_at(rows, addresses, out, **{"metrics": ["pc"]} | settings)

    def files(self, out: str = "scores") -> dict[str, int]:
        """Files of scores, with the time of their writing."""
        infos = self.system.get_file_info(fs.FileSelector(f"{self.bucket}/{out}", allow_not_found=True))
        return {info.path: info.mtime_ns for info in infos if info.path.endswith(".parquet")}

    def table(self, out: str = "scores") -> pl.DataFrame:
        folder = open_folder(f"s3://{self.bucket}/{out}")
        return pl.concat([pl.read_parquet(folder.read(file.path)) for file in folder.files()])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def after(batches: int, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Do something as soon as so many batches are stored."""
    write, results = BatchWriter.__call__, []

    def counted(self: BatchWriter, rows: Any, tell: Any) -> Any:
        results.append(write(self, rows, tell))
        if len(results) == batches:
            action()
        return results[-1]

    monkeypatch.setattr(BatchWriter, "__call__", counted)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_same_scores_as_in_folders_and_nothing_is_scored_twice(store: Store) -> None:
    assert store.score(metrics=METRICS).out == f"s3://{BUCKET}/scores"
    assert agrees(store.table(), store.local.expected())
    before = store.files()
    assert store.score(metrics=METRICS).computed == 0
    assert store.files() == before


def test_worker_processes_read_and_write_the_store(store: Store) -> None:
    assert store.score("deep/scores", engine=2).computed == ROWS
    assert agrees(store.table("deep/scores"), store.local.expected(["pc"]))


def test_what_was_finished_stays_after_a_stop_and_is_not_scored_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        after(2, patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.score()
    before = store.files()
    assert len(before) == 2
    assert store.score().computed == 24
    assert before.items() <= store.files().items()


def test_a_process_that_is_killed_while_it_writes_leaves_no_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.s3.models import S3Backend  # noqa: PLC0415

    upload, parts = S3Backend.upload_part, []

    def then_killed(*arguments: Any, **settings: Any) -> Any:
        parts.append(upload(*arguments, **settings))
        if len(parts) == 2:
            child.kill()
        return parts[-1]

    monkeypatch.setattr(S3Backend, "upload_part", then_killed)
    child = subprocess.Popen([sys.executable, "-c", WRITES])
    child.wait()
    assert child.returncode == -signal.SIGKILL
    assert len(parts) >= 2
    assert store.files() == {}
    assert store.score().computed == ROWS


def test_damaged_files_of_scores_are_scored_anew_and_those_of_rows_named(store: Store) -> None:
    store.score()
    name = min(store.files()).partition("/")[2]
    store.put(name, b"otherwise")
    assert store.score().computed == 12
    content = store.local.path("rows", 3).read_bytes()
    at = content.rindex(ZSTD)
    store.put("rows/part-3.parquet", content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(ValueError, match=r"^s3://.*/rows/part-3\.parquet: cannot be read as \.parquet file"):
        store.score("others")
    store.put("rows/part-3.parquet", content)
    assert store.score("others").computed == ROWS


def test_rows_that_vanish_before_they_are_joined(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from verax.scale.lake import Join  # noqa: PLC0415

    check = Join.check

    def then_lost(join: Join) -> None:
        check(join)
        store.system.delete_dir_contents(f"{store.bucket}/rows")

    monkeypatch.setattr(Join, "check", then_lost)
    with pytest.raises(FileNotFoundError, match=r"^s3://.*/rows/part-\d\.parquet: there is no such file any more; put"):
        store.score()


def test_a_bucket_that_is_not_there(store: Store) -> None:
    store.bucket = "nowhere-at-all"
    with pytest.raises(OSError, match=r"^s3://nowhere-at-all/rows: .*NO_SUCH_BUCKET.*; check the name|no such file"):
        store.score()
    local = store.local
    with pytest.raises(OSError, match=r"^s3://nowhere-at-all/scores.*; check the name, the credentials"):
        local.score_at(str(local.folder / "rows"), {"shap": str(local.folder / "shap")}, "s3://nowhere-at-all/scores")


def test_credentials_that_nobody_knows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which moto checks from now on."""
    monkeypatch.setattr("moto.core.responses.ActionAuthenticatorMixin.request_count", 0)
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)
    with pytest.raises(OSError, match=r"^s3://lake/rows: .*(ACCESS_DENIED|INVALID_ACCESS_KEY_ID).*; check the name, t"):
        store.score()


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "silent"])
def test_a_server_that_is_not_there_or_never_answers(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_SECONDS", 1.0)
    monkeypatch.setattr(folders, "_TRIES", 1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(OSError, match=r"^s3://lake/rows: NETWORK.*; check the name, the credentials and the netwo"):
            open_folder("s3://lake/rows").files()
