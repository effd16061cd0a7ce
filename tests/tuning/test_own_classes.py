"""Methods and metrics of one's own in a search: known by name once they are defined, or given as objects."""

from dataclasses import dataclass

import polars as pl
import pytest

import calls
from calls import tune
from tuning.conftest import SIX
from verax.attribution import Attribution, Gradient
from verax.core.palette import SPARE
from verax.metrics import DirectedPredictionChange, Experiment, GuidedMetric, SensitivityN


@dataclass(frozen=True)
class ScaledInput(Attribution):
    """The input times a number."""

    factor: float = 2.0

    label = "Input, scaled"
    local = True

    def explain(self, explained):
        return self.factor * explained.inputs


@dataclass(frozen=True)
class NeedsASetting(Attribution):
    """A method that has no default configuration."""

    factor: float

    local = True


@dataclass(frozen=True)
class TunedFirstDrop(GuidedMetric):
    """How far the score falls when the most relevant features are removed."""

    steps: int = 4

    name = "tuned_first_drop"
    label = "First drop"
    higher_is_better = True
    kind = "baseline"

    @property
    def experiment(self):
        return Experiment("signed", steps=self.steps)

    def reduce(self, scores):
        return scores.curves[:, :, 0, 0] - scores.curves[:, :, 0, 1]


def test_a_method_by_name_is_tried_with_its_defaults(model, inputs):
    tuned = tune(model, inputs, ("scaled_input", "Gradient"))
    assert set(tuned.table["configuration"]) == {"ScaledInput(factor=2.0)", "Gradient()"}
    assert tune(model, inputs, "input, scaled").best == ScaledInput()


def test_methods_as_objects_are_tried_with_their_settings(model, inputs):
    inputs = inputs[:20]  # all of them are used in the first round
    tuned = tune(model, inputs, [ScaledInput(1.0), ScaledInput(-1.0), "gradient"])
    wanted = calls.evaluate(model, inputs, {"ours": ScaledInput(-1.0)}, ["dpc"])["dpc"].value["ours"]
    row = tuned.table.filter(pl.col("factor") == -1.0).row(0, named=True)
    assert row["dpc"] == pytest.approx(float(wanted.double().mean()), abs=1e-6)
    assert row["cost"] == 1.0  # measured: the input itself


def test_methods_of_ones_own_are_not_tried_unasked(model, inputs):
    assert "ScaledInput" not in set(tune(model, inputs, trials=40).table["method"])


def test_a_method_without_defaults_is_refused_by_name(model, inputs):
    with pytest.raises(ValueError, match=r"methods: NeedsASetting has no default for factor; give a configuration"):
        tune(model, inputs, "needs_a_setting")


def test_a_method_without_a_colour_takes_a_spare_one(model, inputs):
    drawn = tune(model, inputs, ("ScaledInput", "Gradient")).plot().to_json()
    assert SPARE[0] in drawn
    assert Gradient.colour in drawn
    assert "Input, scaled" in drawn


@pytest.mark.parametrize("metric", ["tuned_first_drop", TunedFirstDrop()])
def test_a_metric_of_ones_own(model, inputs, metric):
    tuned = tune(model, inputs, SIX, metric=metric, tolerance=0.0)
    attributions = {one.canonical: one for one in SIX}
    result = calls.evaluate(model, inputs, attributions, [TunedFirstDrop()])["tuned_first_drop"]
    means = {name: float(scores.double().mean()) for name, scores in result.value.items()}
    assert means[tuned.best.canonical] == pytest.approx(max(means.values()), abs=1e-6)
    assert str(tuned).splitlines()[1].startswith("First drop ")


def test_metrics_of_one_name_are_told_apart(model, inputs, tmp_path):
    pair = (DirectedPredictionChange(steps=3), DirectedPredictionChange(order="magnitude", steps=3))
    settings = {"metric": (*pair, "cost"), "store": tmp_path / "trials.parquet"}
    tuned = tune(model, inputs, SIX, **settings)
    names = ["dpc(steps=3)", "dpc(order='magnitude', steps=3)"]
    assert list(tuned.metrics) == names
    best = tuned.table.filter(pl.col("configuration") == tuned.best.canonical).row(0, named=True)
    for name, metric in zip(names, pair, strict=True):
        scores = calls.evaluate(model, inputs, tuned.best(calls.problem(model, inputs)), [metric])["dpc"].value
        assert best[name] == pytest.approx(float(scores.double().mean()), abs=1e-6)
    assert names[0] in str(tuned)
    assert tuned.plot().to_dict()["layer"][-1]["encoding"]["y"]["title"] == names[0]
    assert tune(model, inputs, SIX, **settings).table.drop("seconds").equals(tuned.table.drop("seconds"))


def test_a_metric_by_name_fits_itself_to_few_features(model, inputs):
    tuned = tune(model, inputs, SIX[:2], metric="sensitivity_n")
    assert tuned.metrics == {"sensitivity_n": SensitivityN(sizes=(1, 2, 4))}
    assert tuned.rule.signs == (-1,)


def test_the_chart_of_a_metric_whose_short_form_has_dots_and_brackets(model, inputs):
    metrics = (SensitivityN(sizes=(1, 2), samples=8), SensitivityN(sizes=(1,), samples=8))
    fields = str(tune(model, inputs[:20], SIX[:3], metric=metrics).plot().to_dict()["layer"])
    assert "'field': 'objective0'" in fields
    assert "'field': 'objective1'" in fields
