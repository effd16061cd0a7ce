"""List every public name with its parameters: ``python scripts/public_api.py`` writes tests/public_api.txt.

A test compares the list with the package, so that no name, parameter or default changes without a decision.
"""

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import verax

SNAPSHOT = Path(__file__).parents[1] / "tests" / "public_api.txt"
# What is public beside verax itself: the names in their __all__, and nothing else.
PUBLIC = (
    *("adapters", "attribution", "auditing", "auditing.trials", "checking", "datasets", "groups", "interop"),
    *("interop.captum", "interop.quantus", "interop.shap", "lakes", "metrics", "models", "monitoring", "paper.models"),
    *("replacement", "results", "tables", "text", "tuning"),
)


def main() -> None:
    """Write the list."""
    SNAPSHOT.write_text("\n".join(lines()) + "\n", encoding="utf-8")


def modules() -> Iterator[ModuleType]:
    """Verax and its public modules."""
    yield verax
    yield from (importlib.import_module(f"verax.{name}") for name in PUBLIC)


def lines() -> Iterator[str]:
    """A line for each name in an ``__all__``, and for each public method and attribute of a class."""
    for module in modules():
        for name in sorted(module.__all__):
            value = getattr(module, name)
            yield f"{module.__name__}.{name}{parameters(value)}"
            if inspect.isclass(value) and value.__module__.startswith("verax"):
                yield from (f"{module.__name__}.{name}.{member}" for member in members(value))


def members(kind: type) -> Iterator[str]:
    """What a class defines, itself or by a private base, but for its fields; public bases have lines of their own."""
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    public = {id(getattr(module, name)) for module in modules() for name in module.__all__} - {id(kind)}
    bases = [base for base in kind.__mro__ if base.__module__.startswith("verax") and id(base) not in public]
    for name in sorted({name for base in bases for name in vars(base) if name[0] != "_"} - fields):
        yield f"{name}{parameters(getattr(kind, name))}"


def parameters(value: Any) -> str:
    """The parameters of a function or class, without types; nothing for whatever else there is."""
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:  # what C or Protocol defines
        return ""
    plain = [
        each.replace(annotation=each.empty, default=... if " at 0x" in repr(each.default) else each.default)
        for each in signature.parameters.values()
    ]
    return str(inspect.Signature(plain))


if __name__ == "__main__":
    main()
