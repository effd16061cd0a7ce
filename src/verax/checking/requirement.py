"""Requirements: which metric must reach what, why, in which segments, and how sure one must be."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from verax.checking.reason_metrics import REASON_METRICS, ReasonMetric, reason_metric
from verax.core.arguments import (
    checked_choice,
    checked_count,
    checked_level,
    checked_not_negative,
    checked_seed,
    kind_in_words,
    settle,
)
from verax.core.registry import parse_short_form, unknown
from verax.metrics.base import METRICS, Metric
from verax.metrics.choose import metric_from, metric_of
from verax.problem.features import Grid
from verax.problem.problem import Problem
from verax.statistics.intervals import LEVEL

Bound = Literal["at least", "at most"]
Measure = Metric | ReasonMetric
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*of the limit\s*")
_NOT_WORSE = "not worse than "
_THRESHOLDS = "a number, 'better than random', 'not worse than NAME' or '0.8 of the limit'"
_MOST_SEGMENTS = 50


@dataclass(frozen=True)
class Segments:
    """Parts of the inputs, in each of which a requirement must hold; say one of ``by``, ``score`` and ``column``.

    Args:
        by: ``"class"``: the predicted class.
        score: Ends of bands of the tracked score, rising: ``(0.2, 0.8)`` are three bands.
        column: The name of a column: of the inputs, or of ``file``.
        edges: Ends of bands of a column of numbers; without them each of its values is a segment.
        file: A table with a row for each input that has the column; checks on files look into their inputs by default.
        labels: One label for each input, instead of a column that is looked up.
    """

    by: str | None = None
    score: tuple[float | int, ...] = ()
    column: str | None = None
    edges: tuple[float | int, ...] = ()
    file: str | None = None
    labels: Any = None

    def __post_init__(self) -> None:
        settle(self, score=_rising("segments.score", self.score), edges=_rising("segments.edges", self.edges))
        if self.by is not None:
            checked_choice("segments.by", self.by, ("class",))
        column = self.column is not None or self.labels is not None
        if sum((self.by is not None, bool(self.score), column)) != 1:
            raise ValueError("segments: expected one of by, score and column, got none or several.")
        if not column and (self.edges or self.file is not None):
            raise ValueError("segments: edges and file go with column.")

    @property
    def words(self) -> str:
        """What divides the inputs, for people."""
        return "predicted class" if self.by else "score" if self.score else self.column or "label"

    def names(self, problem: Problem) -> tuple[str, ...]:
        """All segments that there can be, known before any input is scored."""
        if self.by is not None:
            labels = problem.labels or range(problem[:1].class_scores("probability").shape[1])
            return _few(tuple(str(label) for label in labels), self.words)
        if ends := self.score or self.edges:
            return _bands(ends)
        return _few(tuple(str(label) for label in np.unique(self._column(problem)).tolist()), self.words)

    def places(self, problem: Problem, rows: Any) -> Any:
        """The number of each input's segment.

        Args:
            problem: All inputs.
            rows: The numbers of the inputs.
        """
        if self.by is not None:
            return problem[rows].predicted.cpu().numpy()
        if self.score:
            return np.searchsorted(self.score, problem[rows].scores().cpu().numpy(), side="right")
        values = self._column(problem)
        if self.edges:
            return np.searchsorted(self.edges, values[rows].astype(float), side="right")
        return np.unique(values, return_inverse=True)[1][rows]

    def _column(self, problem: Problem) -> Any:
        if self.labels is not None:
            labels = np.asarray(self.labels)
            if labels.shape != (len(problem),):
                raise ValueError(f"segments: expected one label for each of {len(problem)} inputs, got {labels.shape}.")
            return _without_gaps(labels, self.words) if self.edges else labels
        names = problem.names or ()
        if self.column not in names or not isinstance(problem.features, Grid) or problem.inputs.ndim != 2:
            listed = f"there are {', '.join(names)}" if names else "the inputs have no named columns"
            raise ValueError(f"segments.column: no column {self.column!r}; {listed}.")
        values = problem.inputs[:, names.index(self.column)].cpu().numpy()
        return _without_gaps(values, self.words) if self.edges else values


def _without_gaps(values: Any, words: str) -> Any:
    """Values that lie in one band or another."""
    if values.dtype.kind not in "iufb" or np.isnan(values.astype(float)).any():
        raise ValueError(f"segments.edges: expected numbers without gaps in {words}, got others.")
    return values


def _rising(name: str, ends: Any) -> tuple[float, ...]:
    if isinstance(ends, str) or not isinstance(ends, Sequence):
        raise TypeError(f"{name}: expected a list of numbers, got {kind_in_words(ends)}.")
    numbers = tuple(float(end) for end in ends)
    if not all(map(math.isfinite, numbers)) or any(b <= a for a, b in pairwise(numbers)):
        raise ValueError(f"{name}: expected rising numbers, got {list(ends)}.")
    return numbers


def _bands(ends: tuple[float, ...]) -> tuple[str, ...]:
    between = [f"{low:g} to below {high:g}" for low, high in pairwise(ends)]
    return f"below {ends[0]:g}", *between, f"{ends[-1]:g} or more"


def _few(names: tuple[str, ...], words: str) -> tuple[str, ...]:
    if len(names) > _MOST_SEGMENTS:
        raise ValueError(
            f"segments: expected at most {_MOST_SEGMENTS} of them, got {len(names):,} values of {words}; say edges, or "
            "take another column."
        )
    return names


@dataclass(frozen=True)
class Threshold:
    """What a score is held against.

    Attributes:
        kind: A number, a random explanation, another explanation, or a share of the limit.
        value: The number, the margin by which it may be worse, or the share.
        name: The other explanation, by its name or as the short form of a method.
    """

    kind: Literal["number", "random", "other", "limit"]
    value: float = 0.0
    name: str = ""

    @classmethod
    def read(cls, threshold: Any, margin: float) -> "Threshold":
        """Read the threshold of a requirement.

        Example:
            >>> Threshold.read("not worse than lime", 0.02), Threshold.read("80 % of the limit", 0.0).value
            (Threshold(kind='other', value=0.02, name='lime'), 0.8)
        """
        if isinstance(threshold, bool) or not isinstance(threshold, str | int | float):
            raise TypeError(f"threshold: expected {_THRESHOLDS}, got {kind_in_words(threshold)}.")
        words = str(threshold)
        if words.startswith(_NOT_WORSE) and (name := words.removeprefix(_NOT_WORSE).strip()):
            return cls("other", margin, name)
        if margin:
            raise ValueError(f"margin: it goes with 'not worse than NAME', got {margin:g} with {threshold!r}.")
        if words == "better than random":
            return cls("random")
        if not isinstance(threshold, str) and math.isfinite(threshold):
            return cls("number", float(threshold))
        share = _SHARE.fullmatch(words)
        if share is None:
            raise ValueError(f"threshold: expected {_THRESHOLDS}, got {threshold!r}.")
        part = float(share[1]) / (100 if share[2] else 1)
        if part > 1:
            raise ValueError(f"threshold: expected at most 100 % of the limit, got {threshold!r}.")
        return cls("limit", part)


@dataclass(frozen=True)
class Requirement:
    """What an explanation must reach, stated before the numbers are seen.

    Args:
        metric: A name, a short form such as ``"effect_correlation(perturbation=baseline, samples=160)"``, or a metric;
            of reasons ``"false_reasons"``, ``"omitted_reasons"``, ``"reason_share"``, ``"reason_stability"`` with
            ``k``, ``direction``, ``tolerance``, and stability ``over``.
        threshold: A number; ``"better than random"``; ``"not worse than NAME"``, another of the attributions or a
            method such as ``KernelShap(samples=2048)``; ``"0.8 of the limit"``, of the best that any could score.
        direction: ``"at least"`` or ``"at most"`` a number; as the metric's better side is, by default.
        justification: Why this threshold, in words.
        segments: ``"class"``, labels, a dict of what ``Segments`` takes, or these themselves; all inputs together by
            default. Intervals are corrected for the number of segments (Bonferroni).
        margin: By how much it may be worse than the other and pass; with 0, one that is equal is never decided.
        level: Coverage of the interval that decides.
        inputs: How many inputs, drawn at random; all by default.
        seed: Of the draw of inputs, and of the random explanation.
        until: ``"decided"`` takes inputs in growing blocks until the outcome is known, or ``inputs`` are used up.
        explanation: Which of several attributions it is about; all of them by default, except those that it or
            another requirement compares with.

    Example:
        >>> must = Requirement("false_reasons(k=4)", 0.05, justification="one letter in twenty may name a wrong reason")
        >>> str(must)
        'false_reasons at most 0.05'
    """

    metric: Any
    threshold: Any
    direction: Bound | None = None
    justification: str = ""
    segments: Any = None
    margin: float | int = 0.0
    level: float = LEVEL
    inputs: int | None = None
    seed: int = 0
    until: str | None = None
    explanation: str | None = None

    def __post_init__(self) -> None:
        checked_level(self.level)
        measure = measure_of(self.metric)
        held = Threshold.read(self.threshold, checked_not_negative("margin", self.margin))
        natural: Bound = "at least" if measure.higher_is_better else "at most"
        if self.direction is not None:
            checked_choice("direction", self.direction, ("at least", "at most"))
        if held.kind != "number" and self.direction not in (None, natural):
            raise ValueError(
                f"direction: {measure.name} {self.threshold} means {natural}, got {self.direction!r}; leave it out."
            )
        if held.kind == "limit" and isinstance(measure, ReasonMetric):
            raise ValueError(f"threshold: {measure.name} has no limit; expected {_THRESHOLDS}.")
        if self.until is not None:
            checked_choice("until", self.until, ("decided",))
        if not isinstance(self.justification, str):
            raise TypeError(f"justification: expected text, got {kind_in_words(self.justification)}.")
        settle(
            self,
            metric=measure,
            direction=self.direction or natural,
            segments=segments_of(self.segments),
            inputs=None if self.inputs is None else checked_count("inputs", self.inputs),
            seed=checked_seed(self.seed),
        )

    @property
    def held(self) -> Threshold:
        """The threshold, read."""
        return Threshold.read(self.threshold, self.margin)

    def on(self, problem: Problem, fewest: int) -> Measure:
        """The metric as it is measured on a problem: a name alone may depend on the number of features."""
        bare = isinstance(self.metric, Metric) and self.metric.short_form == self.metric.name
        return metric_of(self.metric.name, fewest) if bare and self.metric.name in METRICS else self.metric

    def __str__(self) -> str:
        held, name = self.held, self.metric.short_form
        if held.kind == "number":
            return f"{name} {self.direction} {held.value:g}"
        if held.kind == "limit":
            return f"{name} at least {100 * held.value:g} % of the limit"
        worse = f" by more than {held.value:g}" if held.value else ""
        return f"{name} {self.threshold}{worse}"


def measure_of(metric: Any) -> Measure:
    """The metric that a name, a short form or an object means."""
    if not isinstance(metric, str):
        return metric if isinstance(metric, ReasonMetric) else metric_of(metric, argument="metric")
    name, settings = parse_short_form(metric)
    if name in REASON_METRICS:
        return reason_metric(name, settings)
    if name not in METRICS:
        raise ValueError(f"metric: {unknown(name, [*METRICS, *REASON_METRICS])}")
    return metric_from({"metric": name, **settings}, {}) if settings else metric_of(name, argument="metric")


def segments_of(segments: Any) -> Segments | None:
    """The segments that a word, a dict, labels or an object mean."""
    if segments is None or isinstance(segments, Segments):
        return segments
    if isinstance(segments, str):
        if segments != "class":
            raise ValueError(f"segments: expected 'class', or a table with score or column, got {segments!r}.")
        return Segments(by="class")
    if isinstance(segments, Mapping):
        if not isinstance(segments.get("file", ""), str):
            raise TypeError(f"segments.file: expected a file, got {kind_in_words(segments['file'])}.")
        return Segments(**_known("segments", segments, Segments))
    return Segments(labels=np.asarray(segments))


def requirements_of(requirements_or_dicts: Any) -> tuple[Requirement, ...]:
    """One or several requirements, as objects or as dicts of their arguments, all checked before any work."""
    single = isinstance(requirements_or_dicts, Requirement | Mapping)
    listed = [requirements_or_dicts] if single else requirements_or_dicts
    if isinstance(listed, str) or not isinstance(listed, Sequence) or not listed:
        raise TypeError(f"requirements: expected a list of requirements, got {kind_in_words(listed)}.")
    requirements = []
    for number, entry in enumerate(listed):
        try:
            requirements.append(entry if isinstance(entry, Requirement) else _from_dict(entry))
        except (ValueError, TypeError) as error:
            raise type(error)(f"requirements[{number}].{error}") from None
    return tuple(requirements)


def _from_dict(table: Any) -> Requirement:
    if not isinstance(table, Mapping):
        raise TypeError(f"metric: expected a Requirement or a dict, got {kind_in_words(table)}.")
    known = _known("requirement", table, Requirement)
    if missing := [name for name in ("metric", "threshold") if name not in known]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return Requirement(**known)


def _known(what: str, table: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Arguments of a dataclass; one that it does not have is an error."""
    allowed = [field.name for field in fields(kind)]
    for name in table:
        if name not in allowed:
            raise ValueError(f"{name}: no such key of a {what}; {unknown(name, allowed)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
