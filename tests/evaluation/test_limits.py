"""Limits of models: attained, never passed, shared between metrics, and honest about what they do not know."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.metrics import (
    Comprehensiveness,
    Deletion,
    DirectedPredictionChange,
    Insertion,
    LocalPredictionChange,
    PredictionChange,
    Sufficiency,
    SymmetricRelevanceGain,
)

METRICS = [
    PredictionChange(),
    PredictionChange("magnitude", area="morf"),
    DirectedPredictionChange("magnitude"),
    DirectedPredictionChange("magnitude", area="morf", rule="dot"),
    DirectedPredictionChange("magnitude", rule="coherent", curve="increments"),
    DirectedPredictionChange(),
    DirectedPredictionChange("literal", area="morf"),
    LocalPredictionChange(epsilon=0.1),
    Deletion(),
    Insertion(),
    SymmetricRelevanceGain(),
    Comprehensiveness(shares=(0.2, 0.6, 1)),
    Sufficiency(shares=(0.2, 0.6, 1)),
    Comprehensiveness(shares="every"),
    Sufficiency(shares="every"),
]


def network(features: int) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def rows(count: int, features: int) -> Tensor:
    return torch.randn(count, features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def value(model: Any, inputs: Any, attributions: Any, metric: Any, **options: Any) -> Any:
    return calls.evaluate(model, inputs, attributions, [metric], **options)[metric.name].value


@pytest.mark.parametrize("metric", METRICS, ids=lambda one: one.short_form)
def test_limits_are_those_of_all_attributions(metric: Any) -> None:
    """All orders and signs of four features through ``evaluate``; zeros, too, which count 0 in signed order."""
    model, x = network(4), rows(2, 4)
    x[0, 1] = 0.5  # is its baseline: no direction
    sizes = torch.tensor(list(itertools.permutations((1.0, 2.0, 3.0, 4.0))), dtype=torch.float64)
    signs = torch.tensor(list(itertools.product((1.0, 0.0, -1.0), repeat=4)), dtype=torch.float64)
    every = (sizes[:, None] * signs).flatten(0, 1)
    options = {"baselines": 0.5, "target": 0}
    scores = value(model, x, every[:, None].expand(-1, 2, -1), metric, **options)
    found = calls.limits(model, x, metrics=[metric], **options)[metric.name]
    assert found.exact
    extremes = [scores.amin(0), scores.amax(0)]
    worst, best = extremes if metric.higher_is_better else reversed(extremes)
    torch.testing.assert_close(found.best, best, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.worst, worst, rtol=0, atol=1e-12)
    torch.testing.assert_close(value(model, x, found.attribution, metric, **options), found.best, rtol=0, atol=1e-12)


def test_integrated_gradients_attain_the_limit_of_a_linear_model() -> None:
    model, x = nn.Linear(7, 1).double(), rows(4, 7)
    scorer = verax.Scorer(model, returns="logits")
    contributions = x * model.weight.detach()
    found = calls.evaluate(scorer, x, contributions, ["pc"], target=1, limits=True)["pc"]
    torch.testing.assert_close(found.normalised, torch.ones(4).double())
    assert found.limits.order.tolist() == contributions.argsort(1, descending=True).tolist()


def test_random_attributions_are_below_the_limit_and_at_chance_in_the_mean() -> None:
    model, x = network(5), rows(3, 5)
    drawn = torch.randn(1000, 3, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    metrics = {one.short_form: one for one in (*METRICS[:3], METRICS[5], METRICS[6])}
    scores = calls.evaluate(model, x, drawn, metrics)
    for name, limits in calls.limits(model, x, metrics=metrics).items():
        values = scores[name].value
        assert (values <= limits.best + 1e-12).all()
        assert (values >= limits.worst - 1e-12).all()
        off = values.mean(0) - limits.chance
        assert (off.abs() <= 3.5 * values.std(0) / 1000**0.5).all(), name


def test_metrics_share_the_rows_of_all_sets() -> None:
    model, x = network(6), rows(3, 6)
    found = calls.limits(model, x, metrics=METRICS[:7])
    assert {limits.rows for limits in found.values()} == {3 * 2**6}
    x[:, 2:] = 0  # features that are their baselines need no rows of their own
    assert calls.limits(model, x)["pc"].rows == 3 * 2**2


def test_shapley_values_come_with_the_rows() -> None:
    model, x = network(5), rows(3, 5)
    found = calls.limits(model, x, target=1, output="logit", metrics=["pc"])["pc"].shapley
    exact = calls.explained(verax.attribution.KernelShap(samples=32), model, x, target=1)
    torch.testing.assert_close(found, exact)


def test_groups_are_features() -> None:
    model, x = network(6), rows(2, 6)
    groups = torch.tensor([0, 0, 1, 2, 2, -1])
    found = calls.limits(model, x, metrics=METRICS, features=groups, rows=2**10)
    for limits in found.values():
        assert limits.exact
        assert limits.order.shape == (2, 3)
        assert (limits.attribution[:, 5] == 0).all()
        got = value(model, x, limits.attribution, limits.metric, features=groups)
        torch.testing.assert_close(got, limits.best, rtol=0, atol=1e-12)
    assert limits.rows == 2 * (2**3 + 2**3 - 1)  # replaced, and nudged


def test_inputs_may_differ_in_their_number_of_groups() -> None:
    model, x = network(6), rows(3, 6)
    groups = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2]])
    together = calls.limits(model, x, features=groups)["dpc"]
    for row in range(3):
        alone = calls.limits(model, x[row : row + 1], features=groups[row])["dpc"]
        torch.testing.assert_close(together.best[row], alone.best[0])
        own = alone.order.shape[1]
        assert together.order[row].tolist() == alone.order[0].tolist() + [-1] * (6 - own)
        torch.testing.assert_close(together.attribution[row], alone.attribution[0])
        torch.testing.assert_close(together.shapley[row], alone.shapley[0])
    torch.testing.assert_close(
        value(model, x, together.attribution, DirectedPredictionChange(), features=groups), together.best
    )


def test_pixels_are_features() -> None:
    model = nn.Sequential(nn.Flatten(), network(8))
    x = rows(3, 8).reshape(3, 2, 2, 2)
    found = calls.limits(model, x, metrics=["dpc"])["dpc"]
    assert found.attribution.shape == (3, 2, 2, 2)
    torch.testing.assert_close(value(model, x, found.attribution, DirectedPredictionChange()), found.best)


def test_what_is_missing_is_a_value_like_any_other() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.where(x.isnan(), 2.0, x) @ torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)

    x = rows(2, 3)
    x[0, 1] = torch.nan
    scorer = verax.Scorer(model, returns="values", takes_missing=True)
    problem = verax.Problem(scorer, x, baselines=0.5)
    found = verax.limits(problem, ["pc", "dpc"])
    for limits in found.values():
        assert limits.exact
        torch.testing.assert_close(limits.metric(problem, limits.attribution).value, limits.best)
    assert found["pc"].order[0].tolist()[-1] == 1  # what the gap takes away comes back with the baseline


def test_adaptive_steps_are_judged_one_feature_at_a_time() -> None:
    model, x = network(5), rows(2, 5)
    found = calls.evaluate(model, x, x, [PredictionChange(steps="adaptive")], limits=True)["pc"]
    assert found.limits.exact
    torch.testing.assert_close(found.limits.best, calls.limits(model, x)["pc"].best)


def test_arrays_come_back_in_their_kind() -> None:
    model, x = network(3), rows(2, 3)
    found = calls.limits(model, x.numpy())
    assert list(found) == ["pc", "dpc"]
    for array in (found["pc"].best, found["pc"].chance, found["pc"].order, found["pc"].attribution):
        assert isinstance(array, np.ndarray)
    frame = found.to_frame()
    assert frame.columns == ["input", "target"] + [
        f"{name}_{what}" for name in ("pc", "dpc") for what in ("best", "worst", "chance")
    ]
    np.testing.assert_array_equal(frame["dpc_best"].to_numpy(), found["dpc"].best)
    both = calls.limits(model, x, metrics=[PredictionChange(area="morf"), PredictionChange()])
    assert list(both) == ["pc(area='morf')", "pc"]


def test_a_search_is_a_bound_and_says_so() -> None:
    model, x = network(8), rows(9, 8)
    metrics = [METRICS[0], METRICS[2]]
    exact = calls.limits(model, x, metrics=metrics)
    found = calls.limits(model, x, metrics=metrics, rows=9 * 150)
    for name, limits in found.items():
        assert not limits.exact
        assert limits.shapley is None
        assert limits.rows <= 9 * 150 + 9
        assert (limits.best <= exact[name].best + 1e-12).all()
        assert limits.best.mean() > 0.9 * exact[name].best.mean()
        assert (limits.best >= limits.worst).all()
        torch.testing.assert_close(value(model, x, limits.attribution, limits.metric), limits.best)
    assert "a search 1 wide: bounds" in repr(found)
    assert "bounds" not in repr(exact)


def test_a_search_goes_beyond_the_features_of_a_number() -> None:
    """70 features of a linear model, more than an integer has bits: contributions attain PC's limit there, too."""
    model, x = nn.Linear(70, 1).double(), rows(1, 70)
    scorer = verax.Scorer(model, returns="logits")
    found = calls.limits(scorer, x, metrics=["pc"], target=1, steps=70, rows=10_000, output="logit")["pc"]
    best = value(scorer, x, x * model.weight.detach(), PredictionChange(steps=70), target=1, output="logit")
    torch.testing.assert_close(found.best, best)


