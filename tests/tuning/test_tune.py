"""``verax.tune`` as a user calls it: what it finds, what it spends, what it refuses."""

import logging
import sys
import warnings
from dataclasses import dataclass

import altair as alt
import numpy as np
import optuna
import polars as pl
import pytest
import torch

import calls
import verax
from calls import attribute, tune
from tuning.conftest import LIME, SIX, small_model, some_inputs
from verax.attribution import (
    METHODS,
    Attribution,
    DeepLiftSHAP,
    Edges,
    Family,
    Gradient,
    IntegratedGradients,
    LimeTabular,
    Piece,
    Random,
    SmoothGrad,
)
from verax.metrics import DirectedPredictionChange
from verax.tuning import tuner


def brute_force(model, inputs, configurations, metric="dpc"):
    """Mean of each configuration over all inputs."""
    found = calls.evaluate(model, inputs, dict(attribute(configurations, model, inputs)), metrics=(metric,))
    return {one: float(found[metric].value[one.canonical].double().mean()) for one in configurations}


def test_finds_the_best_of_six_by_brute_force(model, inputs):
    means = brute_force(model, inputs, SIX)
    found = tune(model, inputs, SIX, tolerance=0.0)
    assert found.stopped == "exhausted"
    assert found.best == max(means, key=means.__getitem__)
    for row in found.table.filter(pl.col("state") == "complete").iter_rows(named=True):
        (one,) = (one for one in SIX if one.canonical == row["configuration"])
        assert row["dpc"] == pytest.approx(means[one], abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_finds_a_good_one_without_trying_all(seed):
    model, inputs = small_model(seed=seed), some_inputs(seed=seed)
    means = brute_force(model, inputs, LIME)
    found = tune(model, inputs, LIME, trials=32, seed=seed, tolerance=0.0)
    tried = [one.configuration for one in found.candidates]
    assert len(tried) == 32 < len(LIME)
    assert means[found.best] >= 0.98 * max(means[one] for one in tried)
    assert means[found.best] >= 0.95 * max(means.values())


def test_what_was_pruned_is_worse_on_all_inputs(model):
    inputs, configurations = some_inputs(320), LIME[::2]
    means = brute_force(model, inputs, configurations)
    found = tune(model, inputs, configurations, tolerance=0.0)
    pruned = found.table.filter(pl.col("state") == "pruned")
    assert pruned.height > 5
    by_name = {one.canonical: means[one] for one in configurations}
    for row in pruned.iter_rows(named=True):
        assert by_name[row["configuration"]] < means[found.best]
        assert row["inputs"] < len(inputs)
        assert row["behind"] > 0


def test_infidelity_is_made_small(model, inputs):
    means = brute_force(model, inputs, SIX, "infidelity")
    found = tune(model, inputs, SIX, metric="infidelity", tolerance=0.0)
    assert found.best == min(means, key=means.__getitem__)
    assert found.table["behind"].min() == 0


def test_a_metric_object_brings_its_settings(model, inputs):
    by_size = DirectedPredictionChange(order="magnitude", steps=3)
    found = tune(model, inputs, SIX[:2], metric=by_size, tolerance=0.0)
    values = calls.evaluate(model, inputs, found.best(calls.problem(model, inputs)), metrics=(by_size,))["dpc"].value
    assert found.score.mean == pytest.approx(float(values.double().mean()), abs=1e-6)


def test_the_best_can_be_called_at_once(model, inputs):
    found = tune(model, inputs, ("gradient",))
    assert torch.equal(found.best(calls.problem(model, inputs)), calls.explained(Gradient(), model, inputs))


def tables_equal(one, other):
    drop = ("seconds",)
    return one.drop(drop).equals(other.drop(drop))


def test_the_same_seed_gives_the_same_search(model, inputs):
    first, second = (tune(model, inputs, LIME, trials=20, seed=3) for _ in range(2))
    assert tables_equal(first.table, second.table)
    assert first.best == second.best
    assert first.rows == second.rows
    other = tune(model, inputs, LIME, trials=20, seed=4)
    assert set(first.table["configuration"]) != set(other.table["configuration"])


def test_the_order_of_equal_random_states_does_not_matter(model, inputs):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = tune(model, inputs, LIME, trials=4)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002  # the global state is what is tested
    assert tables_equal(first.table, tune(model, inputs, LIME, trials=4).table)


def test_no_configuration_is_tried_twice_and_trials_are_honoured(model, inputs):
    found = tune(model, inputs, LIME, trials=37)
    assert found.stopped == "trials"
    assert found.table.height == found.table["configuration"].n_unique() == 37


def test_no_time_means_one_batch_on_its_first_inputs(model, inputs):
    found = tune(model, inputs, LIME, trials=100, seconds=1e-9)
    assert found.stopped == "seconds"
    assert found.table.height == tuner.BATCH
    assert found.table["inputs"].unique().to_list() == [20]
    assert found.best.canonical in found.table["configuration"].to_list()


@pytest.mark.filterwarnings("error")
def test_does_not_doubt_the_class_of_explanations_that_it_computes():
    """Where x is below 0, contributions have the opposite sign of slopes, which is no reason to name target=."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 2)
    model.weight.data = torch.stack((torch.zeros(6), torch.rand(6) + 0.1))  # the class is the common sign of a row
    model.bias.data.zero_()
    inputs = torch.rand(60, 6) + 0.1
    inputs[30:] *= -1
    contributions = IntegratedGradients(baseline="zero", points=2)
    tuned = verax.tune(verax.Problem(model, inputs), methods=[contributions], question="local", trials=1)
    assert tuned.table.height == 1


def test_one_input(model, inputs):
    found = tune(model, inputs[:1], SIX)
    assert found.table["state"].unique().to_list() == ["complete"]
    means = brute_force(model, inputs[:1], SIX)
    assert means[found.best] == max(means.values())
    assert str(found)


def test_equal_scores_are_a_tie_that_the_cheapest_wins(inputs):
    constant = verax.Scorer(lambda rows: torch.full((len(rows),), 0.3), returns="probabilities")
    found = tune(constant, inputs, [LimeTabular(samples=size) for size in (64, 8, 16)])
    assert found.best == LimeTabular(samples=8)
    assert found.table["dpc"].to_list() == [0.0] * 3
    assert found.table["behind"].to_list() == [0.0] * 3


def test_settings_that_give_the_same_are_all_named(inputs):
    linear = torch.nn.Linear(6, 2)
    found = tune(linear, inputs, [SmoothGrad(sigma) for sigma in (0.1, 0.5, 1.0)])
    assert found.table["behind"].to_list() == [0.0] * 3  # to the last digits
    assert {found.best, *found.equals} == {SmoothGrad(sigma) for sigma in (0.1, 0.5, 1.0)}


def test_shares_model_rows_between_trials(model, inputs):
    lime = [LimeTabular(alpha, width, samples=64) for alpha in (0.001, 0.01, 0.1, 1.0) for width in (0.5, 0.75, 1.0)]
    together = tune(model, inputs, lime, tolerance=0.0)
    alone = sum(tune(model, inputs, [one]).rows for one in lime)
    most = len(inputs) * (1 + 64 + len(lime) * 11)  # the input, LIME's samples, and the steps of both orders
    assert together.rows <= most < alone


def test_every_row_is_counted(inputs):
    seen = []
    model = small_model()
    model.register_forward_pre_hook(lambda _, batch: seen.append(len(batch[0])))
    found = tune(model, inputs, LIME, trials=20)
    assert found.rows == sum(seen)
    assert found.table["rows"].sum() == pytest.approx(found.rows - len(inputs))


def test_numpy_inputs_and_a_scikit_learn_model():
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    inputs = some_inputs().numpy().astype(np.float64)
    model = LogisticRegression().fit(inputs, inputs[:, 0] - inputs[:, 1] > 0)
    found = tune(model, inputs, trials=20)
    assert {"LimeTabular", "KernelShap"} <= set(found.table["method"])
    assert not any(METHODS.get(name)().needs_gradients for name in set(found.table["method"]))
    assert isinstance(found.best(calls.problem(model, inputs)), np.ndarray)
    assert "gradients" in found.left_out["Gradient"]
    assert "Left out: Gradient" in str(found)


def test_black_boxes_refuse_methods_that_need_gradients(inputs):
    model = verax.Scorer(lambda rows: rows.sum(1), returns="logits")
    with pytest.raises(TypeError, match=r"methods: SmoothGrad needs gradients.*LimeTabular"):
        tune(model, inputs, ("lime", "smoothgrad"))
    assert model.rows <= len(inputs)


def test_background_decides_what_can_be_used(model, inputs):
    without = tune(model, inputs[:20], trials=30, seed=1)
    assert set(without.left_out) == {"GuidedBackprop", "IntegratedGradients", "DeepLiftSHAP", "TreeShap"}
    with_rows = tune(model, inputs[:20], ("IntegratedGradients",), background=inputs, trials=2)
    assert isinstance(with_rows.best, IntegratedGradients)
    with pytest.raises(ValueError, match="background"):
        tune(model, inputs, ("IntegratedGradients",))
    unlabelled = tune(model, inputs[:20], background=inputs[:32], trials=1)
    assert "background_labels" in unlabelled.left_out["DeepLiftSHAP"]
    labelled = [DeepLiftSHAP(0.5, samples=8), DeepLiftSHAP("random", samples=8)]
    labels = torch.arange(len(inputs)) % 2
    both = tune(model, inputs, labelled, background=inputs, background_labels=labels)
    assert set(both.table["background"]) == {"0.5", "random"}


def test_images():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(72, 2)
        )
    images = some_inputs(4, 64).reshape(4, 1, 8, 8)
    found = tune(model, images, ("Gradient", "SmoothGrad", "edges", "lime"), trials=10)
    assert set(found.table["method"]) <= {"Gradient", "SmoothGrad", "Edges", "LimeImage"}
    assert found.best(calls.problem(model, images)).shape == images.shape
    assert tune(model, images, [Edges("canny", 1.0), Edges("canny", 2.0), Edges("sobel")]).stopped == "exhausted"


@dataclass(frozen=True)
class Broken(Attribution):
    """A method of one's own that cannot do what it is asked, in one way or another."""

    how: str = "refuses"

    random = False
    modalities = ("tabular",)
    local = True

    @property
    def family(self):
        return BrokenFamily(self.how)


@dataclass(frozen=True)
class BrokenFamily(Family):
    how: str

    needs_gradients = False

    def pieces(self, members, explained):
        if self.how == "refuses":
            raise ValueError("not for this model.")
        values = torch.full((len(members), *explained.inputs.shape), torch.nan if self.how == "nan" else 1.0)
        yield Piece(slice(0, len(explained.inputs)), values)


def test_what_cannot_be_computed_fails_and_the_search_goes_on(model, inputs):
    found = tune(model, inputs, [Broken(), Broken("nan"), Gradient()])
    failed = {row["configuration"]: row["reason"] for row in found.table.iter_rows(named=True) if row["reason"]}
    assert failed == {
        "Broken(how='refuses')": "not for this model.",
        "Broken(how='nan')": "its attributions are not finite",
    }
    assert found.best == Gradient()
    assert found.table.filter(pl.col("state") == "failed").height == 2
    with pytest.raises(ValueError, match=r"no configuration could be computed. not for this model"):
        tune(model, inputs, [Broken()])


def test_failed_trials_are_stored(model, inputs, tmp_path):
    first, again = (tune(model, inputs, [Broken(), Gradient()], store=tmp_path / "trials.parquet") for _ in range(2))
    assert again.table.equals(first.table)


def test_the_cost_of_a_method_that_does_not_tell_it_is_measured(model, inputs):
    found = tune(model, inputs, [Broken("works"), Gradient()], metric=("dpc", "cost"))
    costs = dict(zip(found.table["method"], found.table["cost"], strict=True))
    assert costs == {"Broken": 1.0, "Gradient": 3.0}  # the input, and forward and backward once


def test_pareto_is_what_no_other_beats(model, inputs):
    found = tune(model, inputs, SIX, metric=("dpc", "pc", "cost"))
    evaluation = calls.evaluate(model, inputs, dict(attribute(SIX, model, inputs)), metrics=("dpc", "pc"))
    points = {
        one.canonical: (
            *(float(evaluation[name].value[one.canonical].double().mean()) for name in ("dpc", "pc")),
            -calls.attribute([one], model, inputs[:1]).rows - calls.attribute([one], model, inputs[:1]).rows_backward,
        )
        for one in SIX
    }

    def beaten(own):
        return any(
            other != own and all(map(float.__ge__, map(float, other), map(float, own))) for other in points.values()
        )

    wanted = {name for name, own in points.items() if not beaten(own)}
    assert set(found.pareto["configuration"]) == wanted
    assert len(wanted) > 1
    assert found.best.canonical == max(wanted, key=lambda name: points[name][0])
    assert found.pareto["dpc"].is_sorted(descending=True)
    assert f"{len(wanted)} that no other beats" in str(found)


def test_the_summary_the_table_and_the_chart(model, inputs):
    found = tune(model, inputs, (*SIX, "random"))
    text = str(found)
    assert text.startswith(f"Best: {found.best.canonical}\nDPC ")
    assert f"{len(found.candidates)} trials (" in text
    assert "nothing left to try" in text
    best = found.table.filter(pl.col("configuration") == found.best.canonical).row(0, named=True)
    assert best["behind"] == best["behind_low"] == best["behind_high"] == 0
    assert best["dpc_low"] < best["dpc"] < best["dpc_high"]
    assert found.pareto["configuration"].to_list() == [found.best.canonical]
    for one in (
        found,
        tune(model, inputs, SIX, metric=("dpc", "cost")),
        tune(model, inputs, SIX, metric=("dpc", "pc")),
    ):
        chart = one.plot()
        assert isinstance(chart, alt.LayerChart)
        assert one.best.canonical in chart.to_json()


def test_intervals_are_those_of_a_paired_comparison(model, inputs):
    found = tune(model, inputs, SIX[:2], tolerance=0.0)
    compared = calls.compare(model, inputs, dict(attribute(SIX[:2], model, inputs)), metrics=("dpc",))
    best, other = (one.name for one in compared.ranking("dpc") if one.name in compared.verdicts["local"])
    assert found.best.canonical == best
    row = found.table.filter(pl.col("configuration") == other).row(0, named=True)
    if row["inputs"] == len(inputs):
        pair = compared.pair(best, other, "dpc")
        wanted = (pair.mean, pair.low, pair.high)
        assert (row["behind"], row["behind_low"], row["behind_high"]) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.filterwarnings("ignore:baselines. outside")
def test_targets_and_baselines_follow_their_inputs(model, inputs):
    """Inputs are used in another order; what belongs to each must go with it."""
    inputs = inputs[:20]  # all of them are used in the first round
    target, baselines = torch.arange(20) % 2, some_inputs(20, seed=5)
    found = tune(model, inputs, ("gradient",), target=target, baselines=baselines)
    attributions = calls.explained(Gradient(), model, inputs, target=target)
    wanted = calls.directed_prediction_change(model, inputs, attributions, target=target, baselines=baselines)
    assert found.score.mean == pytest.approx(float(wanted.value.double().mean()), abs=1e-6)


def test_tells_how_far_it_is(model, inputs):
    lines = []
    tune(model, inputs, LIME, trials=20, progress=lines.append)
    assert len(lines) == 2
    assert lines[-1].startswith("20 trials, ")


def test_optuna_is_quiet_and_left_as_it_was(model, inputs, capfd):
    before = optuna.logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tune(model, inputs, (*LIME, "gradient"), trials=20)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr().err == ""
    assert logging.getLogger("optuna").handlers  # it is there, and said nothing


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"trials": 0}, ValueError, "trials: expected a whole number"),
        ({"seconds": -1.0}, ValueError, "seconds: expected a positive"),
        ({"metric": "fidelity"}, ValueError, "metric: expected .*dpc.*, cost or a metric object, .* mean 'infidelity'"),
        ({"metric": ()}, ValueError, "metric: expected .* got ()"),
        ({"metric": 3}, ValueError, "metric: expected .* got 3"),
        ({"metric": ("dpc", "costs")}, ValueError, "metric: .* did you mean 'cost'"),
        ({"metric": "cost"}, ValueError, "metric: cost alone is no aim"),
        ({"methods": ("shap",)}, ValueError, "methods: expected .* got 'shap'"),
        ({"methods": ()}, ValueError, "methods: expected at least one"),
        ({"methods": 3}, TypeError, "methods: expected names"),
        ({"methods": [Edges()]}, ValueError, "methods: Edges is not for tabular data"),
        ({"store": "trials.csv"}, ValueError, "store: expected a path of a .parquet file"),
        ({"target": 7}, ValueError, "target: class 7 does not exist"),
        ({"baselines": torch.zeros(5)}, ValueError, "baselines"),
        ({"background": torch.zeros(3, 2)}, ValueError, "background"),
        ({"batch_size": 0}, ValueError, "batch_size"),
    ],
)
def test_wrong_arguments_are_told_before_any_work(model, inputs, settings, error, words):
    scorer = verax.Scorer(model)
    with pytest.raises(error, match=words):
        tune(scorer, inputs, **settings)
    assert scorer.rows <= len(inputs)


