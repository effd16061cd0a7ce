"""Weighted ridge regression of many small problems at once, in float64: the surrogate models of LIME.

There are three ways to solve them. Few features are eliminated one by one, from all problems and for all alphas in one
operation, which is faster than calls of LAPACK for each small problem. Otherwise one eigendecomposition of a Gram
matrix serves every alpha, and needs no special case when there is no penalty and nothing has weight. A GPU, for which
the host would wait at every eigendecomposition, factors the matrices of all problems and alphas at once instead; the
coefficients are the same but for rounding, which tests hold below 1e-8 of the largest.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float

_FEW = 32  # features: with the nine alphas of the paper's grid, eigenvectors are faster from there on
_SURE = 1e-5  # a penalty far above the rounding of sums over thousands of rows: the matrix stays positive definite
_CACHE = 1 << 22  # bytes of a core's caches


def weighted_ridge(
    design: Float[Tensor, "b n d"],
    scores: Float[Tensor, "b n"],
    weights: Float[Tensor, "b w n"],
    alphas: Sequence[float],
) -> Float[Tensor, "b w alphas d"]:
    """Coefficients ``v`` that minimise ``sum_i w_i (y_i - c - v.z_i)^2 + alpha |v|^2``, for every weighting and alpha.

    The intercept ``c`` is not penalised and weights are not renormalised, as in scikit-learn's
    ``Ridge(alpha).fit(design, scores, sample_weight=weights)``. Put the row with the largest weight first: all rows
    are taken relative to it, so that nothing cancels when its weight is the only one that counts.

    Example:
        >>> z = torch.tensor([[[0.0], [1.0], [2.0]]])
        >>> weighted_ridge(z, 3 * z[..., 0] + 1, torch.ones(1, 1, 3), [0.0, 2.0]).flatten().tolist()
        [3.0, 1.5]
    """
    z, y = design.double(), scores.double()
    return solutions(weighted_sums(z - z[:, :1], y - y[:, :1], weights.double()), alphas)


def weighted_sums(
    design: Float[Tensor, "b n d"], scores: Float[Tensor, "b n"], weights: Float[Tensor, "b w n"]
) -> Float[Tensor, "b w d+1 d+2"]:
    """All that a fit needs to know of its rows; the sums over some rows and over others add up.

    ``sum_i w_i (1, z_i) (1, z_i, y_i)``: the total weight, first and second moments of the design, and its products
    with the scores.
    """
    features = design.shape[2]
    # zeros fill the vector registers, which makes the products faster
    spare = design.new_zeros(len(design), -(features + 2) % 8, design.shape[1])
    rows = torch.cat((torch.ones_like(scores)[:, None], design.mT, scores[:, None], spare), dim=1)
    # one weighting after the other, in the same memory: the weighted rows of all of them would leave the caches
    weighted = torch.empty_like(rows)
    sums = [rows @ torch.mul(weighting[:, None], rows, out=weighted).mT for weighting in weights.unbind(1)]
    return torch.stack(sums, dim=1)[..., : features + 1, : features + 2]


def solutions(sums: Float[Tensor, "*batch p p+1"], alphas: Sequence[float]) -> Float[Tensor, "*batch alphas p-1"]:
    """Coefficients for every alpha from the weighted sums of the rows."""
    total, along = sums[..., :1, :1], sums[..., :1, 1:]
    mean = sums[..., 1:, :1] / total.clamp(min=torch.finfo(sums.dtype).tiny)
    centred = sums[..., 1:, 1:] - mean * along
    penalties = send(torch.tensor(list(alphas), dtype=sums.dtype), sums.device)
    if not _eliminates(centred.shape[-2], alphas):
        sure = sums.device.type == "cuda" and min(alphas) >= _SURE
        return (_by_factors if sure else _by_eigenvectors)(centred, penalties)
    problems = centred.reshape(-1, *centred.shape[-2:])
    together = len(problems)
    if sums.device.type == "cpu":
        together = min(together, max(1, _CACHE // (len(alphas) * problems[0].numel() * 8)))
    memory = sums.new_empty(*problems.shape[1:], len(alphas), together)
    blocks = [problems[part] for part in pieces(len(problems), together)]
    parts = [_by_elimination(block, penalties, memory[..., : len(block)]) for block in blocks]
    return torch.cat(parts).reshape(*sums.shape[:-2], len(alphas), -1)


def solution_bytes(features: int, alphas: Sequence[float]) -> int:
    """Working memory of ``solutions`` for one problem."""
    each = (features + 1) ** 2 if _eliminates(features, alphas) else 3 * features
    return 8 * (4 * (features + 2) ** 2 + len(alphas) * each)


def _eliminates(features: int, alphas: Sequence[float]) -> bool:
    """Whether features are eliminated; without a penalty many solutions may fit, of which this gives any."""
    return features <= _FEW and min(alphas) > 0


def _by_elimination(
    problems: Float[Tensor, "n d d+1"], penalties: Float[Tensor, " alphas"], rows: Float[Tensor, "d d+1 alphas n"]
) -> Float[Tensor, "n alphas d"]:
    """Gauss's elimination in the memory of ``rows``: positive definite matrices need no choice of pivots."""
    # the problems come last, so that every step works on long vectors
    rows.copy_(problems.permute(1, 2, 0).contiguous()[:, :, None])
    rows.diagonal().add_(penalties[:, None, None])
    for k, row in enumerate(rows):
        row[k + 1 :].div_(torch.maximum(row[k], penalties[:, None]))  # a pivot below the penalty is rounding
        rows[k + 1 :, k + 1 :].addcmul_(rows[k + 1 :, k, None], row[k + 1 :], value=-1)
    solution = rows[:, -1]
    for k in range(len(rows) - 1, 0, -1):
        solution[:k].addcmul_(rows[:k, k], solution[k], value=-1)
    return solution.permute(2, 1, 0).contiguous()


