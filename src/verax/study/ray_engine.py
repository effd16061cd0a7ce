"""The engine on Ray: units as tasks on a cluster, each opening the study from its directory and writing its own file.

The directory and the data must be where all workers reach them under the same path. Only the number of rows comes back
through the driver.
"""

import contextlib
import functools
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from verax.core.packages import optional_package
from verax.study.engine import StudyAddress, compute_and_store
from verax.study.machine import Machine
from verax.study.progress import Watcher
from verax.study.study import Study
from verax.study.units import Unit

_AHEAD = 2  # tasks waiting for each one that runs


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and what a task needs there.

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
    retries: int = 3


@contextlib.contextmanager
def connected(cluster: Cluster | None) -> Iterator[None]:
    """Hold a connection to the cluster, if there is to be one; a program that is connected already stays so."""
    if cluster is None:
        yield
        return
    ray = load_ray()
    started = not ray.is_initialized()
    if started:
        _connect(ray, cluster)
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def run_ray(study: Study, units: Sequence[Unit], machine: Machine, watcher: Watcher, cluster: Cluster) -> None:
    """Run units as tasks of the cluster that this process is connected to."""
    ray = load_ray()
    needs = {"num_cpus": cluster.threads, "num_gpus": 0 if machine.device == "cpu" else 1}
    task = ray.remote(**needs, max_retries=cluster.retries)(_task)
    room = cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // cluster.threads)
    address = StudyAddress.of(study)
    waiting = [unit.stem for unit in reversed(units)]
    running: list[Any] = []
    while waiting or running:
        while waiting and len(running) < room * _AHEAD:
            running.append(task.remote(address, waiting.pop(), machine, cluster.threads))
        finished, running = ray.wait(running, num_returns=1)
        watcher.done(_result(ray, finished[0]))


def _result(ray: Any, task: Any) -> int:
    """The rows of a finished task; what went wrong in it is raised as if it had gone wrong here."""
    try:
        return int(ray.get(task))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise ConnectionError(f"engine: a task was lost for good: {error}") from None


def _task(address: StudyAddress, stem: str, machine: Machine, threads: int) -> int:
    """What a worker does; a unit that an earlier, lost try has stored is not computed again."""
    torch.set_num_threads(threads)
    folder = Path(address.folder)
    study = _opened(address, (folder / "study.toml").read_text(encoding="utf-8"))
    unit = next(unit for unit in study.units if unit.stem == stem)
    if any((folder / "scores").glob(f"{stem}.*.parquet")):
        return 0
    return compute_and_store(study, unit, machine)


@functools.lru_cache(maxsize=1)
def _opened(address: StudyAddress, frozen: str) -> Study:
    """The study, opened once by each worker, and again when it has grown."""
    return address.open()


def _connect(ray: Any, cluster: Cluster) -> None:
    if cluster.address == "local":
        _start(ray, cluster)
        return
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
    except (ConnectionError, ValueError) as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConnectionError(f"address: no Ray cluster found at {cluster.address!r} ({first}).") from None


def _start(ray: Any, cluster: Cluster) -> None:
    """Start a cluster that this machine alone can reach; its tasks are code, so nobody else may send any."""
    cpus = None if cluster.workers is None else cluster.workers * cluster.threads
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}
    with _loopback():
        ray.init(address="local", num_cpus=cpus, **quiet)
    if not ray.util.get_node_ip_address().startswith(("127.", "::1")):
        ray.shutdown()
        raise ConnectionError(
            "address: Ray would listen to other machines, so it was stopped; start a cluster of your own with "
            "`ray start --head` behind a firewall and pass --address auto."
        )


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Have Ray listen on the loopback address, as it does by itself on macOS and Windows.

    Elsewhere it replaces a loopback address that it is given by one that others reach. What it goes by is read from
    the environment when Ray is imported, which a program may have done before.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def load_ray() -> Any:
    """Ray itself, or which extra to install."""
    return optional_package("ray", "verax[ray]", "the engine on a cluster")
