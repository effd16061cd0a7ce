"""Types and shapes of every call of a package are checked while the tests run.

jaxtyping's import hook binds the arguments of every call anew and checks them twice, to say in its message which one
is wrong. beartype alone checks the same once, in a fraction of the time: most functions have no shapes, and for those
that have, jaxtyping's context follows a name of a dimension from one argument to the next and to what is returned.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ForwardRef, Literal, Self, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

_by_jaxtyping = jaxtyping.jaxtyped
_typed = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping raises
_shaped = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def check_types_of(package: str) -> None:
    """Check every call of a package that is imported from now on."""
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]  # the import hook puts it over every function and class
    jaxtyping.install_import_hook(package, "beartype.beartype")


def _checked(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(thing: Any) -> Any:
        if thing.__module__.endswith("_kernels"):  # Triton compiles functions as they are written
            return thing
        if inspect.isfunction(thing) and (checked := _by_beartype(thing)):
            return checked
        own = vars(thing).get("__init__") if inspect.isclass(thing) and dataclasses.is_dataclass(thing) else None
        if inspect.isfunction(own) and not hasattr(own, "__wrapped__") and (checked := _by_beartype(own)):
            thing.__init__ = checked
            return thing
        return _by_jaxtyping(thing, typechecker=typechecker)

    return decorate


def _by_beartype(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function with its checks, or None where they need more than a context for the names of dimensions."""
    if not _has_shapes(function):
        return _without_shapes(function)
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
        if jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **named)
        with context:
            return checked(*arguments, **named)

    return call


def _without_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    checked = _typed(function)
    if checked is function:  # nothing to check
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return (function if jaxtyping.config.jaxtyping_disable else checked)(*arguments, **named)

    return call
