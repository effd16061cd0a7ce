"""Sensitivity-N (Ancona et al.): do attributions of N features sum to the effect of removing them together?"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.arguments import checked_count, checked_seed, settle
from verax.metrics.result import Context, Result
from verax.perturbation.sampled import Draws, Effects, Gathered
from verax.shapes import Float


@dataclass(frozen=True)
class SensitivityN:
    """Sensitivity-N error: root mean square of both sides' difference in eq. 12, over random subsets. Lower is better.

    Zero for all N means that the attribution fulfils Sensitivity-N, as Integrated Gradients does on a linear model.
    Compares attributions with score changes on their own scale: explain and evaluate the same output.

    Args:
        sizes: The subset sizes N.
        samples: Random subsets for each size.
        seed: Same seed, same subsets.
    """

    sizes: tuple[int, ...] = (1, 2, 4, 8)
    samples: int = 64
    seed: int = 0

    name: ClassVar[str] = "sensitivity_n"
    higher_is_better: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False
    needs_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise ValueError(f"sizes: expected a tuple of subset sizes, found {self.sizes!r}.")
        settle(
            self,
            sizes=tuple(checked_count("sizes", size) for size in self.sizes),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @property
    def draws(self) -> tuple[Draws, ...]:
        """One sampled experiment per subset size."""
        return tuple(
            Draws("baseline", subset=size, samples=self.samples, seed=self.seed, effect="sum") for size in self.sizes
        )

    def reduce(self, effects: Effects, gathered: Gathered) -> None:
        """Mean square of the differences of some inputs."""
        gathered.put(effects.rows, {"square": (effects.predicted.double() - effects.actual).square().mean(-1)})

    def result(self, gathered: list[Gathered], context: Context) -> "SensitivityResult":
        """Put the sizes together."""
        squares = torch.stack([found["square"] for found in gathered], dim=-1)
        return SensitivityResult(self, context, squares.mean(-1).sqrt(), squares.sqrt())


@dataclass(frozen=True, repr=False)
class SensitivityResult(Result):
    """Sensitivity-N error: ``value`` over all sizes together; lower is better.

    Attributes:
        errors: Error per attribution, input and size.
    """

    errors: Float[Tensor, "k n sizes"]

    @property
    def by_size(self) -> Any:
        """The error for each subset size, ``(..., N, sizes)``."""
        return self._pack(self.errors)

    def plot(self) -> Any:
        """Draw the mean error by subset size with 95 % intervals, one line per attribution, up to 6."""
        from verax.display.plots import by_size  # noqa: PLC0415  # to keep ``import verax`` light

        return by_size(self)

    def _further_columns(self) -> dict[str, list[float]]:
        means = self.errors.mean(1).T.tolist()
        return {f"N = {size}": column for size, column in zip(self.metric.sizes, means, strict=True)}
