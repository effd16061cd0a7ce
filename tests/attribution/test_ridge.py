"""The batched weighted ridge against scikit-learn's, one fit at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from verax.attribution import ridge
from verax.attribution.ridge import solutions, weighted_ridge, weighted_sums

ALPHAS = (5.5e-5, 0.01, 0.55, 30.0)
WIDTHS = (0.02, 0.25, 1.25, 40.0)


def sklearn_fits(design: Tensor, scores: Tensor, weights: Tensor, alphas: tuple[float, ...]) -> Tensor:
    def fit(row: int, version: int, alpha: float) -> Any:
        fitted = Ridge(alpha).fit(design[row].numpy(), scores[row].numpy(), weights[row, version].numpy())
        return np.atleast_1d(fitted.coef_)

    versions = range(weights.shape[1])
    fits = [[[fit(row, version, alpha) for alpha in alphas] for version in versions] for row in range(len(design))]
    return torch.from_numpy(np.array(fits))


def gaussian_rows(n: int, d: int, seed: int = 0, offset: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Two problems as LIME poses them: row 0 is the centre, weights fall with the distance to it."""
    generator = torch.Generator().manual_seed(seed)
    design = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    design[:, 0] = 0
    scores = torch.randn(2, n, generator=generator, dtype=torch.float64)
    distance = design.square().sum(-1)
    weights = torch.stack([torch.exp(-distance / (2 * width**2)) for width in WIDTHS], dim=1)
    return design + offset, scores, weights


@pytest.mark.parametrize(("n", "d"), [(65, 20), (1025, 20), (1025, 150), (12, 20), (65, 1), (2, 1), (2, 7)], ids=str)
def test_equals_scikit_learn(n: int, d: int) -> None:
    design, scores, weights = gaussian_rows(n, d)
    found = weighted_ridge(design, scores, weights, ALPHAS)
    torch.testing.assert_close(found, sklearn_fits(design, scores, weights, ALPHAS), atol=1e-8, rtol=1e-8)


def test_equals_scikit_learn_on_segment_masks() -> None:
    generator = torch.Generator().manual_seed(1)
    masks = torch.randint(0, 2, (2, 1025, 40), generator=generator).double()
    masks[:, 0] = 1
    scores = torch.randn(2, 1025, generator=generator, dtype=torch.float64)
    distance = 1 - (masks.sum(-1) / 40).sqrt()  # cosine distance to the row of ones
    weights = torch.stack([torch.exp(-(distance**2) / (2 * width**2)) for width in (0.01, 0.05, 0.25, 2.0)], dim=1)
    found = weighted_ridge(masks, scores, weights, ALPHAS)
    torch.testing.assert_close(found, sklearn_fits(masks, scores, weights, ALPHAS), atol=1e-8, rtol=1e-8)


