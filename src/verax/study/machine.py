"""Where and how a study is computed."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch

from verax.core.determinism import one_thread_on_cpu


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
