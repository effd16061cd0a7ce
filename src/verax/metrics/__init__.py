"""Metrics as values: what to measure, with which settings, and in which direction better lies."""

from verax.metrics.areas import abpc, aupc, cmi, pes, weighted_abpc
from verax.metrics.infidelity import Infidelity, InfidelityResult
from verax.metrics.intervals import Estimate
from verax.metrics.prediction_change import DirectedPredictionChange, GuidedResult, PredictionChange
from verax.metrics.result import Result
from verax.metrics.sensitivity import SensitivityN, SensitivityResult
from verax.metrics.uncertainty import InfidelityUncertainty, UncertaintyResult

__all__ = [
    "DirectedPredictionChange",
    "Estimate",
    "GuidedResult",
    "Infidelity",
    "InfidelityResult",
    "InfidelityUncertainty",
    "PredictionChange",
    "Result",
    "SensitivityN",
    "SensitivityResult",
    "UncertaintyResult",
    "abpc",
    "aupc",
    "cmi",
    "pes",
    "weighted_abpc",
]
