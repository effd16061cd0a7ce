"""The metrics and methods that the how-to pages write, taken from the pages: what a reader copies is what is tested."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def from_page(page: str, *names: str) -> list[Any]:
    """The classes of these names from the Python blocks of a page that define them."""
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    module = sys.modules.setdefault("page", ModuleType("page"))  # where dataclasses look for the names of annotations
    for block in re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        if any(f"class {name}(" in block for name in names):
            exec(compile(block, f"{page}.md", "exec"), module.__dict__)  # noqa: S102
    return [getattr(module, name) for name in names]


def lines_of(page: str, name: str) -> int:
    """How long the block that defines a class is."""
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    (block,) = (one for one in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if f"class {name}(" in one)
    return len(block.strip().splitlines())


def is_of_the_package(kind: type) -> bool:
    """Whether a class is one of the package's, not one that an example in a docstring has defined."""
    place = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("verax.") and getattr(place, kind.__name__, None) is kind
