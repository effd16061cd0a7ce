"""Draws: which random perturbations an unguided experiment makes, and whether they fit the inputs of a call."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_choice, checked_count, checked_positive, checked_seed, settle
from verax.core.arrays import as_tensor
from verax.core.shapes import Float
from verax.problem.attributed import Attributed

Perturbation = Literal["gaussian", "baseline"]
Effect = Literal["dot", "sum"]
Sigma = float | tuple[float, ...] | Literal["std"]


@dataclass(frozen=True)
class Draws:
    """Which random perturbations are drawn.

    Args:
        perturbation: ``"gaussian"`` adds noise (local), ``"baseline"`` replaces by the baseline (baseline-oriented).
        sigma: Standard deviation of the noise: a number, one for each element of a row, or ``"std"`` for those of the
            background.
        subset: Features perturbed in each draw. ``None`` means all of them for noise; for replacement, a share of the
            features that is itself drawn uniformly, so that every subset size is equally likely.
        samples: Draws per input. The first draws are the same whatever their number.
        seed: Draws are a function of the seed and the input's values.
        effect: ``"dot"``: P is the product of attribution and perturbation; ``"sum"``: P is the sum of the attributions
            of the replaced features.
    """

    perturbation: Perturbation = "gaussian"
    sigma: Sigma = 0.2
    subset: int | None = None
    samples: int = 640
    seed: int = 0
    effect: Effect = "dot"

    def __post_init__(self) -> None:
        checked_choice("perturbation", self.perturbation, ("gaussian", "baseline"))
        checked_choice("effect", self.effect, ("dot", "sum"))
        if self.effect == "sum" and self.perturbation == "gaussian":
            raise ValueError(
                'effect: "sum" adds up the attributions of features that are replaced, noise moves all by some amount; '
                'use effect="dot", or perturbation="baseline".'
            )
        settle(self, sigma=checked_sigma(self.sigma))
        checked_count("samples", self.samples)
        if self.subset is not None:
            checked_count("subset", self.subset)
        checked_seed(self.seed)

    def scale(self, problem: Attributed) -> float | Float[Tensor, "*shape"]:
        """Standard deviation of the noise for the inputs of a call: a number, or one for each element of a row."""
        if isinstance(self.sigma, float):
            return self.sigma
        if isinstance(self.sigma, tuple):
            elements = problem.inputs[0].numel()
            if len(self.sigma) != elements:
                raise ValueError(
                    f"sigma: expected a number or {elements} of them, one per element, got {len(self.sigma)}."
                )
            found = torch.tensor(self.sigma, dtype=torch.float64).reshape(problem.inputs.shape[1:])
        elif problem.spread is None:
            raise ValueError('sigma: "std" is that of the training data; pass background=train_inputs as well.')
        else:
            found = problem.spread
        return found.to(problem.inputs.dtype)


def checked_sigma(sigma: Any) -> Sigma:
    """Read a standard deviation: a number, one per element of a row, or ``"std"``."""
    if isinstance(sigma, str):
        if sigma != "std":
            raise ValueError(f"sigma: expected a positive number, one per element of a row, or 'std', got {sigma!r}.")
        return "std"
    if isinstance(sigma, Real):
        return checked_positive("sigma", sigma)
    found = as_tensor("sigma", sigma).double().flatten()
    if not bool((torch.isfinite(found) & (found >= 0)).all()) or not bool(found.any()):
        raise ValueError("sigma: expected numbers of at least 0, one per element of a row, some of them positive.")
    return tuple(found.tolist())


def check_sigma(draws: Draws, problem: Attributed) -> None:
    """Refuse noise that does not fit the inputs of a call."""
    if draws.perturbation != "gaussian":
        return
    if problem.given.codes is not None and bool(problem.given.codes.all()):
        raise ValueError(
            'perturbation: noise means nothing for codes, and all values are; use perturbation="baseline".'
        )
    draws.scale(problem)


def check_subset(draws: Draws, problem: Attributed, name: str = "subset") -> None:
    """Refuse to choose more features than the inputs have; the setting that says how many has a name."""
    fewest = int(problem.features.counts(slice(None)).min())
    if draws.subset is not None and draws.subset > fewest:
        raise ValueError(f"{name}: cannot choose {draws.subset} features, an input has only {fewest}.")
