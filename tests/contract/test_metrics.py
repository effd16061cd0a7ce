"""Every metric, in every reading, against the contract."""

from collections.abc import Callable
from typing import Any

import pytest

import verax
from contract.metric_contract import CHECKS
from contract.own import from_page, is_of_the_package, lines_of
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN

Comprehensiveness, EffectCorrelation = from_page("add-a-metric", "Comprehensiveness", "EffectCorrelation")

METRICS = (
    PredictionChange(steps=6),
    PredictionChange("magnitude"),
    PredictionChange(curve="increments"),
    DirectedPredictionChange("magnitude"),
    DirectedPredictionChange("signed", steps=6),
    DirectedPredictionChange("literal"),
    DirectedPredictionChange(curve="increments"),
    Infidelity(samples=24, normalize=False),
    Infidelity(samples=24),
    Infidelity(samples=24, subset=3),
    Infidelity(samples=24, perturbation="baseline"),
    Infidelity(samples=24, perturbation="baseline", subset=3),
    SensitivityN(sizes=(1, 3, 8), samples=16),
    Comprehensiveness(),
    EffectCorrelation(samples=24),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_contract(metric: Any, check: Callable[[Any], None]) -> None:
    check(metric)


@pytest.mark.parametrize("name", ["Comprehensiveness", "EffectCorrelation"])
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
