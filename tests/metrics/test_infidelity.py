"""Infidelity: its draws, its standard error, what it perturbs and what it costs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import calls
import reference
import verax
from verax.core import noise
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.perturbation import sampled


class Spy:
    """A model that remembers the rows it was given."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.batches.append(x.clone())
        return torch.tanh(x.flatten(1)).cumsum(1).sum(1)

    def perturbed(self, inputs: Tensor) -> Tensor:
        """The rows after the unperturbed ones, ``(inputs, draws, ...)``."""
        return torch.cat(self.batches)[len(inputs) :].reshape(len(inputs), -1, *inputs.shape[1:])


def spied(inputs: Tensor, **options: Any) -> Tensor:
    """The perturbed rows that a call shows to the model."""
    spy = Spy()
    scorer = verax.Scorer(spy, returns="logits")
    calls.infidelity(scorer, inputs, torch.ones_like(inputs), target=1, output="logit", **options)
    return spy.perturbed(inputs)


def network(features: int = 6, scale: float = 1.0) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    for parameter in model.parameters():
        parameter.data = scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subset": 2},
        {"perturbation": "baseline", "baselines": 0.5},
        {"perturbation": "baseline", "baselines": 0.5, "subset": 2},
        {"perturbation": "baseline", "baselines": 0.5, "effect": "dot"},
    ],
    ids=str,
)
def test_value_equals_the_reference_on_the_same_draws(normalize: bool, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    weights = reference.TwoLayers.random(rng, 5)
    x, attributions = rng.normal(size=(3, 5)), rng.normal(size=(2, 3, 5))

    def model(rows: Any) -> Any:
        return np.stack([weights.probabilities(row) for row in rows])

    seen: list[Any] = []
    scorer = verax.Scorer(lambda rows: (seen.append(rows.copy()), model(rows))[1], returns="probabilities")
    result = calls.infidelity(scorer, x, attributions, target=2, samples=20, normalize=normalize, **options)
    draws = np.concatenate(seen)[3:].reshape(3, 20, 5)
    for k in range(2):
        for i in range(3):
            effect = "sum" if "perturbation" in options and options.get("effect") is None else "dot"
            wanted = reference.infidelity(weights.score(2), x[i], draws[i], attributions[k, i], normalize, effect)
            assert result.value[k, i] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
def test_standard_error_is_calibrated(normalize: bool) -> None:
    """Over 200 seeds, errors in units of the standard error spread like a standard normal."""
    model, x, a = network(), normal(6, 6), normal(6, 6, seed=2)
    options = {"target": 0, "normalize": normalize}
    truth = calls.infidelity(model, x, a, samples=60_000, seed=-1, **options).value
    runs = [calls.infidelity(model, x, a, samples=256, seed=seed, **options) for seed in range(200)]
    scores = torch.stack([(run.value - truth) / run.standard_error for run in runs])
    assert 0.8 < scores.std() < 1.25
    assert scores.mean().abs() < 0.25
    of_mean = torch.tensor([(run.value.mean() - truth.mean()) / run.mean_standard_error for run in runs])
    assert 0.8 < of_mean.std() < 1.25


def test_standard_error_by_hand() -> None:
    """Of the squared errors of the draws themselves; of the mean over inputs, by independence."""
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    result = calls.infidelity(model, x, a, target=1, samples=50, normalize=False, output="logit")
    moved = x[:, None] + 0.2 * noise.normals(noise.input_keys(x, 0, "gaussian"), 0, 50, 6, torch.float64)
    with torch.no_grad():
        actual = model(x)[:, None, 1] - model(moved)[..., 1]
    errors = (((x[:, None] - moved) * a[:, None]).sum(-1) - actual).square()
    torch.testing.assert_close(result.value, errors.mean(1))
    torch.testing.assert_close(result.standard_error, errors.std(1) / 50**0.5)
    wanted = float(result.standard_error.square().sum().sqrt() / 4)
    assert result.mean_standard_error == pytest.approx(wanted)


@pytest.mark.filterwarnings("ignore:samples. Infidelity from 2 draws is uncertain")
def test_one_draw_has_no_standard_error() -> None:
    result = calls.infidelity(network(), normal(2, 6), normal(2, 6), samples=1, normalize=False)
    assert torch.isfinite(result.value).all()
    assert torch.isnan(result.standard_error).all()
    pair = calls.infidelity(network(), normal(2, 6), normal(2, 6), samples=2)
    assert torch.isfinite(pair.value).all()
    assert torch.isnan(pair.standard_error).all()


def test_a_scale_is_not_fitted_to_one_draw() -> None:
    with pytest.raises(
        ValueError, match=r"samples: expected several draws .* got 1; pass at least 20, or normalize=False"
    ):
        Infidelity(samples=1)
    assert Infidelity(samples=1, normalize=False).samples == 1
    with pytest.raises(ValueError, match="sizes: expected a whole number of at least 2"):
        InfidelityUncertainty(sizes=(1, 20))


def test_few_draws_warn_before_the_model_runs() -> None:
    x = normal(2, 6)

    def model(rows: Tensor) -> Tensor:
        raise AssertionError("the model ran")

    scorer = verax.Scorer(model, returns="logits")
    few = "samples: Infidelity from 19 draws is uncertain; pass at least 20"
    with pytest.warns(UserWarning, match=few), pytest.raises(AssertionError, match="the model ran"):
        calls.infidelity(scorer, x, x, samples=19)
    assert Infidelity(samples=20).cautions == Infidelity(samples=19, normalize=False).cautions == ()


def test_standard_error_of_a_fitted_score_is_that_of_the_jackknife() -> None:
    """Leave out one draw after the other, fit the scale again, and see how far the score moves."""
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    result = calls.infidelity(model, x, a, target=1, samples=30, output="logit")
    moved = x[:, None] + 0.2 * noise.normals(noise.input_keys(x, 0, "gaussian"), 0, 30, 6, torch.float64)
    with torch.no_grad():
        actual = model(x)[:, None, 1] - model(moved)[..., 1]
    predicted = ((x[:, None] - moved) * a[:, None]).sum(-1)
    shorter = []
    for out in range(30):
        left = [draw for draw in range(30) if draw != out]
        p, s = predicted[:, left], actual[:, left]
        beta = ((p * s).sum(1) / p.square().sum(1)).clamp(min=0)
        shorter.append((beta[:, None] * p - s).square().sum(1) / 28)
    wanted = (29 / 30 * (torch.stack(shorter) - torch.stack(shorter).mean(0)).square().sum(0)).sqrt()
    same = (result.beta > 0) == (torch.stack(shorter).std(0) > 0)  # the sign of the fit holds in all of them
    assert same.any()
    fitted = result.moments.ps[0].abs() > 0.2 * (result.moments.pp[0] * result.moments.ss[0]).sqrt()
    assert fitted.sum() >= 2
    torch.testing.assert_close(result.standard_error[fitted], wanted[fitted])


@pytest.mark.filterwarnings("ignore:Infidelity. of . of 8 inputs, few of the")
@pytest.mark.parametrize("samples", [20, 40, 160])
def test_intervals_cover_close_to_what_they_say(samples: int) -> None:
    """Of 200 seeds for each of eight inputs; 1.96 standard errors to either side would cover 0.7 to 0.85 at 20."""
    model, x = network(20, scale=0.3), normal(8, 20)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf)[:, 0].sum(), leaf)
    maps = torch.stack([gradient, normal(8, 20, seed=2)])
    truth = calls.infidelity(model, x, maps, target=0, samples=30_000, seed=-1).value
    held = []
    for seed in range(200):
        low, high = calls.infidelity(model, x, maps, target=0, samples=samples, seed=seed).interval()
        held.append((low <= truth) & (truth <= high))
    covered = torch.stack(held).double().mean(0).mean(1)
    assert ((covered > 0.91) & (covered < 0.975)).all(), covered


