"""Areas: from the two curves of a guided experiment to one number, and from the numbers of a data set to a summary.

The weighted area between perturbation curves is the Decaying Degradation Score of Simic, Veas and Sabol; PES and
CMI are their summaries over a data set.
"""

import torch
from torch import Tensor

from verax.core.shapes import Float, Int

Points = Int[Tensor, " n"] | None


def aupc(curve: Float[Tensor, "*batch points"], points: Points = None) -> Float[Tensor, "*batch"]:
    """Area under a perturbation curve: the mean of its points, or of the first ``points`` of each.

    Args:
        curve: Scores along the curve.
        points: How many points of each curve count, where curves of different length are padded to one; None for all.

    Example:
        >>> aupc(torch.tensor([1.0, 0.5, 0.0]))
        tensor(0.5000)
    """
    widths = _left(curve, points) > 0
    return (curve * widths).sum(-1) / widths.sum(-1)


def abpc(
    lerf: Float[Tensor, "*batch points"], morf: Float[Tensor, "*batch points"], points: Points = None
) -> Float[Tensor, "*batch"]:
    """Area between perturbation curves, LeRF minus MoRF, every point alike.

    Args:
        lerf: Scores while the least relevant features go first.
        morf: Scores while the most relevant features go first.
        points: How many points of each curve count, where curves of different length are padded to one; None for all.

    Example:
        >>> abpc(lerf=torch.tensor([1.0, 1.0, 0.0]), morf=torch.tensor([1.0, 0.4, 0.0]))
        tensor(0.2000)
    """
    return aupc(lerf, points) - aupc(morf, points)


def _left(curve: Float[Tensor, "*batch points"], points: Points) -> Float[Tensor, "..."]:
    """Points that are left at each point of a curve, itself included: N, N - 1, ..., 1, then 0 beyond its own."""
    width = curve.shape[-1]
    place = torch.arange(width, dtype=curve.dtype, device=curve.device)
    widths = width if points is None else points.to(curve)[:, None]
    return (widths - place).clamp(min=0)


def decay_weights(curve: Float[Tensor, "*batch points"], points: Points = None) -> Float[Tensor, "..."]:
    """Weights that fall with the cube of what is left: ``((N - i + 1) / N) ** 3`` for point i of N."""
    left = _left(curve, points)
    return (left / left[..., :1]) ** 3


def weighted_abpc(
    lerf: Float[Tensor, "*batch points"], morf: Float[Tensor, "*batch points"], points: Points = None
) -> Float[Tensor, "*batch"]:
    """Weighted area between perturbation curves: early changes count most. Higher is better.

    The first point is the unperturbed input and contributes nothing, so its weight is left out of the normalisation;
    for probabilities under PC the result lies in [-1, 1].

    Args:
        lerf: Scores while the least relevant features go first.
        morf: Scores while the most relevant features go first.
        points: How many points of each curve count, where curves of different length are padded to one; None for all.

    Example:
        >>> weighted_abpc(lerf=torch.tensor([1.0, 1.0, 1.0]), morf=torch.tensor([1.0, 0.0, 0.0]))
        tensor(1.)
    """
    weights = decay_weights(lerf, points)
    return ((lerf - morf) * weights).sum(-1) / weights[..., 1:].sum(-1)


def pes(values: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Perturbation Effect Size: share of inputs with a positive score minus share with a negative one.

    Args:
        values: One score per input.

    Example:
        >>> pes(torch.tensor([0.3, 0.1, -0.2, 0.0]))
        tensor(0.2500)
    """
    return values.sign().mean(-1)


def cmi(values: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Consistency-Magnitude Index: harmonic mean of |mean score| and |PES|, with their common sign; 0 if they disagree.

    Args:
        values: One score per input.

    Example:
        >>> cmi(torch.tensor([0.5, 0.5]))
        tensor(0.6667)
    """
    size, share = values.mean(-1), pes(values)
    agree = size * share > 0
    total = (size.abs() + share.abs()).where(agree, torch.ones_like(size))
    return torch.where(agree, size.sign() * 2 * (size * share).abs() / total, torch.zeros_like(size))
