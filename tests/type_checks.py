"""Types and shapes of every call of a package are checked while the tests run.

jaxtyping's import hook binds the arguments of every call anew and checks them twice, to say in its message which one
is wrong. beartype alone checks the same once, in a fraction of the time: most functions have no shapes, and for those
that have, jaxtyping's context follows a name of a dimension from one argument to the next and to what is returned.

In every test the first calls of each function are checked, as many as ``CALLS_PER_TEST`` says: checking the thousands
that follow took a third of the time of all tests and found nothing.
"""

import dataclasses
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from types import CodeType
from typing import Any, ForwardRef, Literal, Self, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintNonpepException

_by_jaxtyping = jaxtyping.jaxtyped
_typed = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping raises
_shaped = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))

CALLS_PER_TEST = 2
_test = 0  # its number


@dataclasses.dataclass(slots=True)
class _Calls:
    """How many calls of a function are still to be checked in a test."""

    test: int = -1
    left: int = 0


_calls: defaultdict[CodeType, _Calls] = defaultdict(_Calls)


def check_types_of(package: str) -> None:
    """Check every call of a package that is imported from now on."""
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]  # the import hook puts it over every function and class
    jaxtyping.install_import_hook(package, "beartype.beartype")


def begin_test() -> None:
    """From now on the first calls of every function are checked again."""
    global _test  # noqa: PLW0603  # read in every call, so it is a plain number
    _test += 1


def _checked(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(thing: Any) -> Any:
        if thing.__module__.endswith("_kernels"):  # Triton compiles functions as they are written
            return thing
        if inspect.isfunction(thing):
            return _checks_first_calls(thing, typechecker)
        own = vars(thing).get("__init__") if inspect.isclass(thing) and dataclasses.is_dataclass(thing) else None
        if inspect.isfunction(own) and not hasattr(own, "__wrapped__") and not _needs_jaxtyping(own):
            thing.__init__ = _checks_first_calls(own, typechecker)
            return thing
        return _by_jaxtyping(thing, typechecker=typechecker)

    return decorate


def _checks_first_calls(function: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    """The function with its checks, which are made when it is first called: most modules are imported for a part."""
    checked: Callable[..., Any] | None = None
    calls = _calls[function.__code__]  # of all functions that one line makes

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal checked
        __tracebackhide__ = True
        if calls.test != _test:
            calls.test, calls.left = _test, CALLS_PER_TEST
        if not calls.left or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **named)
        calls.left -= 1
        if checked is None:
            checked = _with_checks(function, typechecker)
        return checked(*arguments, **named)

    return call


def _with_checks(function: Callable[..., Any], typechecker: Any) -> Callable[..., Any]:
    try:
        return _by_beartype(function) or _by_jaxtyping(function, typechecker=typechecker)
    except BeartypeDecorHintNonpepException:  # pydantic's types of handlers are not known to beartype
        return function


def _by_beartype(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function with its checks, or None where they need more than a context for the names of dimensions."""
    if not _has_shapes(function):
        return _typed(function)
    return None if _needs_jaxtyping(function) else _with_shapes(function)


def _has_shapes(function: Callable[..., Any]) -> bool:
    return any(map(_is_shape, function.__annotations__.values()))


def _is_shape(annotation: Any) -> bool:
    if isinstance(annotation, str | ForwardRef):  # it may be one, or name what only type checkers import
        return True
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return get_origin(annotation) is not Literal and any(map(_is_shape, get_args(annotation)))


def _needs_jaxtyping(function: Callable[..., Any]) -> bool:
    """Whether an annotation is text, which may name nothing, or ``Self``, or a dimension depends on what is given."""
    return inspect.isgeneratorfunction(function) or any(map(_is_open, function.__annotations__.values()))


def _is_open(annotation: Any) -> bool:
    if isinstance(annotation, str | ForwardRef) or annotation is Self:
        return True
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return "{" in annotation.dim_str
    return get_origin(annotation) is not Literal and any(map(_is_open, get_args(annotation)))


def _with_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    checked, context = _shaped(function), _by_jaxtyping("context")  # in which a name of a dimension is one number

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        with context:
            return checked(*arguments, **named)

    return call
