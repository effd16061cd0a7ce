"""How the report looks: colours that the colour-blind can tell apart, numbers, and the ground rules of every chart."""

import math
from typing import Any

from verax.report.names import LOCAL, ORIENTED, REFERENCE

# the palette of Okabe and Ito; its black and its yellow are left out, which vanish on dark and on light paper
BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7"
GREY, BROWN, OLIVE = "#808080", "#8C564B", "#8F8F00"
KIND_COLOURS = {LOCAL: BLUE, ORIENTED: VERMILION, REFERENCE: GREY}
METHOD_COLOURS = {
    "Gradient": BLUE,
    "Guided Backpropagation": SKY,
    "SmoothGrad": GREEN,
    "VarGrad": PURPLE,
    "LIME": OLIVE,
    "Integrated Gradients": VERMILION,
    "DeepLiftSHAP": ORANGE,
    "Edges": BROWN,
    "Random": GREY,
}
SPARE_COLOURS = ("#332288", "#117733", "#882255", "#44AA99", "#999933")
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")
NEGATIVE, POSITIVE = VERMILION, BLUE  # in bars and heat maps
MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"


def method_colours(names: list[str]) -> list[str]:
    """One colour per method name, the same in every chart; methods of the user's own take the spare ones in turn."""
    own = [name for name in names if name not in METHOD_COLOURS]
    spare = {name: SPARE_COLOURS[at % len(SPARE_COLOURS)] for at, name in enumerate(own)}
    return [METHOD_COLOURS.get(name) or spare[name] for name in names]


def number(value: float | None, digits: int = 3) -> str:
    """A number to read: so many significant digits, a real minus sign, and a dash where there is none.

    Example:
        >>> number(0.04321), number(123456.0), number(-2.0) == f"{MINUS}2", number(None) == DASH
        ('0.0432', '123,456', True, True)
    """
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def signed(value: float | None) -> str:
    """A correlation: sign and two decimals.

    Example:
        >>> signed(0.0063), signed(-0.714) == f"{MINUS}0.71", signed(float("nan")) == DASH
        ('+0.01', True, True)
    """
    return DASH if value is None or not math.isfinite(value) else f"{value:+.2f}".replace("-", MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage.

    Example:
        >>> percent(0.7976), percent(None) == DASH
        ('79.8 %', True)
    """
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


def seconds(value: float | None) -> str:
    """A time span in the unit that people would use.

    Example:
        >>> seconds(0.25), seconds(75.0), seconds(7500.0)
        ('0.25 s', '1.2 min', '2.1 h')
    """
    if value is None or not math.isfinite(value):
        return DASH
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if value >= size:
            return f"{number(value / size, 2)} {unit}"
    return f"{number(value, 2)} s"


def chart_config() -> dict[str, Any]:
    """Vega-Lite's config for all charts: text and lines take the colour of the page, light, dark or printed."""
    ink = "currentColor"
    return {
        "background": None,
        "font": FONT,
        "view": {"stroke": ink, "strokeOpacity": 0.15},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "tickColor": ink,
            "domainColor": ink,
            "gridColor": ink,
            "gridOpacity": 0.1,
            "domainOpacity": 0.3,
            "tickOpacity": 0.3,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "labelLimit": 260,
        },
        "header": {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "labelFontWeight": "bold"},
        "legend": {
            "labelColor": ink,
            "titleColor": ink,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "labelLimit": 260,
            "symbolOpacity": 1,
            "layout": {"bottom": {"anchor": "start", "direction": "vertical"}},
        },
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 13,
            "subtitleFontSize": 11,
            "anchor": "start",
            "offset": 8,
        },
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
    }
