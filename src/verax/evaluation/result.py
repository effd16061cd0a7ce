"""The results of one call, by metric."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verax.core.display import TextTable, cost, counted, first_rows, metric_head
from verax.evaluation.distance import Distances
from verax.evaluation.ranking import not_significantly_different
from verax.metrics.base import Metric
from verax.metrics.result import Result, Saved, save_numbers, score_frame
from verax.scoring.meter import Cost, Rows
from verax.statistics.intervals import LEVEL

if TYPE_CHECKING:
    import polars as pl

    from verax.evaluation.engine import Call


@dataclass(frozen=True)
class Saturation:
    """How sure a model is of its inputs, and what random perturbations do to its logit there."""

    share: float  # of the inputs, those whose tracked probability is within 0.001 of 0 or 1
    results: Mapping[str, Result]  # results on the logit by metric; none where the model has no logits


class Evaluation(Saved, dict[str, Any]):
    """Results by metric name, with what the whole call cost; shown as a table.

    Attributes:
        rows: Model rows of the call, shared ones counted once; those of methods that it computed are among them.
        rows_backward: Rows through which gradients were taken, for methods that need them.
        seconds: Wall-clock time of the call.
        distance: How far perturbed rows lie from the background; None before ``with_distance``.
        saturation: What is followed on the logit as well, where ``compare`` found that the model is sure of its inputs.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(9, 4)
        >>> problem = verax.Problem(torch.nn.Linear(4, 2), x)
        >>> evaluation = verax.evaluate(problem, {"inputs": x, "minus inputs": -x}, metrics=("pc", "dpc"))
        >>> print(evaluation)  # doctest: +ELLIPSIS
        attribution   PC (higher is better) ...
        inputs        ...
        minus inputs  ...
        Means over 9 inputs with 95 % intervals; ...
        >>> len(evaluation.plot().axes)  # one panel per metric
        2
        >>> evaluation.to_frame().columns, evaluation.to_frame().height
        (['attribution', 'input', 'target', 'pc', 'dpc'], 18)
    """

    def __init__(
        self,
        results: Mapping[str, Result],
        cost: Cost,
        distance: Distances | None = None,
        call: "Call | None" = None,
        saturation: Saturation | None = None,
    ) -> None:
        super().__init__(results)
        self.distance, self.saturation, self._call = distance, saturation, call
        self.rows, self.rows_backward = cost.rows.forward, cost.rows.backward
        self.seconds = cost.seconds

    def with_limits(self) -> "Evaluation":
        """The same with what metrics with weights could be at best: ``results[name].limits`` and ``.normalised``.

        ``verax.limits`` says what it costs.
        """
        from verax.evaluation.limits import with_limits  # noqa: PLC0415  # which returns what is defined here

        return with_limits(self._measured(), self)

    def with_distance(self) -> "Evaluation":
        """The same with how far perturbed rows lie from the background, beside its own distances.

        Mahalanobis, of tables in the inputs, of networks in what reaches their last linear layer: a median ratio and
        the share beyond the background's 99 % quantile. At most 128 inputs and five points of each curve are looked
        at; a network scores those rows and the background once more, other models score none.
        """
        from verax.evaluation.distance import with_distance  # noqa: PLC0415  # which returns what is defined here

        return with_distance(self._measured(), self)

    def extended(self, results: Mapping[str, Result], cost: Cost, distance: Distances | None = None) -> "Evaluation":
        """The same call with further results, and with what they cost."""
        spent = Cost(Rows(self.rows, self.rows_backward), self.seconds) + cost
        return Evaluation(results, spent, distance or self.distance, self._call, self.saturation)

    def _measured(self) -> "Call":
        if self._call is None:
            raise ValueError("evaluation: expected the result of verax.evaluate itself, got a part or a sum of others.")
        return self._call

    @property
    def labels(self) -> tuple[str, ...]:
        """What the attributions are called."""
        first: Result | None = next(iter(self.values()), None)
        return () if first is None else first.labels

    @property
    def inputs(self) -> int:
        """How many inputs there were."""
        return next((result.scores.shape[1] for result in self.values()), 0)

    @property
    def identity(self) -> str:
        """Model, tracked class and baseline in a line; empty where they are not known."""
        first: Result | None = next(iter(self.values()), None)
        return "" if first is None else first.context.identity

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader must know, a sentence each: whose class and whose baseline attributions explain."""
        first: Result | None = next(iter(self.values()), None)
        return () if first is None else first.context.about.notes

    def label(self, name: str) -> str:
        """What people read for one of the names: the metric's label, or a name that the call gave it."""
        return str(self[name].metric.label_as(name))

    def heads(self) -> list[str]:
        """The metrics as heads of columns."""
        return [metric_head(self.label(name), result.metric.higher_is_better) for name, result in self.items()]

    save = save_numbers

    def to_frame(self) -> "pl.DataFrame":
        """One row per attribution and input with the scores of all metrics, as a polars data frame.

        Columns: ``attribution`` (its name), ``input`` (its row number), ``target`` (the class or output that was
        followed), and one per metric, under the names of this dict; beside it what else a metric has for each input,
        such as ``infidelity_se``, the Monte-Carlo standard error.
        """
        return score_frame(self)

    def plot(self) -> Any:
        """Draw the means of all metrics with 95 % intervals, side by side, up to 40 attributions.

        Returns:
            A matplotlib figure, which a notebook shows and ``savefig`` saves.
        """
        from verax.report.plots import means  # noqa: PLC0415  # to keep ``import verax`` light

        return means(self)

    def table(self, level: float = LEVEL, after: str = "", notes: tuple[str, ...] = ()) -> TextTable:
        """Means with intervals: the best of a column is bold, a star marks what is not significantly different from it.

        Args:
            level: Coverage of each interval.
            after: What the caption says at its end.
            notes: Lines to stand below.
        """
        several = len(self.labels) > 1
        columns, bold = [], set()
        for at, result in enumerate(self.values(), start=1):
            best = not_significantly_different(result, level) if several else []
            bold |= {(place, at) for place in best[:1]}
            means = enumerate(result.listed_means(level))
            columns.append([f"{mean}{' *' if place in best else ''}" for place, mean in means])
        rows = list(zip(self.labels, *columns, strict=True))
        caption = self.caption(level) + after
        return TextTable(("attribution", *self.heads()), tuple(rows), caption, notes, frozenset(bold), self.identity)

    def distance_words(self, level: float = LEVEL, under: str = "") -> list[str]:
        """How far perturbed rows lie from the data, a sentence per metric and space; nothing without ``with_distance``.

        Args:
            level: Coverage of the intervals.
            under: What the sentences say after the metric.
        """
        labels = {name: self.label(name) + under for name in self}
        return [] if self.distance is None else self.distance.sentences(labels, level)

    def cautions(self) -> tuple[str, ...]:
        """What makes scores of a metric mean less than they seem to, a sentence for each that has one."""
        return tuple(f"{self.label(name)}: {result.caution}" for name, result in self.items() if result.caution)

    def caption(self, level: float = LEVEL) -> str:
        """What the table shows."""
        star = "; *: not significantly different from the best, paired" if len(self.labels) > 1 else ""
        return f"Means over {counted(self.inputs, 'input')} with {100 * level:.4g} % intervals{star}"

    def _page(self) -> str:
        from verax.report.comparison import results_page  # noqa: PLC0415  # to keep ``import verax`` light

        return results_page(self, self.rows, self.seconds)

    def _table(self) -> TextTable:
        notes = (*self.distance_words(), *self.cautions(), *self.notes)
        whole = self.table(after=f"; {cost(self.rows, self.seconds)}", notes=notes)
        return replace(whole, rows=first_rows(whole.rows))


