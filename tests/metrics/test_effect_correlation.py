"""Effect correlation: closed forms, an oracle, what it can and cannot see, its error and what it costs."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import calls
import reference
import verax
from verax.core import noise
from verax.evaluation.ranking import REFERENCE
from verax.metrics import EffectCorrelation, Infidelity
from verax.perturbation import sampled
from verax.study.metrics import MetricsSpec, metrics_of

BASELINE = {"perturbation": "baseline", "baselines": 0.5}


def measured(model: Any, x: Any, attributions: Any, **options: Any) -> Any:
    return calls.evaluate(model, x, attributions, ["effect_correlation"], **options)["effect_correlation"]


def network(features: int = 6, scale: float = 1.0) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for parameter in model.parameters():
        parameter.data = scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def effects(model: nn.Module, x: Tensor, a: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Predicted and actual effects on the logit of class 1, from the draws that the library makes."""
    moved = x[:, None] + 0.2 * noise.normals(noise.input_keys(x, 0, "gaussian"), 0, samples, x.shape[1], x.dtype)
    with torch.no_grad():
        actual = model(x)[:, None, 1] - model(moved)[..., 1]
    return ((x[:, None] - moved) * a[:, None]).sum(-1), actual


def line(weights: Tensor) -> nn.Module:
    model = nn.Linear(len(weights), 1, bias=False).double()
    model.weight.data = weights[None]
    return model


@pytest.mark.parametrize("options", [{}, {"subset": 2}, BASELINE, BASELINE | {"subset": 2}], ids=str)
def test_the_truth_of_a_linear_model_has_one_and_its_opposite_minus_one(options: dict[str, Any]) -> None:
    w, x = normal(6, seed=3), normal(4, 6)
    truth = (x - 0.5) * w if "baselines" in options else w.expand(4, 6)
    maps = torch.stack([truth, -truth, torch.zeros_like(truth)])
    found = measured(verax.Scorer(line(w), returns="logits"), x, maps, target=1, output="logit", samples=30, **options)
    torch.testing.assert_close(found.value, torch.tensor([1.0, -1.0, 0.0]).double()[:, None].expand(3, 4))
    assert found.standard_error.max() < 1e-12
    low, high = found.interval()
    torch.testing.assert_close(low, found.value)
    torch.testing.assert_close(high, found.value)


def test_noise_on_a_linear_model_finds_the_cosine_of_slopes() -> None:
    """P and S are a . I and w . I, so with endless draws the correlation is the cosine between a and w."""
    w, x, a = normal(6, seed=3), normal(5, 6), normal(5, 6, seed=2)
    found = measured(verax.Scorer(line(w), returns="logits"), x, a, target=1, output="logit", samples=40_000)
    cosine = nn.functional.cosine_similarity(a, w[None])
    assert ((found.value - cosine).abs() < 5 * found.standard_error).all()
    # for normal effects the error is known as well
    torch.testing.assert_close(found.standard_error, (1 - cosine**2) / 200, rtol=0.05, atol=0)


