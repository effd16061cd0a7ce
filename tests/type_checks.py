"""Types and shapes of every call of a package are checked while the tests run.

jaxtyping's import hook binds the arguments of every call anew and checks them twice, to follow shapes from one argument
to the next. Most functions have no shapes: for them beartype alone checks the same in a fraction of the time.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
from beartype import BeartypeConf, beartype

_with_shapes = jaxtyping.jaxtyped
_typed = beartype(conf=BeartypeConf(violation_type=TypeError))  # as jaxtyping raises


def check_types_of(package: str) -> None:
    """Check every call of a package that is imported from now on."""
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]  # the import hook puts it over every function and class
    jaxtyping.install_import_hook(package, "beartype.beartype")


def _checked(*, typechecker: Any) -> Callable[[Any], Any]:
    def decorate(thing: Any) -> Any:
        if thing.__module__.endswith("_kernels"):  # Triton compiles functions as they are written
            return thing
        if inspect.isfunction(thing) and not _has_shapes(thing):
            return _without_shapes(thing)
        own = vars(thing).get("__init__") if inspect.isclass(thing) and dataclasses.is_dataclass(thing) else None
        if inspect.isfunction(own) and not hasattr(own, "__wrapped__") and not _has_shapes(own):
            thing.__init__ = _without_shapes(own)
            return thing
        return _with_shapes(thing, typechecker=typechecker)

    return decorate


def _has_shapes(function: Callable[..., Any]) -> bool:
    return any(map(_is_shape, function.__annotations__.values()))


def _is_shape(annotation: Any) -> bool:
    if isinstance(annotation, str | ForwardRef):  # it may be one, or name what only type checkers import
        return True
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return get_origin(annotation) is not Literal and any(map(_is_shape, get_args(annotation)))


def _without_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    checked = _typed(function)
    if checked is function:  # nothing to check
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return (function if jaxtyping.config.jaxtyping_disable else checked)(*arguments, **named)

    return call
