"""How often the interval at which ``verax.stream(..., until=0.01)`` stops holds the mean, and how many rows it takes.

Scores of several kinds come in the looks of a stream (256 rows, then a quarter more each time) until the 95 % interval
reaches no further than 0.01 to each side: by the anytime intervals that ``until`` uses, and, to compare, by Student's t
intervals looked at again and again. ``at every look`` is the share of runs in which no interval up to the stop missed
the mean.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import common
import numpy as np
import torch

from verax.evaluation.batches import FEWEST, looks
from verax.statistics.anytime import AnytimeSums, ScoreRange
from verax.statistics.sums import ScoreSums

REACH, MOST, LOOK = 0.01, 20_000, 32_768
PROBABILITY = ScoreRange(-1.0, 1.0, certain=True)  # of PC of a probability
RARE = 0.004


@dataclass(frozen=True)
class Kind:
    """Scores of one kind: how to draw them, their range, and their mean (None: that of the rows drawn from)."""

    draw: Callable[[np.random.Generator], Any]
    mean: float | None
    known: ScoreRange = PROBABILITY


def rare(draws: np.random.Generator, count: int = MOST) -> Any:
    return np.where(draws.uniform(size=count) < RARE, draws.uniform(0.5, 1.0, size=count), 0.0)


def clipped_lognormal_mean(center: float, spread: float) -> float:
    below = math.exp(center + spread**2 / 2) * NormalDist().cdf((-center - spread**2) / spread)
    return below + 1 - NormalDist().cdf(-center / spread)


KINDS = {
    "rare: 0.4 % are not 0": Kind(rare, RARE * 0.75),
    "skewed: beta(0.2, 2)": Kind(lambda draws: draws.beta(0.2, 2, size=MOST), 0.2 / 2.2),
    "skewed: log-normal below 1": Kind(
        lambda draws: np.minimum(draws.lognormal(-3, 1.5, size=MOST), 1), clipped_lognormal_mean(-3, 1.5)
    ),
    "normal, sd 0.2": Kind(lambda draws: np.clip(draws.normal(0.1, 0.2, size=MOST), -0.8, 1), 0.1),
    "all alike": Kind(lambda draws: np.zeros(MOST), 0.0),
    "rare, of 5,000 rows at once": Kind(lambda draws: rare(draws, 5000), None),
    "normal, of 5,000 rows at once": Kind(lambda draws: np.clip(draws.normal(0.1, 0.2, size=5000), -1, 1), None),
    "no bound: rare": Kind(rare, RARE * 0.75, ScoreRange()),
    "no bound: normal, sd 0.2": Kind(lambda draws: draws.normal(0.1, 0.2, size=MOST), 0.1, ScoreRange()),
    "no bound: exponential, sd 0.2": Kind(lambda draws: draws.exponential(0.2, size=MOST), 0.2, ScoreRange()),
    "no bound: log-normal": Kind(lambda draws: draws.lognormal(-3, 1, size=MOST), math.exp(-2.5), ScoreRange()),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="runs of each kind (default 400)")
    parser.add_argument("--quick", action="store_true", help="20 runs")
    options = parser.parse_args()
    options.repeats = 20 if options.quick else options.runs
    common.print_header(f"until={REACH}: {options.repeats} runs of each kind")
    results = {name: measured(kind, options.repeats) for name, kind in KINDS.items()}
    head = ("scores", "anytime: held", "at every look", "rows", "stopped", "t at each look: held", "rows")
    common.print_table(head, [line(name, result) for name, result in results.items()])
    print(f"\nResults: {common.write_results('stream_until', options, reach=REACH, most=MOST, results=results)}")


def measured(kind: Kind, repeats: int) -> dict[str, Any]:
    """Streams by both rules, summed up."""
    runs: dict[str, Any] = {"anytime": [], "t": []}
    for run in range(repeats):
        draws = np.random.default_rng([run, 11])
        scores = torch.from_numpy(kind.draw(draws))
        mean = float(scores.mean()) if kind.mean is None else kind.mean
        runs["anytime"].append(one_stream(scores, mean, kind.known))
        runs["t"].append(one_stream(scores, mean, None))
    return {rule: summary(streams) for rule, streams in runs.items()}


def summary(streams: list[Any]) -> dict[str, float]:
    held, always, rows, stopped = np.array(streams, dtype=float).T
    return {
        "held": held.mean(),
        "held_at_every_look": always.mean(),
        "rows": float(np.median(rows)),
        "rows_nine_of_ten": float(np.quantile(rows, 0.9)),
        "stopped": stopped.mean(),
    }


def one_stream(scores: torch.Tensor, mean: float, known: ScoreRange | None) -> tuple[bool, bool, int, bool]:
    """A stream by anytime intervals for scores of this range, or by Student's t.

    Returns:
        Whether the interval at the stop held the mean, whether all up to it did, rows, and whether it stopped.
    """
    sums: ScoreSums | None = None
    always = True
    for look in looks(len(scores), LOOK):
        part = ScoreSums.of(scores[look]) if known is None else AnytimeSums.of(scores[look], known)
        sums = part if sums is None else sums + part
        estimate = sums.estimate()
        held = not (estimate.low > mean + 1e-12 or estimate.high < mean - 1e-12)  # an unknown interval holds all
        always = always and held
        if sums.count >= FEWEST and estimate.high - estimate.low <= 2 * REACH:
            return held, always, sums.count, True
    return held, always, len(scores), False


def line(name: str, result: dict[str, Any]) -> tuple[str, ...]:
    anytime, student = result["anytime"], result["t"]
    shares = [f"{100 * anytime[share]:.1f} %" for share in ("held", "held_at_every_look")]
    until = f"{anytime['rows']:,.0f}", f"{100 * anytime['stopped']:.0f} %"
    return name, *shares, *until, f"{100 * student['held']:.1f} %", f"{student['rows']:,.0f}"


if __name__ == "__main__":
    main()