@pytest.mark.filterwarnings("ignore:samples. Infidelity from 5 draws is uncertain")
@pytest.mark.parametrize("samples", [5, 20])
def test_few_draws_do_not_flatter(samples: int) -> None:
    """A scale fitted to the draws makes up for part of the error; the score is corrected for it."""
    model, x = network(20, scale=0.3), normal(8, 20)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf)[:, 0].sum(), leaf)
    maps = gradient + 0.5 * gradient.std() * normal(2, 8, 20, seed=2)
    truth = calls.infidelity(model, x, maps, target=0, samples=30_000, seed=-1).value
    runs = torch.stack([calls.infidelity(model, x, maps, target=0, samples=samples, seed=s).value for s in range(200)])
    ratio = float((runs / truth).mean())
    assert abs(ratio - 1) < 0.04
    assert ratio * (samples - 1) / samples < 1 - 0.5 / samples  # as it was


def test_an_interval_holds_its_score_and_grows_with_the_level() -> None:
    result = calls.infidelity(
        network(), normal(4, 6), {"a": normal(4, 6, seed=2), "none": normal(4, 6) * 0}, samples=30
    )
    low, high = result.interval()
    wide_low, wide_high = result.interval(0.99)
    for name, value in result.value.items():
        assert (low[name] < value).all()
        assert (value < high[name]).all()
        assert (wide_low[name] < low[name]).all()
        assert (high[name] < wide_high[name]).all()
    with pytest.raises(ValueError, match="level: "):
        result.interval(95.0)


