"""Totals of reasons as metrics of requirements: ``false_reasons``, ``omitted_reasons``, ``reason_share``, ..."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from verax.checking.reason_effects import Direction
from verax.checking.reasons import Reasons, reasons
from verax.core.arguments import checked_choice, checked_count, checked_not_negative, settle
from verax.core.registry import unknown
from verax.core.shapes import Float
from verax.evaluation.limits import ROWS
from verax.problem.problem import Problem
from verax.statistics.anytime import ScoreRange

Total = Literal["false", "omitted", "share", "stability"]
Over = Literal["seeds", "background", "neighbours"]
REASON_METRICS: dict[str, Total] = {
    "false_reasons": "false",
    "omitted_reasons": "omitted",
    "reason_share": "share",
    "reason_stability": "stability",
}
_ABOUT = {  # the question that each answers, and what it is known to miss
    "false": (
        "What part of the named reasons does not move the score in the stated direction?",
        "A feature that counts only together with another one has no effect alone, and passes for a false reason.",
    ),
    "omitted": (
        "What part of the features that move the score most is not named?",
        "Effects are of single features: one that counts only together with others is not missed.",
    ),
    "share": (
        "What part of the effect of the best k features do the named ones have?",
        "Features are removed together; where the model was never trained on such rows, effects mean little.",
    ),
    "stability": (
        "What part of the reasons stays when the explanation is computed again, or for a similar input?",
        "Reasons that are always the same may always be wrong. Neighbours are as alike as the inputs allow.",
    ),
}


@dataclass(frozen=True)
class ReasonMetric:
    """One total of ``verax.reasons``, from 0 to 1 for each input.

    Args:
        total: Which.
        k: Reasons of each input.
        direction: As in ``verax.reasons``.
        tolerance: A change of the score that counts as none.
        over: What stability is over.
    """

    total: Total
    k: int = 4
    direction: Direction = "either"
    tolerance: float = 0.0
    over: Over = field(default="seeds")

    def __post_init__(self) -> None:
        checked_choice("direction", self.direction, get_args(Direction))
        checked_choice("over", self.over, get_args(Over))
        tolerance = checked_not_negative("tolerance", self.tolerance)
        settle(self, k=checked_count("k", self.k), tolerance=tolerance)

    @property
    def name(self) -> str:
        """What it is called."""
        return next(name for name, total in REASON_METRICS.items() if total == self.total)

    @property
    def label(self) -> str:
        """What people read."""
        return self.name.replace("_", " ")

    @property
    def higher_is_better(self) -> bool:
        """The direction."""
        return self.total in ("share", "stability")

    @property
    def asks(self) -> str:
        """The question that it answers."""
        return _ABOUT[self.total][0]

    @property
    def known_limitations(self) -> str:
        """What it is known to miss."""
        return _ABOUT[self.total][1]

    @property
    def short_form(self) -> str:
        """The name with every setting that is not the default."""
        settings = [
            (field.name, getattr(self, field.name), field.default) for field in fields(self) if field.name != "total"
        ]
        changed = [f"{name}={value!r}" for name, value, default in settings if value != default]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    def score_range(self, largest_change: float) -> ScoreRange:
        """That of any share."""
        return ScoreRange(0.0, 1.0, certain=True)

    def of(self, reasons: Reasons) -> Float[Any, "a n"]:
        """One number per attribution and input."""
        return reasons.per_input()[f"stability over {self.over}" if self.total == "stability" else self.total]


def reasons_for(problem: Problem, attributions: Mapping[str, Any], metrics: list[ReasonMetric]) -> Reasons:
    """The reasons that some totals need, which have k, tolerance and direction in common; no more is computed."""
    again = 4 if any(metric.total == "stability" for metric in metrics) else 0
    rows = ROWS if any(metric.total == "share" for metric in metrics) else 0
    first = metrics[0]
    return reasons(
        problem, attributions, first.k, direction=first.direction, tolerance=first.tolerance, repeats=again, rows=rows
    )


def reason_metric(name: str, settings: Mapping[str, Any]) -> ReasonMetric:
    """The metric of a name and its settings."""
    allowed = [field.name for field in fields(ReasonMetric) if field.name != "total"]
    allowed = allowed if name == "reason_stability" else [field for field in allowed if field != "over"]
    for setting in settings:
        if setting not in allowed:
            raise ValueError(f"metric: {name} has no setting {setting}; {unknown(setting, allowed)}")
    return ReasonMetric(REASON_METRICS[name], **settings)
