"""The choice of the adapter for a model; plain functions, and the modules inside them that are still in training."""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from verax.core.arguments import checked_choice
from verax.core.arrays import ArrayKind
from verax.core.warn import warn
from verax.scoring.adapters.base import Adapter, Returns, RowArguments, as_numpy, feature_names_of, without_wrapper
from verax.scoring.adapters.estimators import adapt_booster, adapt_estimator, fitted_labels, fitted_names, is_booster
from verax.scoring.adapters.onnx import adapt_session, is_session, load_session
from verax.scoring.adapters.torch_module import (
    TorchModule,
    check_alone,
    check_exported_for_inference,
    configured_returns,
    exported_module,
    load_exported,
)

_TWO_MODES = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)  # what differs between the two modes


def warn_of_training(function: Any) -> None:
    """Warn where a function, which is looked at and not called, uses a module in training mode whose scores change."""
    for module in _modules(function):
        for name, part in module.named_modules():
            if part.training and isinstance(part, _TWO_MODES):
                warn(
                    f"The function uses a torch module ({type(module).__name__}) in training mode: its "
                    f"{type(part).__name__} {name} makes scores change from call to call or with the batch. Call "
                    ".eval() on the module first, or give the module itself as model.",
                )
                return


def _modules(function: Any) -> list[nn.Module]:
    """The modules that a callable closes over, is a method or partial of, has as attributes, or names as globals."""
    held: list[Any] = []
    while isinstance(function, functools.partial):
        held += [*function.args, *function.keywords.values()]
        function = function.func
    owner = getattr(function, "__self__", None)
    held += [owner, *getattr(owner, "__dict__", {}).values()]
    function = inspect.unwrap(getattr(function, "__func__", function))
    if inspect.isfunction(function):
        held += [function.__globals__.get(name) for name in function.__code__.co_names]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # a name that has no value yet
                held.append(cell.cell_contents)
        held += function.__defaults__ or ()
    else:
        held += [function, *getattr(function, "__dict__", {}).values()]
    return [value for value in held if isinstance(value, nn.Module)]


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
        return fitted_names(getattr(self.function, "__self__", None))

    @property
    def labels(self) -> Sequence[Any] | None:
        return fitted_labels(getattr(self.function, "__self__", None))

    def __call__(self, batch: Tensor, kind: ArrayKind, row_arguments: RowArguments | None = None) -> object:
        takes = self.takes or kind
        try:
            if row_arguments is not None:
                output = row_arguments.call(self.function, batch, as_numpy if takes == "numpy" else None)
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
        return feature_names_of(self.adapter)

    @property
    def takes_missing(self) -> bool:
        return bool(getattr(self.adapter, "takes_missing", False))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        return self.score(self.adapter(batch, kind))


def adapt(
    model: object,
    returns: Returns | None,
    takes: ArrayKind | None,
    trust: bool = False,
    score: Callable[[Any], Any] | None = None,
) -> Adapter:
    """Choose the adapter for a model, or say which kinds of model there are.

    Args:
        model: A torch module, an exported program, a classifier or regressor of scikit-learn, XGBoost, LightGBM or
            CatBoost, an ONNX Runtime session, the path of a ``.onnx`` or ``.pt2`` file, an object that satisfies
            ``Adapter``, or a callable.
        returns: ``"logits"``, ``"probabilities"`` or ``"values"``; None for what is usual for this kind of model.
        takes: For a callable, the arrays that it takes, ``"torch"`` or ``"numpy"``; None for those of the inputs.
        trust: Whether a file that may run code may be opened.
        score: From what the model returns to numbers that are then taken as ``returns`` says, values by default.

    Example:
        >>> adapt(nn.Linear(3, 2), None, None).returns
        'logits'
    """
    for name, word, allowed in (("returns", returns, get_args(Returns)), ("takes", takes, get_args(ArrayKind))):
        if word is not None:
            checked_choice(name, word, allowed)
    if isinstance(model, str | os.PathLike):
        model = _from_file(Path(model), trust)
    if isinstance(model, ExportedProgram):
        model = exported_module(model)
    if score is not None:
        return _scored(model, returns or "values", takes, score)
    if isinstance(model, nn.Module):
        return _checked_module(model, returns, takes)
    return _without_gradients(model, returns, takes)


