"""The paper's claims under other readings of its metrics: which of its conclusions does another metric share?

A claim about DPC is asked of every metric of the studies that rates local attributions, as if it were DPC; one about PC
of every metric that rates baseline-oriented ones; one about Infidelity of every local metric of random draws. Where a
claim compares both, another Infidelity is read as Infidelity, all other metrics as DPC. The rule stays the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from verax.paper.claims import QUESTIONS, SYMBOLS, Claim, claims, evidences_of, markdown_row
from verax.paper.evidence import Evidence, Question
from verax.paper.published import PAPER_DPC, PAPER_INFIDELITY, PAPER_PC
from verax.study.tables import MetricInfo, Tables

OWN = "as in the paper"
_SUBJECTS = (PAPER_PC, PAPER_DPC, PAPER_INFIDELITY)  # the metrics that claims are about


@dataclass(frozen=True)
class Row:
    """A claim about a model, or about all together."""

    number: int
    claim: str
    model: str
    # what the study says to it under each reading; None where it is not asked under that one
    claims: tuple[Claim | None, ...]


@dataclass(frozen=True)
class Readings:
    """Claims by readings."""

    # what is read instead of the metric that a claim names, one for each column after the first
    metrics: tuple[MetricInfo, ...]
    rows: tuple[Row, ...]  # in the paper's order

    @property
    def heads(self) -> tuple[str, ...]:
        """What the columns are called; the first one is the paper's own reading."""
        return (OWN, *(metric.label for metric in self.metrics))

    @property
    def survivors(self) -> tuple[str, ...]:
        """For each column: how many of the claims that hold as in the paper hold there, of those asked."""
        holding = [row for row in self.rows if row.claims[0] and row.claims[0].verdict == "reproduced"]
        survivors = []
        for place in range(len(self.heads)):
            verdicts = [claim.verdict for row in holding if (claim := row.claims[place])]
            measured = len(verdicts) - verdicts.count("not measured")
            survivors.append(f"{verdicts.count('reproduced')} of {measured}" if measured else "")
        return tuple(survivors)

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
    *studies: Tables,
    as_in_paper: Sequence[Claim],
    resamples: int = 1000,
    seed: int = 0,
    evidences: Sequence[Evidence] | None = None,
) -> Readings:
    """Ask the claims that depend on how a metric is read again, under each other reading that a study measured."""
    evidences = evidences_of(*studies, resamples=resamples, seed=seed) if evidences is None else evidences
    questions = [question for question in QUESTIONS if question.reads]
    numbers = {(question.number, question.claim) for question in questions}
    by_reading = {_key(claim): {OWN: claim} for claim in as_in_paper if (claim.number, claim.claim) in numbers}
    others: dict[str, MetricInfo] = {}
    for tables in studies:
        for metric in tables.metrics:
            stands_for = any(_read_as(metric, question) for question in questions)
            if stands_for and tables.scores[metric.column].count():
                others.setdefault(metric.column, metric)
    for metric in others.values():
        measured = [evidence for evidence in evidences if metric.column in evidence.configurations.columns]
        for subject in _SUBJECTS:
            answered = [question for question in questions if _read_as(metric, question) == subject]
            read = [evidence.read_as(subject, metric) for evidence in measured]
            for claim in claims(questions=answered, evidences=read):
                by_reading[_key(claim)][metric.column] = claim
    columns = (OWN, *others)
    rows = [Row(*key, tuple(by_column.get(column) for column in columns)) for key, by_column in by_reading.items()]
    return Readings(tuple(others.values()), tuple(rows))


def _cell(claim: Claim | None) -> str:
    if claim is None or claim.verdict == "not measured":
        return SYMBOLS["not measured"] if claim else ""
    return f"{SYMBOLS[claim.verdict]} {claim.ours}"


def _key(claim: Claim) -> tuple[int, str, str]:
    return claim.number, claim.claim, claim.model


def _read_as(metric: MetricInfo, question: Question) -> str | None:
    """Which metric of a claim another one is read as, because it rates the same; None where there is none."""
    reads = question.reads
    if metric.column in reads:
        return None
    if metric.kind == "baseline":
        return PAPER_PC if PAPER_PC in reads else None
    if PAPER_INFIDELITY in reads and (PAPER_DPC not in reads or (metric.noisy and not metric.higher_is_better)):
        return PAPER_INFIDELITY if metric.noisy else None
    return PAPER_DPC if PAPER_DPC in reads else None
