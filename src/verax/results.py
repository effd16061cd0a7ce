"""What the verbs give back: evaluations, rankings and their differences, distances, streams and their totals."""

from verax.evaluation.comparison import Comparison, Ranked
from verax.evaluation.distance import Distance, Distances, Reference
from verax.evaluation.ranking import AlternativeResult, Difference, PairUnderBoth, RankingStability
from verax.evaluation.result import Evaluation
from verax.evaluation.stream import Stream
from verax.evaluation.totals import Total, Totals

__all__ = [
    "AlternativeResult",
    "Comparison",
    "Difference",
    "Distance",
    "Distances",
    "Evaluation",
    "PairUnderBoth",
    "Ranked",
    "RankingStability",
    "Reference",
    "Stream",
    "Total",
    "Totals",
]
