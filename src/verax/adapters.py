"""What a model may be: every supported kind becomes one forward contract, a batch in and raw class outputs out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor, nn

Returns = Literal["logits", "probabilities"]
ArrayKind = Literal["torch", "numpy"]


@runtime_checkable
class Adapter(Protocol):
    """One forward contract for every kind of model."""

    @property
    def returns(self) -> Returns:
        """Whether the raw outputs are logits or probabilities."""

    @property
    def module(self) -> nn.Module | None:
        """The torch module whose mode and device must be managed, if there is one."""

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Run the model on a batch; ``kind`` is the array library of the user's inputs."""


@dataclass(frozen=True)
class TorchModule:
    """A ``torch.nn.Module``."""

    module: nn.Module
    returns: Returns

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Run the module."""
        return self.module(batch)


@dataclass(frozen=True)
class SklearnClassifier:
    """A fitted scikit-learn classifier, asked for its class probabilities."""

    estimator: Any
    returns: Returns = "probabilities"
    module: None = None

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Ask for probabilities on a NumPy copy of the batch."""
        return self.estimator.predict_proba(_as_numpy(batch))


@dataclass(frozen=True)
class PlainCallable:
    """Any function from a batch to scores. ``takes=None`` hands it the array kind of the user's inputs."""

    function: Callable[[Any], Any]
    returns: Returns
    takes: ArrayKind | None = None
    module: None = None

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Call the function with a batch of the kind it takes."""
        takes = self.takes or kind
        try:
            return self.function(_as_numpy(batch) if takes == "numpy" else batch)
        except (TypeError, AttributeError) as error:
            other = "torch" if takes == "numpy" else "numpy"
            error.add_note(
                f"The model was called with a {takes} batch. If it needs {other} arrays, "
                f'say so: verax.Scorer(model, returns="{self.returns}", takes="{other}").'
            )
            raise


def _as_numpy(batch: Tensor) -> Any:
    """NumPy has no bfloat16; single precision holds its values exactly."""
    return (batch.float() if batch.dtype == torch.bfloat16 else batch).cpu().numpy()


def adapt(model: object, returns: Returns | None, takes: ArrayKind | None) -> Adapter:
    """Choose the adapter for a model, or say which kinds of model there are."""
    _check_choice("returns", returns, get_args(Returns))
    _check_choice("takes", takes, get_args(ArrayKind))
    if isinstance(model, nn.Module):
        _refuse_takes(takes, "a torch module takes torch tensors")
        return TorchModule(model, returns or "logits")
    if hasattr(model, "predict"):
        _refuse_takes(takes, "a scikit-learn estimator takes NumPy arrays")
        return _adapt_sklearn(model, returns)
    if callable(model):
        if returns is None:
            raise ValueError(
                "model: a plain callable does not say whether it returns logits or probabilities; "
                'wrap it once: verax.Scorer(model, returns="logits") or verax.Scorer(model, returns="probabilities").'
            )
        return PlainCallable(model, returns, takes)
    raise TypeError(
        f"model: expected a torch.nn.Module, a scikit-learn classifier, a callable or a verax.Scorer, "
        f"found {type(model).__name__}."
    )


def _adapt_sklearn(model: object, returns: Returns | None) -> SklearnClassifier:
    name = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"model: {name} has no predict_proba; calibrate it (sklearn.calibration.CalibratedClassifierCV) or "
            'wrap its decision function: verax.Scorer(model.decision_function, returns="logits", takes="numpy").'
        )
    if not hasattr(model, "classes_"):
        raise ValueError(f"model: {name} is not fitted (it has no classes_); call fit first.")
    if returns == "logits":
        raise ValueError(
            f'returns: {name}.predict_proba gives probabilities; leave returns out or say "probabilities".'
        )
    return SklearnClassifier(model)


def _refuse_takes(takes: ArrayKind | None, reason: str) -> None:
    if takes is not None:
        raise ValueError(f"takes: only for plain callables ({reason}); leave it out.")


def _check_choice(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        choices = " or ".join(f'"{choice}"' for choice in allowed)
        raise ValueError(f"{name}: expected {choices}, found {value!r}.")


def home(adapter: Adapter, fallback: torch.device) -> torch.device:
    """Return the device on which the model lives; a model without weights works where its inputs are."""
    if adapter.module is None:
        return fallback
    for tensor in (*adapter.module.parameters(), *adapter.module.buffers()):
        return tensor.device
    return fallback


def floating_dtype(adapter: Adapter, fallback: torch.dtype) -> torch.dtype:
    """Return the dtype of the model's weights, to which batches are cast; without weights, that of the inputs."""
    if adapter.module is None:
        return fallback
    for tensor in (*adapter.module.parameters(), *adapter.module.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype
    return fallback
