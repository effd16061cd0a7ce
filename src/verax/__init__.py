"""Verax measures how faithful feature attributions are to the model they explain."""

import importlib
from typing import TYPE_CHECKING, Any

from verax import attribution, groups, metrics
from verax.comparing import compare
from verax.engine import Evaluation
from verax.evaluation import (
    directed_prediction_change,
    evaluate,
    infidelity,
    infidelity_uncertainty,
    prediction_change,
)
from verax.scoring import Scorer

if TYPE_CHECKING:
    from verax import datasets, models
    from verax.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "Evaluation",
    "Scorer",
    "__version__",
    "attribution",
    "compare",
    "datasets",
    "directed_prediction_change",
    "evaluate",
    "groups",
    "infidelity",
    "infidelity_uncertainty",
    "metrics",
    "models",
    "prediction_change",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import what is large when it is first used, to keep ``import verax`` light."""
    if name in ("datasets", "models"):
        return importlib.import_module(f"verax.{name}")
    if name == "tune":
        return importlib.import_module("verax.tuning").tune
    raise AttributeError(f"module 'verax' has no attribute {name!r}")