@pytest.mark.parametrize(("output", "end"), [("probability", 1 - 0.025 ** (1 / 30)), ("logit", float("inf"))])
def test_where_nothing_happened_the_rule_of_three_is_left(output: Any, end: float) -> None:
    """What 30 draws have not shown may have a probability of up to 12 %; a logit has no bound."""
    model = verax.Scorer(lambda rows: 0 * rows.sum(1), returns="logits")
    found = calls.infidelity(model, normal(2, 6), normal(2, 6), samples=30, output=output)
    with pytest.warns(UserWarning, match=r"Infidelity: of 2 of 2 inputs, few of the 30 draws carry the score changes"):
        low, high = found.interval()
    assert low.tolist() == [0, 0]
    assert high.tolist() == pytest.approx([end, end])


@pytest.mark.filterwarnings("ignore:All scores are saturated")
@pytest.mark.parametrize("samples", [80, 640])
def test_intervals_cover_where_a_model_is_sure(samples: int) -> None:
    """A logistic model whose probability is 1e-7 away from 1; the exact score is an integral over a normal number."""
    tau, margin, trials = 4.0, 16.0, 100
    rows = normal(trials, 4)
    rows[:, 0] = margin * 0.2 / tau
    scorer = verax.Scorer(lambda x: torch.stack([5 * tau * x[:, 0], 0 * x[:, 0]], dim=1), returns="logits")
    maps = torch.eye(4, dtype=torch.float64)[:1].expand(trials, 4) * -1.0
    found = calls.infidelity(scorer, rows, maps, target=1, samples=samples)
    grid = torch.linspace(-14, 14, 28_001, dtype=torch.float64)
    weights = (-grid.square() / 2).exp() * (grid[1] - grid[0]) / (2 * torch.pi) ** 0.5
    change = (tau * grid - margin).sigmoid() - torch.tensor(-margin).double().sigmoid()
    truth = float((weights * change.square()).sum() - (weights * change * grid).sum().square())
    with pytest.warns(UserWarning, match="few of the"):
        low, high = found.interval()
    held = ((low <= truth) & (truth <= high)).double().mean()
    assert held >= 0.93
    plain = found.scores * (1.96 * (1 + found.errors / found.scores) * found.errors / found.scores).exp()
    assert ((low <= truth) & (truth <= plain[0])).double().mean() < 0.6  # without a word on rare effects


def test_intervals_of_effects_that_many_draws_carry_say_nothing() -> None:
    model = torch.nn.Linear(6, 2).double()
    found = calls.infidelity(model, normal(3, 6), normal(3, 6), samples=100, output="logit")
    assert (found.carried > 20).all()
    assert all(torch.isfinite(end).all() for end in found.interval())  # and a warning would be an error


def test_an_attribution_and_its_opposite_are_told_apart() -> None:
    """What points the wrong way is as bad as none, exactly."""
    model, x = network(), normal(8, 6)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    maps = torch.stack([gradient, -gradient, torch.zeros_like(x)])
    result = calls.infidelity(model, x, maps, target=1, samples=100, output="logit")
    assert (result.value[0] < 0.9 * result.value[1]).all()
    assert torch.equal(result.value[1], result.value[2])
    assert (result.beta[1] == 0).all()


def test_one_draw_that_fixes_the_scale_alone_leaves_a_finite_error() -> None:
    """Most replaced sets leave out the only feature with an attribution; some seed has it in one draw only."""
    model, x = network(), normal(1, 6)
    a = torch.zeros(1, 6, dtype=torch.float64)
    a[0, 0] = 1
    for seed in range(40):
        options = {"samples": 20, "perturbation": "baseline", "subset": 1, "seed": seed}
        found = calls.infidelity(model, x, torch.cat([a, -a])[:, None], **options)
        assert torch.isfinite(found.value).all()
        assert torch.isfinite(found.standard_error).all()


def test_the_effect_of_noise_is_no_sum() -> None:
    with pytest.raises(ValueError, match=r'effect: "sum" adds up .* perturbation="baseline"'):
        Infidelity(effect="sum")
    assert Infidelity().draws.effect == "dot"
    assert Infidelity(perturbation="baseline").draws.effect == "sum"
    assert Infidelity(perturbation="baseline", effect="dot").draws.effect == "dot"


