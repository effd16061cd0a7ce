"""Keys: whatever a result depends on changes its key, and nothing else does."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from study.studies import LINEAR, MLP, images, spec, table, whole
from verax.attribution import Attribution, Gradient, IntegratedGradients, families
from verax.attribution.gradient import GradientFamily
from verax.metrics import DirectedPredictionChange
from verax.study import units
from verax.study.examples import examples_stem
from verax.study.explained_models import ExplainedModel
from verax.study.metrics import MetricsSpec, local_infidelity, metrics_of
from verax.study.spec import StudySpec
from verax.study.store import Store
from verax.study.study import Study, open_study
from verax.study.uncertainty import uncertainty_stem
from verax.study.units import Part, attributions_key, scores_key, units_of

ROWS = slice(0, 4)


@pytest.fixture(scope="module")
def study(finished: Path) -> Study:
    return open_study(finished)


@pytest.fixture
def explained(study: Study) -> ExplainedModel:
    return replace(study.models["Cancer-MLP"])  # without the hashes that were computed for others


def all_keys(explained: ExplainedModel, rows: slice = ROWS) -> dict[str, str]:
    """Every key that a explained has."""
    metrics = metrics_of(MetricsSpec(samples=16))
    groups = families([explained.used(one) for one in explained.configurations])
    found = {
        type(family).__name__ + str(number): attributions_key(explained, rows, family, members)
        for number, (family, members) in enumerate(groups.items())
    }
    return {**found, "scores": scores_key(explained, rows, metrics)}


def with_tensor(tensor: torch.Tensor, place: tuple[int, ...]) -> torch.Tensor:
    changed = tensor.clone()
    changed[place] = torch.nextafter(changed[place], torch.tensor(torch.inf))  # the smallest change there is
    return changed


def other_weights(explained: ExplainedModel) -> ExplainedModel:
    module = copy.deepcopy(explained.module)
    parameter = next(module.parameters()).data
    parameter.view(-1)[0] = torch.nextafter(parameter.view(-1)[0], torch.tensor(torch.inf))
    return replace(explained, module=module)


def other_buffer(explained: ExplainedModel) -> ExplainedModel:
    module = copy.deepcopy(explained.module)
    buffers = dict(module.named_buffers())
    assert buffers
    next(iter(buffers.values())).data.view(-1)[0] += 1
    return replace(explained, module=module)


def on_other(explained: ExplainedModel, **material: Any) -> ExplainedModel:
    return replace(explained, material=replace(explained.material, **material))


def other_label(explained: ExplainedModel) -> ExplainedModel:
    labels = explained.labels.clone()
    labels[3] = 1 - labels[3]
    return on_other(explained, labels=labels)


def other_precision(explained: ExplainedModel) -> ExplainedModel:
    return replace(explained, spec=explained.spec.model_copy(update={"precision": "tf32"}))


EVERYTHING: dict[str, Callable[[ExplainedModel], ExplainedModel]] = {
    "precision": other_precision,
    "one weight": other_weights,
    "one buffer": other_buffer,
    "one value of one input": lambda s: on_other(s, inputs=with_tensor(s.inputs, (2, 7))),
    "one value of the background": lambda s: on_other(s, background=with_tensor(s.background, (11, 3))),
    "groups of features": lambda s: on_other(s, features=torch.arange(s.inputs.shape[1]) // 2),
    "baselines": lambda s: on_other(s, baselines=torch.ones(s.inputs.shape[1])),
    "categories": lambda s: on_other(s, codes=torch.arange(s.inputs.shape[1]) < 2),
    "one label of the background": other_label,
}


@pytest.mark.parametrize("change", EVERYTHING.values(), ids=EVERYTHING.keys())
def test_model_and_data_change_every_key(
    change: Callable[[ExplainedModel], ExplainedModel], explained: ExplainedModel
) -> None:
    before, after = all_keys(explained), all_keys(change(explained))
    assert before.keys() == after.keys()
    assert not [name for name in before if before[name] == after[name]]


def other_ids(explained: ExplainedModel) -> ExplainedModel:
    ids = list(explained.dataset.ids)
    ids[explained.rows[1]] += "x"
    return on_other(explained, dataset=replace(explained.dataset, ids=tuple(ids)))


ONLY_SCORES: dict[str, Callable[[ExplainedModel], ExplainedModel]] = {
    "one id": other_ids,
    "the name of the model": lambda s: replace(s, spec=s.spec.model_copy(update={"name": "other"})),
    "the name of the data": lambda s: on_other(s, dataset=replace(s.dataset, name="other")),
    "a configuration less": lambda s: replace(s, configurations=s.configurations[:-2]),
    "another order": lambda s: replace(s, configurations=s.configurations[::-1]),
}


@pytest.mark.parametrize("change", ONLY_SCORES.values(), ids=ONLY_SCORES.keys())
def test_names_change_the_table_only(
    change: Callable[[ExplainedModel], ExplainedModel], explained: ExplainedModel
) -> None:
    assert scores_key(explained, ROWS, metrics_of(MetricsSpec())) != scores_key(
        change(explained), ROWS, metrics_of(MetricsSpec())
    )
    family, members = Gradient().family, [Gradient()]
    assert attributions_key(explained, ROWS, family, members) == attributions_key(
        change(explained), ROWS, family, members
    )


def test_a_setting_changes_the_keys_of_its_family_only(explained: ExplainedModel) -> None:
    def kept(one: Attribution) -> Attribution:
        old, new = (IntegratedGradients(points=4, baseline=baseline) for baseline in ("mean", "median"))
        return new if one == old else one

    assert IntegratedGradients(points=4, baseline="mean") in explained.configurations
    before, after = (
        all_keys(one)
        for one in (explained, replace(explained, configurations=tuple(map(kept, explained.configurations))))
    )
    assert before["scores"] != after["scores"]
    others = [{key for name, key in own.items() if not name.startswith(("Path", "scores"))} for own in (before, after)]
    assert others[0] == others[1]
    paths = [{key for name, key in own.items() if name.startswith("Path")} for own in (before, after)]
    assert paths[0] != paths[1]


METRICS = [
    {"steps": 19},
    {"samples": 17},
    {"sigma": 0.25},
    {"subset": 3},
    {"seed": 1},
    {"infidelity": False},
    {"list": ["pc"]},
    {"list": [{"metric": "pc", "as": "change"}]},
]


@pytest.mark.parametrize("changed", METRICS, ids=str)
def test_metric_settings_change_the_table_only(changed: dict[str, Any], explained: ExplainedModel) -> None:
    assert scores_key(explained, ROWS, metrics_of(MetricsSpec())) != scores_key(
        explained, ROWS, metrics_of(MetricsSpec(**changed))
    )


def test_versions_change_keys(explained: ExplainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    before = all_keys(explained)
    with monkeypatch.context() as patch:
        patch.setattr(GradientFamily, "version", GradientFamily.version + 1)
        after = all_keys(explained)
    derived = ["GradientFamily0", "GuidedBackpropFamily1", "scores"]  # whose gradients are the same code
    assert [name for name in before if before[name] != after[name]] == derived
    for place, name in ((DirectedPredictionChange, "version"), (units, "TABLE_FORMAT")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, 99)
            after = all_keys(explained)
        assert [name for name in before if before[name] != after[name]] == ["scores"]
    assert all_keys(explained) == before


def test_rows_change_keys(explained: ExplainedModel) -> None:
    units = [all_keys(explained, rows) for rows in (slice(0, 4), slice(4, 8), slice(0, 5))]
    for name in units[0]:
        assert len({unit[name] for unit in units}) == 3


def stems(study: Study) -> set[str]:
    return {unit.stem for unit in study.units}


def opened(own: StudySpec, finished: Path) -> Study:
    return Study(own, Store(finished))


LEFT_ALONE = {
    "order of data sets": spec(images(), table(LINEAR, MLP)),
    "order of models": spec(table(MLP, LINEAR), images()),
    "room for the cache": spec(table(LINEAR, MLP), images(), cache_gib=0.0),
    "the resampling study": spec(table(LINEAR, MLP), images(), uncertainty={"inputs": 0}),
    "examples": spec(table(LINEAR, MLP), images(), examples=0),
    "the name of the study": spec(table(LINEAR, MLP), images(), name="other"),
}


@pytest.mark.parametrize("own", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_does_not_matter_is_not_in_the_keys(own: StudySpec, study: Study, finished: Path) -> None:
    assert stems(opened(own, finished)) == stems(study)


def test_others_leave_a_unit_alone(study: Study, finished: Path) -> None:
    """A limit, another chunk for other data, and more models concern the units that they touch."""
    fewer = opened(spec(table(LINEAR, MLP, limit=8), images(limit=2)), finished)
    assert stems(fewer) < stems(study)
    assert len(stems(fewer)) == 5
    chunk = opened(spec(table(LINEAR, MLP), images(chunk=1)), finished)
    assert {stem for stem in stems(chunk) if stem.startswith("Cancer")} == {
        stem for stem in stems(study) if stem.startswith("Cancer")
    }
    assert stems(opened(spec(table(LINEAR)), finished)) < stems(study)


def test_keys_of_other_results(study: Study) -> None:
    """They follow their own settings, and those of metrics that they use."""
    explained, own = study.models["Cancer-Linear"], whole()
    chosen = [(one, "best") for one in explained.configurations[:3]]

    def both(changed: StudySpec) -> tuple[str, str]:
        metric = local_infidelity(metrics_of(changed.metrics))
        assert metric is not None
        return uncertainty_stem(explained, metric, changed.uncertainty), examples_stem(explained, changed, chosen)

    uncertainty, examples = both(own)
    for name, value in (("sigma", 0.3), ("seed", 1), ("subset", 2)):
        other = own.model_copy(update={"metrics": own.metrics.model_copy(update={name: value})})
        assert both(other)[0] != uncertainty
        assert both(other)[1] == examples
    for name, value in (("samples", 17), ("sizes", (4,)), ("resamples", 5), ("independent", 0), ("inputs", 3)):
        other = own.model_copy(update={"uncertainty": own.uncertainty.model_copy(update={name: value})})
        assert both(other)[0] != uncertainty, name
    other = own.model_copy(update={"metrics": own.metrics.model_copy(update={"steps": 5})})
    assert both(other) == (uncertainty, both(other)[1])
    assert both(other)[1] != examples
    assert examples_stem(explained, own, chosen[::-1]) != examples
    assert examples_stem(explained, own, [(one, "worst") for one, _ in chosen]) != examples
    assert both(own.model_copy(update={"examples": 3}))[1] != examples


def test_parts_of_a_key_cannot_be_taken_for_each_other() -> None:
    assert units.digest(a="x", b="y") == units.digest(b="y", a="x")
    assert units.digest(a="x", b="y") != units.digest(a="y", b="x")
    assert units.digest(a=["x", "y"]) != units.digest(a=["xy"])
    assert units.digest(a=1) != units.digest(a="1")
    with pytest.raises(ValueError, match="JSON"):
        units.digest(a=float("nan"))


SCRIPT = """
import sys
from verax.study.study import open_study
print("\\n".join(sorted(unit.stem for unit in open_study(sys.argv[1]).units)))
"""


def test_keys_are_the_same_in_every_process(study: Study, finished: Path) -> None:
    """Whatever order sets and dicts have there, and however many threads."""
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", SCRIPT, str(finished)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == sorted(stems(study))


def test_the_same_numbers_elsewhere_have_the_same_key(explained: ExplainedModel) -> None:
    """Views, strides and memory do not matter."""
    strided = torch.stack([explained.inputs, explained.inputs], 1)[:, 0]
    assert not strided.is_contiguous()
    again = on_other(explained, inputs=strided, background=explained.background.clone())
    assert all_keys(again) == all_keys(explained)


def test_every_unit_has_a_key_of_its_own(study: Study) -> None:
    assert len({unit.key for unit in study.units}) == len(study.units)
    assert units_of(Part(study.models["Cancer-Linear"], study.metrics)) == list(study.units[:3])
    assert whole().form() == study.spec.form()
