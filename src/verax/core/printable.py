"""Text that may be shown on a terminal, wherever its names came from."""

import unicodedata

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control characters, also invisible ones that turn the reading order


def printable(text: str) -> str:
    r"""Text with control characters written out, so that no name moves the cursor, colours or hides what is said.

    Line breaks and tabs stay.

    Example:
        >>> print(printable("age\x1b[2J"))
        age\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(_shown(one) for one in text)


def _shown(one: str) -> str:
    harmful = one not in "\n\t" and unicodedata.category(one) in _HARMFUL
    return one.encode("unicode_escape").decode("ascii") if harmful else one
