"""What limits give back: the best and the worst score possible for each input, and an attribution that attains it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_choice
from verax.core.display import TextTable, cost, counted, significant
from verax.core.shapes import Float, Int
from verax.metrics.result import Context, Result, Saved, save_numbers
from verax.statistics.intervals import LEVEL, Estimate, estimates, ratios_of_means

if TYPE_CHECKING:
    import polars as pl

Zero = Literal["chance", "worst"]


@dataclass(frozen=True, repr=False, eq=False)
class Limits(Saved):
    """How well attributions of each input could score. Arrays are of the inputs' kind.

    Where there are too many inputs for the model rows of the call, some were drawn at random; all others have NaN.

    Attributes:
        metric: What was measured, with its settings.
        context: Form, classes and cost.
        exact: Whether no attribution, by feature or by element, can score better than ``best``. Otherwise some
            attribution attains ``best`` and another might be better, and the same of ``worst``. ``evaluate`` moves them
            to what the attributions of the call attain. In signed order a feature whose elements cancel out but for
            rounding is taken for 0.
        method: How they were computed, in words.
        best_scores: The best score of each input: the lowest, where lower is better.
        worst_scores: The worst.
        random: The mean score of random attributions; NaN where it is not known.
        attaining: An attribution that attains the best, in the inputs' shape.
        sequence: Its features in the order of removal; -1 where an input has no more.
        exact_shapley: Shapley values of the same model rows; None where not all sets were scored.
    """

    metric: Any
    context: Context
    exact: bool
    method: str
    best_scores: Float[Tensor, " n"]
    worst_scores: Float[Tensor, " n"]
    random: Float[Tensor, " n"]
    attaining: Float[Tensor, "n *shape"]
    sequence: Int[Tensor, "n features"]
    exact_shapley: Float[Tensor, "n *shape"] | None

    @property
    def best(self) -> Any:
        """The best score of each input, ``(N,)``."""
        return self._pack(self.best_scores)

    @property
    def worst(self) -> Any:
        """The worst score of each input, ``(N,)``."""
        return self._pack(self.worst_scores)

    @property
    def chance(self) -> Any:
        """The mean score of random attributions: over all orders and, where they count, all signs; ``(N,)``."""
        return self._pack(self.random)

    @property
    def order(self) -> Any:
        """Features of each input as the best attribution removes them, ``(N, features)``; -1 where there is none."""
        return self._pack(self.sequence)

    @property
    def attribution(self) -> Any:
        """An attribution that attains the best score, in the inputs' shape. Only its order and signs mean something."""
        return self._pack(self.attaining)

    @property
    def shapley(self) -> Any:
        """Exact Shapley values of the tracked score, in the inputs' shape, from the same model rows.

        A feature of several elements shares its value out among them evenly. None where limits are bounds from a
        search.
        """
        return None if self.exact_shapley is None else self._pack(self.exact_shapley)

    @property
    def inputs(self) -> list[int]:
        """Numbers of the inputs whose limits are known."""
        places: list[int] = self._known().tolist()
        return places

    @property
    def rows(self) -> int:
        """Model rows; metrics of one call share them."""
        return self.context.rows

    @property
    def seconds(self) -> float:
        """Wall-clock time of the call."""
        return self.context.seconds

    def mean(self, level: float = 0.95) -> Estimate:
        """Mean of the best score over inputs, with Student's t interval.

        Args:
            level: Coverage of the interval.
        """
        return self._mean(self.best_scores, level)

    def normalised(self, scores: Float[Tensor, "k n"], zero: Zero = "chance") -> Float[Tensor, "k n"]:
        """Scores on a scale where 1 is the best possible; NaN where nothing can be better than what 0 is.

        Args:
            scores: One for each attribution and input.
            zero: What 0 is: ``"chance"``, or ``"worst"``, the worst possible score. The latter makes NAOPC of
                comprehensiveness with ``shares="every"`` (Edin et al.: Normalized AOPC: fixing misleading faithfulness
                metrics for feature attribution explainability, 2024). Where lower is better, 1 is the lowest score: 1
                minus what they write of sufficiency.
        """
        above, room = self.above(scores, zero)
        return above / room.masked_fill(room <= 0, torch.nan)

    def above(
        self, scores: Float[Tensor, "k n"], zero: Zero = "chance"
    ) -> tuple[Float[Tensor, "k n"], Float[Tensor, " n"]]:
        """How much better than chance, or than the worst, scores are, and how much better the best is.

        Args:
            scores: One for each attribution and input.
            zero: ``"chance"`` or ``"worst"``.
        """
        checked_choice("zero", zero, ("chance", "worst"))
        least = (self.random if zero == "chance" else self.worst_scores).to(scores.device)
        sense = 1 if self.metric.higher_is_better else -1
        return sense * (scores.double() - least), sense * (self.best_scores.to(scores.device) - least)

    def share(
        self, result: Result, level: float = LEVEL, zero: Zero = "chance"
    ) -> "Estimate | list[Estimate] | dict[str, Estimate]":
        """The part of what is possible that the mean of a result attains: 0 is chance, 1 the best possible.

        Args:
            result: Scores of this metric on the same inputs.
            level: Coverage of the intervals.
            zero: What 0 is: ``"chance"``, or ``"worst"`` possible score, as in NAOPC.
        """
        return result.context.layout.arrange(self.shares(result.scores, level, zero))  # type: ignore[no-any-return]

    def shares(self, scores: Float[Tensor, "k n"], level: float = LEVEL, zero: Zero = "chance") -> list[Estimate]:
        """The same of plain scores, one for each attribution.

        Args:
            scores: One for each attribution and input.
            level: Coverage of the intervals.
            zero: ``"chance"`` or ``"worst"``.
        """
        known = torch.tensor(self.inputs)
        above, room = (values.cpu()[..., known] for values in self.above(scores, zero))
        return ratios_of_means(above, room, level)

    def raised_to(self, scores: Float[Tensor, "k n"]) -> "Limits":
        """Bounds that know of some scores: what an attribution attains is possible. Exact limits stay as they are.

        Args:
            scores: One for each attribution and input.
        """
        if self.exact:
            return self
        every = torch.stack((self.best_scores, self.worst_scores, *scores.to(self.best_scores)))
        ends = (every.amax(0), every.amin(0))[:: 1 if self.metric.higher_is_better else -1]
        return replace(self, best_scores=ends[0], worst_scores=ends[1])

    def to_frame(self) -> "pl.DataFrame":
        """One row per input with its limits, as a polars data frame: ``input``, ``target``, ``pc_best``, and so on."""
        return limits_frame({self.metric.name: self})

    save = save_numbers

    def _pack(self, values: Tensor) -> Any:
        return self.context.layout.pack(values[None])

    def _known(self) -> Int[Tensor, " m"]:
        return (~self.best_scores.isnan()).nonzero()[:, 0]

    def _mean(self, values: Float[Tensor, " n"], level: float = 0.95) -> Estimate:
        (estimate,) = estimates(values[self._known()][None], level=level)
        return estimate

    def _table(self) -> TextTable:
        return _table({self.metric.label: self})


