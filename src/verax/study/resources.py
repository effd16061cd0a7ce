"""Where a study is computed: a device of this machine, or a Ray cluster."""

import contextlib
import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from verax.core.blocks import one_thread_on_cpu
from verax.core.packages import optional_package


@dataclass(frozen=True)
class Machine:
    """Where and how to compute; no result depends on it beyond rounding.

    Attributes:
        device: ``"cpu"`` or a CUDA device.
        batch_size: Rows in a model call; found automatically.
        compile: Whether models are compiled, which pays on a GPU.
    """

    device: str = "cpu"
    batch_size: int | None = None
    compile: bool = False

    def gpus(self) -> tuple["Machine", ...]:
        """The same for each of its GPUs, where none is named and there are several; this one alone otherwise."""
        device = torch.device(self.device)
        count = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
        return tuple(replace(self, device=f"cuda:{number}") for number in range(count)) if count > 1 else (self,)

    @property
    def name(self) -> str:
        """The device in words, and whether models are compiled: results with the same name have the same bits."""
        threads = torch.get_num_threads()
        name = "cpu" if threads == 1 else f"cpu, {threads} threads"
        if torch.device(self.device).type == "cuda":
            name = torch.cuda.get_device_name(self.device)
        return name + (", compiled" if self.compile else "")


def one_thread(machine: Machine) -> AbstractContextManager[None]:
    """Compute with one thread on a CPU, however many there are: sums then have the same order, and the same bits."""
    return one_thread_on_cpu(machine.device)


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
