"""The paper's claims, each with what studies say to it. Every verdict is decided by a rule that is stated beside it.

Claims about models are asked of every model of the studies given. Figures that the paper gives for one model are
compared with the model of the same name.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars as pl

from verax.paper import claim_rules_agreement, claim_rules_costs, claim_rules_methods
from verax.paper.claim_rules_costs import Runtime, read_runtime
from verax.paper.evidence import Answer, Evidence, NotMeasuredError, Question, Verdict
from verax.paper.published import AS_READ, PAPER
from verax.study.summary import configurations
from verax.study.tables import Tables

ALL_MODELS = "all models"
NOTHING = "-"
SYMBOLS = {  # so that colour is not needed
    "reproduced": "✓",
    "not reproduced": "✗",
    "cannot be told": "?",
    "not measured": "\N{EN DASH}",
}
QUESTIONS = sorted(  # in the paper's order
    [*claim_rules_methods.QUESTIONS, *claim_rules_agreement.QUESTIONS, *claim_rules_costs.QUESTIONS],
    key=lambda question: question.number,
)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what the studies say to it."""

    number: int
    claim: str
    model: str
    # paper, ours: figures, or ``"-"``; an interval in brackets is the 95 % bootstrap interval over inputs
    paper: str
    ours: str
    verdict: Verdict
    note: str  # what a reader should know besides; for what was not measured, why
    rule: str


def claims(
    *studies: Tables,
    resamples: int = 1000,
    seed: int = 0,
    questions: Sequence[Question] = QUESTIONS,
    evidences: Sequence[Evidence] | None = None,
) -> list[Claim]:
    """Ask studies about claims of the paper, in its order: each model, all models at once, or each runtime table."""
    evidences = evidences_of(*studies, resamples=resamples, seed=seed) if evidences is None else evidences
    timed = [table for tables in studies for table in tables.runtimes]
    runtimes = [table if isinstance(table, Runtime) else read_runtime(table) for table in timed]
    answered: list[Claim] = []
    for question in questions:
        if question.about == "all models":
            answered.append(_answered(question, ALL_MODELS, str(question.paper), evidences))
        elif question.about == "runtimes":
            concerned: list[Runtime | None] = [run for run in runtimes if question.concerns(run.subject, linear=False)]
            for table in concerned or [None]:  # where there is none: it was not measured
                subject = NOTHING if table is None else table.subject
                answered.append(_answered(question, subject, str(question.paper), table))
        else:
            for evidence in evidences:
                name = evidence.info.name
                if question.concerns(name, linear=evidence.info.architecture == "linear"):
                    paper = question.paper_value(PAPER[name]) if name in PAPER else NOTHING
                    answered.append(_answered(question, name, paper, evidence))
    return answered


def evidences_of(*studies: Tables, resamples: int = 1000, seed: int = 0) -> list[Evidence]:
    """What studies have measured about each of their models."""
    evidences = []
    for tables in studies:
        summary = configurations(tables.scores, tables.metrics)
        evidences += [Evidence(tables, model, summary, resamples, seed) for model in tables.models]
    return evidences


def as_markdown(claims: Sequence[Claim]) -> str:
    """How metrics are read, the claims as a Markdown table, and the rule of each."""
    lines = [AS_READ, "", "| # | claim | model | paper | ours | verdict | note |", "|---|---|---|---|---|---|---|"]
    for claim in claims:
        number = str(claim.number) if claim.number else ""
        lines.append(markdown_row(number, claim.claim, claim.model, claim.paper, claim.ours, claim.verdict, claim.note))
    rules = dict.fromkeys((claim.number, claim.claim, claim.rule) for claim in claims)
    listed = [f"- {f'{number}, ' if number else ''}{text}: {rule}" for number, text, rule in rules]
    return "\n".join([*lines, "", "How each verdict is decided:", "", *listed, ""])


def as_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    columns = ("claim", "model", "paper", "ours", "verdict", "note", "rule")
    schema = {"number": pl.Int64(), **dict.fromkeys(columns, pl.String())}
    return pl.DataFrame([asdict(claim) for claim in claims], schema=schema)


def markdown_row(*cells: str) -> str:
    r"""A row of a Markdown table.

    Example:
        >>> print(markdown_row("claim", "|DPC|"))
        | claim | \|DPC\| |
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _answered(question: Question, model: str, paper: str, about: object) -> Claim:
    try:
        answer = question.ask(about)
    except NotMeasuredError as missing:
        answer = Answer(NOTHING, "not measured", str(missing))
    return Claim(question.number, question.claim, model, paper, answer.ours, answer.verdict, answer.note, question.rule)
