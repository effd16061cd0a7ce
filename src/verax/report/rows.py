"""Tables as compact JSON for the page: column by column, repeated words once, no more digits than can be seen."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 6


def encoded(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns of equal length in the form that ``page.js`` reads.

    Columns of text become a list of distinct words and numbers into it; floats are rounded to ``DIGITS`` significant
    digits; lists (curves) are rounded as well.

    Example:
        >>> encoded({"model": ["a", "b", "a"], "pc": [0.12345678, None, float("nan")]})
        {'model': {'words': ['a', 'b'], 'codes': [0, 1, 0]}, 'pc': [0.123457, None, None]}
    """
    return {name: _column(list(values)) for name, values in columns.items()}


def as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows with the same names as columns; no rows are no columns."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, str) for value in values):
        words = list(dict.fromkeys(values))
        places = {word: at for at, word in enumerate(words)}
        return {"words": [_value(word) for word in words], "codes": [places[value] for value in values]}
    return [_value(value) for value in values]


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def script_json(value: Any) -> str:
    r"""JSON that may stand inside an HTML script element, whatever its texts contain.

    Example:
        >>> print(script_json({"a": "</script>"}))
        {"a":"\u003c/script\u003e"}
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
