"""Python code of an object with settings: the import lines and the constructor call, to be pasted."""

import sys
from dataclasses import fields, is_dataclass
from typing import Any


def code_of(value: Any) -> str:
    """The import lines and the constructor call of a dataclass, also where settings are dataclasses.

    Example:
        >>> from verax.attribution import SmoothGrad
        >>> print(code_of(SmoothGrad(sigma=0.5)))
        from verax.attribution import SmoothGrad
        SmoothGrad(sigma=0.5, samples=64, seed=0)
    """
    imports = sorted({_import(kind) for kind in _classes(value)})
    settings = ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(value))
    return "\n".join([*imports, f"{type(value).__name__}({settings})"])


def _classes(value: Any) -> list[type]:
    if not is_dataclass(value):
        return []
    return [type(value), *(kind for field in fields(value) for kind in _classes(getattr(value, field.name)))]


def _import(kind: type) -> str:
    module, name = kind.__module__, kind.__name__
    if module == "__main__":
        return f"# {name} is the class of your script"
    return f"from {_public(module, name)} import {name}"


def _public(module: str, name: str) -> str:
    """The shortest module of the library that has a class, such as ``verax.replacement``; others as they are."""
    if not module.startswith("verax."):
        return module
    homes = (f"verax.{part}" for part in module.split(".")[1:])
    return next((home for home in homes if hasattr(sys.modules.get(home), name)), module)
