"""The paper's claims, each with what a study says to it. Every verdict is decided by a rule that is stated beside it.

Claims about models are asked of every model of the study; the paper's four models that a study lacks are listed as
not measured. Figures that the paper gives for one model are compared with the model of the same name. The rules are
the functions of ``claim_rules_methods``, ``claim_rules_agreement`` and ``claim_rules_costs``; the list of claims is in
``claim_questions``.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

import polars as pl

from verax.analysis.claim_questions import QUESTIONS, Question, StudyQuestion
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, Verdict
from verax.analysis.paper import PAPER
from verax.analysis.summary import configurations
from verax.analysis.tables import Tables

ALL_MODELS = "all models"
NOTHING = "-"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what the study says to it.

    Attributes:
        number: The claim's number; 0 for the table of models.
        claim: What the paper says.
        model: The model asked, or ``"all models"``.
        paper: The paper's value, or ``"-"`` where it has none for this model.
        ours: Our figures, or ``"-"``; an interval in brackets is the 95 % bootstrap interval over inputs.
        verdict: ``"reproduced"``, ``"not reproduced"`` or ``"not measured"``.
        note: What a reader should know besides; for what was not measured, why.
        rule: How the verdict is decided.
    """

    number: int
    claim: str
    model: str
    paper: str
    ours: str
    verdict: Verdict
    note: str
    rule: str


def claims(tables: Tables, *, missing: bool = True, resamples: int = 1000, seed: int = 0) -> list[Claim]:
    """Ask a study about every claim of the paper.

    Args:
        tables: What the study measured.
        missing: Whether to list the paper's models that the study lacks, as not measured.
        resamples: How many draws of inputs the intervals rest on.
        seed: Which draws.

    Returns:
        The claims in the paper's order, one per model where a claim is about models.

    Example:
        >>> from verax.analysis.tables import COSTS_SCHEMA, SCORES_SCHEMA, UNCERTAINTY_SCHEMA, empty
        >>> study = Tables(empty(SCORES_SCHEMA), empty(UNCERTAINTY_SCHEMA), (), {"verified": True}, empty(COSTS_SCHEMA))
        >>> [(claim.number, claim.ours) for claim in claims(study) if claim.verdict != "not measured"]
        [(16, 'recomputed: equal bit for bit')]
    """
    summary = configurations(tables.scores)
    evidences = [Evidence(tables, model, summary, resamples, seed) for model in tables.models]
    found: list[Claim] = []
    for question in QUESTIONS:
        if isinstance(question, StudyQuestion):
            answer = _answered(question.ask, tables, evidences)
            found.append(_claim(question, ALL_MODELS, question.paper, answer))
        else:
            found += _asked(question, evidences, missing)
    return found


def as_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """The claims as a table, one column per attribute.

    Example:
        >>> as_frame([Claim(16, "DPC is deterministic", "all models", "text", "-", "not measured", "", "")]).shape
        (1, 8)
    """
    schema = {field.name: pl.Int64 if field.name == "number" else pl.String for field in fields(Claim)}
    return pl.DataFrame([asdict(claim) for claim in claims], schema=schema)


def as_markdown(claims: Sequence[Claim]) -> str:
    """The claims as a Markdown table, followed by the rule of each.

    Example:
        >>> claim = Claim(16, "DPC is deterministic", "all models", "text", "equal", "reproduced", "", "Same bits.")
        >>> print(as_markdown([claim]))
        | # | claim | model | paper | ours | verdict | note |
        |---|---|---|---|---|---|---|
        | 16 | DPC is deterministic | all models | text | equal | reproduced |  |
        <BLANKLINE>
        How each verdict is decided:
        <BLANKLINE>
        - 16, DPC is deterministic: Same bits.
        <BLANKLINE>
    """
    lines = ["| # | claim | model | paper | ours | verdict | note |", "|---|---|---|---|---|---|---|"]
    for claim in claims:
        number = str(claim.number) if claim.number else ""
        cells = (number, claim.claim, claim.model, claim.paper, claim.ours, claim.verdict, claim.note)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    rules = dict.fromkeys((claim.number, claim.claim, claim.rule) for claim in claims)
    listed = [f"- {f'{number}, ' if number else ''}{text}: {rule}" for number, text, rule in rules]
    return "\n".join([*lines, "", "How each verdict is decided:", "", *listed, ""])


def _asked(question: Question, evidences: Sequence[Evidence], missing: bool) -> list[Claim]:
    found = []
    for evidence in evidences:
        name = evidence.info.name
        if question.concerns(name, linear=evidence.info.architecture == "linear"):
            paper = question.paper(PAPER[name]) if name in PAPER else NOTHING
            found.append(_claim(question, name, paper, _answered(question.ask, evidence)))
    there = {evidence.info.name for evidence in evidences}
    absent = Answer(NOTHING, "not measured", "The study does not have this model.")
    for name, model in PAPER.items():
        if missing and name not in there and question.concerns(name, linear=model.linear):
            found.append(_claim(question, name, question.paper(model), absent))
    return found


def _answered(ask: Callable[..., Answer], *about: object) -> Answer:
    try:
        return ask(*about)
    except NotMeasuredError as missing:
        return Answer(NOTHING, "not measured", str(missing))


def _claim(question: Question | StudyQuestion, model: str, paper: str, answer: Answer) -> Claim:
    return Claim(question.number, question.claim, model, paper, answer.ours, answer.verdict, answer.note, question.rule)
