"""The paper's claims under other readings of its metrics: which of its conclusions does another metric share?

A claim about DPC is asked of every metric of the study that rates local attributions, as if it were DPC; one about PC
of every metric that rates baseline-oriented ones; one about Infidelity of every local metric of random draws. The rule
stays the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from verax.analysis.claims import QUESTIONS, SYMBOLS, Claim, claims, evidences_of, markdown_row
from verax.analysis.evidence import Evidence
from verax.analysis.tables import MetricInfo, Tables

OWN = "as in the paper"
_SUBJECTS = ("pc", "dpc_magnitude", "infidelity")  # the metrics that claims are about


@dataclass(frozen=True)
class Row:
    """A claim about a model, or about all together.

    Attributes:
        claims: What the study says to it under each reading; None where it is not asked under that one.
    """

    number: int
    claim: str
    model: str
    claims: tuple[Claim | None, ...]


@dataclass(frozen=True)
class Readings:
    """Claims by readings.

    Attributes:
        metrics: What is read instead of the metric that a claim names, one for each column after the first.
        rows: In the paper's order.
    """

    metrics: tuple[MetricInfo, ...]
    rows: tuple[Row, ...]

    @property
    def heads(self) -> tuple[str, ...]:
        """What the columns are called; the first one is the paper's own reading."""
        return (OWN, *(metric.label for metric in self.metrics))

    @property
    def survivors(self) -> tuple[str, ...]:
        """For each column: how many of the claims that hold as in the paper hold there, of those asked."""
        holding = [row for row in self.rows if row.claims[0] and row.claims[0].verdict == "reproduced"]
        found = []
        for place in range(len(self.heads)):
            asked = [claim.verdict for row in holding if (claim := row.claims[place])]
            measured = len(asked) - asked.count("not measured")
            found.append(f"{asked.count('reproduced')} of {measured}" if measured else "")
        return tuple(found)

    def to_frame(self) -> pl.DataFrame:
        """One row per claim, model and reading under which it is asked."""
        names = (OWN, *(metric.column for metric in self.metrics))
        records = [
            (row.number, row.claim, row.model, name, claim.verdict, claim.ours, claim.note)
            for row in self.rows
            for name, claim in zip(names, row.claims, strict=True)
            if claim is not None
        ]
        columns = ("claim", "model", "reading", "verdict", "ours", "note")
        schema = {"number": pl.Int64(), **dict.fromkeys(columns, pl.String())}
        return pl.DataFrame(records, schema=schema, orient="row")

    def as_markdown(self) -> str:
        """A table: claims down, readings across, in each cell the verdict and the figures behind it."""
        head = [markdown_row("#", "claim", "model", *self.heads), "|" + "---|" * (3 + len(self.heads))]
        body = [markdown_row(str(row.number), row.claim, row.model, *map(_cell, row.claims)) for row in self.rows]
        last = markdown_row("", "hold, of those that hold as in the paper", "", *self.survivors)
        return "\n".join([*head, *body, last, ""])


def readings(
    tables: Tables,
    own: Sequence[Claim],
    *,
    resamples: int = 1000,
    seed: int = 0,
    evidences: Sequence[Evidence] | None = None,
) -> Readings:
    """Ask the claims that depend on how a metric is read again, under each other reading of the study.

    Args:
        tables: The study.
        own: The claims about its models as in the paper, from ``claims`` with the same ``resamples`` and ``seed``.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        evidences: From ``evidences_of`` the tables, where they are there.
    """
    evidences = evidences_of(tables, resamples=resamples, seed=seed) if evidences is None else evidences
    questions = [question for question in QUESTIONS if question.reads]
    asked = {(question.number, question.claim) for question in questions}
    found = {_key(claim): {OWN: claim} for claim in own if (claim.number, claim.claim) in asked}
    measured = [metric for metric in tables.metrics if tables.scores[metric.column].count()]
    others = [metric for metric in measured if any(_stands_for(metric, subject) for subject in _SUBJECTS)]
    for metric in others:
        for subject in _SUBJECTS:
            if _stands_for(metric, subject):
                here = [one for one in questions if one.reads[0] == subject and metric.column not in one.reads]
                read = [evidence.read_as(subject, metric) for evidence in evidences]
                for claim in claims(tables, missing=False, questions=here, evidences=read):
                    found[_key(claim)][metric.column] = claim
    columns = (OWN, *(metric.column for metric in others))
    rows = [Row(*key, tuple(by_column.get(column) for column in columns)) for key, by_column in found.items()]
    return Readings(tuple(others), tuple(rows))


def _cell(claim: Claim | None) -> str:
    if claim is None or claim.verdict == "not measured":
        return SYMBOLS["not measured"] if claim else ""
    return f"{SYMBOLS[claim.verdict]} {claim.ours}"


def _key(claim: Claim) -> tuple[int, str, str]:
    return claim.number, claim.claim, claim.model


def _stands_for(metric: MetricInfo, subject: str) -> bool:
    """Whether a metric rates what the subject rates, and is another one."""
    if metric.column == subject:
        return False
    if subject == "pc":
        return metric.kind == "baseline"
    return metric.kind == "local" and (metric.noisy or subject != "infidelity")
