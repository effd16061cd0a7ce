"""Does a ranking survive another replacement? Kendall's tau against scipy, and models on which the answer is known."""

import numpy as np
import pytest
import torch
from scipy import stats

import calls
import verax
from verax.replacement import Baseline, Conditional, Marginal, Nudge, Toward
from verax.statistics.ranks import kendall, rank_agreement


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_kendall_is_scipys_tau_b_with_ties():
    generator = np.random.default_rng(0)
    for size in (2, 5, 9):
        x, y = generator.integers(0, 4, size=(2, 30, size)).astype(float)
        wanted = [stats.kendalltau(a, b).statistic for a, b in zip(x, y, strict=True)]
        np.testing.assert_allclose(kendall(torch.tensor(x), torch.tensor(y)), wanted, atol=1e-12)


def test_agreement_has_an_interval_over_inputs():
    clear = torch.arange(4.0)[:, None] + 0.1 * drawn(4, 50)
    assert str(rank_agreement(clear, clear + 0.1 * drawn(4, 50, seed=1))) == "1 [1, 1]"
    noise = rank_agreement(drawn(4, 20, seed=2), drawn(4, 20, seed=3))
    assert noise.low < 0 < noise.high
    assert np.isnan(rank_agreement(clear[:, :1], clear[:, :1]).low)


@pytest.fixture(scope="module")
def turned():
    """A score that falls towards the baseline and rises for a small step: the truth near the input is the reverse."""
    x = 1 + 0.1 * drawn(18, 4).abs()
    weights = torch.tensor([4.0, 3.0, 2.0, 1.0], dtype=torch.float64)

    def score(rows):
        way = 1 - rows  # 0 near the input, 1 at the baseline
        return (weights * (way * 0.4 - way**2)).sum(1)[:, None]

    far = (weights * torch.ones_like(x)).clone()
    model = verax.Scorer(score, returns="values")
    return calls.compare(
        model,
        x,
        {"far": far, "near": -far, "noise": drawn(18, 4, seed=5)},
        ["pc"],
        replacements=[Baseline(), Nudge(0.1)],
    )


def test_a_ranking_that_turns_is_told_with_its_pairs(turned):
    (found,) = turned.ranking_stability("pc")
    assert (found.default, found.other, found.word) == ("Baseline", "Nudge(epsilon=0.1)", "turns")
    assert found.tau.mean == -1
    pairs = {(pair.default.first, pair.default.second): pair for pair in found.turned}
    pair = pairs["far", "near"]
    assert (pair.default.word, pair.other.word) == ("better", "worse")
    assert str(pair.default) == str(turned.pair("far", "near", "pc"))
    words = str(found)
    assert words.startswith("PC: the ranking turns under Nudge(epsilon=0.1) (0 of ")
    assert f"{pair.default}, and worse by {pair.other.size} there" in words
    assert words in repr(turned)


def test_frames_hold_both_replacements(turned):
    frame = turned.to_frame()
    assert frame.columns == ["attribution", "input", "target", "replacement", "pc"]
    assert frame["replacement"].unique(maintain_order=True).to_list() == ["Baseline", "Nudge(epsilon=0.1)"]
    assert frame.height == 2 * 4 * 18  # far, near, noise, and the random one
    assert turned.rows == turned.evaluation.rows + turned.elsewhere[0].evaluation.rows
    (row,) = turned.ranking_stability_frame().to_dicts()
    assert (row["metric"], row["tau"], row["stay"], row["turn"]) == ("pc", -1.0, 0, row["significant"])


