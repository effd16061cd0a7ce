"""Metrics as values: what to measure, with which settings, and in which direction better lies."""

from verax.metrics.areas import abpc, aupc, cmi, pes, weighted_abpc
from verax.metrics.base import METRICS, GuidedMetric, Kind, Metric, SampledMetric
from verax.metrics.infidelity import Infidelity, InfidelityResult
from verax.metrics.infidelity_uncertainty import InfidelityUncertainty, UncertaintyResult
from verax.metrics.prediction_change import DirectedPredictionChange, PredictionChange, PredictionChangeResult
from verax.metrics.result import Context, GuidedResult, Result
from verax.metrics.sensitivity import SensitivityN, SensitivityResult
from verax.perturbation.draws import Draws
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Experiment
from verax.perturbation.sampled import Effects, Gathered
from verax.statistics.intervals import Estimate

__all__ = [
    "METRICS",
    "Context",
    "DirectedPredictionChange",
    "Draws",
    "Effects",
    "Estimate",
    "Experiment",
    "Gathered",
    "GuidedMetric",
    "GuidedResult",
    "GuidedScores",
    "Infidelity",
    "InfidelityResult",
    "InfidelityUncertainty",
    "Kind",
    "Metric",
    "PredictionChange",
    "PredictionChangeResult",
    "Result",
    "SampledMetric",
    "SensitivityN",
    "SensitivityResult",
    "UncertaintyResult",
    "abpc",
    "aupc",
    "cmi",
    "pes",
    "weighted_abpc",
]