def test_a_missing_optuna_is_told_with_the_extra_before_any_work(model, inputs, monkeypatch):
    scorer = verax.Scorer(model)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"^verax.tune needs optuna: pip install 'verax\[tune\]'$"):
        tune(scorer, inputs)
    assert scorer.rows == 0


def test_a_missing_altair_is_told_with_the_extra(model, inputs, monkeypatch):
    found = tune(model, inputs, SIX[:2])
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.delitem(sys.modules, "verax.tuning.plot", raising=False)
    with pytest.raises(ImportError, match=r"^Tuned.plot\(\) needs altair: pip install 'verax\[tune\]'$"):
        found.plot()


def test_references_are_tried_only_where_they_are_asked_for(model, inputs):
    assert not {"Random", "Edges"} & set(tune(model, inputs, trials=40).table["method"])
    assert tune(model, inputs, [Random(), "random"]).table.height == 2


@pytest.mark.parametrize(
    ("metric", "replacement", "message"),
    [
        ("dpc", verax.replacement.Conditional(some_inputs(40)), "no direction"),
        ("pc", verax.replacement.Conditional(), "pass background=train_inputs"),
        (verax.metrics.Infidelity(subset=99), None, "subset: "),
    ],
    ids=["dpc", "no background", "subset"],
)
def test_a_metric_that_cannot_be_measured_is_refused_before_methods_are_computed(metric, replacement, message):
    calls, rows = [], some_inputs(40)

    def model(batch):
        calls.append(len(batch))
        return batch[:, :2]

    scorer = verax.Scorer(model, returns="logits")
    with pytest.raises(ValueError, match=message):
        tune(scorer, rows, metric=metric, replacement=replacement, methods=["Occlusion"], trials=1)
    assert sum(calls) <= len(rows)  # the unperturbed inputs, whose classes are to be known
