"""Many rows in constant memory: evaluated as they come, summed up, and stopped when enough is known."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from verax.core.arguments import kind_in_words
from verax.core.display import counted
from verax.core.warn import warn
from verax.evaluation.batches import (
    FEWEST,
    Batch,
    BatchReader,
    Length,
    Stretch,
    as_they_come,
    check_lengths,
    is_rows,
    regrouped,
    row_count,
    rows_at_once,
)
from verax.evaluation.evaluate import evaluate
from verax.evaluation.explained_class import with_known_class
from verax.evaluation.result import Evaluation, joined_parts
from verax.evaluation.totals import Totals
from verax.metrics.choose import Metrics, metrics_for
from verax.problem.attributed import explanations_of, fitted_attributions, plain_attributions
from verax.problem.problem import Problem, checked_problem
from verax.scoring.meter import Cost
from verax.statistics.sums import sketches

Until = float | Mapping[str, float] | None


class Stream(Iterator[Evaluation]):
    """Evaluations as they come, and their totals; what ``verax.stream`` gives.

    Iterate over it for the results of each batch, once; ``totals()`` evaluates what is left and sums all up.

    Attributes:
        so_far: Totals of what was evaluated until now; None before the first rows.
        stopped: Whether it ended early because the intervals were narrow enough.
    """

    def __init__(self, stretches: Iterator[Stretch], measure: Any, until: Mapping[str, float], quantiles: bool) -> None:
        self.so_far: Totals | None = None
        self.stopped = False
        self._until, self._quantiles = until, quantiles
        self._warned: set[str] = set()
        self._failure: Exception | None = None
        self._over = False
        self._evaluated = self._run(stretches, measure)
        self._batches = self._by_batch()

    def __next__(self) -> Evaluation:
        return next(self._batches)

    def totals(self) -> Totals:
        """Evaluate what is left, and give the totals of all."""
        for _ in self._evaluated:
            pass
        if self._failure is not None:  # a generator that failed is over: without this, half the rows would pass for all
            raise RuntimeError(
                "totals: the stream failed before its end, so there are no totals of all rows; those of the rows "
                "before the failure are in so_far."
            ) from self._failure
        if self.so_far is None:
            raise ValueError("batches: expected at least one with rows, got none.")
        return self.so_far

    def __repr__(self) -> str:
        rows = counted(0 if self.so_far is None else self.so_far.count, "row")
        if self._failure is not None:
            return f"Stream: it failed after {rows}; their totals are in so_far"
        if self.stopped:
            return f"Stream: stopped early, after {rows}; totals() has their means"
        if self._over:
            return f"Stream: all {rows} evaluated; totals() has their means"
        return f"Stream: {rows} evaluated so far; iterate over it, or call totals() to evaluate what is left"

    def _run(self, stretches: Iterator[Stretch], measure: Any) -> Iterator[tuple[Stretch, Evaluation]]:
        metrics: Any = None
        try:
            for stretch in stretches:
                evaluation = self._quietly(measure, stretch.batch, metrics)
                metrics = {name: result.metric for name, result in evaluation.items()}
                totals = Totals.of(evaluation, stretch.batch.segments, self._quantiles, bool(self._until))
                self.so_far = totals if self.so_far is None else self.so_far.merge(totals)
                self.stopped = bool(self._until) and narrow_enough(self.so_far, self._until)
                yield stretch, evaluation
                if self.stopped:
                    return
        except Exception as error:
            self._failure = error
            raise
        self._over = True

    def _by_batch(self) -> Iterator[Evaluation]:
        parts: list[tuple[Evaluation, slice]] = []
        for stretch, evaluation in self._evaluated:
            start = 0
            for count, ends in stretch.cuts:
                parts.append((evaluation, slice(start, start + count)))
                start += count
                if ends:
                    yield joined_parts(parts)
                    parts = []

    def _quietly(self, measure: Any, batch: Batch, metrics: Any) -> Evaluation:
        """Evaluate a batch; it warns once in a stream, not for each stretch."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                evaluation: Evaluation = measure(batch, metrics)
            except (TypeError, ValueError) as error:
                before = 0 if self.so_far is None else self.so_far.count
                error.add_note(f"Rows are counted from row {before} of the stream.")
                raise
        for warning in caught:
            kind = str(warning.message).split(":")[0]
            if kind not in self._warned:
                self._warned.add(kind)
                warn(str(warning.message), warning.category)
        return evaluation


def narrow_enough(totals: Totals, until: Mapping[str, float]) -> bool:
    """Whether the 95 % intervals of these metrics reach no further than that, from 256 rows on; unknown ones do."""
    means = [(mean, reach) for name, reach in until.items() for mean in totals[name].listed_means()]
    return totals.count >= FEWEST and all(
        mean.high - mean.mean <= reach and mean.mean - mean.low <= reach for mean, reach in means
    )


