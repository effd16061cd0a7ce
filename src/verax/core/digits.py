"""Numbers to read: as many digits as their uncertainty leaves meaning."""

import math
from collections.abc import Sequence

_MOST = 6  # significant digits, however narrow an interval is
_SMALLEST, _LARGEST = 1e-4, 1e9  # what is written without a power of ten


def digits_of_interval(values: Sequence[float], reach: float) -> list[str]:
    """Numbers that share an uncertainty, with the decimals that show two digits of it.

    Args:
        values: The numbers, such as a mean and the ends of its interval.
        reach: How far they are uncertain. Where it is 0 or not known, each number has four significant digits.

    Example:
        >>> digits_of_interval([0.3882, 0.3723, 0.4042], 0.016), digits_of_interval([206855.8, 204001.2], 2854.6)
        (['0.388', '0.372', '0.404'], ['206900', '204000'])
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not (math.isfinite(reach) and reach > 0 and largest > 0):
        return [significant(value, 4) for value in values]
    decimals = min(1 - _exponent(reach), _MOST - 1 - _exponent(largest))
    plain = _SMALLEST <= largest < _LARGEST
    return [_fixed(value, decimals) if plain else _scientific(value, decimals) for value in values]


def significant(value: float, digits: int = 3) -> str:
    """A number of so many significant digits; a large one is written out.

    Example:
        >>> significant(0.04321), significant(206855.8), significant(5e-7)
        ('0.0432', '207000', '5e-07')
    """
    if 10**digits <= abs(value) < _LARGEST:
        return f"{float(f'{value:.{digits}g}'):.0f}"
    return f"{value:.{digits}g}"


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"  # the sum takes the sign off a zero


def _scientific(value: float, decimals: int) -> str:
    rounded = round(value, decimals) if math.isfinite(value) else value
    if not math.isfinite(rounded) or rounded == 0:
        return f"{rounded + 0.0:g}"
    return f"{rounded:.{max(_exponent(rounded) + decimals, 0)}e}"


def _exponent(value: float) -> int:
    """The power of ten that a number begins with; 0.042 begins with a hundredth."""
    return math.floor(math.log10(abs(value)))
