"""Tracks: the scores of one metric of one attribution over time, window by window."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from verax.statistics.anytime import BettingTest
from verax.statistics.intervals import Estimate
from verax.statistics.totals import ScoreSums

_SETTINGS = ("metric", "attribution", "higher_is_better", "rate", "reference", "chance")
FEWEST = 100  # rows of a reference, whose mean is taken for about normal


@dataclass(frozen=True)
class Window:
    """What is told of a window.

    Attributes:
        window: Its number, from 1.
        label: When it was, or where it came from, as the caller says.
        metric: What was measured.
        attribution: Of which attribution.
        rows: How many inputs it has.
        mean: Mean score, with a 95 % interval from ``low`` to ``high``.
        low: Where the interval begins.
        high: Where it ends.
        reference: Whether it belongs to what later windows are compared with.
        evidence: Logarithm (base 10) of the evidence for a fall since the reference; None within it.
        alarm: Whether the fidelity fell, in this window or before: the evidence was too much for chance.
    """

    window: int
    label: str
    metric: str
    attribution: str
    rows: int
    mean: float
    low: float
    high: float
    reference: bool
    evidence: float | None
    alarm: bool


@dataclass
class Track:
    """The scores of one metric of one attribution.

    Attributes:
        metric: Its name.
        attribution: The attribution's name.
        higher_is_better: Which way is a fall.
        rate: False alarms of this track, at most.
        reference: Windows that later ones are compared with, at least; more while they have too few rows.
        chance: The mean score of attributions that know nothing; None where no number is known.
        windows: The finished ones.
        sums: Of the reference; of scores whose sign is turned where lower is better.
        floor: Lowest score of the reference.
        ceiling: Highest.
        test: What later windows are put to; None within the reference.
        open_sums: Of the window that is not finished.
        open_gains: What its scores add to the test.
    """

    metric: str
    attribution: str
    higher_is_better: bool
    rate: float
    reference: int
    chance: float | None = None
    windows: list[Window] = field(default_factory=list)
    sums: ScoreSums = field(default_factory=ScoreSums)
    floor: float = math.inf
    ceiling: float = -math.inf
    test: BettingTest | None = None
    open_sums: ScoreSums = field(default_factory=ScoreSums)
    open_gains: list[float] | None = None

    @property
    def alarm(self) -> bool:
        """Whether the fidelity fell; once it did, it stays said."""
        return any(window.alarm for window in self.windows)

    def fold(self, scores: npt.NDArray[np.float64], size: int | None, label: str) -> Iterator[Window]:
        """Take scores in and give the windows that they finish.

        Args:
            scores: One per input.
            size: Rows of a window; None where these are one.
            label: Of the windows.
        """
        start = 0
        while start < len(scores):
            stop = len(scores) if size is None else min(len(scores), start + size - self.open_sums.count)
            self._take(scores[start:stop])
            start = stop
            if size is None or self.open_sums.count == size:
                yield self._close(label)

    def _take(self, scores: npt.NDArray[np.float64]) -> None:
        turned = scores if self.higher_is_better else -scores
        self.open_sums += ScoreSums.of(torch.from_numpy(np.ascontiguousarray(turned)))
        if self.test is None:
            self.floor, self.ceiling = min(self.floor, float(turned.min())), max(self.ceiling, float(turned.max()))
        else:
            gains = self.test.gains(turned)
            self.open_gains = (gains if self.open_gains is None else gains + np.array(self.open_gains)).tolist()

    def _close(self, label: str) -> Window:
        """Finish the open window."""
        within = self.test is None
        if self.test is None:
            self.sums += self.open_sums
            if len(self.windows) + 1 >= self.reference and self.sums.count >= FEWEST:
                self.test = BettingTest.from_sums(self.sums, self.floor, self.ceiling, self.rate)
                self._check_above_chance()
        else:
            self.test = self.test.after_gains(self.open_gains or [])
        mean = self.open_sums.estimate()
        ends = (mean.low, mean.high) if self.higher_is_better else (-mean.high, -mean.low)
        told = None if within or self.test is None else self.test
        window = Window(
            window=len(self.windows) + 1,
            label=label,
            metric=self.metric,
            attribution=self.attribution,
            rows=self.open_sums.count,
            mean=mean.mean if self.higher_is_better else -mean.mean,
            low=ends[0],
            high=ends[1],
            reference=within,
            evidence=None if told is None else told.log_evidence / math.log(10),
            alarm=self.alarm or (told is not None and told.alarm),
        )
        self.windows.append(window)
        self.open_sums, self.open_gains = ScoreSums(), None
        return window

    def _check_above_chance(self) -> None:
        """Raise where the reference is no better than attributions that know nothing: a fall could not be seen."""
        mean = self.sums.estimate()
        turned = None if self.chance is None else self.chance if self.higher_is_better else -self.chance
        if turned is not None and not mean.low > turned:
            interval = mean if self.higher_is_better else Estimate(-mean.mean, math.nan, -mean.high, -mean.low)
            raise ValueError(
                f"reference: {self.metric} of {self.attribution} is {interval}, not better than chance "
                f"({self.chance:.4g}), so that no fall could be seen. Check the class, the baseline and whether the "
                "attributions are contributions or slopes, or watch another metric, such as effect_correlation."
            )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        held = {name: getattr(self, name) for name in _SETTINGS}
        within = self.test is None
        return held | {
            "windows": [asdict(window) for window in self.windows],
            "sums": self.sums.to_json(),
            "range": [self.floor, self.ceiling] if math.isfinite(self.floor) else None,
            "test": None if within else asdict(self.test),  # type: ignore[arg-type]
            "open_sums": self.open_sums.to_json(),
            "open_gains": self.open_gains,
        }

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> "Track":
        """What ``to_json`` gave."""
        known = {name: held[name] for name in _SETTINGS if name in held}  # states of 0.1 keep no chance
        test = held["test"]
        floor, ceiling = held["range"] or (math.inf, -math.inf)
        return cls(
            **known,
            windows=[Window(**window) for window in held["windows"]],
            sums=ScoreSums.from_json(held["sums"]),
            floor=floor,
            ceiling=ceiling,
            test=None if test is None else BettingTest(**{**test, "capitals": tuple(map(float, test["capitals"]))}),
            open_sums=ScoreSums.from_json(held["open_sums"]),
            open_gains=held["open_gains"],
        )
