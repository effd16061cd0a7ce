"""Torch modules inside plain functions: only their owner can switch them to evaluation mode, so say that it is off."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from torch import nn

from verax.core.warn import warn

_TWO_MODES = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # what differs between the two modes


def warn_of_training(function: Any) -> None:
    """Warn where a function uses a module in training mode whose scores then change from call to call.

    The function is looked at, not called: what it closes over, is a method of, is a partial of, or has as an attribute,
    and the global names that it uses.
    """
    for module in _modules(function):
        for name, part in module.named_modules():
            if part.training and isinstance(part, _TWO_MODES):
                warn(
                    f"The function uses a torch module ({type(module).__name__}) in training mode: its "
                    f"{type(part).__name__} {name} makes scores change from call to call or with the batch. Call "
                    ".eval() on the module first, or give the module itself as model.",
                )
                return


def _modules(function: Any) -> Iterator[nn.Module]:
    """The modules that a callable holds."""
    while isinstance(function, functools.partial):
        yield from _among((*function.args, *function.keywords.values()))
        function = function.func
    owner = getattr(function, "__self__", None)
    held = [owner, *vars(owner).values()] if hasattr(owner, "__dict__") else [owner]
    yield from _among(held)
    function = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(function):
        known = function.__globals__
        yield from _among(known[name] for name in function.__code__.co_names if name in known)
        yield from _among(_contents(function))
        yield from _among(function.__defaults__ or ())
    else:
        yield from _among([function, *getattr(function, "__dict__", {}).values()])


def _contents(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue


def _among(values: Any) -> Iterator[nn.Module]:
    return (value for value in values if isinstance(value, nn.Module))
