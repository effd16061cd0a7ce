"""The choice of the adapter for a model."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from torch import fx, nn
from torch.export import ExportedProgram

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Adapter, Returns
from verax.scoring.adapters.estimators import adapt_booster, adapt_estimator, is_booster
from verax.scoring.adapters.function import PlainCallable, Scored
from verax.scoring.adapters.onnx import adapt_session, is_session, load_session
from verax.scoring.adapters.torch_module import (
    TorchModule,
    check_alone,
    check_exported_for_inference,
    configured_returns,
    exported_module,
    load_exported,
)


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
    _check_choice("returns", returns, get_args(Returns))
    _check_choice("takes", takes, get_args(ArrayKind))
    if isinstance(model, str | os.PathLike):
        model = _from_file(Path(model), trust)
    if isinstance(model, ExportedProgram):
        model = exported_module(model)
    if score is not None:
        return _scored(model, returns or "values", takes, score)
    if isinstance(model, nn.Module):
        _refuse_takes(takes, "a torch module takes torch tensors")
        return _checked_module(model, returns)
    return _without_gradients(model, returns, takes)


def _scored(model: object, returns: Returns, takes: ArrayKind | None, score: Callable[[Any], Any]) -> Adapter:
    """A model of any kind whose output a function of the user's turns into scores."""
    if not callable(score):
        raise TypeError(f"score: expected a function from the model's output to one number per row, got {score!r}.")
    if isinstance(model, nn.Module):
        _refuse_takes(takes, "a torch module takes torch tensors")
        return replace(_checked_module(model, returns), score=score)
    plain = callable(model) and not isinstance(model, Adapter) and not hasattr(model, "predict")
    if plain and not is_session(model):
        return PlainCallable(model, returns, takes, score)  # type: ignore[arg-type]
    return Scored(_without_gradients(model, None, takes), score, returns)


def _without_gradients(model: object, returns: Returns | None, takes: ArrayKind | None) -> Adapter:
    """The adapter of anything but a torch module."""
    if isinstance(model, Adapter):
        _refuse_takes(takes, "an adapter says itself what it takes")
        return _checked_adapter(model, returns)
    if is_session(model):
        _refuse_takes(takes, "an ONNX model takes NumPy arrays")
        return adapt_session(model, returns)
    if is_booster(model):
        _refuse_takes(takes, "a booster takes NumPy arrays")
        return adapt_booster(model, returns)
    if hasattr(model, "predict"):
        _refuse_takes(takes, "a scikit-learn estimator takes NumPy arrays")
        return adapt_estimator(model, returns)
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


def _checked_module(module: nn.Module, returns: Returns | None) -> TorchModule:
    """Take a torch module whose evaluation mode can be had."""
    check_alone(module)
    if isinstance(module, fx.GraphModule):
        check_exported_for_inference(module.graph, "the model")
    return TorchModule(module, returns or configured_returns(module))


def _checked_adapter(adapter: Adapter, returns: Returns | None) -> Adapter:
    """Take an adapter of the user's own, which says itself what it returns."""
    if adapter.returns not in get_args(Returns):
        wanted = _listed(get_args(Returns))
        raise ValueError(f"model: expected an adapter whose returns is {wanted}, got {adapter.returns!r}.")
    if returns not in (None, adapter.returns):
        raise ValueError(f"returns: the adapter says {adapter.returns!r}; leave returns out.")
    return adapter


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


def _refuse_takes(takes: ArrayKind | None, reason: str) -> None:
    if takes is not None:
        raise ValueError(f"takes: only for plain callables ({reason}); leave it out.")


def _check_choice(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise ValueError(f"{name}: expected {_listed(allowed)}, got {value!r}.")


def _listed(choices: tuple[str, ...]) -> str:
    return " or ".join(f'"{choice}"' for choice in choices)
