"""Whether the scores of a study can be trusted: questions to its models, answered into files, and read from them."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import polars as pl

from verax.attribution import Attribution
from verax.auditing.audit import audit
from verax.auditing.choices import chosen_trials
from verax.auditing.finding import LeftOut, finding_frame, findings_of
from verax.auditing.result import Audit
from verax.evaluation.evaluate import evaluate
from verax.evaluation.limits import limits as possible_limits
from verax.metrics.base import GuidedMetric, Metric
from verax.metrics.limit_reading import LIMITED, has_limits
from verax.problem.replacement import BASELINE
from verax.study.cache import Cache
from verax.study.compute import explain
from verax.study.explained_models import ExplainedModel
from verax.study.metrics import StudyMetrics, described, is_drawn
from verax.study.ranking import best_configuration
from verax.study.spec import TrustSpec
from verax.study.store import parquet, read_facts
from verax.study.study import Study
from verax.study.study_data import Machine, known_warnings_silenced
from verax.study.tables import BEST_BY, DISTANCE_SCHEMA, LIMITS_SCHEMA, Trust, empty
from verax.study.units import other_key

_FORMAT = 2  # raise it when an answer is made in another way
LEVEL = 0.95


# the figures, without rows where the question was not supported, and what belongs to them, as JSON can hold it; ``why``
# is the reason why it is not supported
Answer = tuple[pl.DataFrame, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """A question to one model."""

    name: ClassVar[str]  # what it is about
    model: ExplainedModel  # the model
    metrics: StudyMetrics  # all metrics of the study
    best: Mapping[str, Attribution]  # the configuration that each of them rates best, by its column
    spec: TrustSpec  # what the spec says

    @property
    def title(self) -> str:
        return f"{self.model.name}: {self.name}"

    @property
    def rows(self) -> slice:
        """The inputs that are looked at."""
        return slice(0, min(self.spec.inputs, len(self.model.inputs)))

    @property
    def concerned(self) -> dict[str, Metric]:
        """The metrics that the question is about, by column."""
        return {column: metric for column, metric in self.metrics.on(self.rows).items() if self.concerns(metric)}

    @property
    def shown(self) -> list[Attribution]:
        """The configurations that it is about, each once."""
        return list(dict.fromkeys(self.best[column] for column in self.concerned if column in self.best))

    @property
    def stem(self) -> str:
        """The name of its file in the store."""
        best = {column: method.canonical for column, method in self.best.items()}
        settings = {"format": _FORMAT, "best": best, **self.settings}
        key = other_key(f"trust {self.name}", self.model, self.rows, self.shown, self.concerned, settings)
        return f"{self.model.name}.{self.name}.{key[:16]}"

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def concerns(self, metric: Metric) -> bool:
        """Whether it is about a metric."""

    @abstractmethod
    def why_not(self) -> str:
        """Why it is not asked of this model; empty where it is."""

    @abstractmethod
    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Ask it."""

    def answer(self, machine: Machine, cache: Cache) -> Answer:
        """Ask it, or say why not."""
        why = self.why_not()
        if not why:
            try:
                with known_warnings_silenced():
                    return self.answered(machine, cache)
            except ValueError as error:  # what the calls raise for, each with its reason, before they work
                why = str(error)
        return pl.DataFrame(), {"why": why}

    def _measured(self) -> dict[str, Metric]:
        """The metrics that it is about, with training rows for replacements that take some."""
        whole = self.metrics.on_data(self.rows, self.model.background)
        return {column: whole[column] for column in self.concerned if column in self.best}


