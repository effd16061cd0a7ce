"""PC and DPC inside Quantus: the same numbers as Verax gives, by itself and in ``quantus.evaluate``."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

import calls
import verax

quantus = pytest.importorskip("quantus")
from verax.interop.quantus import DirectedPredictionChange, PredictionChange  # noqa: E402

RNG = np.random.default_rng(0)
PAIRS = {
    "pc": (PredictionChange, calls.prediction_change),
    "dpc": (DirectedPredictionChange, calls.directed_prediction_change),
}
both = pytest.mark.parametrize(("metric", "measure"), PAIRS.values(), ids=PAIRS)


def problem(*shape):
    """Model, inputs of numbers that float32 holds, attributions, classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 8), nn.Tanh(), nn.Linear(8, 3)).eval()
    x = RNG.normal(size=(9, *shape)).astype(np.float32)
    return model, x, RNG.normal(size=x.shape).astype(np.float32), RNG.integers(0, 3, 9)


@both
@pytest.mark.parametrize("shape", [(7,), (1, 7), (3, 6), (1, 5, 5), (3, 5, 5)], ids=str)
@pytest.mark.parametrize("softmax", [True, False])
def test_scores_are_those_of_verax(metric, measure, shape, softmax):
    model, x, a, y = problem(*shape)
    found = metric(disable_warnings=True)(model, x, y, a, channel_first=True, softmax=softmax, batch_size=4)
    wanted = measure(model, x, a, target=y, output="probability" if softmax else "logit").value
    assert isinstance(found, list)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@both
@pytest.mark.parametrize("shape", [(3, 5, 5), (3, 6)], ids=str)
def test_attributions_without_channels(metric, measure, shape):
    model, x, a, y = problem(*shape)
    found = metric()(model, x, y, a.sum(1), channel_first=True)
    wanted = measure(model, x, a.sum(1, keepdims=True), target=y, features="pixel").value
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@both
def test_settings_reach_the_metric(metric, measure):
    model, x, a, y = problem(1, 6)
    groups = np.array([[0, 0, 1, 1, 2, 3]])
    settings = {"order": "signed" if metric is DirectedPredictionChange else "magnitude", "steps": 3}
    settings |= {"baselines": 0.7, "features": groups}
    found = metric(**settings)(model, x, y, a, channel_first=True)
    np.testing.assert_allclose(found, measure(model, x, a, target=y, **settings).value, rtol=0, atol=1e-5)


@both
def test_settings_of_quantus(metric, measure):
    model, x, a, y = problem(7)
    one = metric(return_aggregate=True, abs=True)(model, x, y, a, channel_first=True)
    wanted = measure(model, x, np.abs(a), target=y).value.mean()
    np.testing.assert_allclose(one, [wanted], rtol=0, atol=1e-5)
    normalised = metric(normalise=True)(model, x, y, a, channel_first=True)
    np.testing.assert_allclose(normalised, measure(model, x, a, target=y).value, rtol=0, atol=1e-5)


def test_quantus_evaluate_runs_them_on_given_and_on_made_attributions():
    model, x, a, y = problem(1, 5, 5)

    def explain(model, inputs, targets, **kwargs):
        return verax.attribution.Gradient()(verax.Problem(model, inputs, target=targets))

    found = quantus.evaluate(
        metrics={"PC": PredictionChange(), "DPC": DirectedPredictionChange()},
        xai_methods={"given": a, "made": explain},
        model=model,
        x_batch=x,
        y_batch=y,
        explain_func_kwargs={},
        call_kwargs={"one": {"channel_first": True}},
    )
    for name, attributions in (("given", a), ("made", explain(model, x, y))):
        for metric, measure in (("PC", calls.prediction_change), ("DPC", calls.directed_prediction_change)):
            wanted = measure(model, x, attributions, target=y).value
            np.testing.assert_allclose(found[name][metric], wanted, rtol=0, atol=1e-5)


@both
def test_quantus_makes_attributions_where_none_are_given(metric, measure):
    model, x, _, y = problem(1, 5, 5)
    seen = []

    def explain(model, inputs, targets, **kwargs):
        seen.append(len(inputs))
        return np.abs(inputs)

    found = metric()(model, x, y, channel_first=True, explain_func=explain, batch_size=4)
    assert seen == [4, 4, 1]
    np.testing.assert_allclose(found, measure(model, x, np.abs(x), target=y).value, rtol=0, atol=1e-5)


@both
def test_what_quantus_wants_to_know_of_a_metric(metric, measure):
    assert metric.score_direction.value == "higher"
    assert metric.evaluation_category.value == "Faithfulness"
    assert {kind.value for kind in metric.data_applicability} >= {"image", "tabular"}
    assert "Prediction Change" in metric.name


@both
def test_an_unknown_setting(metric, measure):
    with pytest.raises(TypeError, match=r"normalize: no such setting; those of Quantus are abs, normalise"):
        metric(normalize=True)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "verax.interop.quantus")
    monkeypatch.setitem(sys.modules, "quantus", None)
    with pytest.raises(ImportError, match=r"verax.interop.quantus needs quantus: pip install 'quantus'"):
        __import__("verax.interop.quantus")
