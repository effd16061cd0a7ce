"""Trials: questions to a metric, one module each, whose answers are numbers with intervals and thresholds."""

from verax.auditing.trials.base import TRIALS, Outcome, Trial
from verax.auditing.trials.consistency import Consistency
from verax.auditing.trials.falls_with_damage import FallsWithDamage
from verax.auditing.trials.peaks_at_truth import PeaksAtTruth
from verax.auditing.trials.randomised_model import RandomisedModel
from verax.auditing.trials.reliability import Reliability
from verax.auditing.trials.tells_apart import TellsApart
from verax.auditing.trials.truth_wins import TruthWins

__all__ = [
    "TRIALS",
    "Consistency",
    "FallsWithDamage",
    "Outcome",
    "PeaksAtTruth",
    "RandomisedModel",
    "Reliability",
    "TellsApart",
    "Trial",
    "TruthWins",
]
