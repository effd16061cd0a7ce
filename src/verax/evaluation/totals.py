"""Totals: means, intervals and quantiles of scores that are not kept; those of several streams merge exactly."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_level, kind_in_words
from verax.core.arrays import Layout
from verax.core.display import TextTable, cost, counted, first_rows, metric_head
from verax.core.shapes import Int
from verax.evaluation.result import Evaluation
from verax.metrics.about import NOTHING_KNOWN, About, fact_line
from verax.metrics.result import Context, Result, Saved, save_numbers
from verax.statistics.anytime import AnytimeSums
from verax.statistics.intervals import LEVEL, Estimate
from verax.statistics.sums import QuantileSketch, ScoreSums

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Total:
    """The scores of one metric, summed up: one set of sums per attribution.

    Attributes:
        metric: What was measured, with its settings.
        labels: What the attributions are called.
        layout: The form in which they were given, and in which figures go back.
        sums: Of each attribution; with ``until``, ``AnytimeSums``, whose intervals hold at any time of stopping.
        sketches: Of each, with ``quantiles=True``.
    """

    metric: Any
    labels: tuple[str, ...]
    layout: Layout
    sums: tuple[ScoreSums, ...]
    sketches: tuple[QuantileSketch, ...] | None

    @classmethod
    def of(
        cls, result: Result, quantiles: bool, which: Int[Tensor, " m"] | None = None, anytime: bool = False
    ) -> "Total":
        """The total of a result, or of some of its inputs.

        Args:
            result: The result.
            quantiles: Whether to keep sketches for them.
            which: The inputs that count; None for all.
            anytime: Whether intervals are to hold at any time of stopping.
        """
        scores = [row if which is None else row[which] for row in result.scores.cpu()]
        sketches = tuple(map(QuantileSketch, scores)) if quantiles else None
        sums: tuple[ScoreSums, ...] = tuple(map(ScoreSums.of, () if anytime else scores))
        if anytime:
            known = result.metric.score_range(result.context.largest_change)
            try:
                sums = tuple(AnytimeSums.of(part, known) for part in scores)
            except ValueError as error:
                wrong = "Its score_range is wrong; until needs a right one."
                raise ValueError(f"{result.metric.name}: {error} {wrong}") from None
        return cls(result.metric, result.labels, result.context.layout, sums, sketches)

    @property
    def count(self) -> int:
        """How many inputs there were."""
        return self.sums[0].count

    @property
    def interval(self) -> str:
        """What the intervals are: ``"t"``, or with ``until`` ``"anytime"`` or ``"anytime, range assumed"``."""
        first = self.sums[0]
        if not isinstance(first, AnytimeSums):
            return "t"
        return "anytime" if first.range.certain else "anytime, range assumed"

    def mean(self, *, level: float = LEVEL) -> Any:
        """Mean over inputs with its interval: one estimate, a list or a dict, as the attributions were given.

        The interval is Student's t, or with ``until`` one that holds at any time of stopping.

        Args:
            level: Coverage of the interval.
        """
        return self.layout.arrange(self.listed_means(level))

    def listed_means(self, level: float = LEVEL) -> list[Estimate]:
        """The same in a list whatever the form of the attributions."""
        checked_level(level)
        return [sums.estimate(level) for sums in self.sums]

    def quantile(self, share: float) -> Any:
        """The score that this share of all inputs is at most, within one per cent of it.

        Args:
            share: From 0 to 1; 0.5 is the median.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share: expected a number from 0 to 1, got {share!r}.")
        if self.sketches is None:
            raise ValueError("quantile: none were kept; pass verax.stream(..., quantiles=True).")
        return self.layout.arrange([sketch.quantile(share) for sketch in self.sketches])

    def merge(self, other: "Total") -> "Total":
        """The total of both, as if their inputs had come in one stream."""
        if not isinstance(other, Total):
            raise TypeError(f"merge: expected the total of a metric, got {kind_in_words(other)}.")
        if (self.metric, self.labels) != (other.metric, other.labels):
            mine, theirs = (f"{total.metric.short_form} of {', '.join(total.labels)}" for total in (self, other))
            raise ValueError(f"merge: expected totals of the same metrics and attributions, got {mine} and {theirs}.")
        if self.interval != other.interval:
            raise ValueError("merge: expected totals of streams with until, or of streams without it, got one of each.")
        sums = tuple(mine + theirs for mine, theirs in zip(self.sums, other.sums, strict=True))
        sketches = None
        if self.sketches is not None and other.sketches is not None:
            sketches = tuple(mine.merged(theirs) for mine, theirs in zip(self.sketches, other.sketches, strict=True))
        return Total(self.metric, self.labels, self.layout, sums, sketches)


