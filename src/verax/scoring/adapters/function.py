"""Any function from a batch to scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Returns, as_numpy, without_wrapper
from verax.scoring.adapters.classifiers import fitted_labels, fitted_names


@dataclass(frozen=True)
class PlainCallable:
    """Any function from a batch to scores. ``takes=None`` hands it the array kind of the user's inputs."""

    function: Callable[[Any], Any]
    returns: Returns
    takes: ArrayKind | None = None
    module: None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Those of the estimator of which the function is a method, if it is one."""
        return fitted_names(getattr(self.function, "__self__", None))

    @property
    def labels(self) -> Sequence[Any] | None:
        """Those of the estimator of which the function is a method, if it is one."""
        return fitted_labels(getattr(self.function, "__self__", None))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Call the function with a batch of the kind it takes."""
        takes = self.takes or kind
        try:
            output = self.function(as_numpy(batch) if takes == "numpy" else batch)
        except (TypeError, AttributeError) as error:
            other = "torch" if takes == "numpy" else "numpy"
            error.add_note(
                f"The model was called with a {takes} batch. If it needs {other} arrays, "
                f'say so: verax.Scorer(model, returns="{self.returns}", takes="{other}").'
            )
            raise
        return without_wrapper(output, self.returns) if hasattr(output, "logits") else output