def test_rows_far_from_the_origin() -> None:
    design, scores, weights = gaussian_rows(200, 5, offset=1e4)
    found = weighted_ridge(design, scores + 1e4, weights, ALPHAS)
    near = weighted_ridge(design - 1e4, scores, weights, ALPHAS)
    torch.testing.assert_close(found, near, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("weight", [0.0, 1e-300, 1e-40, 1e-20])
def test_only_the_first_row_counts(weight: float) -> None:
    design, scores, weights = gaussian_rows(100, 20)
    weights[..., 1:] = weight
    found = weighted_ridge(design, scores, weights, ALPHAS)
    assert found.isfinite().all()
    assert found.abs().max() < 1e-12


def test_no_row_counts() -> None:
    design, scores, weights = gaussian_rows(30, 4)
    assert torch.equal(weighted_ridge(design, scores, weights * 0, (0.0, 0.1)), torch.zeros(2, 4, 2, 4).double())


def test_constant_scores_give_zero() -> None:
    design, scores, weights = gaussian_rows(100, 6)
    found = weighted_ridge(design, torch.full_like(scores, 7.3), weights, ALPHAS)
    assert torch.equal(found, torch.zeros_like(found))


def test_constant_column_gives_zero_and_leaves_the_others() -> None:
    design, scores, weights = gaussian_rows(100, 6)
    padded = torch.cat((design, torch.full_like(design[..., :2], 3.0)), dim=-1)
    found = weighted_ridge(padded, scores, weights, (0.0, *ALPHAS))
    assert torch.equal(found[..., 6:], torch.zeros_like(found[..., 6:]))
    plain = weighted_ridge(design, scores, weights, (0.0, *ALPHAS))
    torch.testing.assert_close(found[..., :6], plain, atol=1e-8, rtol=1e-8)


def test_no_penalty_is_least_squares_and_shortest_where_many_fit() -> None:
    design, scores, weights = gaussian_rows(8, 12)
    root = weights[:, 2:, :, None].sqrt()
    mean = (weights[:, 2:, :, None] * design[:, None]).sum(2, keepdim=True) / weights[:, 2:].sum(-1)[..., None, None]
    level = (weights[:, 2:] * scores[:, None]).sum(-1, keepdim=True) / weights[:, 2:].sum(-1, keepdim=True)
    shortest = torch.linalg.pinv(root * (design[:, None] - mean)) @ (root * (scores[:, None] - level)[..., None])
    found = weighted_ridge(design, scores, weights[:, 2:], (0.0,))
    torch.testing.assert_close(found, shortest.mT, atol=1e-8, rtol=1e-8)


def test_versions_and_problems_do_not_touch_each_other() -> None:
    design, scores, weights = gaussian_rows(100, 6)
    found = weighted_ridge(design, scores, weights, ALPHAS)
    for row in range(2):
        for version in range(len(WIDTHS)):
            alone = weighted_ridge(design[row, None], scores[row, None], weights[row, None, version, None], ALPHAS)
            torch.testing.assert_close(found[row, version], alone[0, 0], atol=1e-13, rtol=1e-13)


@pytest.mark.parametrize("problems", [1, 3])
def test_problems_are_solved_some_at_a_time(problems: int, monkeypatch: pytest.MonkeyPatch) -> None:
    design, scores, weights = gaussian_rows(100, 6)
    whole = weighted_ridge(design, scores, weights, ALPHAS)
    monkeypatch.setattr(ridge, "_CACHE", problems * len(ALPHAS) * 6 * 7 * 8)
    assert torch.equal(weighted_ridge(design, scores, weights, ALPHAS), whole)


@pytest.mark.parametrize("alpha", [5.5e-5, 30.0])
def test_both_ways_agree(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows say little: two features are nearly the same, and weights are small."""
    design, scores, weights = gaussian_rows(300, 20)
    design[..., 1] = design[..., 0] + 1e-5 * design[..., 1]
    eliminated = weighted_ridge(design, scores, weights, (alpha,))
    monkeypatch.setattr(ridge, "_FEW", 0)
    torch.testing.assert_close(eliminated, weighted_ridge(design, scores, weights, (alpha,)), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("alpha", [5.5e-5, 30.0])
@pytest.mark.parametrize("features", [40, 150])
def test_factors_give_what_eigenvectors_give(features: int, alpha: float) -> None:
    """The way of a GPU; also where there are fewer rows than features, and features that no row has."""
    design, scores, weights = gaussian_rows(100, features)
    design = (design > 0).double()
    design[..., -3:] = 0
    sums = weighted_sums(design - design[:, :1], scores - scores[:, :1], weights)
    centred = sums[..., 1:, 1:] - sums[..., 1:, :1] / sums[..., :1, :1] * sums[..., :1, 1:]
    penalties = torch.tensor([alpha, 2 * alpha], dtype=torch.float64)
    found, wanted = ridge._by_factors(centred, penalties), ridge._by_eigenvectors(centred, penalties)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-8 * float(wanted.abs().max()))
    assert torch.equal(found[..., -3:], torch.zeros_like(found[..., -3:]))


def test_sums_of_parts_add_up() -> None:
    design, scores, weights = gaussian_rows(100, 6)
    parts = [
        weighted_sums(design[:, part], scores[:, part], weights[..., part]) for part in (slice(30), slice(30, 100))
    ]
    whole = weighted_sums(design, scores, weights)
    torch.testing.assert_close(parts[0] + parts[1], whole, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(solutions(whole, ALPHAS), weighted_ridge(design, scores, weights, ALPHAS))


def test_single_precision_is_solved_in_double() -> None:
    design, scores, weights = (part.float() for part in gaussian_rows(100, 6))
    found = weighted_ridge(design, scores, weights, ALPHAS)
    wanted = weighted_ridge(design.double(), scores.double(), weights.double(), ALPHAS)
    assert torch.equal(found, wanted)