@pytest.mark.parametrize("options", [{}, {"subset": 2}, BASELINE, BASELINE | {"effect": "dot"}], ids=str)
def test_value_equals_the_reference_on_the_same_draws(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    weights = reference.TwoLayers.random(rng, 5)
    x, attributions = rng.normal(size=(3, 5)), rng.normal(size=(2, 3, 5))

    def model(rows: Any) -> Any:
        return np.stack([weights.probabilities(row) for row in rows])

    seen: list[Any] = []
    scorer = verax.Scorer(lambda rows: (seen.append(rows.copy()), model(rows))[1], returns="probabilities")
    result = measured(scorer, x, attributions, target=2, samples=20, **options)
    draws = np.concatenate(seen)[3:].reshape(3, 20, 5)
    summed = "perturbation" in options and "effect" not in options
    for k in range(2):
        for i in range(3):
            predicted = [
                attributions[k, i] @ ((row != x[i]).astype(float) if summed else x[i] - row) for row in draws[i]
            ]
            actual = [weights.score(2)(x[i]) - weights.score(2)(row) for row in draws[i]]
            wanted = np.dot(predicted, actual) / (np.linalg.norm(predicted) * np.linalg.norm(actual))
            assert result.value[k, i] == pytest.approx(wanted, abs=1e-12)


@settings(max_examples=10)
@given(scale=st.floats(1e-6, 1e6))
def test_only_the_sign_of_a_scale_counts(scale: float) -> None:
    model, x, a = network(), normal(3, 6), normal(3, 6, seed=2)
    found = measured(model, x, torch.stack([a, scale * a, -scale * a]), samples=20)
    torch.testing.assert_close(found.value[1], found.value[0])
    torch.testing.assert_close(found.value[2], -found.value[0])
    torch.testing.assert_close(found.standard_error[2], found.standard_error[0])
    low, high = found.interval()
    torch.testing.assert_close(low[2], -high[0])


def test_what_predicts_nothing_or_changes_nothing_scores_nothing() -> None:
    x = normal(3, 6)
    flat = verax.Scorer(lambda rows: 0 * rows.sum(1), returns="logits")
    for model, a in ((network(), 0 * x), (flat, x)):
        found = measured(model, x, a, samples=20, output="logit")
        for values in (found.value, found.standard_error, *found.interval()):
            assert torch.equal(values, torch.zeros(3, dtype=torch.float64))


def test_normalised_infidelity_follows_from_it() -> None:
    model, x, a = network(), normal(5, 6), normal(4, 5, 6, seed=2)
    found = calls.evaluate(model, x, a, ["effect_correlation", "infidelity"], samples=40)
    r, squares = found["effect_correlation"].value, found["infidelity"].moments.ss
    torch.testing.assert_close(found["infidelity"].value, squares * (1 - r.clamp(min=0) ** 2) / 39)
    assert (r < 0).any()


def test_equal_settings_of_infidelity_cost_no_further_rows() -> None:
    model, x, a = network(), normal(5, 6), normal(3, 5, 6, seed=2)
    for chosen in ({"samples": 30}, {"samples": 30, "perturbation": "baseline", "subset": 2, "seed": 3}):
        assert EffectCorrelation(**chosen).draws == Infidelity(**chosen).draws
        both = [
            EffectCorrelation(**chosen),
            Infidelity(**chosen),
            Infidelity(**chosen, normalize=False),
        ]
        assert calls.evaluate(model, x, a, both).rows == 5 + 5 * 30
    apart = [EffectCorrelation(samples=30), Infidelity(samples=30, seed=1)]
    assert calls.evaluate(model, x, a, apart).rows == 5 + 2 * 5 * 30


@pytest.mark.parametrize("budget", [1, 3_000])
@pytest.mark.parametrize("options", [{}, BASELINE], ids=str)
def test_blocks_of_any_size_agree(monkeypatch: pytest.MonkeyPatch, budget: int, options: dict[str, Any]) -> None:
    model, x, a = network(), normal(5, 6), normal(4, 5, 6, seed=2)
    whole = measured(model, x, a, samples=30, **options)
    monkeypatch.setattr(sampled, "block_bytes", lambda device: budget)
    monkeypatch.setattr(verax.metrics.monte_carlo, "_CACHED", 60)  # two attributions or inputs at a time
    parts = measured(model, x, a, samples=30, **options)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-12)
    torch.testing.assert_close(parts.standard_error, whole.standard_error, rtol=0, atol=1e-12)
    assert parts.rows == whole.rows


def test_standard_error_is_that_of_the_jackknife() -> None:
    """Leave out one draw after the other, and see how far the score moves."""
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    predicted, actual = effects(model, x, a, 30)
    shorter = []
    for out in range(30):
        left = [draw for draw in range(30) if draw != out]
        shorter.append(nn.functional.cosine_similarity(predicted[:, left], actual[:, left], dim=1))
    wanted = (29 * torch.stack(shorter).var(0, correction=0)).sqrt()
    found = measured(model, x, a, target=1, samples=30, output="logit")
    torch.testing.assert_close(found.value, nn.functional.cosine_similarity(predicted, actual, dim=1))
    torch.testing.assert_close(found.standard_error, wanted)
    assert found.mean_standard_error == pytest.approx(float(wanted.square().sum().sqrt() / 4))