def _by_factors(
    centred: Float[Tensor, "*batch d d+1"], penalties: Float[Tensor, " alphas"]
) -> Float[Tensor, "*batch alphas d"]:
    """Cholesky's factors of every matrix with every penalty on its diagonal, as many at once as have room."""
    problems = centred.reshape(-1, *centred.shape[-2:])
    unit = torch.eye(problems.shape[1], dtype=centred.dtype, device=centred.device) * penalties[:, None, None]
    solutions = []
    for some in pieces(len(problems), max(1, block_bytes(centred.device) // (64 * unit.numel()))):
        # the host does not wait to see that it worked, nor, as it would for cholesky_solve, for all that is queued
        factors, _ = torch.linalg.cholesky_ex(problems[some, None, :, :-1] + unit)
        products = problems[some, None, :, -1:].expand(*factors.shape[:-1], 1)
        halfway = torch.linalg.solve_triangular(factors, products, upper=False)
        solutions.append(torch.linalg.solve_triangular(factors.mT, halfway, upper=True)[..., 0])
    return torch.cat(solutions).reshape(*centred.shape[:-2], len(penalties), -1)


def _by_eigenvectors(
    centred: Float[Tensor, "*batch d d+1"], penalties: Float[Tensor, " alphas"]
) -> Float[Tensor, "*batch alphas d"]:
    """Divide by eigenvalues, those that are rounding taken for 0."""
    values, vectors = torch.linalg.eigh(centred[..., :-1])
    noise = values[..., -1:].clamp(min=0) * values.shape[-1] * torch.finfo(values.dtype).eps
    divisor = torch.where(values > noise, values, 0.0)[..., None, :] + penalties[:, None]
    projected = (vectors.mT @ centred[..., -1:]).mT
    return torch.matmul(torch.where(divisor > 0, projected / divisor, 0.0), vectors.mT)
