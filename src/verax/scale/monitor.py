"""A monitor: scores over time, window by window, and whether the fidelity fell; kept in a small file."""

import copy
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from verax.core.arguments import checked_count
from verax.core.files import digest, read_sealed_json, sealed_json, tensor_hash, write_atomically
from verax.core.warn import warn
from verax.evaluation.result import Evaluation
from verax.statistics.anytime import BettingTest
from verax.statistics.intervals import Estimate
from verax.statistics.sums import ScoreSums

_SETTINGS = ("metric", "attribution", "higher_is_better", "rate", "reference", "chance")
FEWEST = 100  # rows of a reference, whose mean is taken for about normal


@dataclass(frozen=True)
class Window:
    """The scores of a window.

    Attributes:
        window: Its number, from 1.
        label: When it was, or where it came from, as the caller names it.
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
    """The scores of one metric of one attribution."""

    metric: str  # its name
    attribution: str  # the attribution's name
    higher_is_better: bool  # which way is a fall
    rate: float  # false alarms of this track, at most
    reference: int  # windows that later ones are compared with, at least; more while they have too few rows
    chance: float | None = None  # the mean score of attributions that know nothing; None where no number is known
    windows: list[Window] = field(default_factory=list)  # the finished ones
    # of the reference; of scores whose sign is turned where lower is better
    sums: ScoreSums = field(default_factory=ScoreSums)
    floor: float = math.inf  # lowest score of the reference
    ceiling: float = -math.inf  # highest
    test: BettingTest | None = None  # what later windows are put to; None within the reference
    open_sums: ScoreSums = field(default_factory=ScoreSums)  # of the window that is not finished
    open_gains: list[float] | None = None  # what its scores add to the test

    @property
    def alarm(self) -> bool:
        """Whether the fidelity fell; once it did, this stays true."""
        return any(window.alarm for window in self.windows)

    def fold(self, scores: npt.NDArray[np.float64], size: int | None, label: str) -> Iterator[Window]:
        """Take scores in and give the windows that they finish."""
        start = 0
        while start < len(scores):
            stop = len(scores) if size is None else min(len(scores), start + size - self.open_sums.count)
            turned = scores[start:stop] if self.higher_is_better else -scores[start:stop]
            self.open_sums += ScoreSums.of(torch.from_numpy(np.ascontiguousarray(turned)))
            if self.test is None:
                self.floor, self.ceiling = min(self.floor, float(turned.min())), max(self.ceiling, float(turned.max()))
            else:
                gains = self.test.gains(turned)
                self.open_gains = (gains if self.open_gains is None else gains + np.array(self.open_gains)).tolist()
            start = stop
            if size is None or self.open_sums.count == size:
                yield self._close(label)

    def _close(self, label: str) -> Window:
        before = self.test
        if before is None:
            self.sums += self.open_sums
            if len(self.windows) + 1 >= self.reference and self.sums.count >= FEWEST:
                self.test = BettingTest.from_sums(self.sums, self.floor, self.ceiling, self.rate)
                self._check_above_chance()
        else:
            self.test = before.after_gains(self.open_gains or [])
        mean = self.open_sums.estimate()
        if not self.higher_is_better:
            mean = Estimate(-mean.mean, mean.standard_error, -mean.high, -mean.low)
        test = None if before is None else self.test
        window = Window(
            window=len(self.windows) + 1,
            label=label,
            metric=self.metric,
            attribution=self.attribution,
            rows=self.open_sums.count,
            mean=mean.mean,
            low=mean.low,
            high=mean.high,
            reference=before is None,
            evidence=None if test is None else test.log_evidence / math.log(10),
            alarm=self.alarm or (test is not None and test.alarm),
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
        return {name: getattr(self, name) for name in _SETTINGS} | {
            "windows": [asdict(window) for window in self.windows],
            "sums": self.sums.to_json(),
            "range": [self.floor, self.ceiling] if math.isfinite(self.floor) else None,
            "test": None if self.test is None else asdict(self.test),
            "open_sums": self.open_sums.to_json(),
            "open_gains": self.open_gains,
        }

    @classmethod
    def from_json(cls, held: dict[str, Any]) -> "Track":
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


if TYPE_CHECKING:
    import polars as pl

FORMAT = "verax monitor 1"


class Monitor:
    """Watches the fidelity of a model in production.

    Results come in batches and are cut into windows. The first windows are the reference; every later one is tested
    for a fall of the mean score since. The test may be repeated for ever: over all windows, metrics and attributions
    together, the chance of a false alarm stays below ``alarm``, whatever the distribution of the scores (see
    ``verax.statistics.anytime.BettingTest``). An alarm stays; for a model that was mended begin a new monitor.

    A reference whose mean is not above chance is an error, because nothing could fall below it. DPC is blind to
    contributions such as SHAP values; watch the effect correlation: ``perturbation="baseline"`` for contributions,
    ``"gaussian"`` for slopes.

    Args:
        reference: Windows to compare with; more are taken while they have fewer than 100 rows together.
        window: Rows of a window; by default each batch is one.
        alarm: False alarms, at most, over all that will ever be folded.
        about: What is watched, such as the model's hash; kept in the file, for the caller to compare.

    Attributes:
        batches: Keys of the batches that were folded.
        windows: All windows so far, of all metrics and attributions.
        alarmed: Whether the fidelity of some attribution fell.
        notes: What the results of the last batch say, such as that values were explained against another baseline.

    Example:
        >>> import verax
        >>> from verax.monitoring import Monitor
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(400, 4)
        >>> monitor = Monitor(alarm=0.05)
        >>> for day in range(2):
        ...     part = x[200 * day : 200 * day + 200]
        ...     problem = verax.Problem(model, part)
        ...     metric = verax.metrics.EffectCorrelation(sigma=2.0)
        ...     results = verax.evaluate(problem, {"gradient": verax.attribution.Gradient()}, [metric])
        ...     (window,) = monitor.fold(results, label=f"day {day}")
        >>> window.window, window.reference, window.alarm == monitor.alarmed
        (2, False, True)
    """

    def __init__(
        self,
        *,
        reference: int = 1,
        window: int | None = None,
        alarm: float = 0.05,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.reference = checked_count("reference", reference)
        self.window = None if window is None else checked_count("window", window)
        if isinstance(alarm, bool) or not isinstance(alarm, float) or not 0 < alarm < 1:
            raise ValueError(f"alarm: expected a share of false alarms between 0 and 1, such as 0.05, got {alarm!r}.")
        self.alarm = alarm
        self.about = dict(about or {})
        self.batches: list[str] = []
        self.tracks: list[Track] = []
        self.notes: tuple[str, ...] = ()

    @property
    def windows(self) -> list[Window]:
        """All windows so far."""
        return [window for track in self.tracks for window in track.windows]

    @property
    def alarmed(self) -> bool:
        """Whether the fidelity of some attribution fell."""
        return any(track.alarm for track in self.tracks)

    def knows(self, batch: str) -> bool:
        """Whether a batch of this key was folded before."""
        return batch in self.batches

    def fold(
        self, results: Evaluation | Iterable[Evaluation], label: str = "", batch: str | None = None
    ) -> list[Window]:
        """Take the results of one batch in.

        Args:
            results: What ``verax.evaluate`` gave, or what ``verax.stream`` gives, for rows that are one batch.
            label: When the batch was, or where it came from: what the windows that it finishes are called.
            batch: A key of its content; by default a hash of its scores. A batch that was folded before
                changes nothing, with a warning.

        Returns:
            The windows that are finished now, one per metric and attribution each.
        """
        parts = [results] if isinstance(results, Evaluation) else list(results)
        scores = _scores(parts)
        key = batch or digest(scores={" ".join(name): tensor_hash(score) for name, score in scores.items()})
        if self.knows(key):
            warn(f"This batch ({label or key[:8]}) was folded before, and is left out.")
            return []
        tracks = self._tracks_for(parts[0], list(scores))
        windows = [
            window
            for track in tracks
            for window in track.fold(scores[track.metric, track.attribution].numpy(), self.window, label)
        ]
        self.tracks, self.notes = tracks, parts[0].notes
        self.batches.append(key)
        return sorted(windows, key=lambda window: window.window)

    def to_frame(self) -> "pl.DataFrame":
        """One row per window, metric and attribution, as a polars data frame."""
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        return pl.DataFrame([vars(window) for window in self.windows])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all, with a checksum that shows whether it was changed.

        Args:
            path: A ``.json`` file.
        """
        write_atomically(Path(path), self.content())

    def content(self) -> bytes:
        """The state as the content of a file."""
        held = {
            "format": FORMAT,
            "about": self.about,
            "reference": self.reference,
            "window": self.window,
            "alarm": self.alarm,
            "batches": self.batches,
            "notes": list(self.notes),
            "tracks": [track.to_json() for track in self.tracks],
        }
        return sealed_json(held)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Monitor":
        """Read a state that ``save`` wrote.

        Args:
            path: Its file.
        """
        held = read_sealed_json(Path(path).read_bytes())
        if held is None or held.get("format") != FORMAT:
            raise ValueError(f"{path}: no state of a monitor, or damaged or edited since it was written.")
        monitor = cls(reference=held["reference"], window=held["window"], alarm=held["alarm"], about=held["about"])
        monitor.batches, monitor.notes = held["batches"], tuple(held.get("notes", ()))
        monitor.tracks = [Track.from_json(track) for track in held["tracks"]]
        return monitor

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a page with a chart of all windows.

        Args:
            path: An ``.html`` file.
        """
        from verax.report.result_pages import monitoring_page  # noqa: PLC0415  # to keep ``import verax`` light

        write_atomically(Path(path), monitoring_page(self).encode())

    def _tracks_for(self, results: Evaluation, names: list[tuple[str, str]]) -> list[Track]:
        """Copies of the tracks, so that an error leaves the monitor as it was; new ones for the first batch."""
        if not self.tracks:
            rate, metrics = self.alarm / len(names), {name: result.metric for name, result in results.items()}
            return [
                Track(*name, metrics[name[0]].higher_is_better, rate, self.reference, metrics[name[0]].chance)
                for name in names
            ]
        known = [(track.metric, track.attribution) for track in self.tracks]
        if known != names:
            expected, got = (
                ", ".join(f"{metric} of {attribution}" for metric, attribution in many) for many in (known, names)
            )
            raise ValueError(f"results: expected {expected}, as in the batches before, got {got}.")
        return copy.deepcopy(self.tracks)


def _scores(parts: list[Evaluation]) -> dict[tuple[str, str], torch.Tensor]:
    """The scores of a batch by metric and attribution."""
    if not parts:
        raise ValueError("results: expected those of at least one row, got none.")
    scores = {
        (name, label): torch.cat([part[name].scores[place].detach().to("cpu", torch.float64) for part in parts])
        for name, result in parts[0].items()
        for place, label in enumerate(result.labels)
    }
    for (name, _), values in scores.items():
        if not values.isfinite().all():
            raise ValueError(f"results: expected finite scores, got others among those of {name}.")
    return scores
