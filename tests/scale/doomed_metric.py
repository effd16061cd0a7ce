"""A metric that kills the process it runs in, for tests: at a marked row, and once in place of a file's last step.

The folder of ``DOOM`` keeps what has happened, so that the next worker lives, unless it is to die again.
"""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verax.metrics import Experiment, GuidedMetric

MARK = 2.5
_replace = os.replace


@dataclass(frozen=True)
class Doomed(GuidedMetric):
    again: bool = False

    name, higher_is_better, kind = "killer", True, "baseline"
    experiment = Experiment("signed", steps=2)

    def check(self, problem: Any) -> None:
        if (problem.inputs == MARK).any():
            if self.again:
                os.kill(os.getpid(), signal.SIGKILL)
            die("row")

    def reduce(self, scores: Any) -> Any:
        return scores.curves[:, :, 0, 0] - scores.curves[:, :, 0, 1]


def die(moment: str) -> None:
    """Kill this process, the first time."""
    with contextlib.suppress(FileExistsError):
        (Path(os.environ["DOOM"]) / moment).open("x").close()
        os.kill(os.getpid(), signal.SIGKILL)


def replace_or_die(*arguments: Any, **settings: Any) -> None:
    if ".parquet" in str(arguments[0]):
        die("rename")
    _replace(*arguments, **settings)


if "DOOM" in os.environ:
    os.replace = replace_or_die
