"""Sensitivity-N (Ancona et al.): do attributions of N features sum to the effect of removing them together?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_count, checked_seed, settle
from verax.core.shapes import Float
from verax.metrics.base import Kind, Metric, SampledMetric
from verax.metrics.result import Context, Result
from verax.perturbation.sampled import Draws, Effects, Gathered


@dataclass(frozen=True)
class SensitivityN(SampledMetric):
    """Sensitivity-N error: root mean square of both sides' difference in eq. 12, over random subsets. Lower is better.

    ``sqrt(mean((sum_{i in S} a_i - (s(x) - s(x without S)))^2))`` over random sets ``S`` of N features.
    Zero for all N means that the attribution fulfils Sensitivity-N, as Integrated Gradients does on a linear model.
    Compares attributions with score changes on their own scale: explain and evaluate the same output.

    Args:
        sizes: The subset sizes N.
        samples: Random subsets for each size.
        seed: Same seed, same subsets.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> exact = x * model.weight[1]  # contributions to the logit of class 1
        >>> problem = verax.Problem(model, x, target=1, output="logit")
        >>> results = verax.evaluate(problem, exact, [SensitivityN(sizes=(1, 3))])
        >>> bool(results["sensitivity_n"].value.max() < 1e-5)
        True
    """

    sizes: tuple[int, ...] = (1, 2, 4, 8)
    samples: int = 64
    seed: int = 0

    name: ClassVar[str] = "sensitivity_n"
    label: ClassVar[str] = "Sensitivity-N"
    asks: ClassVar[str] = "Do the attributions of some features add up to what removing them together changes?"
    higher_is_better: ClassVar[bool] = False
    kind: ClassVar[Kind] = "baseline"
    citation: ClassVar[str] = "Ancona et al.: Towards better understanding of gradient-based attribution, ICLR 2018"

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise ValueError(f"sizes: expected a tuple of subset sizes, got {self.sizes!r}.")
        settle(
            self,
            sizes=tuple(checked_count("sizes", size) for size in self.sizes),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @classmethod
    def named(cls, settings: Mapping[str, Any], fewest: int) -> Metric:
        """The metric as a call by name means it, with those of the usual sizes that there are features for."""
        sizes = tuple(size for size in cls.sizes if size <= fewest)
        return super().named({"sizes": sizes} | dict(settings), fewest)

    @property
    def draws(self) -> tuple[Draws, ...]:
        """One sampled experiment per subset size."""
        return tuple(
            Draws("baseline", subset=size, samples=self.samples, seed=self.seed, effect="sum") for size in self.sizes
        )

    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """Mean square of the differences of some inputs, for one size."""
        return (effects.predicted.double() - effects.actual).square().mean(-1)

    def result(self, gathered: Sequence[Gathered], context: Context) -> "SensitivityResult":
        """Put the sizes together."""
        squares = torch.stack([collected["value"] for collected in gathered], dim=-1)
        return SensitivityResult(self, context, squares.mean(-1).sqrt(), squares.sqrt())


@dataclass(frozen=True, repr=False)
class SensitivityResult(Result):
    """Sensitivity-N error: ``value`` over all sizes together; lower is better.

    Attributes:
        per_size: Error per attribution, input and size.
    """

    per_size: Float[Tensor, "k n sizes"]

    @property
    def by_size(self) -> Any:
        """The error for each subset size, ``(..., N, sizes)``."""
        return self._pack(self.per_size)

    def plot(self) -> Any:
        """Draw the mean error by subset size with 95 % intervals, one line per attribution, up to 6."""
        from verax.report.plots import by_size  # noqa: PLC0415  # to keep ``import verax`` light

        return by_size(self)

    def _further_columns(self) -> dict[str, list[float]]:
        means = self.per_size.mean(1).T.tolist()
        return {f"N = {size}": column for size, column in zip(self.metric.sizes, means, strict=True)}
