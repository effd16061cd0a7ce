"""Any function from a batch to scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Adapter, Returns, as_numpy, feature_names_of, without_wrapper
from verax.scoring.adapters.estimators import fitted_labels, fitted_names
from verax.scoring.adapters.wrapped_modules import warn_of_training
from verax.scoring.companions import Companions


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