def joined_parts(parts: Sequence[tuple[Evaluation, slice]]) -> Evaluation:
    """The results of some inputs of each of several calls with the same metrics; of what these cost, their share.

    Example:
        >>> import verax
        >>> x = torch.randn(5, 3)
        >>> whole = verax.evaluate(verax.Problem(torch.nn.Linear(3, 2), x), x, ["pc"])
        >>> part = joined_parts([(whole, slice(1, 4))])
        >>> part["pc"].value.shape, part["pc"].morf.shape, part.rows
        (torch.Size([3]), torch.Size([3, 4]), 18)
    """
    (first, rows), places = parts[0], [rows for _, rows in parts]
    if len(parts) == 1 and (rows.start, rows.stop) == (0, first.inputs):
        return first

    def share(spent: Iterable[Any]) -> Cost:  # rounded so that the shares of all parts add up
        total = Cost()
        for each, (whole, rows) in zip(spent, parts, strict=True):
            counts = each.rows, getattr(each, "rows_backward", 0)
            cut = [count * rows.stop // whole.inputs - count * rows.start // whole.inputs for count in counts]
            total += Cost(Rows(*cut), each.seconds * (rows.stop - rows.start) / whole.inputs)
        return total

    results = {}
    for name in first:
        held = [evaluation[name] for evaluation, _ in parts]
        joint, cost = _joined(held, places, f"results of {held[0].metric.name}"), share(held)
        results[name] = replace(joint, context=replace(joint.context, rows=cost.rows.forward, seconds=cost.seconds))
    return Evaluation(results, share(evaluation for evaluation, _ in parts))


def _joined(held: list[Any], places: list[slice], where: str, count: int | None = None) -> Any:
    """Cut and join all that is held per input, by the rule of results: ``(n,)``, or ``(k, n, ...)``."""
    first = held[0]
    count = first.scores.shape[1] if count is None else count
    if isinstance(first, Tensor):
        if first.shape[first.ndim > 1] != count:
            raise TypeError(
                f"{where}: expected tensors of shape (inputs,) or (attributions, inputs, ...) in a result that is cut "
                f"into parts, got {tuple(first.shape)}."
            )
        axis = int(first.ndim > 1)
        cuts = [tensor[:, rows] if axis else tensor[rows] for tensor, rows in zip(held, places, strict=True)]
        return torch.cat(cuts, dim=axis) if len(cuts) > 1 else cuts[0]
    if isinstance(first, Metric) or not is_dataclass(first) or isinstance(first, type):
        return first
    changed = {
        field.name: _joined([getattr(part, field.name) for part in held], places, f"{where}, {field.name}", count)
        for field in fields(first)
        if field.init
    }
    return replace(first, **changed)
