"""How far perturbed rows lie from the data: closed forms of Gaussian data, and a network's own features."""

import numpy as np
import pytest
import torch
from scipy import stats

import calls
import verax
from verax.evaluation.distance import Reference
from verax.replacement import Baseline, Conditional, Marginal, Nudge

D = 10
MIX = torch.linalg.cholesky(0.3 * torch.eye(D).double() + 0.7)  # columns that hang together


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gaussian(rows: int, seed: int = 0) -> torch.Tensor:
    return drawn(rows, D, seed=seed) @ MIX.T


def measured(train, x, replacement=None, metrics=("pc",), **settings):
    model = verax.Scorer(lambda rows: rows.sum(1)[:, None], returns="values")
    a = drawn(*x.shape, seed=9)
    found = calls.evaluate(
        model, x, {"a": a}, metrics, background=train, replacement=replacement, distance=True, **settings
    )
    return found.distance


def test_distances_of_gaussian_data_have_the_chi_distribution():
    reference = Reference(gaussian(20000))
    assert reference.typical == pytest.approx(stats.chi(D).median(), rel=0.02)
    assert reference.far == pytest.approx(stats.chi(D).ppf(0.99), rel=0.03)
    x = gaussian(7, seed=1)
    wanted = (x * torch.linalg.solve(MIX @ MIX.T, x.T).T).sum(1).sqrt()
    np.testing.assert_allclose(reference.distances(x), wanted, rtol=0.05)
    assert reference.distances(torch.full((1, D), torch.nan)) == pytest.approx(0, abs=0.1)


def test_few_rows_of_many_columns_are_not_far_from_their_like():
    """The covariance of 60 rows knows nothing of 50 columns, and rows that it was fitted to are no yardstick."""
    reference = Reference(drawn(60, 50))
    assert (reference.distances(drawn(500, 50, seed=1)) > reference.far).double().mean() < 0.1


def test_all_replaced_by_the_mean_has_no_distance_and_inputs_have_that_of_the_data():
    model = verax.Scorer(lambda rows: rows.sum(1)[:, None], returns="values")
    at_once = torch.zeros(D, dtype=torch.int64)
    problem = verax.Problem(model, gaussian(128, seed=1), features=at_once, baselines="mean", background=gaussian(4000))
    inputs, far = verax.evaluate(problem, drawn(128, 1), ["pc"]).with_distance().distance
    assert (inputs.metric, far.metric, far.attribution, far.space) == ("", "pc", "attribution", "inputs")
    assert far.ratio == pytest.approx(0, abs=0.05)
    assert far.beyond().mean == 0
    assert inputs.ratio == pytest.approx(1, abs=0.1)
    share = inputs.beyond()
    assert share.low < 0.01 < share.high


def test_the_conditional_mean_takes_as_many_dimensions_away_as_features_go():
    """``D^2`` of what is left has the chi-squared distribution with one degree of freedom per feature that stays."""
    train, x = gaussian(8000), gaussian(120, seed=1)
    _, far = measured(train, x, Conditional())
    left = [D - 2 * point for point in range(1, 6)]  # MoRF; LeRF has the same but the last
    generator = np.random.default_rng(0)
    rows = np.concatenate([stats.chi2(k).rvs(40000, random_state=generator) for k in (*left[:-1], *left[:-1])])
    wanted = np.median(np.sqrt(np.concatenate([rows, np.zeros(40000)]))) / stats.chi(D).median()
    assert far.ratio == pytest.approx(wanted, rel=0.06)
    assert far.beyond().mean < 0.005


def test_means_of_columns_that_hang_together_are_far_and_conditional_means_are_not():
    train, x = gaussian(4000), gaussian(120, seed=1) + 2
    broken, kept = (measured(train, x, one, baselines="mean")[1] for one in (Baseline(), Conditional()))
    assert broken.ratio > 1.3 * kept.ratio
    assert broken.beyond().mean > kept.beyond().mean


def test_far_baselines_are_told_with_an_interval_in_words_and_on_the_page(tmp_path):
    model = verax.Scorer(lambda rows: rows.sum(1)[:, None], returns="values")
    train, x = gaussian(500), gaussian(15, seed=1)
    with pytest.warns(UserWarning, match="baselines: outside what the data hold"):
        found = calls.evaluate(
            model, x, {"a": x, "b": -x}, ["pc", "dpc"], background=train, baselines=50.0, distance=True
        )
    assert len(found.distance) == 5
    assert all(one.beyond().mean == 1 and one.beyond().high == 1 for one in found.distance[1:])
    assert "PC: 100.0 % [79.6, 100.0] of perturbed rows lie further from the background than 99 % of its own" in str(
        found
    )
    found.save(tmp_path / "r.html")
    assert "How far from the data?" in (tmp_path / "r.html").read_text()
    frame = found.distance.to_frame()
    assert frame.columns == ["metric", "attribution", "space", "ratio", "beyond", "low", "high"]
    assert frame["metric"].to_list() == ["", "pc", "pc", "dpc", "dpc"]


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(D, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)).double()


