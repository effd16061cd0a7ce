"""Runtime tables of ``benchmarks/runtime_table.py``: seconds of the metrics for one attribution alone, in many runs.

The seconds of a study are of evaluations that many attributions share, which is another question than the paper's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from verax.analysis.matrices import interval
from verax.statistics.intervals import Estimate

INFIDELITY = "Infidelity"
DPC = "DPC"
BOTH_INFIDELITIES = "Infidelity, local and baseline"
_RESAMPLES = 1000
_LESIONS = (3, 224, 224)


@dataclass(frozen=True)
class Runtime:
    """What was timed, by the name of each case.

    Attributes:
        subject: The model and the data; the paper's name where it is the paper's question.
        device: On which it ran.
        inputs: How many, in each run.
        rows: Model rows of a run, by case.
        seconds: Of each run, by case; the cases took turns.
    """

    subject: str
    device: str
    inputs: int
    rows: Mapping[str, int]
    seconds: Mapping[str, Sequence[float]]

    def speed_up(self, slow: str, fast: str) -> tuple[Estimate, Estimate]:
        """How many times faster one case is than another, by mean and by median, with intervals over rounds."""
        times = np.array([self.seconds[slow], self.seconds[fast]])
        rounds = np.random.default_rng(0).integers(times.shape[1], size=(_RESAMPLES, times.shape[1]))
        drawn = times[:, rounds]
        by_mean, by_median = (
            interval(np.divide(*figure(times, -1)), np.divide(*figure(drawn, -1))) for figure in (np.mean, np.median)
        )
        return by_mean, by_median

    def spread(self, case: str) -> str:
        """Mean, median and standard deviation of a case, as in the paper's table."""
        times = self.seconds[case]
        return f"{case} {mean(times):.3g} / {median(times):.3g} ± {stdev(times):.2g} s"


def runtime_from(content: Any, name: str) -> Runtime:
    """The runtime table that a file holds.

    Args:
        content: Of the JSON that ``benchmarks/runtime_table.py`` writes.
        name: Of the file, for messages.
    """
    try:
        shape, rows, seconds = content["shape"], content["rows"], content["seconds"]
        lengths = {len(seconds[case]) for case in (INFIDELITY, DPC, BOTH_INFIDELITIES)}
        subject = content.get("model") or _subject(shape[1:])
        table = Runtime(str(subject), str(content["device"]), int(shape[0]), rows, seconds)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{name}: expected a table of benchmarks/runtime_table.py, with shape, rows, seconds and device, "
            f"got something else ({error!r})."
        ) from None
    if len(lengths) > 1 or min(lengths) < 2:
        raise ValueError(f"{name}: expected at least two runs of each case and as many of each, got {sorted(lengths)}.")
    return table


def _subject(shape: Sequence[int]) -> str:
    if tuple(shape) == _LESIONS:
        return "ISIC-Inception"
    return f"a table of {shape[0]} features" if len(shape) == 1 else f"images of {' x '.join(map(str, shape))}"
