"""Rules for steps of many features, areas and replacements, against plain loops and by what must hold."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import calls
import reference
import verax
from perturbation.test_guided import Case, check_many
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.perturbation.removed_sets import Rule
from verax.problem.replacement import Baseline, Nudge, Toward, checked_replacement

RULES: tuple[Rule, ...] = ("sum", "dot", "coherent")


def wanted(case: Case, order: str, rule: str, area: str, steps: int) -> Any:
    values = np.empty(case.attributions.shape[:2])
    baselines = np.broadcast_to(case.baselines, case.inputs.shape)
    for k, attribution in enumerate(case.attributions):
        for i, x in enumerate(case.inputs):
            score = case.weights.score(int(case.target[i]))
            groups = case.groups[i]
            taken = reference.steps_taken(steps, len({one for one in groups.tolist() if one >= 0}))
            given = (score, x, baselines[i], attribution[i], groups, order, taken, rule)
            morf, lerf = (
                list(accumulate(reference.ruled_changes(*given, last_first=last), initial=score(x)))
                for last in (False, True)
            )
            values[k, i] = reference.weighted_drop(morf) if area == "morf" else reference.weighted_abpc(lerf, morf)
    return values


def assert_equal_to_loops(case: Case, steps: int) -> None:
    metrics = {
        f"{order} {rule} {area}": DirectedPredictionChange(order, steps, rule=rule, area=area)
        for order in ("magnitude", "signed")
        for rule in ("dot", "coherent")
        for area in ("between", "morf")
    }
    found = case.evaluate(metrics)
    for name, metric in metrics.items():
        value = found[name].value
        np.testing.assert_allclose(value, wanted(case, *name.split(), steps=steps), atol=1e-12, rtol=0, err_msg=name)
        np.testing.assert_allclose(case.evaluate([metric])["dpc"].value, value, atol=1e-12, rtol=0)


@settings(check_many, max_examples=20)
@given(
    seed=st.integers(0, 2**32 - 1),
    elements=st.integers(1, 12),
    steps=st.integers(1, 7),
    baseline=st.sampled_from(("zero", "row", "each", "touching")),
    groups=st.sampled_from(("none", "shared", "each")),
)
def test_few_features_equal_the_loops(seed: int, elements: int, steps: int, baseline: str, groups: str) -> None:
    assert_equal_to_loops(Case.random(seed, elements, baseline=baseline, groups=groups), steps)


@settings(check_many, max_examples=6)
@given(seed=st.integers(0, 2**32 - 1), attributions=st.integers(1, 2), groups=st.sampled_from(("none", "each")))
def test_many_features_equal_the_loops(seed: int, attributions: int, groups: str) -> None:
    case = Case.random(seed, 140 if groups == "each" else 70, groups=groups, baseline="touching")
    assert_equal_to_loops(Case(**vars(case) | {"attributions": case.attributions[:attributions]}), steps=6)


@check_many
@given(
    seed=st.integers(0, 2**32 - 1),
    order=st.sampled_from(("magnitude", "signed")),
    area=st.sampled_from(("between", "morf")),
    rounded=st.booleans(),
)
def test_at_one_feature_per_step_the_rules_are_equal_bitwise(seed: int, order: Any, area: Any, rounded: bool) -> None:
    case = Case.random(seed, 9, baseline="touching", rounded=rounded)
    found = case.evaluate({rule: DirectedPredictionChange(order, 9, rule=rule, area=area) for rule in RULES})
    for rule in RULES[1:]:
        assert np.array_equal(found[rule].value, found["sum"].value)


@check_many
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 12), rule=st.sampled_from(RULES))
def test_nothing_claimed_scores_nothing_and_a_negation_the_negative(seed: int, steps: int, rule: Any) -> None:
    case = Case.random(seed, 12, baseline="each")
    (a,) = case.attributions[:1]
    opposite = Case(**vars(case) | {"attributions": np.stack((a, -a, np.zeros_like(a)))})
    for area in ("between", "morf"):
        value = opposite.evaluate([DirectedPredictionChange("magnitude", steps, rule=rule, area=area)])["dpc"].value
        assert not value[2].any()
        if rule != "coherent" or steps == 12:
            np.testing.assert_allclose(value[1], -value[0], atol=1e-14, rtol=0)


def linear_case(rows: int = 6, features: int = 100) -> tuple[Any, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    weight, x = torch.randn(features, generator=generator), torch.randn(rows, features, generator=generator)
    model = torch.nn.Linear(features, 1, bias=False, dtype=torch.float64)
    model.weight.data = weight.double()[None]
    return verax.Scorer(model, returns="values"), x.double(), weight.double().expand(rows, -1)


@pytest.mark.parametrize("features", [40, 100])
def test_rows_of_each_rule(features: int) -> None:
    """40 rows for whole steps, at most 80 for split ones, half of it for one curve; equal sets are scored once."""
    model, x, gradient = linear_case(1, features)

    def rows(**settings: Any) -> int:
        return calls.evaluate(model, x, gradient, [DirectedPredictionChange(**settings)]).rows

    assert rows() == rows(rule="dot") == 40
    assert rows(area="morf") == 21
    assert 60 < rows(rule="coherent") <= 80
    assert rows(rule="coherent", area="morf") <= 41
    together = [DirectedPredictionChange(rule=rule, area=area) for rule in RULES for area in ("between", "morf")]
    assert calls.evaluate(model, x, gradient, together).rows == rows(rule="coherent")


def test_a_coherent_step_counts_every_feature_of_a_linear_model() -> None:
    """Nothing cancels: the gradient's directed curve falls by the sum of all ``|w (x - b)|``."""
    model, x, gradient = linear_case()
    found = calls.evaluate(model, x, gradient, [DirectedPredictionChange("magnitude", steps=7, rule="coherent")])["dpc"]
    total = found.directed_morf[:, 0] - found.directed_morf[:, -1]
    torch.testing.assert_close(total, (gradient * x).abs().sum(1))


