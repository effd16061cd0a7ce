"""Metrics as values: what to measure, with which settings, and in which direction better lies."""

from verax.metrics.areas import abpc, aupc, cmi, pes, weighted_abpc
from verax.metrics.base import METRICS, AttributionMetric, GuidedMetric, Kind, Metric, SampledMetric
from verax.metrics.curve_views import (
    Comprehensiveness,
    Deletion,
    Insertion,
    Sufficiency,
    SymmetricRelevanceGain,
)
from verax.metrics.effect_correlation import EffectCorrelation, EffectCorrelationResult
from verax.metrics.infidelity import Infidelity, InfidelityResult
from verax.metrics.infidelity_uncertainty import InfidelityUncertainty, UncertaintyResult
from verax.metrics.limits_result import Limits, LimitsByMetric
from verax.metrics.monte_carlo import MonteCarloResult
from verax.metrics.prediction_change import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.metrics.result import Context, GuidedResult, Result
from verax.metrics.sensitivity import SensitivityN, SensitivityResult
from verax.metrics.weighted_area import AdaptiveResult, PredictionChangeResult
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Experiment
from verax.perturbation.sampled import Draws, Effects, Gathered
from verax.statistics.anytime import ScoreRange
from verax.statistics.intervals import Estimate

__all__ = [
    "METRICS",
    "AdaptiveResult",
    "AttributionMetric",
    "Comprehensiveness",
    "Context",
    "Deletion",
    "DirectedPredictionChange",
    "Draws",
    "EffectCorrelation",
    "EffectCorrelationResult",
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
    "Insertion",
    "Kind",
    "Limits",
    "LimitsByMetric",
    "LocalPredictionChange",
    "Metric",
    "MonteCarloResult",
    "PredictionChange",
    "PredictionChangeResult",
    "Result",
    "SampledMetric",
    "ScoreRange",
    "SensitivityN",
    "SensitivityResult",
    "Sufficiency",
    "SymmetricRelevanceGain",
    "UncertaintyResult",
    "abpc",
    "aupc",
    "cmi",
    "pes",
    "weighted_abpc",
]
