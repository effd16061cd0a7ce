"""Any function from a batch to scores."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.core.warn import warn
from verax.scoring.adapters.base import Adapter, Companions, Returns, as_numpy, feature_names_of, without_wrapper
from verax.scoring.adapters.estimators import fitted_labels, fitted_names

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


@dataclass(frozen=True)
class PlainCallable:
    """Any function from a batch to scores. ``takes=None`` hands it the array kind of the user's inputs."""

    function: Callable[[Any], Any]
    returns: Returns
    takes: ArrayKind | None = None
    score: Callable[[Any], Any] | None = None
    module: None = None

    def __post_init__(self) -> None:
        warn_of_training(self.function)

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Those of the estimator of which the function is a method, if it is one."""
        return fitted_names(getattr(self.function, "__self__", None))

    @property
    def labels(self) -> Sequence[Any] | None:
        """Those of the estimator of which the function is a method, if it is one."""
        return fitted_labels(getattr(self.function, "__self__", None))

    def __call__(self, batch: Tensor, kind: ArrayKind, companions: Companions | None = None) -> object:
        """Call the function with a batch of the kind it takes, and what comes beside it."""
        takes = self.takes or kind
        try:
            if companions is not None:
                output = companions.call(self.function, batch, as_numpy if takes == "numpy" else None)
            else:
                output = self.function(as_numpy(batch) if takes == "numpy" else batch)
        except (TypeError, AttributeError) as error:
            other = "torch" if takes == "numpy" else "numpy"
            error.add_note(
                f"The model was called with a {takes} batch. If it needs {other} arrays, "
                f'say so: verax.Scorer(model, returns="{self.returns}", takes="{other}").'
            )
            raise
        if self.score is not None:
            return self.score(output)
        return without_wrapper(output, self.returns) if hasattr(output, "logits") else output


@dataclass(frozen=True)
class Scored:
    """A model of any other kind, with a function from what it returns to one or more numbers per row."""

    adapter: Adapter
    score: Callable[[Any], Any]
    returns: Returns
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Those of the model."""
        return feature_names_of(self.adapter)

    @property
    def takes_missing(self) -> bool:
        """As the model does."""
        return bool(getattr(self.adapter, "takes_missing", False))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Run the model, then the function."""
        return self.score(self.adapter(batch, kind))
