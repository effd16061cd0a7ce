"""Trials: questions to a metric, whose answers are numbers with intervals and thresholds."""

from verax.auditing.trials.base import TRIALS, Outcome, Trial
from verax.auditing.trials.damage import Consistency, FallsWithDamage, Reliability, TellsApart
from verax.auditing.trials.randomised_model import RandomisedModel
from verax.auditing.trials.truth import PeaksAtTruth, TruthWins

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
