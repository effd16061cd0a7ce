"""What the documentation needs beyond Zensical: formulae without scripts, and examples of docstrings as code."""

from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert


def fence(source: str, language: str, css_class: str, options: object, md: object, **further: object) -> str:
    """Turn LaTeX in a ``math`` block into MathML, which browsers draw by themselves."""
    return f'<div class="{css_class}" style="overflow-x: auto">{convert(source.strip(), display="block")}</div>'


class Examples(Extension):
    """Read the heading ``Example:`` of our docstrings as the ``Examples:`` that griffe knows to hold code."""

    def on_object(self, *, obj: Object, **further: Any) -> None:
        """Rename the section before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