@pytest.mark.parametrize("samples", [20, 160])
def test_error_and_interval_are_honest(samples: int) -> None:
    """Of 150 seeds for each of eight inputs: the error is the spread, and intervals hold what they say or more.

    Student's t for atanh(r) alone would cover 0.75 for the gradient of a line, which is nearly perfect, at 20 draws.
    """
    x = normal(8, 20)
    steep = line(normal(20, seed=4) / 2)
    slopes = torch.stack([steep.weight.detach().expand(8, 20), normal(8, 20, seed=2)])
    model = verax.Scorer(steep, returns="logits")
    truth = measured(model, x, slopes, target=1, samples=30_000, seed=-1).value
    runs = [measured(model, x, slopes, target=1, samples=samples, seed=seed) for seed in range(150)]
    spread = torch.stack([run.value for run in runs]).std(0)
    error = torch.stack([run.standard_error for run in runs]).square().mean(0).sqrt()
    assert ((error / spread).median(1).values - 1.05).abs().max() < 0.15
    ends = [run.interval() for run in runs]
    covered = torch.stack([(low <= truth) & (truth <= high) for low, high in ends]).double().mean(0).mean(1)
    assert ((covered > 0.905) & (covered < 0.99)).all(), covered


def test_an_interval_holds_its_score_stays_in_range_and_grows_with_the_level() -> None:
    maps = {"a": normal(4, 6, seed=2), "b": -normal(4, 6, seed=2)}
    found = measured(network(), normal(4, 6), maps, samples=20)
    low, high = found.interval()
    wide_low, wide_high = found.interval(0.99)
    for name, value in found.value.items():
        ends = torch.stack([wide_low[name], low[name], value, high[name], wide_high[name]])
        assert (ends.diff(dim=0) > 0).all()
        assert ends.abs().max() <= 1
    with pytest.raises(ValueError, match=r"level: expected a number between 0 and 1, got 95\.0"):
        found.interval(95.0)


def test_one_draw_that_predicts_alone_leaves_a_finite_error() -> None:
    """Most replaced sets leave out the only feature with an attribution; some seed has it in one draw only."""
    a = torch.zeros(1, 6, dtype=torch.float64)
    a[0, 0] = 1
    for seed in range(10):
        found = measured(network(), normal(1, 6), a, samples=20, perturbation="baseline", subset=1, seed=seed)
        assert torch.isfinite(found.standard_error).all()
        assert all(torch.isfinite(end).all() for end in found.interval())


def test_settings_are_checked_and_few_draws_are_warned_of() -> None:
    with pytest.raises(ValueError, match="samples: expected a whole number of at least 2, got 1"):
        EffectCorrelation(samples=1)
    with pytest.raises(ValueError, match='effect: "sum" adds up'):
        EffectCorrelation(effect="sum")
    with pytest.raises(ValueError, match="sigma: "):
        EffectCorrelation(sigma=-1.0)
    with pytest.warns(UserWarning, match="samples: Effect correlation from 19 draws is uncertain; pass at least 20"):
        measured(network(), normal(2, 6), normal(2, 6), samples=19)
    assert (EffectCorrelation().kind, EffectCorrelation(perturbation="baseline").kind) == ("local", "baseline")


def test_overflow_is_an_error() -> None:
    x = normal(2, 6)
    with pytest.raises(ValueError, match="effect_correlation: the predicted effects overflow"):
        measured(network(), x, x * 1e200, samples=20)


def test_it_ranks_and_shows_its_error() -> None:
    w, x = normal(6, seed=3), normal(5, 6)
    maps = {"opposite": -w.expand(5, 6), "truth": w.expand(5, 6)}
    compared = calls.compare(
        verax.Scorer(line(w), returns="logits"), x, maps, ["effect_correlation"], target=1, samples=20
    )
    assert [one.name for one in compared.ranking("effect_correlation")] == ["truth", REFERENCE, "opposite"]
    found = compared.evaluation["effect_correlation"]
    assert found.to_frame().columns == ["attribution", "input", "target", "effect_correlation", "effect_correlation_se"]
    assert "Monte-Carlo error" in repr(found)
    assert found.plot().get_suptitle() == "Effect correlation, higher is better"


def test_a_search_and_a_study_know_its_name() -> None:
    model, x = network(), normal(4, 6)
    assert (
        calls.tune(model, x, ["Random", "Gradient"], metric="effect_correlation").best == verax.attribution.Gradient()
    )
    listed = ["infidelity", "effect_correlation", {"metric": "effect_correlation", "samples": 80, "as": "few"}]
    found = metrics_of(MetricsSpec(list=listed))
    assert found["effect_correlation"].draws == found["infidelity"].draws
    assert found["few"] == EffectCorrelation(samples=80)
