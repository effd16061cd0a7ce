"""What every metric gives back: one score per input, what it cost, and means with an interval on request."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from verax.arrays import Layout
from verax.display.table import LABELS, Table, cost, counted, shortened
from verax.metrics.intervals import Estimate, Method, estimates
from verax.shapes import Float, Int


@dataclass(frozen=True)
class Context:
    """What a result needs beyond its numbers: the form to go back in, the classes, the cost."""

    layout: Layout
    target: Int[Tensor, " n"]
    rows: int
    seconds: float


@dataclass(frozen=True, repr=False)
class Result:
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
        self, interval: Method = "normal", *, level: float = 0.95, resamples: int = 2000, seed: int = 0
    ) -> "Estimate | list[Estimate] | dict[str, Estimate]":
        """Mean over inputs with an interval, one estimate per attribution.

        Args:
            interval: ``"normal"`` or ``"bootstrap"`` (percentiles of resampled inputs).
            level: Coverage of the interval.
            resamples: Bootstrap resamples.
            seed: Seed of the bootstrap.
        """
        found = estimates(self.scores, interval, level, resamples, seed)
        return self._arrange(found)  # type: ignore[no-any-return]

    def _pack(self, values: Tensor) -> Any:
        return self.context.layout.pack(values)

    def _arrange(self, items: list[Any]) -> Any:
        return self.context.layout.arrange(items)

    def plot(self) -> Any:
        """Draw the result: a matplotlib figure, which a notebook shows and ``savefig`` saves."""
        from verax.display.plots import means  # noqa: PLC0415  # to keep ``import verax`` light

        return means({self.metric.name: self})

    @property
    def labels(self) -> tuple[str, ...]:
        """What the attributions are called in tables and figures: their names, or their numbers in a stack."""
        layout = self.context.layout
        if layout.form == "stack":
            return tuple(f"attribution {number}" for number in range(len(self.scores)))
        return layout.names or ("attribution",)

    def listed_means(self) -> list[Estimate]:
        """Means over inputs with 95 % intervals, in a list whatever the form of the attributions."""
        return estimates(self.scores, "normal", 0.95, resamples=2, seed=0)  # the normal interval draws nothing

    def _further_columns(self) -> dict[str, list[float]]:
        """What a metric has to show beside the mean, one number per attribution."""
        return {}

    def _table(self) -> Table:
        found, further = self.listed_means(), self._further_columns()
        rows = [
            (label, f"{one.mean:.4g}", f"{one.standard_error:.2g}", f"[{one.low:.4g}, {one.high:.4g}]", *extra)
            for label, one, *extra in zip(
                self.labels, found, *([f"{value:.3g}" for value in column] for column in further.values()), strict=True
            )
        ]
        name = LABELS.get(self.metric.name, self.metric.name)
        head = ("attribution", f"mean {name}", "standard error", "95 % interval", *further)
        better = "higher" if self.metric.higher_is_better else "lower"
        many = counted(self.scores.shape[1], "input")
        caption = f"{self.metric}: {better} is better; {many}; {cost(self.rows, self.seconds)}"
        return Table(head, shortened(rows), caption)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()
