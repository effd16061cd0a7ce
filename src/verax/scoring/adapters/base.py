"""The forward contract of every kind of model, what adapters share, and the arguments that go with the rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.core.shapes import Int

Returns = Literal["logits", "probabilities", "values"]


@runtime_checkable
class Adapter(Protocol):
    """One forward contract for every kind of model. ``verax.Scorer`` takes any object that satisfies it.

    An adapter that knows them may also have ``feature_names``, the columns in the model's order, and ``labels``, the
    classes, or names of the values, in the order of its outputs.

    Example:
        >>> import torch, verax
        >>> class Ensemble:
        ...     returns, module = "logits", None
        ...     def __init__(self, *members):
        ...         self.members = members
        ...     def __call__(self, batch, kind):
        ...         return sum(member(batch) for member in self.members)
        >>> scorer = verax.Scorer(Ensemble(torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)))
        >>> x = torch.randn(5, 3)
        >>> verax.metrics.PredictionChange()(verax.Problem(scorer, x), x).value.shape
        torch.Size([5])
    """

    @property
    def returns(self) -> Returns:
        """What the raw outputs are: logits or probabilities of classes, or values such as a regressor's."""

    @property
    def module(self) -> nn.Module | None:
        """The torch module whose mode and device must be managed, if there is one."""

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Run the model on a batch; ``kind`` is the array library of the user's inputs."""


def feature_names_of(adapter: Adapter) -> tuple[str, ...] | None:
    """Names of the columns in the model's order, if it knows them.

    Args:
        adapter: The model.
    """
    names = getattr(adapter, "feature_names", None)
    return None if names is None else tuple(str(name) for name in names)


def labels_of(adapter: Adapter) -> tuple[Any, ...] | None:
    """Labels of the classes in the order of the model's outputs, if it knows them.

    Args:
        adapter: The model.
    """
    labels = getattr(adapter, "labels", None)
    return None if labels is None else tuple(labels)


def model_name(adapter: Adapter) -> str:
    """What a model is called where people read it: its class, or the name of a function.

    Args:
        adapter: The model.
    """
    kept = ("estimator", "module", "booster", "function")
    held = next((getattr(adapter, name) for name in kept if getattr(adapter, name, None) is not None), adapter)
    return str(getattr(held, "__name__", type(held).__name__))


def as_numpy(batch: Tensor) -> Any:
    """NumPy has no bfloat16; single precision holds its values exactly."""
    return (batch.float() if batch.dtype == torch.bfloat16 else batch).cpu().numpy()


def without_wrapper(output: object, returns: Returns) -> object:
    """Take the logits out of an object that carries them, as models of Hugging Face return; pass on anything else."""
    if isinstance(output, Tensor):
        return output
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        return output
    if returns == "probabilities":
        raise ValueError(
            f"returns: the model returns {type(output).__name__} with logits, so its scores are no probabilities; "
            'leave returns out or say "logits".'
        )
    return logits


def home(adapter: Adapter, fallback: torch.device) -> torch.device:
    """Return the device on which the model lives; a model without weights works where its inputs are.

    Args:
        adapter: The model.
        fallback: Where its inputs are.
    """
    if adapter.module is None:
        return fallback
    for tensor in (*adapter.module.parameters(), *adapter.module.buffers()):
        return tensor.device
    return fallback


def floating_dtype(adapter: Adapter, fallback: torch.dtype) -> torch.dtype:
    """Return the dtype of the model's weights, to which batches are cast; without weights, that of the inputs.

    Args:
        adapter: The model.
        fallback: The dtype of its inputs.
    """
    if adapter.module is None:
        return fallback
    for tensor in (*adapter.module.parameters(), *adapter.module.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype
    return fallback


Collate = Callable[[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]


@runtime_checkable
class ChecksModel(Protocol):
    """A ``collate`` that knows which models its rows fit."""

    def check_model(self, module: nn.Module | None, rows: Tensor, others: Mapping[str, Tensor]) -> None:
        """Raise for rows that do not fit a model, before it runs."""


@runtime_checkable
class KnowsLengths(Protocol):
    """A ``collate`` that shortens batches to their longest row, so that rows of like length are best run together."""

    def lengths(self, rows: Tensor, others: Mapping[str, Tensor]) -> Int[Tensor, " rows"]:
        """How long each row will be."""


@dataclass(frozen=True, eq=False)
class RowArguments:
    """What travels with rows, and how a model is called with it."""

    # arrays with one entry per row, by the name under which the model takes them
    model_kwargs: Mapping[str, Tensor] = field(default_factory=dict)
    key: str | None = None  # name under which the model takes the rows themselves; None for the first argument
    # called with the rows and these arguments before the model is, and gives both back: it may trim padding or close
    # gaps
    collate: Collate | None = None

    def on(self, device: torch.device) -> "RowArguments":
        """The same on a device."""
        return replace(self, model_kwargs={name: value.to(device) for name, value in self.model_kwargs.items()})

    def at(self, owner: Int[Tensor, " rows"]) -> "RowArguments":
        """The arguments of rows, given which input each row came from."""
        chosen = {name: value[owner.to(value.device)] for name, value in self.model_kwargs.items()}
        return replace(self, model_kwargs=chosen)

    def call(self, model: Callable[..., Any], batch: Tensor, convert: Callable[[Tensor], Any] | None = None) -> Any:
        """Call a model with rows and what comes with them, as arrays of the kind that ``convert`` makes."""
        values, others = batch, dict(self.model_kwargs)
        if self.collate is not None:
            values, others = self.collate(values, others)
        if convert is not None:
            values, others = convert(values), {name: convert(value) for name, value in others.items()}
        return model(values, **others) if self.key is None else model(**{self.key: values}, **others)
