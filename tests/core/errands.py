"""What workers do in tests: answer, fail or die, as the task says."""

import os
import signal
from pathlib import Path
from typing import Any

import torch


def errand(task: str, tell: Any) -> Any:
    """Do as the first word says.

    Args:
        task: A word and what it needs.
        tell: Told the task.
    """
    word, _, more = task.partition(" ")
    tell(f"begun {task}")
    os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does, which ends no worker
    if word == "fail":
        raise ValueError(f"{more} is wrong")
    if word == "die" and not (more and Path(more).exists()):
        if more:
            Path(more).touch()  # so that the next worker lives
        os.kill(os.getpid(), signal.SIGKILL)
    return task, os.getpid(), [os.environ.get(name) for name in more.split(",")], torch.get_num_threads()


def squared(number: int, tell: Any) -> int:
    """Known by its result."""
    return number**2
