"""The forward contract of every kind of model, what adapters share, and the arguments that go with the rows."""

from collections.abc import Callable, Iterator, Mapping
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
    """Names of the columns in the model's order, if it knows them; argument as in ``home``."""
    names = getattr(adapter, "feature_names", None)
    return None if names is None else tuple(str(name) for name in names)


def labels_of(adapter: Adapter) -> tuple[Any, ...] | None:
    """Labels of the classes in the order of the model's outputs, if it knows them; argument as in ``home``."""
    labels = getattr(adapter, "labels", None)
    return None if labels is None else tuple(labels)


def model_name(adapter: Adapter) -> str:
    """What a model is called: its class, or the name of a function; argument as in ``home``."""
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
    """The device on which the model lives.

    Args:
        adapter: The model.
        fallback: That of its inputs, for a model without weights.
    """
    return next((tensor.device for tensor in _tensors(adapter.module)), fallback)


def floating_dtype(adapter: Adapter, fallback: torch.dtype) -> torch.dtype:
    """The dtype of the model's weights, to which batches are cast; arguments as in ``home``."""
    return next((tensor.dtype for tensor in _tensors(adapter.module) if tensor.is_floating_point()), fallback)


def _tensors(module: nn.Module | None) -> Iterator[Tensor]:
    if module is not None:
        yield from module.parameters()
        yield from module.buffers()


Collate = Callable[[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]


@runtime_checkable
class Shortens(Protocol):
    """A ``collate`` that shortens batches to their longest row, so that rows of like length are best run together."""

    def lengths(self, rows: Tensor, others: Mapping[str, Tensor]) -> Int[Tensor, " rows"]:
        """How long each row will be."""

    def check_model(self, module: nn.Module | None, rows: Tensor, others: Mapping[str, Tensor]) -> None:
        """Raise for rows that do not fit a model, before it runs."""


@dataclass(frozen=True, eq=False)
class RowArguments:
    """What travels with rows, and how a model is called with it."""

    # arrays with one entry per row, by the name under which the model takes them
    model_kwargs: Mapping[str, Tensor] = field(default_factory=dict)
    key: str | None = None  # name under which the model takes the rows themselves; None for the first argument
    collate: Collate | None = None  # called with both before the model, and gives both back, maybe without padding

    def on(self, device: torch.device) -> "RowArguments":
        return replace(self, model_kwargs={name: value.to(device) for name, value in self.model_kwargs.items()})

    def at(self, owner: Int[Tensor, " rows"]) -> "RowArguments":
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