def _scored(model: object, returns: Returns, takes: ArrayKind | None, score: Callable[[Any], Any]) -> Adapter:
    if not callable(score):
        raise TypeError(f"score: expected a function from the model's output to one number per row, got {score!r}.")
    if isinstance(model, nn.Module):
        return replace(_checked_module(model, returns, takes), score=score)
    plain = callable(model) and not isinstance(model, Adapter) and not hasattr(model, "predict")
    if plain and not is_session(model):
        return PlainCallable(model, returns, takes, score)  # type: ignore[arg-type]
    return Scored(_without_gradients(model, None, takes), score, returns)


def _without_gradients(model: object, returns: Returns | None, takes: ArrayKind | None) -> Adapter:
    if isinstance(model, Adapter):
        _check_no_takes(takes, "an adapter says itself what it takes")
        if model.returns not in get_args(Returns):
            expected = " or ".join(f'"{word}"' for word in get_args(Returns))
            raise ValueError(f"model: expected an adapter whose returns is {expected}, got {model.returns!r}.")
        if returns not in (None, model.returns):
            raise ValueError(f"returns: the adapter says {model.returns!r}; leave returns out.")
        return model
    for fits, adapter_of, what in _WITHOUT_GRADIENTS:
        if fits(model):
            _check_no_takes(takes, f"{what} takes NumPy arrays")
            return adapter_of(model, returns)
    if callable(model):
        if returns is None:
            raise ValueError(
                "model: a plain callable does not say what it returns; wrap it once: "
                'verax.Scorer(model, returns="logits"), returns="probabilities", or returns="values" for a regressor.'
            )
        return PlainCallable(model, returns, takes)
    raise TypeError(
        "model: expected a torch.nn.Module, an exported program, a model of scikit-learn, XGBoost, LightGBM or "
        "CatBoost, an ONNX Runtime session, a path to a .onnx or .pt2 file, a verax.adapters.Adapter, a callable or a "
        f"verax.Scorer, got {type(model).__name__}."
    )


_WITHOUT_GRADIENTS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Returns | None], Adapter], str], ...] = (
    (is_session, adapt_session, "an ONNX model"),
    (is_booster, adapt_booster, "a booster"),
    (lambda model: hasattr(model, "predict"), adapt_estimator, "a scikit-learn estimator"),
)


def _checked_module(module: nn.Module, returns: Returns | None, takes: ArrayKind | None) -> TorchModule:
    _check_no_takes(takes, "a torch module takes torch tensors")
    check_alone(module)
    if isinstance(module, fx.GraphModule):
        check_exported_for_inference(module.graph, "the model")
    return TorchModule(module, returns or configured_returns(module))


def _from_file(path: Path, trust: bool) -> object:
    if path.suffix not in (".onnx", ".pt2"):
        raise ValueError(
            f"model: expected a path to a .onnx or .pt2 file, got {str(path)!r}; "
            "verax.models.load reads what verax train saves."
        )
    if not path.is_file():
        raise FileNotFoundError(f"model: there is no file {str(path)!r}.")
    if path.suffix == ".onnx":
        return load_session(path)
    if trust is not True:
        raise ValueError(
            f"model: {path} is not opened: a .pt2 file can run any code on this machine, because torch evaluates parts "
            "of it as Python. If you trust whoever made it, say so: verax.Scorer(path, trust=True), or --trust-model "
            "on the command line. Files of ONNX (.onnx) and of verax train (.safetensors) run nothing."
        )
    return load_exported(path)


def _check_no_takes(takes: ArrayKind | None, reason: str) -> None:
    if takes is not None:
        raise ValueError(f"takes: only for plain callables ({reason}); leave it out.")
