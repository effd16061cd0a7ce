"""Extras of the installed package: what each consists of, and whether it is there before a command needs it."""

import importlib.util
from typing import TYPE_CHECKING

from verax.core.packages import PIP_NAMES

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MODULES = {name: module for module, name in PIP_NAMES.items()}


def check_extra(purpose: str, extra: str) -> None:
    """Say before any work which packages of an extra are missing."""
    wanted = [requirement.name for requirement in requirements() if extra_of(requirement) == extra]
    missing = [name for name in wanted if importlib.util.find_spec(module_name(name)) is None]
    if missing:
        raise ImportError(f"{purpose} needs {', '.join(missing)}: pip install 'verax[{extra}]'")


def requirements() -> "list[Requirement]":
    """What the installed package says that it needs; nothing where Verax runs from its source."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        return [Requirement(line) for line in metadata.requires("verax") or []]
    except metadata.PackageNotFoundError:
        return []


def extra_of(requirement: "Requirement") -> str:
    """The extra to which a requirement belongs; empty if it belongs to none."""
    return str(requirement.marker).partition('extra == "')[2].partition('"')[0]


def module_name(package: str) -> str:
    """What Python calls a package, by pip's name: PIL for pillow."""
    return _MODULES.get(package.lower(), package.replace("-", "_"))
