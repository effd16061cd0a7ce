"""The paper's claims, each with what a study says to it. Every verdict is decided by a rule that is stated beside it.

Claims about models are asked of every model of the study; the paper's four models that a study lacks are listed as
not measured. Figures that the paper gives for one model are compared with the model of the same name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from verax.analysis import claim_rules_agreement, claim_rules_costs, claim_rules_methods
from verax.analysis.claim_questions import Question
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, Verdict
from verax.analysis.paper import PAPER
from verax.analysis.summary import configurations
from verax.analysis.tables import Tables

ALL_MODELS = "all models"
NOTHING = "-"
SYMBOLS = {"reproduced": "✓", "not reproduced": "✗", "not measured": "\N{EN DASH}"}  # so that colour is not needed
QUESTIONS = sorted(  # in the paper's order
    [*claim_rules_methods.QUESTIONS, *claim_rules_agreement.QUESTIONS, *claim_rules_costs.QUESTIONS],
    key=lambda question: question.number,
)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what the study says to it.

    Attributes:
        paper, ours: Figures, or ``"-"``; an interval in brackets is the 95 % bootstrap interval over inputs.
        note: What a reader should know besides; for what was not measured, why.
    """

    number: int
    claim: str
    model: str
    paper: str
    ours: str
    verdict: Verdict
    note: str
    rule: str


def claims(
    tables: Tables,
    *,
    missing: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    questions: Sequence[Question] = QUESTIONS,
    evidences: Sequence[Evidence] | None = None,
) -> list[Claim]:
    """Ask a study about claims of the paper, in its order, and of every model where a claim is about models.

    With ``missing`` the paper's models that the study lacks are listed, as not measured. Who asks more than once gives
    the ``evidences_of`` the tables, in which what was made for one question serves the next.
    """
    evidences = evidences_of(tables, resamples=resamples, seed=seed) if evidences is None else evidences
    found: list[Claim] = []
    for question in questions:
        if question.whole_study:
            found.append(_claim(question, ALL_MODELS, str(question.paper), _answered(question, tables, evidences)))
        else:
            found += _asked(question, evidences, missing)
    return found


def evidences_of(tables: Tables, *, resamples: int = 1000, seed: int = 0) -> list[Evidence]:
    """What a study has measured about each of its models."""
    summary = configurations(tables.scores, tables.metrics)
    return [Evidence(tables, model, summary, resamples, seed) for model in tables.models]


def of_the_paper(tables: Tables) -> bool:
    """Whether a study has a model of the paper, on its data: only then the paper claims something about it.

    The names of the paper's models begin with that of their data.
    """
    return any(info.name in PAPER and info.name.lower().startswith(f"{info.dataset}-") for info in tables.models)


def as_markdown(claims: Sequence[Claim]) -> str:
    """The claims as a Markdown table, followed by the rule of each."""
    lines = ["| # | claim | model | paper | ours | verdict | note |", "|---|---|---|---|---|---|---|"]
    for claim in claims:
        number = str(claim.number) if claim.number else ""
        lines.append(markdown_row(number, claim.claim, claim.model, claim.paper, claim.ours, claim.verdict, claim.note))
    rules = dict.fromkeys((claim.number, claim.claim, claim.rule) for claim in claims)
    listed = [f"- {f'{number}, ' if number else ''}{text}: {rule}" for number, text, rule in rules]
    return "\n".join([*lines, "", "How each verdict is decided:", "", *listed, ""])


def markdown_row(*cells: str) -> str:
    r"""A row of a Markdown table.

    Example:
        >>> print(markdown_row("claim", "|DPC|"))
        | claim | \|DPC\| |
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _asked(question: Question, evidences: Sequence[Evidence], missing: bool) -> list[Claim]:
    found = []
    for evidence in evidences:
        name = evidence.info.name
        if question.concerns(name, linear=evidence.info.architecture == "linear"):
            paper = question.paper_value(PAPER[name]) if name in PAPER else NOTHING
            found.append(_claim(question, name, paper, _answered(question, evidence)))
    there = {evidence.info.name for evidence in evidences}
    absent = Answer(NOTHING, "not measured", "The study does not have this model.")
    for name, model in PAPER.items():
        if missing and name not in there and question.concerns(name, linear=model.linear):
            found.append(_claim(question, name, question.paper_value(model), absent))
    return found


def _answered(question: Question, *about: object) -> Answer:
    try:
        return question.ask(*about)
    except NotMeasuredError as missing:
        return Answer(NOTHING, "not measured", str(missing))


def _claim(question: Question, model: str, paper: str, answer: Answer) -> Claim:
    return Claim(question.number, question.claim, model, paper, answer.ours, answer.verdict, answer.note, question.rule)
