"""xai-bench (Liu et al.): Gaussian features with correlated columns, and Shapley values of conditional expectations.

Its definitions, written anew: unit variances, correlation rho, weights that fall by 1, and E[x_S | x_K] in closed form.
"""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import outside
import torch
from torch import Tensor

import verax
from verax.problem.replacement import Rows
from verax.replacement import Conditional

FEATURES, INPUTS, SAMPLES = 5, 20, 400
LARGE = 1e6  # xai-bench's weight of the empty and of the full coalition
CASES = [
    (rho, shift, intercept) for rho in (0.0, 0.25, 0.5, 0.75, 0.99) for shift, intercept in ((0.0, 0.0), (1.0, 2.0))
]
SETS = np.array(list(itertools.product((False, True), repeat=FEATURES)))


def measure(data: Path) -> dict[str, Any]:
    """Compare conditional means and Shapley values for each correlation; no data of the folder are needed."""
    return {"gaussian": [_of(*case) for case in CASES]}


def _of(rho: float, shift: float, intercept: float) -> dict[str, Any]:
    mean = np.full(FEATURES, shift)
    covariance = rho * np.ones((FEATURES, FEATURES)) + (1 - rho) * np.eye(FEATURES)
    rows = np.random.default_rng(1).multivariate_normal(mean, covariance, INPUTS)
    weights = np.arange(FEATURES, 0, -1) - 1.0
    # of every set of known features: the closed form
    means = np.stack([[_conditional_mean(mean, covariance, row, known) for known in SETS] for row in rows])
    games = means @ weights + intercept
    shapley = np.stack([_shapley(game) for game in games])
    background = _with_moments(mean, covariance)
    ours = _ours(background, rows, weights, intercept)
    plain = np.stack([_regression(game, with_intercept=False) for game in games])
    mended = np.stack([_regression(game, with_intercept=True) for game in games])
    filled = _filled(background, rows)
    return {
        "rho": rho,
        "mean": shift,
        "intercept": intercept,
        "expected_score": float(mean @ weights + intercept),
        "means": float(np.abs(filled - means).max()),
        "shapley": float(np.abs(ours - shapley).max()),
        "without_intercept": float(np.abs(plain - shapley).max()),
        "with_intercept": float(np.abs(mended - shapley).max()),
    }


def _conditional_mean(mean: Any, covariance: Any, row: Any, known: Any) -> Any:
    """``m_S + C_SK C_KK^+ (x_K - m_K)`` for what is not known."""
    found = row.copy()
    across, own = covariance[np.ix_(~known, known)], covariance[np.ix_(known, known)]
    found[~known] = mean[~known] + across @ np.linalg.pinv(own) @ (row - mean)[known]
    return found


def _shapley(game: Any) -> Any:
    """Shapley values by their definition, of the scores of all sets of known features."""
    worth = dict(zip(map(tuple, SETS.tolist()), game.tolist(), strict=True))
    found = np.zeros(FEATURES)
    for known, value in worth.items():
        for feature in range(FEATURES):
            if not known[feature]:
                more = (*known[:feature], True, *known[feature + 1 :])
                size = sum(known)
                share = math.factorial(size) * math.factorial(FEATURES - size - 1) / math.factorial(FEATURES)
                found[feature] += share * (worth[more] - value)
    return found


def _with_moments(mean: Any, covariance: Any) -> Tensor:
    """Rows whose mean and covariance are exactly these, but for rounding."""
    drawn = np.random.default_rng(0).normal(size=(SAMPLES, FEATURES))
    centred = drawn - drawn.mean(0)
    whitened = centred @ np.linalg.inv(np.linalg.cholesky(np.cov(centred.T))).T
    return torch.from_numpy(mean + whitened @ np.linalg.cholesky(covariance).T)


def _filled(background: Tensor, rows: Any) -> Any:
    """What Verax puts in the place of the unknown, by row and set."""
    values = torch.from_numpy(rows).repeat_interleave(len(SETS), dim=0)
    removed = torch.from_numpy(~SETS).repeat(len(rows), 1)
    filled = Conditional(background, ridge=0.0).fill(Rows(values, torch.zeros_like(values)), removed)
    return filled.view(len(rows), len(SETS), FEATURES).numpy()


def _ours(background: Tensor, rows: Any, weights: Any, intercept: float) -> Any:
    """Shapley values from Verax's own call."""

    def model(batch: Tensor) -> Tensor:
        return (batch @ torch.from_numpy(weights) + intercept)[:, None]

    problem = verax.Problem(
        verax.Scorer(model, returns="values"),
        torch.from_numpy(rows),
        background=background,
        replacement=Conditional(background, ridge=0.0),
    )
    return verax.limits(problem, ["pc"])["pc"].shapley.numpy()


def _regression(game: Any, with_intercept: bool) -> Any:
    """Weighted least squares over all sets, as xai-bench has them, with or without a column for the expected score."""
    sizes = SETS.sum(1)
    kernel = [
        LARGE if size in (0, FEATURES) else (FEATURES - 1) / (math.comb(FEATURES, size) * size * (FEATURES - size))
        for size in sizes.tolist()
    ]
    columns = np.hstack((SETS, np.ones((len(SETS), 1)))) if with_intercept else SETS.astype(float)
    root = np.sqrt(kernel)[:, None]
    found = np.linalg.lstsq(columns * root, game[:, None] * root, rcond=None)[0][:, 0]
    return found[:FEATURES]


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """Differences for each correlation and expected score."""
    head = [
        "correlation",
        "mean of a column",
        "expected score",
        "conditional means",
        "Shapley values",
        "regression without intercept",
        "with intercept",
    ]
    lines = [
        [
            f"{one['rho']:g}",
            f"{one['mean']:g}",
            f"{one['expected_score']:g}",
            *(f"{one[name]:.1e}" for name in ("means", "shapley")),
            *(f"{one[name]:.2g}" for name in ("without_intercept", "with_intercept")),
        ]
        for one in measured["gaussian"]
    ]
    return {"gaussian": outside.markdown(head, lines)}
