"""What every metric gives back: one score per input, what it cost, and means with an interval on request."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from verax.arrays import Layout
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

    def __repr__(self) -> str:
        means = self._arrange([float(f"{mean:.4g}") for mean in self.scores.mean(1).tolist()])
        return f"{self.metric}: mean {means}, {self.scores.shape[1]} inputs, {self.rows} rows, {self.seconds:.3g} s"