class DistanceCheck(Question):
    """How far do the rows that guided metrics perturb lie from the training rows?"""

    name = "distance"

    def concerns(self, metric: Metric) -> bool:
        """Guided ones alone perturb rows in an order."""
        return isinstance(metric, GuidedMetric)

    def why_not(self) -> str:
        return "" if self.shown else "distance: it is that of rows with removed features, and no metric removes some."

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Of each metric, the rows of its best configuration; and the inputs as they are."""
        model = self.model
        values = explain(model, self.shown, self.rows, machine, cache).values
        problem = model.material.problem(model.scorer(machine.compile), self.rows, machine, background=True)
        measured = self._measured()
        for column, metric in measured.items():
            if any(field.name == "steps" for field in fields(metric)):  # a distance has points of its own
                measured[column] = replace(metric, steps=1)  # type: ignore[call-arg]
        evaluation = evaluate(problem, values, measured).with_distance()
        best = {column: method.canonical for column, method in self.best.items()}
        rows = [
            {
                "model": model.name,
                "metric": distance.metric,
                "replacement": self._replacement(distance.metric),
                "configuration": distance.attribution,
                "space": distance.space,
                "ratio": distance.ratio,
                "beyond": beyond.mean,
                "low": beyond.low,
                "high": beyond.high,
                "inputs": len(distance.shares),
            }
            for distance in evaluation.distance or ()
            if not distance.metric or distance.attribution == best[distance.metric]
            for beyond in (distance.beyond(LEVEL),)
        ]
        return pl.DataFrame(rows, schema=dict(DISTANCE_SCHEMA)), {}

    def _replacement(self, column: str) -> str:
        metric = self.concerned.get(column)
        return (metric.experiment.replacement or BASELINE).short_form if isinstance(metric, GuidedMetric) else ""


class LimitsCheck(Question):
    """How much of what any attribution could score does the best configuration of each metric attain?"""

    name = "limits"

    @property
    def settings(self) -> dict[str, Any]:
        return {"rows": self.spec.limit_rows}

    def concerns(self, metric: Metric) -> bool:
        return has_limits(metric) and not is_drawn(metric)

    def why_not(self) -> str:
        """Asked of tables: the pixels of an image are too many to search."""
        if not self.shown:
            return f"limits: {LIMITED}, with replacements that are not drawn."
        if self.model.modality == "image":
            many = "not asked of images, whose pixels are too many to search"
            return f"limits: {many}; verax.limits finds them where segments are the features."
        return ""

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """Scores and limits on the same inputs; on some of them, where the rows do not allow more."""
        model, metrics = self.model, self._measured()
        problem = model.material.problem(model.scorer(machine.compile), self.rows, machine, background=False)
        values = explain(model, self.shown, self.rows, machine, cache).values
        evaluation = evaluate(problem, values, metrics)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="limits: .* model rows allow")  # the table says of how many
            limits = possible_limits(problem, metrics, rows=self.spec.limit_rows)
        rows = []
        for column in metrics:
            name = self.best[column].canonical
            place = list(values).index(name)
            result = replace(evaluation[column], limits=limits[column].raised_to(evaluation[column].scores))
            known, share = result.limits.inputs, result.shares(LEVEL)[place]
            rows.append(
                {
                    "model": model.name,
                    "metric": column,
                    "configuration": name,
                    "score": float(result.scores[place][known].double().mean()),
                    "possible": float(result.limits.best_scores[known].mean()),
                    "share": share.mean,
                    "low": share.low,
                    "high": share.high,
                    "exact": result.limits.exact,
                    "found_by": result.limits.method,
                    "inputs": len(known),
                }
            )
        return pl.DataFrame(rows, schema=dict(LIMITS_SCHEMA)), {}


class SignificanceCheck(Question):
    """Which metrics of the study tell the best explanations from worse ones, and with how many inputs?"""

    name = "audit"

    @property
    def settings(self) -> dict[str, Any]:
        return {"trials": list(self.spec.trials)}

    def concerns(self, metric: Metric) -> bool:
        return True

    @property
    def shown(self) -> list[Attribution]:
        """The best configuration by the first metric of each kind."""
        return list(dict.fromkeys(self.explanations.values()))

    @property
    def explanations(self) -> dict[str, Attribution]:
        """What the metrics are shown, by a name for people."""
        first: dict[str, str] = {}
        for column, metric in self.concerned.items():
            if column in self.best:
                first.setdefault(metric.kind, column)
        named: dict[Attribution, str] = {}
        for column in first.values():
            named.setdefault(self.best[column], f"{BEST_BY}{column}")
        return {name: method for method, name in named.items()}

    def why_not(self) -> str:
        return ""

    def answered(self, machine: Machine, cache: Cache) -> Answer:
        """An audit of one's own model, with the study's metrics as they are."""
        model = self.model
        result = audit(
            model.material.problem(model.scorer(machine.compile), self.rows, machine, background=True),
            {name: model.used(method) for name, method in self.explanations.items()},
            metrics=self.metrics.on_data(self.rows, model.background),
            replacements=["baseline"],
            trials=self.spec.trials or None,
        )
        left_out = [[omission.what, omission.case, omission.why] for omission in result.left_out]
        facts = {"left_out": left_out, "inputs": result.inputs, "rows": result.rows, "seconds": result.seconds}
        return finding_frame(result.findings), facts


QUESTIONS: tuple[type[Question], ...] = (SignificanceCheck, DistanceCheck, LimitsCheck)


TRUST = "trust"  # the folder
_LATER = "not asked yet; run the study to the end."


def questions(study: Study, scores: pl.DataFrame) -> dict[str, Question]:
    """All that is asked of models that have scores, by the name of its file; nothing where the spec asks nothing."""
    if not study.spec.trust.inputs or not scores.width:
        return {}
    listed: dict[str, Question] = {}
    for model in study.models.values():
        known = {method.canonical: method for method in model.configurations}
        best = {
            column: known[name]
            for column, metric in study.metrics.items()
            if column in scores.columns
            and (name := best_configuration(scores, model.name, described(column, metric, noisy=False))) is not None
        }
        for question in [kind(model, study.metrics, best, study.spec.trust) for kind in QUESTIONS if best]:
            listed[question.stem] = question
    return listed


def to_ask(study: Study, unfinished: bool) -> int:
    if not study.spec.trust.inputs:
        return 0
    if unfinished:
        return len(QUESTIONS) * len(study.models)
    listed = questions(study, study.scores())
    return len(listed) - len(study.store.contents(TRUST, listed).files)


def answer(study: Study, question: Question, machine: Machine) -> None:
    """Ask, and write the file of the answer."""
    table, facts = question.answer(machine, study.cache)
    study.store.put(TRUST, question.stem, parquet(table, {"unit": question.stem, **facts}), ".parquet")


def read_trust(study: Study, scores: pl.DataFrame) -> Trust | None:
    """What was answered; None where the study asks nothing."""
    settings = study.spec.trust
    if not settings.inputs:
        return None
    listed = questions(study, scores)
    files = study.store.contents(TRUST, listed).files
    tables = {"distance": [empty(DISTANCE_SCHEMA)], "limits": [empty(LIMITS_SCHEMA)]}
    audits: dict[str, Audit] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for stem, question in listed.items():
        name = question.model.name
        facts: dict[str, Any] = read_facts(files[stem]) if stem in files else {"why": f"{question.name}: {_LATER}"}
        if why := facts.get("why"):
            left_out[name] = (*left_out.get(name, ()), why)
        elif question.name in tables:
            tables[question.name].append(pl.read_parquet(files[stem]))
        else:  # an audit as it was
            audits[name] = Audit(
                findings=findings_of(pl.read_parquet(files[stem])),
                left_out=tuple(LeftOut(*omission) for omission in facts["left_out"]),
                trials=chosen_trials(settings.trials or None, own_model=True),
                inputs=facts["inputs"],
                rows=facts["rows"],
                seconds=facts["seconds"],
                level=LEVEL,
                known_limitations={column: metric.known_limitations for column, metric in study.metrics.items()},
            )
    return Trust(settings.inputs, pl.concat(tables["distance"]), pl.concat(tables["limits"]), audits, left_out)