def test_a_network_is_measured_in_what_reaches_its_last_layer():
    """Everything replaced by one row: each distance is that of the row's hidden units."""
    model, train, x = network(), gaussian(600), gaussian(9, seed=1)
    baseline = gaussian(1, seed=2)[0]
    found = calls.evaluate(
        model, x, x, [verax.metrics.PredictionChange(steps=1)], background=train, baselines=baseline, distance=True
    )
    assert [one.space for one in found.distance] == ["inputs", "inputs", "features", "features"]
    reference = Reference(model[:2](train).detach())
    wanted = reference.distances(model[:2](x).detach()).median() / reference.typical
    assert found.distance[2].ratio == pytest.approx(float(wanted))
    extra = 1 + 600 + 9 + 9 * 9  # a look at the layers, the background, the inputs, five points from both ends
    assert found.rows == 9 * 2 + extra
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_images_have_the_features_of_their_network_alone():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2, 2)
    ).double()
    x, train = drawn(3, 1, 33, 33), drawn(40, 1, 33, 33, seed=1)
    found = calls.evaluate(model, x, x, ["pc"], steps=3, background=train, distance=True)
    assert {one.space for one in found.distance} == {"features"}


def test_a_linear_model_has_no_features_beside_its_inputs():
    found = calls.evaluate(
        torch.nn.Linear(D, 2).double(), gaussian(5), gaussian(5), ["pc"], background=gaussian(50), distance=True
    )
    assert {one.space for one in found.distance} == {"inputs"}


def test_comparisons_tell_it_under_every_replacement_and_so_does_the_report(tmp_path):
    train, x = gaussian(300), gaussian(12, seed=1)
    found = calls.compare(
        network(), x, {"a": x, "b": drawn(12, D)}, ["pc"], background=train, distance=True, replacements=[Nudge(0.1)]
    )
    assert sum("of perturbed rows lie" in line for line in str(found).splitlines()) == 4
    assert all(f"PC under {name}: " in str(found) for name in ("Baseline", "Nudge(epsilon=0.1)"))
    found.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "How far from the data?" in page
    assert page.count("<td>features</td>") == 1 + 2 * 3  # the inputs; a, b and the random one under both


def test_draws_keep_to_the_data():
    train, x = gaussian(2000), gaussian(64, seed=1)
    far = measured(train, x, Marginal(draws=3), steps=1)[1]
    assert far.ratio > 1  # columns of two rows do not hang together


@pytest.mark.parametrize("metrics", [("pc",), ("pc", "infidelity")])
def test_inputs_with_groups_and_few_rows_are_measured(metrics):
    groups = torch.arange(D) // 3
    model = verax.Scorer(lambda rows: rows.sum(1)[:, None], returns="values")
    settings = {"features": groups, "samples": 20, "background": gaussian(30), "distance": True}
    found = calls.evaluate(model, gaussian(3), drawn(3, 4), metrics, **settings)
    assert len(found.distance) == 2


def test_what_has_no_distance_is_refused():
    train, x = gaussian(40), gaussian(5)
    model = verax.Scorer(lambda rows: rows.flatten(1).sum(1)[:, None], returns="values")
    with pytest.raises(ValueError, match="distance: it is measured from training data; pass background"):
        calls.evaluate(model, x, x, ["pc"], distance=True)
    with pytest.raises(ValueError, match="at least 20 rows, got 19"):
        calls.evaluate(model, x, x, ["pc"], background=train[:19], distance=True)
    with pytest.raises(ValueError, match="rows with removed features, got metrics infidelity"):
        calls.evaluate(model, x, x, ["infidelity"], background=train, samples=20, distance=True)
    with pytest.raises(ValueError, match=r"distance: rows of shape \(1, 40, 40\) cannot be measured"):
        calls.evaluate(
            model, drawn(2, 1, 40, 40), drawn(2, 40, 40), ["pc"], background=drawn(30, 1, 40, 40), distance=True
        )
