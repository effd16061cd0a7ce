"""The checks that run beside all tests find wrong types and wrong shapes, and can be switched off."""

from typing import Any

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from type_checks import CALLS_PER_TEST, begin_test
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
    for values, by in ((torch.zeros(3), 1), (torch.zeros(3, 3), 0), (torch.zeros(3), "0")):
        begin_test()  # only the first calls in a test are checked
        with pytest.raises(jaxtyping.TypeCheckError):
            checked(values, by=by)


def test_the_first_calls_in_a_test_are_checked_and_those_that_follow_are_not() -> None:
    def same(number: int) -> int:
        return number

    checked: Any = jaxtyping.jaxtyped(typechecker=beartype)(same)
    for _ in range(CALLS_PER_TEST):
        with pytest.raises(TypeError, match="violates type hint"):
            checked("1")
    assert checked("1") == "1"
    begin_test()
    with pytest.raises(TypeError, match="violates type hint"):
        checked("1")


def test_checks_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert Estimate("0", 0.0, 0.0, 0.0).mean == "0"  # type: ignore[arg-type,comparison-overlap]
