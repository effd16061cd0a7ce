"""Blocks of a check's inputs, measured by this process or by several, each with one thread: to the same bits."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from verax.checking.check import Rows, run_check
from verax.checking.files import CheckFile
from verax.checking.measure import Measured, Plan
from verax.checking.result import Check
from verax.core.blocks import one_thread_on_cpu
from verax.core.registry import load_plugins, loaded_plugins
from verax.core.warn import once_per_call
from verax.core.worker_processes import Worker, ready


def run_file(check: CheckFile, workers: int = 1) -> Check:
    """Run a check that a file states.

    Args:
        check: The check.
        workers: Processes that measure.
    """
    with one_thread_on_cpu(check.problem.get("device") or "cpu"), once_per_call():
        plan = check.open()
        if workers == 1:
            return run_check(plan, lambda part, numbers, blocks: map(part.measure, blocks))
        with contextlib.ExitStack() as stack:
            held = [Worker(_work, str(check.path), loaded_plugins(), environment={}) for _ in range(workers)]
            for one in held:
                stack.callback(one.end)
            return run_check(plan, lambda part, numbers, blocks: _shared(held, numbers, blocks))


def _shared(workers: Sequence[Worker], numbers: Sequence[int], blocks: Iterable[Rows]) -> Iterator[Measured]:
    """Hand blocks to whoever is free, and give what was measured in their order."""
    waiting = list(enumerate(blocks))
    found: dict[int, Measured] = {}
    busy: dict[Worker, int] = {}
    idle = list(workers)
    for turn in range(len(waiting)):
        while turn not in found:
            while idle and waiting:
                number, rows = waiting.pop(0)
                busy[idle[-1]] = number
                idle.pop().send((numbers, rows))
            for one in ready(list(busy)):
                found[busy.pop(one)] = _restored(one.receive())
                idle.append(one)
        yield found.pop(turn)


def _work(pipe: Connection, path: str, imports: Sequence[str]) -> None:
    """What a worker does until it is ended."""
    load_plugins(imports)
    plan: Plan = CheckFile.read(Path(path)).open()
    while True:
        numbers, rows = pipe.recv()
        measured = plan.part(numbers).measure(rows)
        arrays: Any = {name: one.numpy() for name, one in measured.scores.items()}  # tensors would share memory
        best: Any = {name: one.numpy() for name, one in measured.limits.items()}
        pipe.send(replace(measured, scores=arrays, limits=best))


def _restored(measured: Measured) -> Measured:
    scores, best = (
        {name: torch.as_tensor(one) for name, one in held.items()} for held in (measured.scores, measured.limits)
    )
    return replace(measured, scores=scores, limits=best)
