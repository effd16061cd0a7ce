"""What a study stores is what anyone gets who calls the library on the same inputs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import calls
import verax
from verax.attribution import IntegratedGradients, LimeImage
from verax.datasets import load_breast_cancer, load_digits
from verax.metrics import DirectedPredictionChange, Infidelity, InfidelityUncertainty, PredictionChange
from verax.models import load
from verax.paper.published import PAPER_DPC
from verax.study.explained_models import ExplainedModel
from verax.study.results import chosen_examples, read_results
from verax.study.study import Study, open_study
from verax.study.summary import configurations as summarise
from verax.study.tables import Example

METRICS = {
    "pc": PredictionChange(),
    "dpc_magnitude": DirectedPredictionChange("magnitude"),
    "dpc_signed": DirectedPredictionChange("signed"),
    "dpc_literal": DirectedPredictionChange("literal"),
    "infidelity": Infidelity(samples=16),
    "infidelity_baseline": Infidelity(samples=16, perturbation="baseline"),
}


@pytest.fixture(scope="module")
def study(finished: Path) -> Study:
    return open_study(finished)


@pytest.fixture(scope="module")
def table(study: Study) -> pl.DataFrame:
    return read_results(study).tables.scores


def inputs_of(study: Study, model: str) -> tuple[Any, torch.Tensor]:
    """The data set and the inputs, by way of the public functions only, which know nothing of the rows drawn."""
    data = load_digits() if model.startswith("Digits") else load_breast_cancer()
    place = np.searchsorted(data.split.validation, study.models[model].rows)
    return data, data.part("validation")[0][place]


def direct(study: Study, model: str, one: Any) -> tuple[torch.Tensor, Any]:
    """An attribution computed alone, and its evaluation, all metrics in calls of their own."""
    data, inputs = inputs_of(study, model)
    module = verax.Scorer(load(study.store.model(model)).module, returns="logits")
    explained = study.models[model]
    background, labels = explained.background, explained.labels
    if not model.startswith("Digits"):
        background, labels = data.part("train")
    if isinstance(one, LimeImage):
        scale = data.standardisation
        mean, std = (tuple(part.flatten().tolist()) for part in (scale.mean, scale.std))
        one = replace(one, pixel_mean=mean, pixel_std=std)
    if model.startswith("Digits") and isinstance(one, IntegratedGradients):
        one = replace(one, baseline="zero")  # the mean of standardised images
    problem = verax.Problem(module, inputs, background=background, background_labels=labels)
    values = one(problem)
    found = {
        name: calls.evaluate(module, inputs, values, metrics=[metric])[metric.name] for name, metric in METRICS.items()
    }
    return values, found


@pytest.mark.parametrize("model", ["Cancer-Linear", "Cancer-MLP", "Digits-Linear"])
def test_the_table_is_that_of_direct_calls(model: str, study: Study, table: pl.DataFrame) -> None:
    """Alone, and for all inputs at once instead of in units: equal up to the rounding of other batches."""
    for one in study.models[model].configurations:
        values, evaluation = direct(study, model, one)
        own = table.filter((pl.col("model") == model) & (pl.col("configuration") == one.canonical))
        assert own["target"].to_list() == evaluation["pc"].target.tolist()
        norms = values.flatten(1).double().norm(dim=1).numpy()
        np.testing.assert_allclose(own["attribution_norm"].to_numpy(), norms, rtol=1e-4, atol=1e-7)
        for name in METRICS:
            wanted = evaluation[name].value.numpy()
            tolerance = 2e-6 + 1e-4 * float(np.abs(wanted).max())
            np.testing.assert_allclose(own[name].to_numpy(), wanted, rtol=0, atol=tolerance, err_msg=f"{name} of {one}")
        for name in ("infidelity", "infidelity_baseline"):
            wanted = evaluation[name].standard_error.numpy()
            np.testing.assert_allclose(own[f"{name}_se"].to_numpy(), wanted, rtol=1e-3, atol=1e-7)


def test_a_unit_is_equal_bit_for_bit(study: Study, table: pl.DataFrame) -> None:
    """The same inputs and the same company give the same bits."""
    explained = study.models["Cancer-MLP"]
    inputs = explained.inputs[4:8]
    scorer = verax.Scorer(explained.module, returns="logits")
    values = calls.attribute(
        explained.configurations, scorer, inputs, background=explained.background, background_labels=explained.labels
    )
    found = calls.evaluate(scorer, inputs, values, metrics=METRICS)  # type: ignore[arg-type]
    own = table.filter((pl.col("model") == "Cancer-MLP") & pl.col("input").is_in(explained.rows[4:8].tolist()))
    for name in METRICS:
        stored = own[name].to_numpy().reshape(len(explained.configurations), 4)
        assert (stored == found[name].scores.numpy().astype(stored.dtype)).all(), name


def test_inputs_are_named_as_in_the_data(study: Study, table: pl.DataFrame) -> None:
    for model, explained in study.models.items():
        own = table.filter(pl.col("model") == model)
        for one in explained.configurations:
            part = own.filter(pl.col("configuration") == one.canonical)
            assert part["input"].to_list() == explained.rows.tolist()
            assert part["input_id"].to_list() == [explained.dataset.ids[row] for row in explained.rows]
        assert own["dataset"].unique().to_list() == [explained.dataset.name]
        assert own["modality"].unique().to_list() == [explained.modality]


def test_methods_and_what_they_explain(study: Study, table: pl.DataFrame) -> None:
    found = table.select("model", "method", "configuration", "local").unique()
    assert found.height == 15 + 15 + 8
    for method, configuration, local in found.select("method", "configuration", "local").rows():
        assert configuration.startswith(f"{method}(")
        times_inputs = method in ("IntegratedGradients", "DeepLiftSHAP") and "multiply_by_inputs=True" in configuration
        oriented = times_inputs or method in ("LimeImage", "LimeGroups")
        assert local is not oriented


def test_methods_of_images_know_their_standardisation(study: Study, table: pl.DataFrame) -> None:
    """It is named as in the grid, and computed with the scale of the data set."""
    explained = study.models["Digits-Linear"]
    scale = load_digits().standardisation
    for one in explained.configurations:
        used = explained.used(one)
        if not isinstance(one, LimeImage):
            mean = isinstance(one, IntegratedGradients) and one.baseline == "mean"
            assert used == (replace(one, baseline="zero") if mean else one)  # 0 is the mean of standardised images
            continue
        assert one.pixel_mean is None
        assert used.pixel_mean == tuple(scale.mean.flatten().tolist())  # type: ignore[attr-defined]
        assert used.pixel_std == tuple(scale.std.flatten().tolist())  # type: ignore[attr-defined]
        assert one.canonical in table["configuration"].cast(pl.String).to_list()
    own = LimeImage(pixel_mean=(0.5,), pixel_std=(0.25,))
    assert explained.used(own) is own


def test_the_background_of_images_is_a_sample_of_the_training_rows(study: Study) -> None:
    explained = study.models["Digits-Linear"]
    train, labels = load_digits().part("train")
    assert len(explained.background) == 64
    rows = [int((train == one).flatten(1).all(1).nonzero()[0, 0]) for one in explained.background]
    assert rows == sorted(rows)
    assert labels[rows].equal(explained.labels)
    table = study.models["Cancer-Linear"]
    assert table.background.equal(load_breast_cancer().part("train")[0])


# The resampling study.


@pytest.mark.parametrize("model", ["Cancer-Linear", "Digits-Linear"])
def test_uncertainty_is_that_of_a_direct_call(model: str, study: Study) -> None:
    table = read_results(study).tables.uncertainty.filter(pl.col("model") == model)
    explained = study.models[model]
    inputs = explained.inputs[:4]
    own = [explained.used(one) for one in explained.configurations]
    names = {explained.used(one).canonical: one.canonical for one in explained.configurations}
    scorer = verax.Scorer(explained.module, returns="logits")
    attributions = calls.attribute(
        own, scorer, inputs, background=explained.background, background_labels=explained.labels
    )
    thinned = {one.canonical for one in explained.configurations[:1]} | set(table["configuration"].unique())
    asked = InfidelityUncertainty(Infidelity(samples=16), (4, 16), 4, 2)
    named = {names[name]: value for name, value in attributions.items() if names[name] in thinned}
    found = calls.infidelity_uncertainty(scorer, inputs, named, asked)
    assert table.height == 2 * len(named)
    for row in table.iter_rows(named=True):
        name, place = row["configuration"], (4, 16).index(row["draws"])
        assert row["inputs"] == len(inputs)
        for column, wanted in (
            ("value", found.mean_value[name][place]),
            ("resampled_sd", found.mean_resampled[name][place]),
            ("analytic_se", found.mean_analytic[name][place]),
            ("independent_sd", found.mean_independent[name][place]),
            ("per_input_resampled", float(found.resampled[name][:, place].mean())),
            ("per_input_analytic", float(found.analytic[name][:, place].mean())),
        ):
            assert row[column] == pytest.approx(wanted, rel=1e-4, abs=1e-9), column
    whole = table.filter(pl.col("draws") == 16)
    assert whole["resampled_sd"].to_list() == pytest.approx(
        [0.0] * whole.height, abs=1e-9
    )  # all resamples are the pool


def test_uncertainty_thins_lime_only(study: Study) -> None:
    """Every 25th: of two or three configurations the first."""
    table = read_results(study).tables.uncertainty
    for model, explained in study.models.items():
        have = table.filter(pl.col("model") == model)["configuration"].unique().to_list()
        others = [one.canonical for one in explained.configurations if not type(one).__name__.startswith("Lime")]
        lime = [one.canonical for one in explained.configurations if type(one).__name__.startswith("Lime")]
        assert sorted(have) == sorted([*others, lime[0]])


# Examples.


@pytest.fixture(scope="module")
def examples(study: Study) -> dict[str, Example]:
    return {one.model: one for one in read_results(study).examples}


def test_examples_are_the_best_and_the_worst(study: Study, table: pl.DataFrame, examples: dict[str, Example]) -> None:
    means = summarise(table, [metric for metric in read_results(study).tables.metrics if not metric.noisy])
    for model, example in examples.items():
        own = means.filter(pl.col("model") == model)
        expected = []
        for role, descending in (("best", True), ("worst", False)):
            for method in own["method"].unique(maintain_order=True):
                ranked = own.filter(pl.col("method") == method).sort(
                    PAPER_DPC, descending=descending, maintain_order=True
                )
                if role == "best" or ranked.height > 1:
                    expected.append((method, ranked[PAPER_DPC][0], role))
        found = [
            (method, own.filter(pl.col("configuration") == name)[PAPER_DPC][0], role)
            for method, name, role in zip(example.methods, example.configurations, example.roles, strict=True)
        ]
        assert found == expected
        assert len(set(zip(example.configurations, example.roles, strict=True))) == len(found)


def test_examples_are_those_of_direct_calls(study: Study, examples: dict[str, Example]) -> None:
    for model, example in examples.items():
        data, inputs = inputs_of(study, model)
        explained = study.models[model]
        assert example.input_ids == tuple(data.ids[row] for row in explained.rows[:2])
        raw = data.inputs[explained.rows[:2]]
        np.testing.assert_allclose(example.inputs, raw / 255 if raw.dtype == np.uint8 else raw, rtol=1e-6)
        probability = torch.sigmoid(explained.module(inputs[:2]).flatten()).detach().numpy()
        assert example.targets.tolist() == (probability > 0.5).astype(int).tolist()
        np.testing.assert_allclose(example.probabilities, np.maximum(probability, 1 - probability), rtol=1e-5)
        assert example.class_names == data.class_names
        assert example.feature_names == data.feature_names
        by_name = {one.canonical: one for one in explained.configurations}
        for place, name in enumerate(example.configurations):
            check_example(example, place, explained, by_name[name])


def check_example(example: Example, place: int, explained: ExplainedModel, one: Any) -> None:
    inputs, scorer = explained.inputs[:2], verax.Scorer(explained.module, returns="logits")
    train = {"background": explained.background, "background_labels": explained.labels}
    problem = verax.Problem(scorer, inputs, **train)
    values = explained.used(one)(problem)
    np.testing.assert_allclose(example.attributions[place], values.numpy(), rtol=1e-4, atol=1e-6)
    pc, dpc = PredictionChange()(problem, values), DirectedPredictionChange("signed")(problem, values)
    for found, wanted in (
        (example.pc_morf, pc.morf),
        (example.pc_lerf, pc.lerf),
        (example.dpc_morf, dpc.directed_morf),
        (example.dpc_lerf, dpc.directed_lerf),
        (example.pc, pc.value),
        (example.dpc, dpc.value),
    ):
        np.testing.assert_allclose(found[place], wanted.numpy(), atol=1e-5)


def test_examples_agree_with_the_table(table: pl.DataFrame, examples: dict[str, Example]) -> None:
    for model, example in examples.items():
        for place, name in enumerate(example.configurations):
            own = table.filter((pl.col("model") == model) & (pl.col("configuration") == name)).head(2)
            np.testing.assert_allclose(example.dpc[place], own[PAPER_DPC].to_numpy(), atol=1e-5)
            np.testing.assert_allclose(example.pc[place], own["pc"].to_numpy(), atol=1e-5)


def test_a_method_with_one_configuration_has_no_worst(study: Study, table: pl.DataFrame) -> None:
    chosen = chosen_examples(study, study.models["Cancer-Linear"], table)
    roles: dict[str, list[str]] = {}
    for one, role in chosen:
        roles.setdefault(type(one).__name__, []).append(role)
    assert roles["Gradient"] == ["best"]
    assert roles["IntegratedGradients"] == ["best", "worst"]
