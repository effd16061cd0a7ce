"""Python code of an object with settings: the import lines and the constructor call, to be pasted."""

from dataclasses import fields, is_dataclass
from typing import Any


def code_of(value: Any) -> str:
    """The import lines and the call that make a dataclass again, also where settings are dataclasses.

    Example:
        >>> from verax.attribution import SmoothGrad
        >>> print(code_of(SmoothGrad(sigma=0.5)))
        from verax.attribution import SmoothGrad
        <BLANKLINE>
        method = SmoothGrad(sigma=0.5, samples=64, seed=0)
    """
    imports = sorted({_import(kind) for kind in _kinds(value)})
    settings = ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(value))
    return "\n".join([*imports, "", f"method = {type(value).__name__}({settings})"])


def _kinds(value: Any) -> list[type]:
    if not is_dataclass(value):
        return []
    return [type(value), *(kind for field in fields(value) for kind in _kinds(getattr(value, field.name)))]


def _import(kind: type) -> str:
    module, name = kind.__module__, kind.__name__
    if module == "__main__":
        return f"# {name} is the class of your script"
    public = ".".join(module.split(".")[:2])
    return f"from {public if module.startswith('verax.') else module} import {name}"
