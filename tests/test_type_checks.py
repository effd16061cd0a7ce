"""The checks that run beside all tests find wrong types and wrong shapes, and can be switched off."""

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from verax.core.display import counted
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


def test_what_is_returned_must_fit_what_was_given() -> None:
    def shortened(values: Float[Tensor, "inputs"], by: int) -> Float[Tensor, "inputs"]:
        return values[by:]

    checked = jaxtyping.jaxtyped(typechecker=beartype)(shortened)  # as the import hook writes it over every function
    assert checked(torch.zeros(3), by=0).shape == (3,)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(torch.zeros(3), by=1)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(torch.zeros(3, 3), by=0)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(torch.zeros(3), by="0")


def test_checks_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert Estimate("0", 0.0, 0.0, 0.0).mean == "0"  # type: ignore[arg-type,comparison-overlap]
