"""Can these numbers be trusted? How far from the data, how near to what is possible, and told apart by which metric."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from verax.auditing.result import Audit
from verax.core.display import counted
from verax.evaluation.distance import percent
from verax.report.facts import Table
from verax.report.style import DASH, number
from verax.report.view import View
from verax.statistics.intervals import Estimate
from verax.study.tables import BEST_BY, Trust

_SPACES = {"inputs": "the inputs", "features": "the network's features"}


@dataclass(frozen=True)
class Told:
    """What an audit says about one model.

    Attributes:
        model: Its name.
        sentences: Three of them.
        table: By metric, what was passed.
        notes: What was left out.
    """

    model: str
    sentences: Sequence[str]
    table: Table
    notes: Sequence[str]


def section(view: View) -> dict[str, Any] | None:
    """What the section shows; None where the study did not ask."""
    trust = view.tables.trust
    if trust is None:
        return None
    labels = {metric.column: metric.label for metric in view.tables.metrics}
    return {
        "inputs": counted(trust.inputs, "input"),
        "audits": [_told(model, audit, labels) for model, audit in trust.audits.items()],
        "distance": _distance(trust, labels),
        "limits": _limits(view, trust, labels),
        "left_out": [f"{model}: {line}" for model, lines in trust.left_out.items() for line in lines],
    }


def possible(view: View, model: str, column: str) -> str:
    """How much of what is possible the best explanation under a metric attains, a sentence; empty where not known."""
    trust = view.tables.trust
    rows = [] if trust is None else list(trust.limits.iter_rows(named=True))
    one = next((row for row in rows if (row["model"], row["metric"]) == (model, column)), None)
    if one is None or math.isnan(one["share"]):
        return ""
    least = "" if one["exact"] else "At most "
    scores = f"{number(one['score'])}, where an attribution can get {number(one['possible'])}"
    most = "" if one["exact"] else " or more"
    return f"{least}{_share(one)} of what is possible, on {counted(one['inputs'], 'input')}: {scores}{most}."


def _told(model: str, audit: Audit, labels: Mapping[str, str]) -> Told:
    """An audit with metrics named as people read them, and without commas, for lists."""
    labels = {column: _bracketed(label) for column, label in labels.items()}
    findings = [
        replace(one, metric=labels.get(one.metric, one.metric), trial=_named(one.trial, labels))
        for one in audit.findings
    ]
    blind = {labels.get(name, name): words for name, words in audit.known_limitations.items()}
    named = replace(audit, findings=findings, known_limitations=blind)
    whole = named.table()
    head = tuple(cell.replace("_", " ") for cell in whole.head)
    table = Table(f"{model}. {whole.caption}", head, whole.rows, range(3, len(head)))
    return Told(model, named.sentences, table, named.notes)


def _bracketed(label: str) -> str:
    """A label in a list.

    Example:
        >>> _bracketed("DPC, coherent, MoRF alone"), _bracketed("PC")
        ('DPC (coherent, MoRF alone)', 'PC')
    """
    head, _, rest = label.partition(", ")
    return f"{head} ({rest})" if rest else head


def _named(trial: str, labels: Mapping[str, str]) -> str:
    """The name of a trial with that of the metric whose best explanation it is about."""
    head, best, rest = trial.partition(BEST_BY)
    column, from_, other = rest.partition(" from ")
    return f"{head}{best}{labels.get(column, column)}{from_}{other}"


def _distance(trust: Trust, labels: Mapping[str, str]) -> Table:
    rows = []
    for row in trust.distance.iter_rows(named=True):
        beyond = Estimate(row["beyond"], math.nan, row["low"], row["high"])
        what = labels.get(row["metric"], row["metric"]) if row["metric"] else "inputs as they are"
        where = _SPACES.get(row["space"], row["space"])
        rows.append((row["model"], what, row["replacement"], where, percent(beyond), number(row["ratio"], 2)))
    head = ("model", "metric", "replacement", "measured in", "beyond the 99 % quantile", "median distance, over theirs")
    return Table("Distance of perturbed rows from the training rows, 95 % intervals", head, rows, (5,))


def _limits(view: View, trust: Trust, labels: Mapping[str, str]) -> Table:
    rows = []
    for row in trust.limits.iter_rows(named=True):
        metric, best = labels.get(row["metric"], row["metric"]), view.label(row["configuration"])
        least, more = ("", "") if row["exact"] else ("at most ", "at least ")
        share = DASH if math.isnan(row["share"]) else f"{least}{_share(row)}"  # chance is not known of all metrics
        figures = (number(row["score"]), f"{more}{number(row['possible'])}", share)
        rows.append((row["model"], metric, best, *figures, str(row["inputs"]), row["found_by"]))
    head = ("model", "metric", "best explanation", "score", "best possible", "share", "inputs", "found by")
    return Table("Scores as a share of what is possible, 95 % intervals", head, rows, (3, 6))


def _share(row: Mapping[str, Any]) -> str:
    return str(Estimate(row["share"], math.nan, row["low"], row["high"]))