def stream(
    problem: Problem,
    batches: Any,
    attributions: Any = None,
    metrics: Metrics | None = None,
    until: Until = None,
    *,
    by: Any = None,
    stratify: Any = None,
    quantiles: bool = False,
) -> Stream:
    """Measure many rows in constant memory, with the numbers of one ``verax.evaluate`` over all of them.

    Rows are evaluated in stretches (32,768 rows of a table on a CPU), whatever the batches they come in. A call of
    ``evaluate`` is cut at the same places, so that the model gets the same batches and every score has the same bits.

    Args:
        problem: The question, about the rows of the batches instead of those of the problem (``problem.on``).
        batches: An iterable of batches: pairs ``(inputs, attributions)``; dicts with the keys ``inputs``,
            ``attributions``, ``target``, ``model_kwargs``, ``by``; or, with ``attributions``, inputs alone (of a tuple
            such as a ``DataLoader`` gives, the first). Inputs are arrays, data frames, Arrow tables, or what the door
            of the problem takes, such as lists of texts; those of a door and with ``model_kwargs`` are evaluated batch
            by batch, with equal numbers up to the model's rounding. Or all rows at once, in something with numbered
            rows (an array, a memory map, a data frame), which is cut here. None for the problem's own rows.
        attributions: Where the batches bring none: a dict of methods, computed on the way. Where the rows are given at
            once: as in ``evaluate``, also arrays of all rows.
        metrics: As in ``evaluate``.
        by: Segments of the data to sum up apart: the name of a column, which is then no feature, a function from a
            batch's inputs to one label per row, or, for rows given at once, one label per row.
        until: Stop when the 95 % intervals of all means reach no further than this to each side; a dict says it per
            metric. The intervals of the totals are then such that hold at any time of stopping, each with a probability
            of at least 95 %, for scores that cannot lie outside the metric's range: PC of probabilities with fixed
            steps, normalised Infidelity of probabilities, effect correlation. DPC and LPC of probabilities are assumed
            within [-1, 1] or the scores seen, scores without a bound (logits, values, Sensitivity-N) within the scores
            seen; while these are all alike it does not stop. ``docs/how-to/stream-many-rows.md`` has the whole table,
            and how often intervals hold by ``python benchmarks/stream_until.py``. Rows that are given at once are drawn
            at random, others are taken as they come. A look at the intervals is taken at 256 rows and whenever there
            are a quarter more, for batches after each.
        stratify: With ``until`` and rows given at once: one label per row; each is drawn by its share. Intervals are
            those of plain draws, and so wider than necessary.
        quantiles: Whether to keep sketches for ``totals()[metric].quantile(share)``.

    Returns:
        An iterator over Evaluations, one per batch, with ``totals()``.

    Example:
        >>> import torch, verax
        >>> x = torch.randn(50, 4)
        >>> problem = verax.Problem(torch.nn.Linear(4, 2), x[:1])
        >>> batches = [(part, {"x": part}) for part in x.split(20)]
        >>> [len(evaluation["pc"].value["x"]) for evaluation in verax.stream(problem, batches, metrics=["pc"])]
        [20, 20, 10]
        >>> totals = verax.stream(problem, x, {"gradient": verax.attribution.Gradient()}, ["dpc"]).totals()
        >>> totals["dpc"].mean()["gradient"].low <= totals["dpc"].mean()["gradient"].high
        True
    """
    checked_problem(problem)
    reaches = _reaches(until, list(metrics_for(problem, metrics)))
    if quantiles:
        sketches()
    if isinstance(batches, Mapping):
        raise TypeError(
            "batches: expected an iterable of batches or all rows, got a dict; a dict of methods goes to "
            "attributions=, and batches=None stands for the problem's own rows."
        )
    batches = problem if batches is None else batches
    if stratify is not None and (until is None or not is_rows(batches)):
        raise ValueError("stratify: it says how rows are drawn, with until and rows that are given at once.")
    reader = BatchReader(problem, attributions, by)

    def measure(batch: Batch, known: Any) -> Evaluation:
        evaluation = evaluate(problem.on(batch.inputs, target=batch.target), batch.attributions, known or metrics)
        return evaluation.extended(evaluation, batch.spent)

    def length(batch: Batch) -> int:
        return problem.scorer.chunk_size(batch.inputs.values, problem.batch_size, problem.device)

    return Stream(_stretches(batches, reader, length, reaches, stratify), measure, reaches, quantiles)


def _stretches(
    batches: Any, reader: BatchReader, length: Length, reaches: Mapping[str, float], stratify: Any
) -> Iterator[Stretch]:
    """What is evaluated together: rows that are given at once are cut, and drawn where a look is to end them early."""
    if not is_rows(batches):
        if not hasattr(batches, "__iter__"):
            raise TypeError(f"batches: expected an iterable of batches, or rows, got {type(batches).__name__}.")
        return as_they_come(batches, reader) if reaches else regrouped(batches, reader, length)
    if reader.attributions is None:
        raise ValueError("attributions: rows are given at once, and nothing about them; pass an array or methods.")
    spent = Cost()
    if explanations_of(reader.attributions):
        every = batches if isinstance(batches, Problem) else reader.problem.on(batches)
        known = with_known_class(reader.attributions, every, per_row=True)
        reader.attributions, reader.target, spent = known.attributions, known.problem.target, known.spent
    if isinstance(batches, Problem):
        reader.attributions = fitted_attributions(reader.attributions, batches.rows.fitted)
    reader.attributions = plain_attributions(reader.attributions)
    check_lengths(reader.attributions, row_count(batches))
    return _after(spent, rows_at_once(batches, reader, length, bool(reaches), stratify))


def _after(spent: Cost, stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    """Stretches, the first of which counts what was spent before it."""
    for stretch in stretches:
        yield replace(stretch, batch=replace(stretch.batch, spent=stretch.batch.spent + spent))
        spent = Cost()


def _reaches(until: Until, names: list[str]) -> Mapping[str, float]:
    """How far the interval of each metric may reach, by name; nothing without ``until``."""
    if until is None:
        return {}
    reaches = until if isinstance(until, Mapping) else dict.fromkeys(names, until)
    if not reaches or set(reaches) - set(names):
        raise ValueError(f"until: expected names among {', '.join(names)}, got {kind_in_words(reaches)}.")
    for name, reach in reaches.items():
        if isinstance(reach, bool) or not isinstance(reach, int | float) or not reach > 0:
            raise ValueError(f"until: expected half of an interval's width, above 0, got {reach!r} for {name}.")
    return reaches
