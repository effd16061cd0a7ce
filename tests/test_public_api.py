"""The public API is documented: every class, function, method, parameter and field that a folder exports.

Public is what a package names in its ``__all__``; it describes every parameter, or names the function that does. The
rest is private and needs no docstring for users.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import verax


def modules() -> Iterator[ModuleType]:
    yield verax
    for found in pkgutil.walk_packages(verax.__path__, "verax."):
        if not any(part.startswith("_") for part in found.name.split(".")):
            with contextlib.suppress(ModuleNotFoundError):  # an extra that is not installed here
                yield importlib.import_module(found.name)


MODULES = list(modules())
INNER = (
    "verax.metrics.result.Context",
    "verax.perturbation.",
    "verax.scoring.session.Session",
    "verax.statistics.sums.ScoreSums",
)  # what metrics and totals work with


def offered() -> Iterator[tuple[str, Any]]:
    """What packages offer in their ``__all__``, each under its first name."""
    seen: set[int] = set()
    for module in MODULES:
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            defined = inspect.isfunction(value) or inspect.isclass(value)
            if defined and value.__module__.startswith("verax") and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


OFFERED = dict(offered())


def reached() -> dict[str, type]:
    """Dataclasses that are offered, and those that calls, attributes and fields of what is offered give."""
    found: dict[str, type] = {}
    todo = [*OFFERED.values(), *(one for value in OFFERED.values() for one in given(value))]
    while todo:
        value = todo.pop()
        name = f"{value.__module__}.{value.__qualname__}"
        if not dataclasses.is_dataclass(value) or name in found or name.startswith(INNER):
            continue
        found[name] = value
        todo += [value for value in given(value) if name not in found]
    return found


def given(value: Any) -> Iterator[Any]:
    """Public classes of Verax in the annotations of a function, or of the fields and members of a class."""
    members = [value] if inspect.isfunction(value) else [one for name, one in vars(value).items() if name[0] != "_"]
    functions = [one.fget if isinstance(one, property) else one for one in members]
    hints = [inspect.signature(one).return_annotation for one in functions if inspect.isfunction(one)]
    if dataclasses.is_dataclass(value):
        hints += [field.type for field in dataclasses.fields(value)]
    for hint in hints:
        for one in (hint, *typing.get_args(hint)):
            if inspect.isclass(one) and one.__module__.startswith("verax") and not one.__name__.startswith("_"):
                yield one


FIELDS = reached()


def docs(value: Any) -> str:
    return inspect.getdoc(value) or ""


def has_own_docs(value: Any) -> bool:
    """Whether a class or function has a docstring, and not the one that dataclasses make of the fields."""
    return bool(value.__doc__) and not value.__doc__.startswith(f"{value.__name__}(")


def described(text: str) -> set[str]:
    """The names that a docstring describes: ``name: what it is``, also several at once and with a type."""
    lines = re.findall(r"^\s*((?:\*{0,2}\w+(?: \([^)]*\))?, )*\*{0,2}\w+(?: \([^)]*\))?): \S", text, flags=re.MULTILINE)
    return {name.split(" (")[0].lstrip("*") for line in lines for name in line.split(", ")}


def explained(value: Any, seen: frozenset[str] = frozenset()) -> set[str]:
    """The names that a docstring describes, or those of its bases and of what it names in double backticks."""
    text = docs(value)
    if inspect.isclass(value):
        text += "".join(f"\n{docs(base)}" for base in value.__mro__[1:] if base.__module__.startswith("verax"))
    found = described(text)
    for word in set(re.findall(r"``(?:\w+\.)*(\w+)``", text)) - seen:
        for name, other in OFFERED.items():
            if name.endswith(f".{word}"):
                found |= explained(other, seen | {word})
    return found


def parameters(value: Any) -> set[str]:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(value).parameters.values()
    return {one.name for one in given if not one.name.startswith("_") and one.kind not in several}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_module_says_what_it_is_for(module: ModuleType) -> None:
    assert len((module.__doc__ or "").strip()) > 15


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_every_public_name_is_described(name: str) -> None:
    value = OFFERED[name]
    assert has_own_docs(value)
    if inspect.isclass(value):
        members = [(member, held) for member, held in vars(value).items() if not member.startswith("_")]
        assert not [member for member, held in members if not _said(value, member, held)]


def _said(owner: type, member: str, found: Any) -> bool:
    """Whether a member needs no description or has one, of its own or from where it is inherited."""
    field = dataclasses.is_dataclass(owner) and member in {one.name for one in dataclasses.fields(owner)}
    kinds = (property, classmethod, staticmethod, functools.cached_property)
    if field or not (inspect.isfunction(found) or isinstance(found, kinds)):
        return True
    return bool(inspect.getdoc(getattr(owner, member, None)) or inspect.getdoc(found))


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_every_field_is_described(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(FIELDS[name]) if not field.name.startswith("_")}
    assert fields <= explained(FIELDS[name])


@pytest.mark.parametrize("name", sorted(OFFERED))
def test_every_parameter_of_what_is_offered_is_described(name: str) -> None:
    value = OFFERED[name]
    if inspect.isclass(value) and (
        dataclasses.is_dataclass(value) or issubclass(value, Exception) or "Attributes:" in docs(value)
    ):
        return  # described by its fields; or it is made by Verax alone, and described by its attributes
    assert parameters(value) <= explained(value)


def test_the_names_offered_are_there() -> None:
    for module in MODULES:
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_what_is_not_described_is_found() -> None:
    @dataclasses.dataclass
    class Bare:
        field: int = 0

    def function(one: int, two: int, three: int = 0) -> None:
        """Do it.

        Args:
            one: The first.
            two, three: The others.
        """

    def other(one: int, four: int) -> None:
        """Do it with the arguments of ``verax.metrics.pes``, and not more."""

    assert not has_own_docs(Bare)
    assert parameters(function) == described(docs(function)) == {"one", "two", "three"}
    assert explained(other) == {"values"}
    assert not parameters(other) <= explained(other)