class LimitsByMetric(Saved, dict[str, Limits]):
    """Limits by metric name; shown as a table.

    Args:
        limits: Of each metric, by its name.
    """

    def __init__(self, limits: Mapping[str, Limits]) -> None:
        super().__init__(limits)

    def to_frame(self) -> "pl.DataFrame":
        """One row per input with the limits of all metrics, as a polars data frame."""
        return limits_frame(self)

    save = save_numbers

    def _table(self) -> TextTable:
        return _table(self)


def limits_frame(by_metric: Mapping[str, Limits]) -> "pl.DataFrame":
    """One row per input: ``input``, ``target``, and for each metric ``_best``, ``_worst`` and ``_chance``."""
    import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

    columns: dict[str, Any] = {}
    for name, limits in by_metric.items():
        columns |= {"input": range(len(limits.best_scores)), "target": limits.context.target.tolist()}
        for word, values in (("best", limits.best_scores), ("worst", limits.worst_scores), ("chance", limits.random)):
            columns[f"{name}_{word}"] = values.cpu().numpy()
    return pl.DataFrame(columns)


def _table(by_metric: Mapping[str, Limits]) -> TextTable:
    rows = []
    for name, limit in by_metric.items():
        words = limit.method if limit.exact else f"{limit.method}: bounds, the best may be better, the worst worse"
        chance = significant(limit._mean(limit.random).mean)
        rows.append((name, str(limit.mean()), chance, str(limit._mean(limit.worst_scores)), words))
    first = next(iter(by_metric.values()))
    known, count = len(first.inputs), len(first.best_scores)
    many = counted(count, "input") if known == count else f"{known:,} of {counted(count, 'input')}"
    caption = f"What attributions could score, means over {many} with 95 % intervals; {cost(first.rows, first.seconds)}"
    head = ("metric", "best possible", "chance", "worst possible", "found by")
    return TextTable(head, tuple(rows), caption, about=first.context.identity)
