"""Every metric, in every reading, against the contract."""

from collections.abc import Callable
from typing import Any

import pytest
from verax.replacement import Nudge, Toward

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
    LocalPredictionChange,
    PredictionChange,
    SensitivityN,
    Sufficiency,
    SymmetricRelevanceGain,
)

TopFifth, SignAgreement = from_page("add-a-metric", "TopFifth", "SignAgreement")

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
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_contract(metric: Any, check: Callable[[Any], None]) -> None:
    check(metric)


@pytest.mark.parametrize("name", ["TopFifth", "SignAgreement"])
def test_a_metric_of_ones_own_is_thirty_lines_at_most(name: str) -> None:
    assert lines_of("add-a-metric", name) <= 30


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