def test_the_report_says_it(turned, tmp_path):
    turned.save(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "Does the ranking survive another replacement?" in page
    assert "<td>turns</td><td>-1 [" in page.replace("-1.0", "-1")
    assert "Baseline, Nudge(epsilon=0.1)" in page


@pytest.fixture(scope="module")
def linear():
    x, train = drawn(40, 5), drawn(200, 5, seed=1)
    weights = torch.tensor([3.0, -2.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    model = verax.Scorer(lambda rows: (rows @ weights)[:, None], returns="values")
    return model, x, train, {"truth": weights * x, "noise": drawn(40, 5, seed=2)}


def test_on_a_linear_model_the_truth_survives_and_what_cannot_be_asked_is_said(linear):
    model, x, train, attributions = linear
    others = {"half way": Toward(0.5), "rows": Marginal(train, draws=4), "fit": Conditional(train)}
    metrics = ["pc", "dpc", verax.metrics.LocalPredictionChange(), "infidelity"]
    drawn_ones = [verax.metrics.Infidelity(samples=20, perturbation="baseline")]
    (one,) = calls.compare(model, x, attributions, drawn_ones, replacements=[Toward(0.5)]).ranking_stability()
    assert (one.metric, one.word) == ("infidelity", "survives")
    found = calls.compare(model, x, attributions, metrics, samples=20, replacements=others)
    assert [(one.metric, one.other) for one in found.ranking_stability()] == [
        *(("pc", name) for name in others),
        ("dpc", "half way"),
        ("dpc", "rows"),
    ]
    assert {one.word for one in found.ranking_stability("pc")} == {"survives"}
    halved = found.elsewhere[0].evaluation["pc"].scores
    torch.testing.assert_close(halved, found.evaluation["pc"].scores / 2)
    assert list(found.elsewhere[2].unsupported) == ["dpc"]
    assert "DPC: not measured under fit (dpc: with Conditional what a feature becomes depends" in repr(found)
    alone = calls.evaluate(model, x, attributions, ["pc"], replacement=others["rows"])["pc"]
    assert torch.equal(found.elsewhere[1].evaluation["pc"].scores[:-1], alone.scores)  # but for the random one


def test_nothing_told_apart_says_nothing(linear):
    model, x, _, attributions = linear
    same = {"a": attributions["truth"], "b": 2 * attributions["truth"]}
    (found,) = calls.compare(model, x, same, ["pc"], replacements=[Toward(0.5)]).ranking_stability()
    assert found.word == "is inconclusive"
    assert str(found).startswith(
        "PC: no pair differs significantly under Baseline, so Toward(epsilon=0.5) can turn nothing"
    )


def test_one_explanation_has_no_ranking_that_could_survive(linear):
    """The random one, which is compared as well, is no part of the ranking that is asked about."""
    model, x, _, attributions = linear
    assert (
        calls.compare(model, x, {"a": attributions["truth"]}, ["pc"], replacements=[Toward(0.5)]).ranking_stability()
        == []
    )


def test_wrong_replacements_are_named(linear):
    model, x, _, attributions = linear
    for wrong in (Toward(0.5), lambda inputs, removed: inputs, "nudge", 3):
        with pytest.raises(TypeError, match="replacements: expected a list of replacements or a dict"):
            calls.compare(model, x, attributions, replacements=wrong)
    with pytest.raises(TypeError, match=r"got None; say verax\.replacement\.Baseline"):
        calls.compare(model, x, attributions, replacements=[None])
    with pytest.raises(TypeError, match=r"replacement: expected one of verax\.replacement"):
        calls.compare(model, x, attributions, replacements=["nudge"])
    with pytest.raises(ValueError, match=r"two are called Toward\(epsilon=0.5\); pass a dict"):
        calls.compare(model, x, attributions, replacements=[Toward(0.5), Toward(0.5)])
    with pytest.raises(ValueError, match="infidelity do not depend on what removed features become; add pc or dpc"):
        calls.compare(model, x, attributions, ["infidelity"], replacements=[Toward(0.5)])


def test_methods_are_computed_once(linear):
    _, x, train, _ = linear
    problem = verax.Problem(torch.nn.Linear(5, 2, dtype=torch.float64), x)
    comparison = verax.compare(
        problem, {"g": verax.attribution.Gradient()}, ["pc"], replacements=[Toward(0.5), Conditional(train)]
    )
    assert comparison.evaluation.rows_backward == len(x)
    assert all(other.evaluation.rows_backward == 0 for other in comparison.elsewhere)