def test_morf_runs_one_curve() -> None:
    model, x, gradient = linear_case()
    found = calls.evaluate(model, x, gradient, [PredictionChange(area="morf")])["pc"]
    assert found.morf.shape == (6, 21)
    with pytest.raises(AttributeError, match="ran the MoRF curve alone"):
        _ = found.lerf
    both = calls.prediction_change(model, x, gradient)
    weights = torch.tensor([((21 - i) / 21) ** 3 for i in range(21)], dtype=torch.float64)
    drop = (both.morf[:, :1] - both.morf) @ weights / weights[1:].sum()
    torch.testing.assert_close(found.value, drop)
    found.plot()


def test_replacements_fill_what_they_say() -> None:
    model, x, gradient = linear_case(features=5)
    by_toward = calls.evaluate(model, x, gradient, ["pc"], replacement=Toward(0.5))["pc"]
    torch.testing.assert_close(by_toward.value, calls.evaluate(model, x, gradient, ["pc"])["pc"].value / 2)
    whole = calls.evaluate(model, x, gradient, ["pc"], replacement=Toward(1.0))["pc"]
    assert torch.equal(whole.value, calls.evaluate(model, x, gradient, ["pc"], replacement=Baseline())["pc"].value)
    nudged = calls.evaluate(model, x, gradient, ["pc"], replacement=Nudge(0.1), baselines=0.25)["pc"]
    moved = x + 0.1 * (0.25 - x).sign()
    torch.testing.assert_close(nudged.morf[:, -1], (moved * gradient).sum(1))
    background = torch.randn(50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * torch.arange(
        1, 6
    )
    scaled = calls.evaluate(model, x, gradient, ["lpc"], background=background)["lpc"]
    spread = background.std(0, correction=0)
    torch.testing.assert_close(scaled.morf[:, -1], ((x - 0.01 * spread * x.sign()) * gradient).sum(1))


def test_a_metrics_own_replacement_is_kept() -> None:
    model, x, gradient = linear_case(features=5)
    own = DirectedPredictionChange(replacement=Nudge(0.1))
    inside = calls.evaluate(model, x, gradient, [own], replacement=Toward(0.3))["dpc"]
    assert torch.equal(inside.value, calls.directed_prediction_change(model, x, gradient, replacement=Nudge(0.1)).value)


def test_what_has_no_amount_stays() -> None:
    """Codes and gaps cannot go a part of the way; a gap's baseline is not reached either."""
    _, x, gradient = linear_case(features=4)
    x[0, 1] = torch.nan
    settings = {"categorical": torch.tensor([True, False, False, False]), "baselines": 0.5}
    model = lambda values: values.nan_to_num(7.0).sum(1, keepdim=True)  # noqa: E731
    scorer = verax.Scorer(model, returns="values", takes_missing=True)
    for replacement in (Nudge(0.25), Toward(0.25)):
        found = calls.evaluate(scorer, x, gradient, ["pc"], replacement=replacement, **settings)["pc"]
        free = x[:, 1:].nan_to_num(7.0)
        moved = free + (0.25 * (0.5 - free).sign() if isinstance(replacement, Nudge) else 0.25 * (0.5 - free))
        moved[0, 0] = 7.0
        torch.testing.assert_close(found.morf[:, -1], x[:, 0] + moved.sum(1))


def test_bad_settings_are_refused() -> None:
    for wrong, message in (
        (lambda: Toward(1.5), "epsilon: expected a part of the way"),
        (lambda: Nudge(0.0), "epsilon: expected a positive"),
        (lambda: DirectedPredictionChange("literal", rule="dot"), "rule: the literal reading"),
        (lambda: LocalPredictionChange(epsilon=-1.0), "epsilon: expected a positive"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises(TypeError, match="replacement: expected one of"):
        checked_replacement("blur")
    ids = torch.ones(2, 3, dtype=torch.int64)
    scorer = verax.Scorer(lambda values: values.sum(1, keepdim=True).double(), returns="values")
    counts = verax.Problem(scorer, ids, baselines=0, categorical=False, replacement=Toward(0.5))
    with pytest.raises(TypeError, match="whole numbers cannot go a part of the way"):
        verax.evaluate(counts, torch.ones(2, 3), ["pc"])
