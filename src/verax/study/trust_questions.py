"""The questions to each model of a study: how far from the data, how near to the possible, told apart by which metric.

Each is asked of the first few inputs, about the configurations that its metrics rate best, by the same calls that
anybody can make: ``verax.evaluate``, ``verax.limits`` and ``verax.audit``. What they refuse is the answer, then.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import polars as pl

from verax.attribution import Attribution
from verax.auditing.audit import audit
from verax.auditing.store import finding_frame
from verax.evaluation.evaluate import evaluate
from verax.evaluation.limits import limits as possible_limits
from verax.metrics.base import GuidedMetric, Metric
from verax.metrics.weighted_area import WeightedArea
from verax.problem.replacement import BASELINE
from verax.study.cache import Cache
from verax.study.explained_models import ExplainedModel
from verax.study.explanations import explain
from verax.study.keys import other_key
from verax.study.machine import Machine
from verax.study.materials import said_before
from verax.study.metrics import StudyMetrics, is_drawn
from verax.study.spec import TrustSpec
from verax.study.tables import BEST_BY, DISTANCE_SCHEMA, LIMITS_SCHEMA

_FORMAT = 1  # raise it when an answer is made in another way
LEVEL = 0.95


@dataclass(frozen=True)
class Answer:
    """What came out.

    Attributes:
        table: The figures; no rows where the question was refused.
        facts: What belongs to them, as JSON can hold it; ``why`` is the reason of a refusal.
    """

    table: pl.DataFrame
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """A question to one model.

    Attributes:
        name: What it is about.
        model: The model.
        metrics: All metrics of the study.
        best: The configuration that each of them rates best, by its column.
        asked: What the spec says.
    """

    name: ClassVar[str]
    model: ExplainedModel
    metrics: StudyMetrics
    best: Mapping[str, Attribution]
    asked: TrustSpec

    @property
    def title(self) -> str:
        """Whom it asks, and about what."""
        return f"{self.model.name}: {self.name}"

    @property
    def rows(self) -> slice:
        """The inputs that are looked at."""
        return slice(0, min(self.asked.inputs, len(self.model.inputs)))

    @property
    def own(self) -> dict[str, Metric]:
        """The metrics that the question is about, by column."""
        return {column: metric for column, metric in self.metrics.on(self.rows).items() if self.concerns(metric)}

    @property
    def shown(self) -> list[Attribution]:
        """The configurations that it is about, each once."""
        return list(dict.fromkeys(self.best[column] for column in self.own if column in self.best))

    @property
    def stem(self) -> str:
        """The name of its file in the store."""
        best = {column: method.canonical for column, method in self.best.items()}
        settings = {"format": _FORMAT, "best": best, **self.settings}
        key = other_key(f"trust {self.name}", self.model, self.rows, self.shown, self.own, settings)
        return f"{self.model.name}.{self.name}.{key[:16]}"

    @property
    def settings(self) -> dict[str, Any]:
        """What else of the spec the answer depends on."""
        return {}

    @abstractmethod
    def concerns(self, metric: Metric) -> bool:
        """Whether it is about a metric."""

    @abstractmethod
    def refusal(self) -> str:
        """Why it is not asked of this model; empty where it is."""

    @abstractmethod
    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Ask it."""

    def answer(self, machine: Machine, cache: Cache) -> Answer:
        """Ask it, or say why not."""
        why = self.refusal()
        if not why:
            try:
                with said_before():
                    return self.answered(machine, cache)
            except ValueError as error:  # what the calls refuse, each with its reason, before they work
                why = str(error)
        return Answer(pl.DataFrame(), {"why": why})

    def _measured(self) -> dict[str, Metric]:
        """The metrics that it is about, with training rows for replacements that take some."""
        whole = self.metrics.on_data(self.rows, self.model.background)
        return {column: whole[column] for column in self.own if column in self.best}


