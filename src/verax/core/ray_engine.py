"""An engine on a Ray cluster, and the connection to one; a cluster that Verax starts listens to this machine alone."""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from verax.core.engine import TRIES, Engine, Function, TaskLostError, Tell, environment, ignore_event
from verax.core.packages import optional_package
from verax.core.registry import load_plugins, loaded_plugins

_AHEAD = 2  # tasks of a cluster waiting for each one that runs
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # with it Ray listens to this machine alone, whatever it is


@dataclass(frozen=True)
class Cluster:
    """Which Ray cluster, and what a task needs there.

    Attributes:
        address: ``"local"`` starts one on this machine, ``"auto"`` joins the one that runs here, ``"ray://HOST:PORT"``
            a remote one.
        workers: How many tasks run at once; as many as fit where left out.
        threads: Cores of a task. With one, as units have elsewhere, results are equal bit for bit on a CPU.
        retries: How often a task is tried again when its worker is lost.
    """

    address: str = "local"
    workers: int | None = None
    threads: int = 1
    retries: int = TRIES - 1


class RayTasks(Engine):
    """Applies a function as tasks of a cluster, which starts lost ones again."""

    def __init__(self, function: Function, cluster: Cluster, gpus: int = 0) -> None:
        self.function, self.cluster, self.gpus = function, cluster, gpus
        self._connection = connected(cluster)

    def __enter__(self) -> Engine:
        self._connection.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.__exit__(None, None, None)

    def run(self, tasks: Iterable[Any], tell: Tell = ignore_event, name: Callable[[Any], str] = str) -> Iterator[Any]:
        """Yield what comes of each task; events arrive when it is done."""
        ray, threads = load_ray(), self.cluster.threads
        needs = {"num_cpus": threads, "num_gpus": self.gpus, "max_retries": self.cluster.retries}
        remote = ray.remote(**needs)(_ray_task)
        most = _AHEAD * (self.cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // threads))
        waiting, running = iter(tasks), dict[Any, str]()
        place = RayWorker(threads)
        while True:
            for task in islice(waiting, most - len(running)):
                running[remote.remote(place, self.function, task)] = name(task)
            if not running:
                return
            (finished,), _ = ray.wait(list(running), num_returns=1)
            events, result = self._result(ray, finished, running.pop(finished))
            for event in events:
                tell(event)
            yield result

    def _result(self, ray: Any, finished: Any, name: str) -> Any:
        """What came of a task; what went wrong in it is raised as if it had gone wrong here."""
        try:
            return ray.get(finished)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError:
            raise TaskLostError(name, self.cluster.retries + 1) from None


@dataclass(frozen=True)
class RayWorker:
    """What a worker of a cluster needs to know of the process that sends it work."""

    threads: int  # its own
    modules: tuple[str, ...] = field(default_factory=loaded_plugins)  # to import first
    path: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))  # where modules are looked for

    def begin(self) -> None:
        """Make a process ready for work."""
        import torch  # noqa: PLC0415  # who asks for the number of cores needs none of it

        sys.path += [entry for entry in self.path if entry not in sys.path]
        load_plugins(self.modules)
        torch.set_num_threads(self.threads)


def _ray_task(place: RayWorker, function: Function, task: Any) -> tuple[list[Any], Any]:
    """What a worker of a cluster does."""
    place.begin()
    messages: list[Any] = []
    return messages, function(task, messages.append)


@contextlib.contextmanager
def connected(cluster: Cluster | None) -> Iterator[None]:
    """Hold a connection to the cluster, if there is to be one; a program that is connected already stays so."""
    if cluster is None:
        yield
        return
    with environment(_LOOPBACK if cluster.address == "local" else {}):  # which Ray reads when it is imported
        ray = load_ray()
    started = not ray.is_initialized()
    if started and cluster.address == "local":
        _start(ray, cluster)
    elif started:
        try:
            ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        except (ConnectionError, ValueError) as error:
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise ConnectionError(f"address: no Ray cluster found at {cluster.address!r} ({first}).") from None
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def _start(ray: Any, cluster: Cluster) -> None:
    """Start a cluster that this machine alone can reach; its tasks are code, so no other machine may send any."""
    cpus = None if cluster.workers is None else cluster.workers * cluster.threads
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}
    ray.init(address="local", num_cpus=cpus, **quiet)
    if not ray.util.get_node_ip_address().startswith(("127.", "::1")):
        ray.shutdown()
        (setting,) = (f"{name}={value}" for name, value in _LOOPBACK.items())
        raise ConnectionError(
            "address: Ray would listen to other machines, so it was stopped: it was imported before Verax could tell "
            f"it not to. Import it later, or set {setting} before; or start a cluster of your own with `ray start "
            "--head` behind a firewall and pass --address auto."
        )


def load_ray() -> Any:
    """Ray itself, or which extra to install."""
    return optional_package("ray", "verax[ray]", "the engine on a cluster")