def test_every_call_takes_the_effect() -> None:
    model, x, a = network(), normal(3, 6), normal(3, 6, seed=2)
    settings = {"samples": 30, "perturbation": "baseline", "effect": "dot"}
    wanted = calls.infidelity(model, x, a, **settings).value
    assert torch.equal(calls.evaluate(model, x, a, ["infidelity"], **settings)["infidelity"].value, wanted)
    compared = calls.compare(model, x, {"a": a}, ["infidelity"], **settings).evaluation["infidelity"]
    assert torch.equal(compared.value["a"], wanted)
    assert not torch.equal(calls.infidelity(model, x, a, **settings | {"effect": None}).value, wanted)


def test_a_subset_larger_than_the_features_is_named_as_the_call_says_it() -> None:
    x = normal(2, 6)
    with pytest.raises(ValueError, match="subset: cannot choose 7 features"):
        calls.infidelity(network(), x, x, subset=7, perturbation="baseline")


def test_resamples_of_the_whole_pool_are_the_score() -> None:
    """The resampling study uses the same definition, wrong directions and repetitions included."""
    model, x, a = network(), normal(4, 6), normal(2, 4, 6, seed=2)
    metric = Infidelity(samples=40, perturbation="baseline")
    study = InfidelityUncertainty(metric, (20, 40), 3, independent=2)
    found = calls.evaluate(model, x, a, {"study": study, "score": metric})
    torch.testing.assert_close(found["study"].means[:, 1, 0], found["score"].scores.mean(1))
    assert found["study"].per_input[..., 1].max() < 1e-12
    assert [draws.effect for draws in study.draws] == ["sum"] * 3
    alone = calls.evaluate(model, x, a, {"again": replace(metric, seed=study.draws[1].seed)})["again"]
    torch.testing.assert_close(found["study"].repetitions[..., 1, 0], alone.scores)


@pytest.mark.parametrize("normalize", [False, True])
def test_resamples_with_replacement_spread_as_the_error_says_also_over_the_whole_pool(normalize: bool) -> None:
    """Without replacement the spread is too small by sqrt(1 - size / pool), and 0 for the whole pool."""
    model, x, a = network(), normal(6, 6), normal(6, 6, seed=2)
    sizes = (40, 160, 320)
    metric = Infidelity(samples=320, normalize=normalize)
    spreads = {}
    for with_replacement in (False, True):
        study = InfidelityUncertainty(metric, sizes, 400, with_replacement=with_replacement)
        found = calls.evaluate(model, x, a, {"study": study})["study"]
        spreads[with_replacement] = found.per_input.square().mean((0, 1)).sqrt()
        analytic = (found.variance[..., None] / torch.tensor(sizes)).mean((0, 1)).sqrt()
    torch.testing.assert_close(spreads[True], analytic, rtol=0.1, atol=0)
    too_small = (1 - torch.tensor(sizes) / 320).sqrt()
    torch.testing.assert_close(spreads[False], analytic * too_small, rtol=0.1, atol=1e-9)


def test_moments_give_both_values() -> None:
    model, x, a = network(), normal(5, 6), normal(2, 5, 6, seed=2)
    plain = calls.infidelity(model, x, a, samples=40, normalize=False)
    scaled = calls.infidelity(model, x, a, samples=40)
    pp, ps, ss = plain.moments.pp, plain.moments.ps, plain.moments.ss
    torch.testing.assert_close(plain.value, (pp - 2 * ps + ss) / 40)
    beta = ps.clamp(min=0) / pp
    torch.testing.assert_close(scaled.value, (ss - beta * ps) / 39)
    torch.testing.assert_close(scaled.beta, beta)
    for moment in ("pp", "ps", "ss"):
        assert torch.equal(getattr(plain.moments, moment), getattr(scaled.moments, moment))


def test_normalising_makes_the_scale_of_an_attribution_irrelevant() -> None:
    model, x, a = network(), normal(5, 6), normal(5, 6, seed=2)
    result = calls.infidelity(model, x, torch.stack([a, 3 * a, 1e-6 * a]), samples=40)
    torch.testing.assert_close(result.value[1], result.value[0])
    torch.testing.assert_close(result.value[2], result.value[0])


def test_zero_attributions_score_the_mean_square_of_the_changes() -> None:
    model, x = network(), normal(5, 6)
    for normalize in (True, False):
        result = calls.infidelity(model, x, torch.zeros_like(x), samples=40, normalize=normalize)
        torch.testing.assert_close(result.value, result.moments.ss[0] / (39 if normalize else 40))


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_subset_moves_exactly_its_features(size: int) -> None:
    x = normal(4, 6)
    moved = spied(x, subset=size, samples=200) != x[:, None]
    assert (moved.sum(-1) == size).all()
    assert moved.any(1).all()  # each feature has its turn