class FromTheData(Question):
    """How far do the rows that guided metrics perturb lie from the training rows?"""

    name = "distance"

    def concerns(self, metric: Metric) -> bool:
        """Guided ones alone perturb rows in an order."""
        return isinstance(metric, GuidedMetric)

    def refusal(self) -> str:
        """Asked where there is a metric that removes features."""
        return "" if self.shown else "distance: it is that of rows with removed features, and no metric removes some."

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Of each metric, the rows of its best configuration; and the inputs as they are."""
        model = self.model
        values = explain(model, self.shown, self.rows, machine, cache).values
        problem = model.material.problem(model.scorer(machine.compile), self.rows, machine, background=True)
        metrics = {column: _in_one_step(metric) for column, metric in self._measured().items()}
        found = evaluate(problem, values, metrics).with_distance()
        best = {column: method.canonical for column, method in self.best.items()}
        rows = [
            {
                "model": model.name,
                "metric": one.metric,
                "replacement": self._replacement(one.metric),
                "configuration": one.attribution,
                "space": one.space,
                "ratio": one.ratio,
                "beyond": beyond.mean,
                "low": beyond.low,
                "high": beyond.high,
                "inputs": len(one.shares),
            }
            for one in found.distance or ()
            if not one.metric or one.attribution == best[one.metric]
            for beyond in (one.beyond(LEVEL),)
        ]
        return Answer(pl.DataFrame(rows, schema=dict(DISTANCE_SCHEMA)), {})

    def _replacement(self, column: str) -> str:
        metric = self.own.get(column)
        return (metric.experiment.replacement or BASELINE).short_form if isinstance(metric, GuidedMetric) else ""


def _in_one_step(metric: Metric) -> Metric:
    """The same metric with fewer scores, which a distance has no use for: it has points of its own."""
    named = {field.name for field in fields(metric)}
    return replace(metric, steps=1) if "steps" in named else metric  # type: ignore[call-arg]


class OfThePossible(Question):
    """How much of what any attribution could score does the best configuration of each metric attain?"""

    name = "limits"

    @property
    def settings(self) -> dict[str, Any]:
        """How many model rows may be spent."""
        return {"rows": self.asked.limit_rows}

    def concerns(self, metric: Metric) -> bool:
        """Areas whose limits are known."""
        return isinstance(metric, WeightedArea) and not is_drawn(metric)

    def refusal(self) -> str:
        """Asked of tables: the pixels of an image are too many to search."""
        if not self.shown:
            return "limits: they are known of pc, dpc and lpc, with replacements that are not drawn."
        if self.model.modality == "image":
            many = "not asked of images, whose pixels are too many to search"
            return f"limits: {many}; verax.limits finds them where segments are the features."
        return ""

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Scores and limits on the same inputs; on some of them, where the rows do not allow more."""
        model, metrics = self.model, self._measured()
        problem = model.material.problem(model.scorer(machine.compile), self.rows, machine, background=False)
        values = explain(model, self.shown, self.rows, machine, cache).values
        found = evaluate(problem, values, metrics)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="limits: .* model rows allow")  # the table says of how many
            limits = possible_limits(problem, metrics, rows=self.asked.limit_rows)
        rows = []
        for column in metrics:
            name = self.best[column].canonical
            place = list(values).index(name)
            result = replace(found[column], limits=limits[column].raised_to(found[column].scores))
            known, share = result.limits.inputs, result.shares(LEVEL)[place]
            rows.append(
                {
                    "model": model.name,
                    "metric": column,
                    "configuration": name,
                    "score": float(result.scores[place][known].double().mean()),
                    "possible": float(result.limits.highest[known].mean()),
                    "share": share.mean,
                    "low": share.low,
                    "high": share.high,
                    "exact": result.limits.exact,
                    "found_by": result.limits.method,
                    "inputs": len(known),
                }
            )
        return Answer(pl.DataFrame(rows, schema=dict(LIMITS_SCHEMA)), {})


class ToldApart(Question):
    """Which metrics of the study tell the best explanations from worse ones, and with how many inputs?"""

    name = "audit"

    @property
    def settings(self) -> dict[str, Any]:
        """The trials."""
        return {"trials": list(self.asked.trials)}

    def concerns(self, metric: Metric) -> bool:
        """All of them."""
        return True

    @property
    def shown(self) -> list[Attribution]:
        """The best configuration by the first metric of each kind."""
        return list(dict.fromkeys(self.explanations.values()))

    @property
    def explanations(self) -> dict[str, Attribution]:
        """What the metrics are shown, by a name for people."""
        first: dict[str, str] = {}
        for column, metric in self.own.items():
            if column in self.best:
                first.setdefault(metric.kind, column)
        named: dict[Attribution, str] = {}
        for column in first.values():
            named.setdefault(self.best[column], f"{BEST_BY}{column}")
        return {name: method for method, name in named.items()}

    def refusal(self) -> str:
        """Asked wherever something was measured."""
        return ""

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """An audit of one's own model, with the study's metrics as they are."""
        model = self.model
        found = audit(
            model.material.problem(model.scorer(machine.compile), self.rows, machine, background=True),
            {name: model.used(method) for name, method in self.explanations.items()},
            metrics=self.metrics.on_data(self.rows, model.background),
            replacements=["baseline"],
            trials=self.asked.trials or None,
        )
        left_out = [[one.what, one.case, one.why] for one in found.left_out]
        facts = {"left_out": left_out, "inputs": found.inputs, "rows": found.rows, "seconds": found.seconds}
        return Answer(finding_frame(found.findings), facts)


QUESTIONS: tuple[type[Question], ...] = (ToldApart, FromTheData, OfThePossible)