class Totals(Saved, dict[str, Total]):
    """Totals by metric name, as ``verax.stream(...).totals()`` gives them; shown as a table.

    Sums are exact, so that totals do not depend on the cutting into batches, nor on the order in which they are merged.
    Only the seconds do.

    Attributes:
        count: Inputs.
        rows: Model rows.
        seconds: Wall-clock time of the model's calls and all around them.
        per_class: Totals of the inputs of each class (or output) that was followed, by its number.
        per_segment: Totals of each segment of the data, where ``by`` named some.
        about: Model, tracked class and baseline, in words.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(60, 4)
        >>> problem = verax.Problem(model, x)
        >>> a, b = (verax.stream(problem, part, {"x": part}, ["pc"]).totals() for part in (x[:20], x[20:]))
        >>> whole = verax.stream(problem, x, {"x": x}, ["pc"]).totals()
        >>> a.merge(b)["pc"].mean()["x"] == whole["pc"].mean()["x"], whole.count
        (True, 60)
    """

    def __init__(
        self,
        totals: dict[str, Total],
        count: int,
        rows: int,
        seconds: float,
        per_class: "dict[Hashable, Totals] | None" = None,
        per_segment: "dict[Hashable, Totals] | None" = None,
        about: About = NOTHING_KNOWN,
    ) -> None:
        super().__init__(totals)
        self.count, self.rows, self.seconds = count, rows, seconds
        self.per_class = per_class or {}
        self.per_segment = per_segment or {}
        self.about = about

    @classmethod
    def of(
        cls, evaluation: Evaluation, segments: Any = None, quantiles: bool = False, anytime: bool = False
    ) -> "Totals":
        """The totals of some results.

        Args:
            evaluation: The results.
            segments: Of each input, the segment of the data that it belongs to.
            quantiles: Whether to keep sketches for them.
            anytime: Whether intervals are to hold at any time of stopping.
        """
        context: Context = next(iter(evaluation.values())).context

        def total(which: Int[Tensor, " m"] | None, count: int, rows: int = 0, seconds: float = 0.0) -> Totals:
            held = {name: Total.of(result, quantiles, which, anytime) for name, result in evaluation.items()}
            return cls(held, count, rows, seconds)

        def apart(labels: Any) -> dict[Hashable, Totals]:
            return {label: total(places, len(places)) for label, places in _places(labels).items()}

        totals = total(None, evaluation.inputs, evaluation.rows, evaluation.seconds)
        totals.per_class = apart(context.target.cpu().numpy())
        totals.per_segment = {} if segments is None else apart(segments)
        totals.about = context.about
        return totals

    def merge(self, other: "Totals") -> "Totals":
        """The totals of both, as if their inputs had come in one stream.

        Args:
            other: Totals of the same metrics and attributions.
        """
        if not isinstance(other, Totals):
            raise TypeError(f"merge: expected totals, as those of verax.stream, got {kind_in_words(other)}.")
        if list(self) != list(other):
            raise ValueError(f"merge: expected totals of the same metrics, got {list(self)} and {list(other)}.")
        return Totals(
            {name: total.merge(other[name]) for name, total in self.items()},
            self.count + other.count,
            self.rows + other.rows,
            self.seconds + other.seconds,
            _merged(self.per_class, other.per_class),
            _merged(self.per_segment, other.per_segment),
            self.about,
        )

    save = save_numbers

    def to_frame(self, level: float = LEVEL) -> "pl.DataFrame":
        """Means with their intervals as a polars data frame, over all inputs, per class and per segment.

        Args:
            level: Coverage of the intervals.
        """
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        groups = [("all", "", self)]
        groups += [("class", str(label), part) for label, part in self.per_class.items()]
        groups += [("segment", str(label), part) for label, part in self.per_segment.items()]
        return pl.DataFrame(
            [
                {"of": kind, "which": label, "metric": name, "attribution": attribution, "inputs": part.count}
                | vars(mean)
                | {"interval": total.interval}
                for kind, label, part in groups
                for name, total in part.items()
                for attribution, mean in zip(total.labels, total.listed_means(level), strict=True)
            ]
        )

    def table(self) -> TextTable:
        """Means with their intervals, one line per attribution."""
        labels = next(iter(self.values())).labels if self else ()
        columns = [[str(mean) for mean in total.listed_means()] for total in self.values()]
        heads = [metric_head(total.metric.label, total.metric.higher_is_better) for total in self.values()]
        means = f"Means over {counted(self.count, 'input')} with 95 % intervals{self._validity()}"
        caption = f"{means}; {cost(self.rows, self.seconds)}"
        rows, about = first_rows(list(zip(labels, *columns, strict=True))), fact_line(self.facts)
        return TextTable(("attribution", *heads), rows, caption, self.about.notes, about=about)

    @property
    def facts(self) -> dict[str, str]:
        """Model, tracked class, baseline and date, in words."""
        counts = {int(str(label)): total_of_class.count for label, total_of_class in self.per_class.items()}
        return self.about.facts(dict(sorted(counts.items())))

    def _validity(self) -> str:
        """When the intervals hold, for those of a stream with ``until``."""
        if all(total.interval == "t" for total in self.values()):
            return ""
        assumed = [total.metric.label for total in self.values() if total.interval != "anytime"]
        note = f" (of {', '.join(assumed)} if no score lies outside the range assumed)" if assumed else ""
        return f" that hold at any time of stopping{note}"

    _table = table  # what is shown


def _merged(first: dict[Hashable, Totals], second: dict[Hashable, Totals]) -> dict[Hashable, Totals]:
    labels = dict.fromkeys((*first, *second))
    both = {label: [held[label] for held in (first, second) if label in held] for label in labels}
    return {label: held[0] if len(held) == 1 else held[0].merge(held[1]) for label, held in both.items()}


def _places(labels: Any) -> dict[Hashable, Int[Tensor, " m"]]:
    """The places of each label, which is a plain value of Python whatever array holds it."""
    array = np.asarray(labels)
    array = array if array.dtype.kind != "O" else array.astype(str)  # a column of text, maybe with gaps
    known, group, sizes = np.unique(array, return_inverse=True, return_counts=True)
    parts = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
    return {label: torch.from_numpy(rows) for label, rows in zip(known.tolist(), parts, strict=True)}
