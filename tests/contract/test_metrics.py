"""Every metric, in every reading, against the contract."""

from collections.abc import Callable
from typing import Any

import pytest

from contract.metric_contract import CHECKS
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN

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
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_contract(metric: Any, check: Callable[[Any], None]) -> None:
    check(metric)
