"""What every metric gives back: one score per input, what it cost, and means with an interval on request."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verax.core.arrays import Layout
from verax.core.display import Shown, TextTable, cost, counted, first_rows, significant
from verax.core.files import save_as
from verax.core.shapes import Float, Int
from verax.metrics.about import NOTHING_KNOWN, About, TextExamples, class_counts
from verax.perturbation.adaptive import AdaptiveScores
from verax.perturbation.guided import GuidedScores
from verax.statistics.intervals import LEVEL, Estimate, Method, estimates

if TYPE_CHECKING:
    import polars as pl

    from verax.metrics.limits_result import Limits


_ROUNDING = 1e-8  # of the spread of means: scores are of single precision


@dataclass(frozen=True)
class Context:
    """What a result needs beyond its numbers.

    Attributes:
        layout: The form to go back in.
        target: The class or output of each input whose score was followed.
        rows: Model rows.
        seconds: Wall-clock time.
        score: What the tracked score is called wherever results are shown.
        texts: The first inputs, where they are texts, for a report to show.
        largest_change: The furthest that the tracked score can move, 1 for a probability.
        about: Model, tracked class and baseline, in words.
    """

    layout: Layout
    target: Int[Tensor, " n"]
    rows: int
    seconds: float
    score: str = "class score"
    texts: TextExamples | None = None
    largest_change: float = math.inf
    about: About = NOTHING_KNOWN

    @property
    def class_counts(self) -> dict[int, int]:
        """Inputs by the class or output that was followed."""
        return class_counts(self.target)

    @property
    def identity(self) -> str:
        """Model, tracked class and baseline in a line; empty where they are not known."""
        return self.about.line(self.class_counts)


def save_numbers(self: Any, path: str | os.PathLike[str]) -> None:
    """Write the numbers, or a page about them: the ending of the path says which.

    Args:
        path: Where to. ``.parquet``, ``.csv`` and ``.json`` hold the rows of ``to_frame()``; ``.html`` is one page that
            needs no network, with the table and, for scores, charts and what each metric asks.
    """
    save_as(path, self.to_frame, self._page)


class Saved(Shown):
    """What is shown as its table, and saved by ``save = save_numbers``."""

    def _page(self) -> str:
        return self._table().page()


@dataclass(frozen=True, repr=False)
class Result(Saved):
    """Scores of a metric. Arrays have the form of the attributions: one, a stack, or a dict by name.

    Attributes:
        metric: What was measured, with its settings.
        context: Form, classes and cost.
        scores: One score per attribution and input.
    """

    metric: Any
    context: Context
    scores: Float[Tensor, "k n"]

    @property
    def value(self) -> Any:
        """One score per input, ``(N,)``, ``(K, N)`` or a dict of ``(N,)``."""
        return self._pack(self.scores)

    @property
    def target(self) -> Any:
        """The class of each input whose score was followed."""
        layout = self.context.layout
        return self.context.target.cpu().numpy() if layout.kind == "numpy" else self.context.target.to(layout.device)

    @property
    def rows(self) -> int:
        """Model rows of the pass that produced this; metrics of one call that share a pass report the same rows."""
        return self.context.rows

    @property
    def seconds(self) -> float:
        """Wall-clock time of that pass."""
        return self.context.seconds

    def mean(
        self, interval: Method = "t", *, level: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> "Estimate | list[Estimate] | dict[str, Estimate]":
        """Mean over inputs with an interval, one estimate per attribution.

        Args:
            interval: ``"t"`` (Student's t), ``"normal"`` (its limit for many inputs) or ``"bootstrap"`` (percentiles of
                resampled inputs). Of few inputs only the first covers what it says; with ten, 95 % intervals of the
                others cover about 92 % and 88 %.
            level: Coverage of the interval.
            resamples: Bootstrap resamples.
            seed: Seed of the bootstrap.
        """
        means = estimates(self.scores, interval, level, resamples, seed)
        return self._arrange(means)  # type: ignore[no-any-return]

    def _pack(self, values: Tensor) -> Any:
        return self.context.layout.pack(values)

    def _arrange(self, items: list[Any]) -> Any:
        return self.context.layout.arrange(items)

    def plot(self) -> Any:
        """Draw the result: a matplotlib figure, which a notebook shows and ``savefig`` saves."""
        from verax.report.plots import means  # noqa: PLC0415  # to keep ``import verax`` light

        return means({self.metric.name: self})

    @property
    def labels(self) -> tuple[str, ...]:
        """What the attributions are called in tables and figures: their names, or their numbers in a stack."""
        return self.context.layout.labels(len(self.scores))

    def listed_means(self, level: float = LEVEL) -> list[Estimate]:
        """Means over inputs with their intervals, in a list whatever the form of the attributions."""
        return estimates(self.scores, level=level)

    @property
    def rounding(self) -> float:
        """A difference of scores that counts as none: far below any standard error, above the last digits of scores."""
        return _ROUNDING * self._spread()

    def _spread(self) -> float:
        """How far apart the means of attributions lie."""
        means = self.scores.double().mean(1)
        return float(means.max() - means.min())

    def to_frame(self) -> "pl.DataFrame":
        """One row per attribution and input, as a polars data frame.

        Columns: ``attribution`` (its name), ``input`` (its row number), ``target`` (the class or output that was
        followed), the score under the metric's name, and what else the metric has for each input, such as
        ``infidelity_se``, the Monte-Carlo standard error.

        Example:
            >>> import verax
            >>> x = torch.randn(3, 4)
            >>> problem = verax.Problem(torch.nn.Linear(4, 2), x, target=1)
            >>> verax.metrics.PredictionChange()(problem, {"inputs": x}).to_frame().columns
            ['attribution', 'input', 'target', 'pc']
        """
        return score_frame({self.metric.name: self})

    save = save_numbers

    def with_notes(self, notes: tuple[str, ...]) -> "Result":
        """The same with sentences to read below its numbers."""
        about = replace(self.context.about, notes=notes)
        return replace(self, context=replace(self.context, about=about))

    def _page(self) -> str:
        from verax.report.comparison import results_page  # noqa: PLC0415  # to keep ``import verax`` light

        return results_page({self.metric.name: self}, self.rows, self.seconds)

    @property
    def caution(self) -> str:
        """What makes these scores mean less than they seem to, a sentence; empty where nothing does."""
        return ""

    def _columns(self) -> dict[str, Float[Tensor, "k n"]]:
        """What there is for each attribution and input, by what its column adds to the metric's name."""
        return {"": self.scores}

    def _further_columns(self) -> dict[str, list[float]]:
        """What a metric has to show beside the mean, one number per attribution."""
        return {}

    def _table(self) -> TextTable:
        means, further = self.listed_means(), self._further_columns()
        rows = [
            (label, mean.digits()[0], significant(mean.standard_error, 2), "[{1}, {2}]".format(*mean.digits()), *extra)
            for label, mean, *extra in zip(
                self.labels, means, *(map(significant, column) for column in further.values()), strict=True
            )
        ]
        head = ("attribution", f"mean {self.metric.label}", "standard error", "95 % interval", *further)
        better = "higher" if self.metric.higher_is_better else "lower"
        many = counted(self.scores.shape[1], "input")
        caption = f"{self.metric.short_form}: {better} is better; {many}; {cost(self.rows, self.seconds)}"
        notes = (*filter(None, (self.caution,)), *self.context.about.notes)
        return TextTable(head, first_rows(rows), caption, notes, about=self.context.identity)


