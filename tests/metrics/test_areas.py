"""Areas between curves, and the summaries over a data set."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import calls
import verax
from verax.metrics import abpc, aupc, cmi, pes, weighted_abpc
from verax.metrics.areas import decay_weights

check_many = settings(max_examples=30)


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def random_curves(seed: int, points: int) -> tuple[Tensor, Tensor]:
    """Two curves of probabilities that share their first and their last point."""
    lerf, morf = torch.rand(2, 5, points, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    lerf[:, 0], lerf[:, -1] = morf[:, 0], morf[:, -1]
    return lerf, morf


def test_plain_areas_by_hand() -> None:
    lerf, morf = vector(1, 0.5, 0), vector(1, 0.25, 0.25)
    assert aupc(lerf) == 0.5
    assert aupc(morf) == 0.5
    assert abpc(lerf, morf) == 0
    assert abpc(vector(1, 1, 0), vector(1, 0, 0)) == pytest.approx(1 / 3)


def test_weights_fall_with_the_cube_of_what_is_left() -> None:
    weights = decay_weights(vector(0, 0, 0, 0))
    torch.testing.assert_close(weights, vector(1, 27 / 64, 8 / 64, 1 / 64))


def test_padded_curves_are_weighted_by_their_own_points() -> None:
    lerf, morf = torch.rand(2, 3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = torch.tensor([6, 4, 2])
    for area in (weighted_abpc, abpc):
        found = area(lerf, morf, points)
        for row, own in enumerate(points):
            torch.testing.assert_close(found[row], area(lerf[row, :own], morf[row, :own]))


def test_weighted_area_by_hand() -> None:
    """Four points; differences 0, 0.5, -0.25 and 0 with weights 64, 27, 8 and 1, over 27 + 8 + 1."""
    lerf, morf = vector(0.9, 0.8, 0.25, 0.1), vector(0.9, 0.3, 0.5, 0.1)
    assert weighted_abpc(lerf, morf).item() == pytest.approx((0.5 * 27 - 0.25 * 8) / 36, abs=1e-15)


def test_two_points_leave_only_the_shared_ends() -> None:
    assert weighted_abpc(vector(0.9, 0.2), vector(0.9, 0.2)) == 0


def test_the_largest_and_smallest_weighted_areas() -> None:
    high, low = vector(1, 1, 1, 1, 1), vector(1, 0, 0, 0, 0)
    assert weighted_abpc(high, low).item() == pytest.approx(1, abs=1e-15)
    assert weighted_abpc(low, high).item() == pytest.approx(-1, abs=1e-15)


def test_an_early_difference_counts_more_than_a_late_one() -> None:
    flat = vector(1, 0.5, 0.5, 0.5, 0)
    early, late = vector(1, 0.7, 0.5, 0.5, 0), vector(1, 0.5, 0.5, 0.7, 0)
    assert weighted_abpc(early, flat) > weighted_abpc(late, flat) > 0


@check_many
@given(seed=st.integers(0, 2**32 - 1), points=st.integers(2, 30))
def test_probabilities_stay_within_one(seed: int, points: int) -> None:
    assert (weighted_abpc(*random_curves(seed, points)).abs() <= 1).all()


@check_many
@given(seed=st.integers(0, 2**32 - 1), points=st.integers(2, 30))
def test_swapping_the_curves_turns_the_sign(seed: int, points: int) -> None:
    lerf, morf = random_curves(seed, points)
    torch.testing.assert_close(weighted_abpc(lerf, morf), -weighted_abpc(morf, lerf), rtol=0, atol=0)
    torch.testing.assert_close(abpc(lerf, morf), -abpc(morf, lerf), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:All scores are saturated")
@check_many
@given(seed=st.integers(0, 2**32 - 1), features=st.integers(1, 8), classes=st.integers(1, 4))
def test_prediction_change_of_any_model_stays_within_one(seed: int, features: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(features, classes, bias=False)
    model.weight.data = 5 * torch.randn(model.weight.shape, generator=generator)
    x, a = torch.randn(2, 6, features, generator=generator)
    assert (calls.prediction_change(verax.Scorer(model, returns="logits"), x, a).value.abs() <= 1).all()


def test_pes_is_the_share_above_minus_the_share_below_zero() -> None:
    assert pes(vector(0.3, 0.1, -5, 0)) == 0.25
    assert pes(vector(-1, -1e-9)) == -1
    assert pes(vector(0, 0)) == 0


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((0.5, 0.5), 2 * 0.5 * 1 / 1.5),
        ((-0.5, -0.5), -2 * 0.5 * 1 / 1.5),
        ((0.6, 0.6, -0.3), 2 * 0.3 * (1 / 3) / (0.3 + 1 / 3)),  # mean 0.3, share 1/3
        ((0.9, -0.1, -0.1), 0),  # positive mean, negative share: they disagree
        ((-0.9, 0.1, 0.1), 0),
        ((0.5, -0.5), 0),
        ((0.0, 0.0), 0),
        ((1.0, 1.0), 1),
    ],
)
def test_cmi_by_hand(values: tuple[float, ...], wanted: float) -> None:
    assert cmi(vector(*values)).item() == pytest.approx(wanted, abs=1e-15)


def test_results_carry_the_summaries() -> None:
    generator = torch.Generator().manual_seed(0)
    model = nn.Linear(6, 3, bias=False).double()
    model.weight.data = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    x, a, b = torch.randn(3, 7, 6, generator=generator, dtype=torch.float64)
    result = calls.directed_prediction_change(model, x, {"a": a, "b": b})
    for name in ("a", "b"):
        lerf, morf = result.directed_lerf[name], result.directed_morf[name]
        torch.testing.assert_close(result.value[name], weighted_abpc(lerf, morf))
        torch.testing.assert_close(result.abpc[name], lerf.mean(1) - morf.mean(1))
        torch.testing.assert_close(result.aupc_lerf[name], lerf.mean(1))
        torch.testing.assert_close(result.aupc_morf[name], morf.mean(1))
        assert result.pes[name] == pytest.approx(pes(result.value[name]).item())
        assert result.cmi[name] == pytest.approx(cmi(result.value[name]).item())
