"""Whether a study's numbers can be trusted: the questions to its models, answered into files, and read from them."""

from typing import Any

import polars as pl

from verax.attribution import Attribution
from verax.auditing.choices import trials_asked
from verax.auditing.finding import LeftOut
from verax.auditing.result import Audit
from verax.auditing.store import findings_of
from verax.study.explained_models import ExplainedModel
from verax.study.machine import Machine
from verax.study.metrics import described
from verax.study.store import parquet, read_facts
from verax.study.study import Study
from verax.study.tables import DISTANCE_SCHEMA, LIMITS_SCHEMA, Trust, empty
from verax.study.trust_questions import LEVEL, QUESTIONS, Question
from verax.study.winners import best_configuration

TRUST = "trust"  # the folder
_LATER = "not asked yet; run the study to the end."


def questions(study: Study, scores: pl.DataFrame) -> dict[str, Question]:
    """All that is asked of models that have scores, by the name of its file; nothing where the spec asks nothing.

    Args:
        study: The study.
        scores: Its table, which says what is best.
    """
    if not study.spec.trust.inputs or not scores.width:
        return {}
    found = [
        kind(model, study.metrics, best, study.spec.trust)
        for model in study.models.values()
        for best in (_best(study, model, scores),)
        if best
        for kind in QUESTIONS
    ]
    return {question.stem: question for question in found}


def finished_scores(study: Study) -> pl.DataFrame:
    """The table of a study of which all units are there."""
    return study.scores()


def to_ask(study: Study, unfinished: bool) -> int:
    """How many questions have no answer yet.

    Args:
        study: The study.
        unfinished: Whether units are left to compute, whose scores will say what is best.
    """
    if not study.spec.trust.inputs:
        return 0
    if unfinished:
        return len(QUESTIONS) * len(study.models)
    asked = questions(study, finished_scores(study))
    return len(asked) - len(study.store.contents(TRUST, asked).found)


def answer(study: Study, question: Question, machine: Machine) -> None:
    """Ask, and write the file of the answer."""
    found = question.answer(machine, study.cache)
    study.store.put(TRUST, question.stem, parquet(found.table, {"unit": question.stem, **found.facts}), ".parquet")


def read_trust(study: Study, scores: pl.DataFrame) -> Trust | None:
    """What was answered; None where the study asks nothing."""
    asked = study.spec.trust
    if not asked.inputs:
        return None
    wanted = questions(study, scores)
    files = study.store.contents(TRUST, wanted).found
    tables = {"distance": [empty(DISTANCE_SCHEMA)], "limits": [empty(LIMITS_SCHEMA)]}
    audits: dict[str, Audit] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    for stem, question in wanted.items():
        name = question.model.name
        facts = read_facts(files[stem]) if stem in files else {"why": f"{question.name}: {_LATER}"}
        if why := facts.get("why"):
            left_out[name] = (*left_out.get(name, ()), why)
        elif question.name in tables:
            tables[question.name].append(pl.read_parquet(files[stem]))
        else:
            audits[name] = _audit(question, pl.read_parquet(files[stem]), facts)
    return Trust(asked.inputs, pl.concat(tables["distance"]), pl.concat(tables["limits"]), audits, left_out)


def _audit(question: Question, findings: pl.DataFrame, facts: dict[str, Any]) -> Audit:
    """An audit as it was, from what was kept of it."""
    return Audit(
        findings=findings_of(findings),
        left_out=tuple(LeftOut(*one) for one in facts["left_out"]),
        trials=trials_asked(question.asked.trials or None, own_model=True),
        inputs=facts["inputs"],
        rows=facts["rows"],
        seconds=facts["seconds"],
        level=LEVEL,
        known_limitations={column: metric.known_limitations for column, metric in question.metrics.items()},
    )


def _best(study: Study, model: ExplainedModel, scores: pl.DataFrame) -> dict[str, Attribution]:
    """The configuration that each metric rates best, by its column."""
    known = {method.canonical: method for method in model.configurations}
    names = {
        column: best_configuration(scores, model.name, described(column, metric, noisy=False))
        for column, metric in study.metrics.items()
        if column in scores.columns
    }
    return {column: known[name] for column, name in names.items() if name is not None}
