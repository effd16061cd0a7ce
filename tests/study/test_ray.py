"""The engine on Ray: the same table as in one process, also when workers die."""

import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from study.studies import ran, same, scores, stamps
from study.tiny import UNITS, finished_here, tiny
from verax.core.ray_engine import Cluster, _start, connected
from verax.study.run import run_study

CLUSTER = Cluster(workers=2)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of two workers on this machine."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", "/tmp")  # noqa: S108  # names of its sockets may not be long
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # else it kills workers where other work fills the memory
        with quiet(), connected(CLUSTER):  # which tells Ray, before it is imported, to listen here alone
            yield sys.modules["ray"]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Ray warns of its own plans for the future."""
    import warnings  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where data and model are."""
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def local(place: Path) -> Path:
    """The study in this process; not to be changed."""
    return finished_here(place, "local")


pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)


@pytest.mark.usefixtures("ray")
def test_a_cluster_gives_the_same_table_and_the_study_may_grow(place: Path, tmp_path: Path, local: Path) -> None:
    """Bit for bit. Workers stay, so they must notice that the study is another one than before."""
    folder = tmp_path / "study"
    assert ran(tiny(place, 2), folder, cluster=CLUSTER)[0].computed == 2
    before = stamps(folder)
    assert ran(tiny(place), folder, cluster=CLUSTER)[0].computed == UNITS - 2
    assert before.items() <= stamps(folder).items()
    assert same(scores(folder), scores(local))
    assert ran(tiny(place), folder, cluster=CLUSTER)[0].computed == 0


@pytest.mark.usefixtures("ray")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are listed by Linux alone")
def test_a_cluster_of_ours_listens_to_this_machine_alone() -> None:
    """Whoever reaches it may run code in it."""
    addresses = {
        address for family in ("tcp", "tcp6") for address in listening(family, sockets(descendants(os.getpid())))
    }
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses


def descendants(process: int) -> set[int]:
    """The process and all that it and they have started."""
    found = {process}
    for path in Path("/proc").glob("[0-9]*/task/*/children"):
        with contextlib.suppress(OSError):  # ended meanwhile
            found |= {int(word) for word in path.read_text().split()} if int(path.parts[2]) == process else set()
    return found.union(*map(descendants, found - {process}))


def sockets(processes: set[int]) -> set[str]:
    """The numbers of their sockets."""
    found = set()
    for link in (link for process in processes for link in Path(f"/proc/{process}").glob("fd/*")):
        with contextlib.suppress(OSError):
            found.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
    return found


def listening(family: str, numbers: set[str]) -> set[str]:
    """The addresses, as hexadecimal numbers, on which some of these sockets wait for connections."""
    rows = [line.split() for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in numbers}


@pytest.mark.usefixtures("ray")
def test_workers_that_die_are_replaced(
    place: Path, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a unit, in the midst of one, and after it was stored but before the driver heard of it."""
    folder, died = tmp_path / "study", tmp_path / "died"
    died.mkdir()
    monkeypatch.setattr("verax.core.ray_engine._ray_task", dying_once(died))
    assert ran(tiny(place), folder, cluster=CLUSTER)[0].computed == UNITS
    assert {mark.name for mark in died.iterdir()} == {"before", "amid", "after"}
    assert same(scores(folder), scores(local))
    assert len(stamps(folder)) == UNITS
    kept = next(folder.glob(f"scores/{(died / 'after').read_text()}.*"))
    assert kept.stat().st_mtime_ns <= (died / "after").stat().st_mtime_ns


def dying_once(died: Path) -> Any:
    """A task that kills its worker once at each moment; a closure, because workers cannot import tests."""

    def task(place: Any, function: Any, stem: str) -> Any:
        from verax.core import ray_engine  # noqa: PLC0415
        from verax.study import engine, store  # noqa: PLC0415

        def die(moment: str) -> None:
            if any(mark.read_text() == stem for mark in died.iterdir()):
                return  # one loss for each task
            with contextlib.suppress(FileExistsError):
                with (died / moment).open("x") as mark:
                    mark.write(stem)
                os.kill(os.getpid(), signal.SIGKILL)

        def computed(*arguments: Any) -> bytes:
            die("amid")
            return parquet(*arguments)

        parquet = store.parquet
        die("before")
        setattr(engine, "parquet", computed)  # noqa: B010
        result = ray_engine._ray_task(place, function, stem)
        die("after")
        return result

    return task


@pytest.mark.usefixtures("ray")
def test_an_error_in_a_task_is_raised_as_it_was(place: Path, tmp_path: Path) -> None:
    """Not wrapped in the traceback of another process, so that the command line can tell it in one line."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "scores").write_text("in the way")
    with pytest.raises(FileExistsError) as found:
        run_study(tiny(place, 1), folder, cluster=CLUSTER)
    assert type(found.value) is FileExistsError
    assert "ray::" not in str(found.value)


def test_a_cluster_that_is_not_there_is_noticed_before_anything_is_trained(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nowhere:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**settings: object) -> None:
            raise ConnectionError("Could not find any running Ray instance.\nAnd a page of advice.")

    monkeypatch.setitem(sys.modules, "ray", Nowhere)
    with pytest.raises(
        ConnectionError, match=r"address: no Ray cluster found at 'auto' \(Could not .* instance\.\)\.$"
    ):
        run_study(tiny(place), tmp_path / "study", cluster=Cluster("auto"))
    assert not (tmp_path / "study").exists()


def test_a_cluster_that_would_listen_to_others_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []
    ray = SimpleNamespace(
        init=lambda **settings: None,
        shutdown=lambda: stopped.append(True),
        util=SimpleNamespace(get_node_ip_address=lambda: "192.0.2.2"),
    )
    with pytest.raises(ConnectionError, match=r"Ray would listen .* stopped.* set RAY_\w+=0 before"):
        _start(ray, CLUSTER)
    assert stopped


def test_without_ray_the_extra_is_named(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is trained."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"needs ray: pip install 'verax\[ray\]'"):
        run_study(tiny(place), tmp_path / "study", cluster=CLUSTER)
    assert not (tmp_path / "study").exists()
