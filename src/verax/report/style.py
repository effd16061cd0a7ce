"""How the report looks: colours of kinds, numbers, and the ground rules of every chart."""

import math
from typing import Any

from verax.attribution.names import LOCAL, ORIENTED, REFERENCE
from verax.core.palette import BLUE, FONT, GREY, VERMILION

KIND_COLOURS = {LOCAL: BLUE, ORIENTED: VERMILION, REFERENCE: GREY}
NEGATIVE, POSITIVE = VERMILION, BLUE  # in bars and heat maps
MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float | None, digits: int = 3) -> str:
    """A number to read: so many significant digits, a real minus sign, and a dash where there is none.

    Example:
        >>> number(0.04321), number(170.2, 2), number(123456.0), number(-2.0) == f"{MINUS}2", number(None) == DASH
        ('0.0432', '170', '123,456', True, True)
    """
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 100 and digits < 4 else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def signed(value: float | None) -> str:
    """A correlation: sign and two decimals."""
    return DASH if value is None or not math.isfinite(value) else f"{value:+.2f}".replace("-", MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


def seconds(value: float | None) -> str:
    """A time span in the unit that people would use.

    Example:
        >>> seconds(0.00125), seconds(0.25), seconds(75.0), seconds(7500.0)
        ('1.2 ms', '0.25 s', '1.2 min', '2.1 h')
    """
    if value is None or not math.isfinite(value):
        return DASH
    for least, size, unit in ((3600.0, 3600.0, "h"), (60.0, 60.0, "min"), (0.1, 1.0, "s"), (1e-3, 1e-3, "ms")):
        if value >= least:
            return f"{number(value / size, 2)} {unit}"
    return f"{number(value / 1e-6, 2)} \N{MICRO SIGN}s"


def chart_config() -> dict[str, Any]:
    """Vega-Lite's config for all charts: text and lines take the colour of the page, light, dark or printed."""
    ink = "currentColor"
    coloured = {"labelColor": ink, "titleColor": ink}
    sized = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 260}
    lines = {"tickColor": ink, "domainColor": ink, "gridColor": ink}
    faint = {"gridOpacity": 0.1, "domainOpacity": 0.3, "tickOpacity": 0.3}
    below = {"layout": {"bottom": {"anchor": "start", "direction": "vertical"}}}
    title = {"color": ink, "subtitleColor": ink, "fontSize": 13, "subtitleFontSize": 11, "anchor": "start", "offset": 8}
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": ink, "strokeOpacity": 0.15},
        "axis": coloured | lines | faint | sized,
        "header": coloured | {"labelFontSize": 12, "labelFontWeight": "bold"},
        "legend": coloured | sized | {"symbolOpacity": 1} | below,
        "title": title,
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
    }
