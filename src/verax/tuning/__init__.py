"""The method and the settings that explain a model best: Optuna proposes, paired races on growing inputs decide."""

from verax.tuning.questions import TunedByQuestion
from verax.tuning.result import Tuned
from verax.tuning.tuner import tune

__all__ = ["Tuned", "TunedByQuestion", "tune"]