@pytest.mark.parametrize("metric", [METRICS[0], METRICS[2], METRICS[5], METRICS[7]], ids=lambda one: one.name)
def test_steps_of_several_features_give_a_bound(metric: Any) -> None:
    model, x = network(7), rows(3, 7)
    coarse = type(metric)(steps=3)
    found = calls.limits(model, x, metrics=[coarse])[metric.name]
    assert not found.exact
    assert "in 3 steps" in repr(found)
    torch.testing.assert_close(value(model, x, found.attribution, coarse), found.best)
    drawn = torch.randn(200, 3, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    if metric.name == "pc":  # where the chains are those of the metric itself
        assert (value(model, x, drawn, coarse) <= found.best + 1e-12).all()
    else:
        assert (value(model, x, drawn, coarse).mean(0) < found.best).all()


def test_rows_too_few_for_all_inputs_are_spent_on_some() -> None:
    model, x = network(4), rows(20, 4)
    everything = calls.limits(model, x, metrics=["dpc"])["dpc"]
    with pytest.warns(UserWarning, match="160 model rows allow those of 10 of 20 inputs, drawn at random"):
        found = calls.limits(model, x, metrics=["dpc"], rows=10 * 2**4)["dpc"]
    assert found.exact
    assert len(found.inputs) == 10
    known = torch.tensor(found.inputs)
    torch.testing.assert_close(found.best[known], everything.best[known])
    assert found.best.isnan().sum() == found.order.eq(-1).all(1).sum() == 10
    assert found.mean().low < found.mean().mean < found.mean().high
    with pytest.warns(UserWarning, match="drawn at random"):
        turned = calls.limits(model, x.flip(0), metrics=["dpc"], rows=10 * 2**4)["dpc"]
    assert sorted(19 - one for one in turned.inputs) == found.inputs  # by their values, not by their places


def test_companions_follow_the_inputs_that_were_drawn() -> None:
    model = network(4)

    def weighted(values: Tensor, weight: Tensor) -> Tensor:
        return model(values * weight[:, None])

    x, weight = rows(20, 4), torch.linspace(0.1, 2, 20, dtype=torch.float64)
    scorer = verax.Scorer(weighted, returns="logits")
    problem = verax.Problem(scorer, x, model_kwargs={"weight": weight})
    everything = verax.limits(problem, ["pc", "dpc"])["pc"]
    with pytest.warns(UserWarning, match="drawn at random"):
        found = verax.limits(problem, ["pc", "dpc"], rows=10 * 2**4)["pc"]
    known = torch.tensor(found.inputs)
    torch.testing.assert_close(found.best[known], everything.best[known])


def test_what_cannot_be_done_is_refused_by_name() -> None:
    model, x = network(4), rows(2, 4)
    with pytest.raises(ValueError, match=r"metrics: limits are known of metrics that weigh .*, got 'infidelity'"):
        calls.limits(model, x, metrics=["infidelity"])
    with pytest.raises(ValueError, match=r"limits: known of metrics .*, got metrics infidelity"):
        calls.evaluate(model, x, x, ["infidelity"], limits=True)
    with pytest.raises(ValueError, match="rows: expected a whole number of at least 1, got 0"):
        calls.limits(model, x, rows=0)
    with pytest.raises(ValueError, match="features: limits of an input with 4 features take 16 model rows or more"):
        calls.limits(model, x, rows=15)
    image = torch.zeros(1, 1, 60, 60)
    with pytest.raises(ValueError, match=r"features: limits of an input with 3,600 features take .* or raise rows"):
        calls.evaluate(nn.Flatten(), image, image, ["pc"], limits=True)
    with pytest.raises(ValueError, match=r"limits: they are not known yet; call verax.evaluate\(...\).with_limits"):
        _ = calls.evaluate(model, x, x, ["pc"])["pc"].normalised


def test_scores_are_put_on_the_scale_of_what_is_possible() -> None:
    model, x = network(5), rows(6, 5)
    given = {"x": x, "noise": rows(12, 5)[6:]}
    metric = PredictionChange(area="morf")
    found = calls.evaluate(model, x, given, [metric, "infidelity"], samples=20, limits=True)
    result, limits = found["pc"], calls.limits(model, x, metrics=[metric])["pc"]
    wanted = (result.value["x"] - limits.chance) / (limits.best - limits.chance)
    torch.testing.assert_close(result.normalised["x"], wanted)
    share = (result.value["x"] - limits.chance).mean() / (limits.best - limits.chance).mean()
    torch.testing.assert_close(result.shares()[0].mean, float(share))
    assert {"pc", "pc_normalised"} <= set(found.to_frame().columns)
    assert result.limits.rows == 6 * 2**5 - 6  # the unperturbed inputs were scored before


def test_bounds_are_raised_to_what_is_attained() -> None:
    model, x = network(6), rows(4, 6)
    drawn = torch.randn(500, 4, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = calls.evaluate(model, x, drawn, [DirectedPredictionChange(steps=4)], limits=True)["dpc"]
    assert (found.normalised <= 1).all()
    alone = calls.limits(model, x, metrics=["dpc"], steps=4)["dpc"]
    assert (found.limits.best >= alone.best).all()


def test_a_constant_model_has_no_scale() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calls.evaluate(lambda_scorer(), rows(3, 4), rows(3, 4), ["pc"], limits=True)["pc"]
    assert found.limits.best.tolist() == [0, 0, 0]
    assert found.normalised.isnan().all()


def lambda_scorer() -> verax.Scorer:
    return verax.Scorer(lambda x: x.sum(1) * 0 + 0.5, returns="values")


def test_comparisons_say_how_much_of_what_is_possible(tmp_path: Any) -> None:
    model, x = network(4), rows(5, 4)
    found = calls.compare(model, x, {"a": x, "b": -x}, ["pc"], limits=True)
    lines = [line for line in repr(found).splitlines() if line.endswith("of what is possible")]
    assert len(lines) == 3  # a, b and the random one
    assert lines[0].startswith("PC: ")
    assert "that is" in lines[0]
    assert "at most" not in lines[0]
    found.save(tmp_path / "page.html")
    assert lines[0] in (tmp_path / "page.html").read_text()
    coarse = calls.compare(model, x, {"a": x, "b": -x}, ["dpc"], steps=2, limits=True)
    assert all("that is at most" in line for line in coarse.possible("dpc"))
    assert calls.compare(model, x, {"a": x}, ["dpc"]).possible("dpc") == []


def test_limits_are_saved(tmp_path: Any) -> None:
    import polars as pl  # noqa: PLC0415

    found = calls.limits(network(3), rows(2, 3))
    found.save(tmp_path / "limits.csv")
    assert pl.read_csv(tmp_path / "limits.csv").columns == found.to_frame().columns
    found["pc"].save(tmp_path / "pc.html")
    assert "best possible" in (tmp_path / "pc.html").read_text()


def test_where_lower_is_better_the_lowest_score_is_the_best() -> None:
    model, x = network(5), rows(6, 5)
    given = {"x": x, "-x": -x}
    found = calls.evaluate(model, x, given, ["deletion", "sufficiency", "srg"], limits=True)
    for name in ("deletion", "sufficiency"):
        result = found[name]
        assert (result.limits.best <= result.scores + 1e-12).all()
        assert (result.limits.worst >= result.scores - 1e-12).all()
        wanted = (result.limits.chance - result.value["x"]) / (result.limits.chance - result.limits.best)
        torch.testing.assert_close(result.normalised["x"], wanted)
        best = calls.evaluate(model, x, result.limits.attribution, [name])[name]
        torch.testing.assert_close(best.value, result.limits.best)
        assert result.limits.share(best).mean == pytest.approx(1)
    assert {"deletion_normalised", "srg_normalised"} <= set(found.to_frame().columns)
    coarse = calls.evaluate(model, x, given, [Deletion(steps=2)], limits=True)["deletion"]
    assert not coarse.limits.exact
    assert (coarse.limits.best <= coarse.scores).all()
    assert (coarse.limits.worst >= coarse.scores).all()


def test_shares_may_begin_at_the_worst_possible_score() -> None:
    """NAOPC: 0 is the lowest and 1 the highest area over the curve that any order has."""
    model, x = network(4), rows(3, 4)
    metric = Comprehensiveness(shares="every")
    every = torch.tensor(list(itertools.permutations((1.0, 2.0, 3.0, 4.0))), dtype=torch.float64)
    scores = value(model, x, every[:, None].expand(-1, 3, -1), metric)
    result = calls.evaluate(model, x, {"x": x}, [metric], limits=True)["comprehensiveness"]
    lowest, highest = scores.amin(0), scores.amax(0)
    naopc = (result.value["x"] - lowest) / (highest - lowest)
    torch.testing.assert_close(result.limits.normalised(result.scores, zero="worst")[0], naopc)
    share = (result.value["x"] - lowest).mean() / (highest - lowest).mean()
    assert result.limits.share(result, zero="worst")["x"].mean == pytest.approx(float(share))
