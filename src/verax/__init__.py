"""Verax measures how faithful feature attributions are to the model they explain."""

from verax import attribution, datasets, metrics, models
from verax.engine import Evaluation
from verax.evaluation import (
    directed_prediction_change,
    evaluate,
    infidelity,
    infidelity_uncertainty,
    prediction_change,
)
from verax.scoring import Scorer

__version__ = "0.1.0"

__all__ = [
    "Evaluation",
    "Scorer",
    "__version__",
    "attribution",
    "datasets",
    "directed_prediction_change",
    "evaluate",
    "infidelity",
    "infidelity_uncertainty",
    "metrics",
    "models",
    "prediction_change",
]
