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
from verax.study.compute import explain
from verax.study.explained_models import ExplainedModel, Machine, known_warnings_silenced
from verax.study.metrics import StudyMetrics, described, is_drawn
from verax.study.ranking import best_configuration
from verax.study.spec import TrustSpec
from verax.study.store import Cache, parquet, read_facts
from verax.study.study import Study
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
        return slice(0, min(self.spec.inputs, len(self.model.inputs)))

    @property
    def concerned(self) -> dict[str, Metric]:
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

    def concerns(self, metric: Metric) -> bool:
        return True

    def unsupported_reason(self) -> str:
        """Why it is not asked of this model; empty where it is."""
        return ""

    @abstractmethod
    def computed(self, machine: Machine, cache: Cache) -> Answer:
        """The answer, where the question is supported."""

    def answer(self, machine: Machine, cache: Cache) -> Answer:
        """The answer, or the reason why there is none."""
        why = self.unsupported_reason()
        if not why:
            try:
                with known_warnings_silenced():
                    return self.computed(machine, cache)
            except ValueError as error:  # what the calls raise for, each with its reason, before they work
                why = str(error)
        return pl.DataFrame(), {"why": why}

    def _measured(self) -> dict[str, Metric]:
        """The metrics that it is about, with training rows for replacements that take some."""
        whole = self.metrics.on_data(self.rows, self.model.background)
        return {column: whole[column] for column in self.concerned if column in self.best}


class DistanceCheck(Question):
    """How far do the rows that guided metrics perturb, under the best configuration of each, lie from training rows?"""

    name = "distance"

    def concerns(self, metric: Metric) -> bool:
        return isinstance(metric, GuidedMetric)  # which alone perturb rows in an order

    def unsupported_reason(self) -> str:
        return "" if self.shown else "distance: it is that of rows with removed features, and no metric removes some."

    def computed(self, machine: Machine, cache: Cache) -> Answer:
        values = explain(self.model, self.shown, self.rows, machine, cache).values
        measured = self._measured()
        for column, metric in measured.items():
            if any(field.name == "steps" for field in fields(metric)):  # a distance has points of its own
                measured[column] = replace(metric, steps=1)  # type: ignore[call-arg]
        evaluation = evaluate(self.model.problem(self.rows, machine), values, measured).with_distance()
        removed = {
            column: (metric.experiment.replacement or BASELINE).short_form
            for column, metric in self.concerned.items()
            if isinstance(metric, GuidedMetric)
        }
        rows = []
        for distance in evaluation.distance or ():
            column, configuration = distance.metric, distance.attribution  # no metric: the inputs as they are
            if not column or configuration == self.best[column].canonical:
                beyond = distance.beyond(LEVEL)
                keys = (self.model.name, column, removed.get(column, ""), configuration, distance.space)
                figures = (distance.ratio, beyond.mean, beyond.low, beyond.high, len(distance.shares))
                rows.append((*keys, *figures))
        return pl.DataFrame(rows, schema=dict(DISTANCE_SCHEMA), orient="row"), {}


class LimitsCheck(Question):
    """How much of what any attribution could score does the best configuration of each metric attain?

    Scores and limits are of the same inputs: some of them, where the model rows do not allow more.
    """

    name = "limits"

    @property
    def settings(self) -> dict[str, Any]:
        return {"rows": self.spec.limit_rows}

    def concerns(self, metric: Metric) -> bool:
        return has_limits(metric) and not is_drawn(metric)

    def unsupported_reason(self) -> str:
        if not self.shown:
            return f"limits: {LIMITED}, with replacements that are not drawn."
        if self.model.modality == "image":
            many = "not asked of images, whose pixels are too many to search"
            return f"limits: {many}; verax.limits finds them where segments are the features."
        return ""

    def computed(self, machine: Machine, cache: Cache) -> Answer:
        metrics, problem = self._measured(), self.model.problem(self.rows, machine, background=False)
        values = explain(self.model, self.shown, self.rows, machine, cache).values
        evaluation = evaluate(problem, values, metrics)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="limits: .* model rows allow")  # the table says of how many
            limits = possible_limits(problem, metrics, rows=self.spec.limit_rows)
        rows = []
        for column in metrics:
            configuration = self.best[column].canonical
            place = list(values).index(configuration)
            result = replace(evaluation[column], limits=limits[column].raised_to(evaluation[column].scores))
            known, share = result.limits.inputs, result.shares(LEVEL)[place]
            score, possible = result.scores[place][known].double().mean(), result.limits.best_scores[known].mean()
            figures = (float(score), float(possible), share.mean, share.low, share.high)
            origin = (result.limits.exact, result.limits.method, len(known))
            rows.append((self.model.name, column, configuration, *figures, *origin))
        return pl.DataFrame(rows, schema=dict(LIMITS_SCHEMA), orient="row"), {}


class SignificanceCheck(Question):
    """Which metrics of the study tell the best explanations from worse ones, and with how many inputs?"""

    name = "audit"

    @property
    def settings(self) -> dict[str, Any]:
        return {"trials": list(self.spec.trials)}

    @property
    def shown(self) -> list[Attribution]:
        return list(self.explanations.values())

    @property
    def explanations(self) -> dict[str, Attribution]:
        """The best configuration by the first metric of each kind, each once, by a name for people."""
        first: dict[str, str] = {}
        for column, metric in self.concerned.items():
            if column in self.best:
                first.setdefault(metric.kind, column)
        named: dict[Attribution, str] = {}
        for column in first.values():
            named.setdefault(self.best[column], f"{BEST_BY}{column}")
        return {name: method for method, name in named.items()}

    def computed(self, machine: Machine, cache: Cache) -> Answer:
        result = audit(
            self.model.problem(self.rows, machine),
            {name: self.model.used(method) for name, method in self.explanations.items()},
            metrics=self.metrics.on_data(self.rows, self.model.background),
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
        of_model = [kind(model, study.metrics, best, study.spec.trust) for kind in QUESTIONS if best]
        listed |= {question.stem: question for question in of_model}
    return listed


def to_ask(study: Study, unfinished: bool) -> int:
    if not study.spec.trust.inputs:
        return 0
    if unfinished:
        return len(QUESTIONS) * len(study.models)
    listed = questions(study, study.scores())
    return len(listed) - len(study.store.contents(TRUST, listed).files)


def answer(study: Study, question: Question, machine: Machine) -> None:
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
