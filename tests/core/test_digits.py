"""Digits of numbers: what is shown is within the uncertainty, and no more is shown than it leaves meaning."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verax.core.display import digits_of_interval, significant

reaches = st.floats(1e-12, 1e12)
numbers = st.floats(-1e12, 1e12)


@pytest.mark.parametrize(
    ("values", "reach", "shown"),
    [
        ([0.3882, 0.3723, 0.4042], 0.016, ["0.388", "0.372", "0.404"]),
        ([0.5, 0.3, 0.7], 0.2, ["0.50", "0.30", "0.70"]),
        ([206855.8, 204001.2, 209710.4], 2854.6, ["206900", "204000", "209700"]),
        ([-0.0004, -0.04, 0.04], 0.04, ["0.000", "-0.040", "0.040"]),
        ([1.23e-7, 1.1e-7, 1.36e-7], 1.3e-8, ["1.23e-07", "1.10e-07", "1.36e-07"]),
        ([0.5, 0.5, 0.5], 0.0, ["0.5", "0.5", "0.5"]),
        ([0.5, 0.5 - 1e-12, 0.5 + 1e-12], 1e-12, ["0.500000"] * 3),
        ([0.123456, math.nan, math.nan], math.nan, ["0.1235", "nan", "nan"]),
        ([math.inf, 1.0], 0.1, ["inf", "1.00"]),
        ([0.0, 0.0, 0.0], 0.1, ["0", "0", "0"]),
        ([2e12, 1e12, 3e12], 1e12, ["2.0e+12", "1.0e+12", "3.0e+12"]),
    ],
)
def test_two_digits_of_the_reach_are_shown(values: list[float], reach: float, shown: list[str]) -> None:
    assert digits_of_interval(values, reach) == shown


@given(numbers, reaches)
def test_what_is_shown_is_within_a_tenth_of_the_reach_or_the_sixth_digit(value: float, reach: float) -> None:
    (shown,) = digits_of_interval([value], reach)
    assert abs(float(shown) - value) <= max(0.051 * reach, 5.1e-6 * abs(value))


@given(numbers, st.integers(1, 6))
def test_significant_digits_hold_the_number(value: float, digits: int) -> None:
    assert float(significant(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))
