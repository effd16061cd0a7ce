"""Weighted ridge regression for many small problems at once: the surrogate of LIME, solved in float64."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def weighted_ridge(
    design: Float[Tensor, "b n d"],
    scores: Float[Tensor, "b n"],
    weights: Float[Tensor, "b w n"],
    alphas: Sequence[float],
) -> Float[Tensor, "b w alphas d"]:
    """Coefficients ``v`` that minimise ``sum_i w_i (y_i - c - v.z_i)^2 + alpha |v|^2``, for every weighting and alpha.

    The intercept ``c`` is not penalised and weights are not renormalised, as in scikit-learn's
    ``Ridge(alpha).fit(design, scores, sample_weight=weights)``. Put the row with the largest weight first: all rows
    are taken relative to it, so nothing cancels when its weight is the only one that counts.

    Example:
        >>> z = torch.tensor([[[0.0], [1.0], [2.0]]])
        >>> weighted_ridge(z, 3 * z[..., 0] + 1, torch.ones(1, 1, 3), [0.0, 2.0]).flatten().tolist()
        [3.0, 1.5]
    """
    z = design.double() - design[:, :1].double()
    y = scores.double() - scores[:, :1].double()
    w = weights.double()
    total = w.sum(-1)[..., None]
    weighted = w[..., None] * z[:, None]
    along = weighted.sum(2)
    gram = weighted.mT @ z[:, None] - along[..., :, None] * (along / total)[..., None, :]
    level = (w * y[:, None]).sum(-1, keepdim=True) / total
    moment = (weighted.mT @ y[:, None, :, None])[..., 0] - along * level
    return solutions(gram, moment, alphas)


def solutions(
    gram: Float[Tensor, "*batch d d"], moment: Float[Tensor, "*batch d"], alphas: Sequence[float]
) -> Float[Tensor, "*batch alphas d"]:
    """Solve ``(gram + alpha I) v = moment`` for every alpha; the least such ``v`` where alpha is 0 and many are."""
    values, vectors = torch.linalg.eigh(gram)
    penalty = torch.tensor(alphas, dtype=gram.dtype, device=gram.device)[:, None]
    floor = values[..., -1:].clamp(min=0) * gram.shape[-1] * torch.finfo(gram.dtype).eps
    values = torch.where(values > floor, values, 0.0)[..., None, :] + penalty
    projected = (vectors.mT @ moment[..., None])[..., 0][..., None, :]
    return torch.where(values > 0, projected / values, 0.0) @ vectors.mT
