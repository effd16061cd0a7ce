"""Short forms: a metric or a method with its settings as a word, ``dpc(order=signed, steps=10)``; never evaluated."""

import re
import tomllib
from typing import Any

_FORM = re.compile(r"\s*([\w.\-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_BARE = re.compile(r"[A-Za-z_][\w.\-]*")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a short form; values are those of TOML, and plain words may go without quotes.

    Args:
        text: ``name`` or ``name(setting=value, ...)``.

    Example:
        >>> parsed("dpc(order=signed, steps=10)")
        ('dpc', {'order': 'signed', 'steps': 10})
        >>> parsed('lime_tabular(sigma="std", scale_kernel=true)')
        ('lime_tabular', {'sigma': 'std', 'scale_kernel': True})
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"expected NAME or NAME(SETTING=VALUE, ...), got {text}")
    settings = {}
    for part in _split(match[2] or ""):
        name, sign, value = part.partition("=")
        if not sign or not name.strip().isidentifier():
            raise ValueError(f"{match[1]}: expected SETTING=VALUE, got {part.strip()}")
        settings[name.strip()] = _value(value.strip())
    return match[1], settings


def _split(text: str) -> list[str]:
    """The parts between commas that are in no bracket and in no quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    return [part for part in (*parts, text[start:]) if part.strip()]


def _value(text: str) -> Any:
    spelt = {"True": "true", "False": "false"}.get(text, text)
    try:
        return tomllib.loads(f"value = {spelt}")["value"]
    except tomllib.TOMLDecodeError:
        if _BARE.fullmatch(text):
            return text
        raise ValueError(f"{text}: expected a number, true, false, a text in quotes or a list") from None
