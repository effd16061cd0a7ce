"""How many threads compute: one, where sums must have the same order, and so the same bits, on every machine."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread_on_cpu(device: str | torch.device) -> Iterator[None]:
    """Compute with one thread on a CPU, however many there are; another device is left alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if torch.device(device).type == "cpu" else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
