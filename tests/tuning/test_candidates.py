"""What ``verax.tune`` tries by default, and with columns in their own units or in groups."""

import pytest
import torch

import verax
from calls import tune
from tuning.conftest import some_inputs
from verax.attribution import GuidedBackprop, LimeTabular, Occlusion
from verax.metrics import Infidelity
from verax.tuning.space import space_of


def labelled(*shape):
    """A problem with classes of its background, whose model is never run."""
    known = {"background": torch.zeros(8, *shape), "background_labels": torch.arange(8) % 2}
    return verax.Problem(torch.nn.Linear(6, 2), torch.zeros(2, *shape), **known)


@pytest.fixture
def units():
    """A background whose columns have other deviations than 1."""
    return some_inputs(40, seed=2) * torch.tensor([0.5, 1.0, 1.0, 2.0, 2.0, 3.0])


def test_guided_backprop_is_left_out_with_the_reason_unless_it_is_named(model, inputs):
    found = tune(model, inputs, trials=1)
    assert "GuidedBackprop" in found.left_out
    assert "hardly depends on the upper layers" in str(found)
    named = tune(model, inputs, "GuidedBackprop")
    assert named.best == GuidedBackprop()
    assert "Caution: GuidedBackprop hardly depends on the upper layers" in str(named)


@pytest.mark.parametrize("modality", ["tabular", "image"])
def test_no_method_with_a_known_limitation_is_a_default(modality):
    problem = labelled(6) if modality == "tabular" else labelled(1, 4, 4)
    assert not [one for one in space_of(None, modality, problem).configurations if one.known_limitation]


def test_lime_is_tried_with_the_deviation_of_each_column_where_the_metric_has_it(model, units):
    metric = Infidelity(sigma="std")
    found = tune(model, units, "lime", background=units, baselines="mean", metric=metric, trials=16)
    sigmas = {one.configuration.sigma for one in found.candidates}
    assert "std" in sigmas
    assert all(one.configuration.scale_kernel for one in found.candidates if one.configuration.sigma == "std")


def test_a_metric_with_sigma_std_says_it_as_well():
    every = space_of("lime", "tabular", labelled(6), std=True).configurations
    assert len([one for one in every if one.sigma == "std"]) == 3 * 81
    assert len(space_of("lime", "tabular", labelled(6)).configurations) == 729


def test_sigma_stays_that_of_the_metric(model, units):
    mine = [LimeTabular(sigma="std", samples=16)]
    found = tune(model, units, mine, background=units, metric=Infidelity(sigma="std"))
    assert found.metrics["infidelity"].sigma == "std"


def test_sigma_std_without_a_background_names_the_argument(model, units):
    with pytest.raises(ValueError, match="background"):
        tune(model, units, "lime", metric=Infidelity(sigma="std"))


def test_features_are_those_of_the_problem(model, inputs):
    inputs = inputs[:20]  # all of them are used in the first round
    methods = [Occlusion("leave_one_out"), Occlusion("keep_one_in")]
    problem = verax.Problem(model, inputs, features=[0, 0, 1, 1, 2, 2])
    attributions = verax.explain(problem, methods)
    scores = verax.evaluate(problem, dict(attributions), ["dpc"])["dpc"].value
    table = verax.tune(problem, methods, metric="dpc").table
    for configuration, mean in table.select("configuration", "dpc").iter_rows():
        assert mean == pytest.approx(float(scores[configuration].double().mean()), abs=1e-6)
    assert not table["dpc"].equals(tune(model, inputs, methods).table["dpc"])
