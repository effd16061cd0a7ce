"""Every metric, in every reading, against the contract."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

import calls
import verax
from contract.metric_contract import CHECKS
from contract.own import from_page, is_of_the_package, lines_of
from verax.metrics import (
    Comprehensiveness,
    Deletion,
    DirectedPredictionChange,
    EffectCorrelation,
    Infidelity,
    Insertion,
    Kind,
    LocalPredictionChange,
    PredictionChange,
    SensitivityN,
    Sufficiency,
    SymmetricRelevanceGain,
)
from verax.replacement import Nudge, Toward

TopFifth, SignAgreement, Drops = from_page("add-a-metric", "TopFifth", "SignAgreement", "Drops")

METRICS = (
    PredictionChange(steps=6),
    PredictionChange("magnitude"),
    PredictionChange(curve="increments"),
    DirectedPredictionChange("magnitude"),
    DirectedPredictionChange("signed", steps=6),
    DirectedPredictionChange("literal"),
    DirectedPredictionChange(curve="increments"),
    PredictionChange(steps=6, area="morf", replacement=Toward(0.25)),
    DirectedPredictionChange(steps=5, rule="dot"),
    DirectedPredictionChange("signed", steps=5, rule="dot", area="morf"),
    DirectedPredictionChange(steps=5, rule="coherent"),
    DirectedPredictionChange("signed", steps=5, rule="coherent", replacement=Nudge(0.3)),
    LocalPredictionChange(steps=5, epsilon=0.1),
    PredictionChange(steps="adaptive", tolerance=1.0),
    DirectedPredictionChange(steps="adaptive", tolerance=1.0),
    LocalPredictionChange(steps="adaptive", epsilon=0.1, tolerance=1.0),
    Infidelity(samples=24, normalize=False),
    Infidelity(samples=24),
    Infidelity(samples=24, subset=3),
    Infidelity(samples=24, perturbation="baseline"),
    Infidelity(samples=24, perturbation="baseline", subset=3),
    EffectCorrelation(samples=24),
    EffectCorrelation(samples=24, perturbation="baseline"),
    EffectCorrelation(samples=24, perturbation="baseline", subset=3),
    SensitivityN(sizes=(1, 3, 8), samples=16),
    Deletion(),
    Insertion(steps=6),
    SymmetricRelevanceGain(),
    Comprehensiveness(),
    Sufficiency(steps=6),
    TopFifth(),
    SignAgreement(samples=24),
    Drops(steps=6),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_contract(metric: Any, check: Callable[[Any], None]) -> None:
    check(metric)


@pytest.mark.parametrize("name", ["TopFifth", "SignAgreement", "Drops"])
def test_a_metric_of_ones_own_is_thirty_lines_at_most(name: str) -> None:
    assert lines_of("add-a-metric", name) <= 30


def test_the_page_teaches_a_metric_that_is_not_pc() -> None:
    """Two steps, MoRF 5, 2, 4 and LeRF 5, 7, 4: the rises are left out, so 5, 2, 2 and 5, 5, 2; weights 8 and 1."""
    scorer = verax.Scorer(lambda rows: 4 + 3 * rows[:, 0] - 2 * rows[:, 1], returns="values")
    x = torch.ones(1, 2)
    found = calls.evaluate(scorer, x, torch.tensor([[2.0, 1.0]]), [Drops(steps=2), PredictionChange(steps=2)])
    assert found["drops"].value.item() == pytest.approx(8 * (5 - 2) / 9)
    assert found["pc"].value.item() == pytest.approx(8 * (7 - 2) / 9)


def test_a_metric_that_derives_from_the_base_class_is_refused_where_it_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Sparseness: .*GuidedMetric .*SampledMetric .*PredictionChange"):

        @dataclass(frozen=True)
        class Sparseness(verax.metrics.Metric):
            name: ClassVar[str] = "sparseness"
            higher_is_better: ClassVar[bool] = True
            kind: ClassVar[Kind] = "baseline"

    assert "sparseness" not in verax.metrics.METRICS
    with pytest.raises(TypeError, match=r"Nameless: .*GuidedMetric"):
        type("Nameless", (verax.metrics.Metric,), {})


def test_a_metric_without_a_name_has_that_of_its_class() -> None:
    @dataclass(frozen=True)
    class TotalSize(verax.metrics.AttributionMetric):
        higher_is_better: ClassVar[bool] = False
        kind: ClassVar[Kind] = "baseline"

        def reduce(self, attributions: Any, problem: verax.Problem) -> Any:
            return attributions.abs().sum(-1)

    x = torch.eye(3)
    result = verax.evaluate(verax.Problem(torch.nn.Linear(3, 2), x), x, ["total_size"])["total_size"]
    assert result.value.tolist() == [1, 1, 1]
    assert TotalSize().label == "total_size"


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (3, r"derive from verax.metrics.GuidedMetric .*; got 3\.$"),
        (PredictionChange, r"got the class PredictionChange; create one: PredictionChange\(\)\.$"),
        ("fidelity", "did you mean 'infidelity'"),
    ],
    ids=["number", "class", "name"],
)
def test_what_is_no_metric_is_answered_by_what_would_be_one(metric: Any, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^metric: .*{words}"):
        calls.tune(torch.nn.Linear(2, 2), torch.ones(3, 2), metric=metric)
    if isinstance(metric, str | verax.metrics.Metric):  # tests check the types that evaluate takes
        with pytest.raises(ValueError, match=rf"^metrics: .*{words}"):
            calls.evaluate(torch.nn.Linear(2, 2), torch.ones(3, 2), torch.ones(3, 2), [metric])


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_a_record_is_complete(metric: Any) -> None:
    assert metric.label
    assert metric.kind in ("local", "baseline")
    assert isinstance(metric.higher_is_better, bool)
    assert isinstance(metric.deterministic, bool)


def test_every_metric_of_the_package_is_published_and_in_the_contract() -> None:
    shipped = {kind for kind in verax.metrics.METRICS.values() if is_of_the_package(kind)}
    assert all(kind.citation for kind in shipped)
    assert shipped - {type(metric) for metric in METRICS} == {verax.metrics.InfidelityUncertainty}