@dataclass(frozen=True, repr=False)
class GuidedResult(Result):
    """The result of a guided metric: its scores, and the curves that they come from.

    Attributes:
        guided: The experiment that was read.
        draw_errors: Where removed features are drawn: Monte-Carlo standard error per attribution and input.
        limits: The best and the worst that attributions of these inputs could score; None before ``with_limits``.
    """

    guided: GuidedScores | AdaptiveScores
    draw_errors: Float[Tensor, "k n"] | None = field(default=None, kw_only=True)
    limits: "Limits | None" = field(default=None, kw_only=True)

    @property
    def standard_error(self) -> Any:
        """Monte-Carlo standard error of each input's score, where removed features are drawn; 0 where they are not."""
        return self._pack(torch.zeros_like(self.scores) if self.draw_errors is None else self.draw_errors)

    @property
    def normalised(self) -> Any:
        """Scores on a scale where 0 is chance and 1 the best possible: ``(value - chance) / (best - chance)``.

        NaN where nothing can be better than chance, or where no limit is known. Where limits are bounds, scores on the
        true scale are at most that. ``limits.normalised(scores, zero="worst")`` has 0 for the worst possible (NAOPC).
        """
        return self._pack(self._known_limits().normalised(self.scores))

    def shares(self, level: float = LEVEL) -> list[Estimate]:
        """For each attribution, the part of what is possible that its mean attains, with an interval over inputs.

        Args:
            level: Coverage of the intervals.
        """
        return self._known_limits().shares(self.scores, level)

    def _known_limits(self) -> "Limits":
        if self.limits is None:
            raise ValueError("limits: they are not known yet; call verax.evaluate(...).with_limits().")
        return self.limits

    def _columns(self) -> dict[str, Float[Tensor, "k n"]]:
        columns = super()._columns() | ({} if self.draw_errors is None else {"_se": self.draw_errors})
        return columns if self.limits is None else columns | {"_normalised": self.limits.normalised(self.scores)}

    @property
    def steps(self) -> int:
        """Steps taken: as set, or one per feature where there are fewer features."""
        return self.guided.curves.shape[-1] - 1

    @property
    def morf(self) -> Any:
        """Scores as the most relevant features go first, ``(..., N, steps + 1)``.

        Where inputs differ in their number of features, shorter curves are padded with their last point.
        """
        return self._pack(self.guided.curves[:, :, 0])

    @property
    def lerf(self) -> Any:
        """Scores as the least relevant features go first, ``(..., N, steps + 1)``."""
        self.check_lerf()
        return self._pack(self.guided.curves[:, :, 1])

    def check_lerf(self) -> None:
        """Raise where the LeRF curve was not run."""
        if self.guided.curves.shape[2] == 1:
            raise AttributeError(f'lerf: {self.metric.name} ran the MoRF curve alone; area="between" runs both.')

    @property
    def curve_name(self) -> str:
        """What the curves show, as the title of an axis."""
        return self.context.score

    def curves(self, which: slice = slice(None)) -> Float[Tensor, "k n curves points"]:
        """The MoRF and, where it was run, LeRF curves of some attributions that ``value`` comes from."""
        return self.guided.curves[which]

    def plot(self) -> Any:
        """Draw the mean curves that ``value`` comes from, with their quartiles: a panel per attribution, up to 12."""
        from verax.report.plots import curves  # noqa: PLC0415  # to keep ``import verax`` light

        return curves(self)


def score_frame(results: Mapping[str, Result]) -> "pl.DataFrame":
    """One row per attribution and input with the scores of all metrics, as ``Result.to_frame`` describes."""
    import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

    if not results:
        return pl.DataFrame()
    first = next(iter(results.values()))
    count = first.scores.shape[1]
    columns: dict[str, Any] = {
        "attribution": [label for label in first.labels for _ in range(count)],
        "input": list(range(count)) * len(first.labels),
        "target": first.context.target.tolist() * len(first.labels),
    }
    for name, result in results.items():
        for more, values in result._columns().items():
            columns[f"{name}{more}"] = values.to("cpu", torch.float64).flatten().numpy()
    return pl.DataFrame(columns)
