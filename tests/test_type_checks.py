"""The checks that run beside all tests find wrong types and wrong shapes, and can be switched off."""

import jaxtyping
import pytest
import torch

from verax.core.text_tables import counted
from verax.metrics import PredictionChange
from verax.statistics.intervals import Estimate
from verax.statistics.paired import paired_difference


def test_wrong_types_are_found() -> None:
    with pytest.raises(TypeError, match="violates type hint"):
        counted("3", "row")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="violates type hint"):
        Estimate("0", 0.0, 0.0, 0.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="violates type hint"):
        PredictionChange(order="alphabetical")  # type: ignore[arg-type]


def test_shapes_that_do_not_fit_each_other_are_found() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        paired_difference(torch.zeros(3), torch.zeros(4))


def test_checks_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert Estimate("0", 0.0, 0.0, 0.0).mean == "0"  # type: ignore[arg-type,comparison-overlap]