def test_a_subset_of_pixels_moves_all_their_channels() -> None:
    x = normal(3, 2, 3, 3)
    moved = spied(x, subset=4, samples=100) != x[:, None]
    assert torch.equal(moved[:, :, 0], moved[:, :, 1])
    assert (moved[:, :, 0].flatten(2).sum(-1) == 4).all()


def test_a_subset_of_groups_moves_whole_groups() -> None:
    x = normal(3, 6)
    groups = torch.tensor([4, 4, 4, 1, 1, 9])
    moved = spied(x, subset=2, samples=100, features=groups) != x[:, None]
    assert torch.equal(moved[..., [0, 0, 3]], moved[..., [1, 2, 4]])
    assert (moved[..., [0, 3, 5]].sum(-1) == 2).all()


def test_every_feature_moves_by_default() -> None:
    x = normal(4, 6)
    assert (spied(x, samples=50) != x[:, None]).all()


def test_noise_has_the_width_that_was_asked_for() -> None:
    x = normal(1, 6)
    drawn = (spied(x, samples=20_000, sigma=0.5) - x[:, None]).flatten()
    assert drawn.std().item() == pytest.approx(0.5, rel=0.01)
    assert abs(drawn.mean().item()) < 4 * 0.5 / len(drawn) ** 0.5


@pytest.mark.parametrize("subset", [None, 2])
def test_replacement_takes_the_values_of_the_baseline(subset: int | None) -> None:
    x, b = normal(4, 6), normal(4, 6, seed=2)
    rows = spied(x, perturbation="baseline", baselines=b, subset=subset, samples=300)
    replaced = rows == b[:, None]
    assert (replaced | (rows == x[:, None])).all()
    sizes = replaced.sum(-1)
    if subset is None:  # every size occurs
        assert all((sizes == size).any() for size in range(7))
    else:
        assert (sizes == subset).all()


def test_baselines_do_not_matter_to_noise() -> None:
    model, x, a = network(), normal(4, 6), normal(4, 6, seed=2)
    plain = calls.infidelity(model, x, a, samples=20)
    assert torch.equal(calls.infidelity(model, x, a, samples=20, baselines=3.0).value, plain.value)


def test_attributions_share_the_draws() -> None:
    model, x = network(), normal(5, 6)
    one = calls.infidelity(model, x, normal(5, 6), samples=30)
    many = calls.infidelity(model, x, normal(7, 5, 6), samples=30)
    assert one.rows == many.rows == 5 + 5 * 30


def test_plain_and_normalised_share_the_draws() -> None:
    metrics = [Infidelity(samples=30), Infidelity(samples=30, normalize=False)]
    found = calls.evaluate(network(), normal(5, 6), normal(5, 6), metrics)
    assert found.rows == 5 + 5 * 30


@pytest.mark.parametrize(
    "options", [{}, {"subset": 2}, {"perturbation": "baseline"}, {"perturbation": "baseline", "subset": 2}], ids=str
)
def test_more_samples_go_on_where_fewer_stopped(options: dict[str, Any]) -> None:
    x = normal(3, 6)
    assert torch.equal(spied(x, samples=64, **options), spied(x, samples=128, **options)[:, :64])


def test_draws_belong_to_the_content_of_an_input() -> None:
    x = normal(3, 6)
    rows = spied(torch.cat([x, x[:1]]), samples=20)
    assert torch.equal(rows[0], rows[3])
    assert not torch.equal(rows[0] - x[0], rows[1] - x[1])


@pytest.mark.parametrize("budget", [1, 3_000, 100_000])
@pytest.mark.parametrize(
    "options", [{}, {"subset": 2}, {"perturbation": "baseline"}, {"features": "each", "subset": 2}], ids=str
)
def test_blocks_of_any_size_agree(monkeypatch: pytest.MonkeyPatch, budget: int, options: dict[str, Any]) -> None:
    model, x, a = network(), normal(5, 6), normal(4, 5, 6, seed=2)
    if options.get("features") == "each":
        options = options | {"features": torch.arange(6) // torch.tensor([1, 2, 3, 1, 2])[:, None]}
    options = options | {"baselines": normal(5, 6, seed=3)}
    whole = calls.infidelity(model, x, a, samples=30, **options)
    monkeypatch.setattr(sampled, "block_bytes", lambda device: budget)
    parts = calls.infidelity(model, x, a, samples=30, **options)
    torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-12)
    torch.testing.assert_close(parts.standard_error, whole.standard_error, rtol=0, atol=1e-12)
    assert parts.rows == whole.rows
