"""The paper's claims at a glance: one row per claim, one column per model."""

from dataclasses import dataclass

from verax.analysis.claims import ALL_MODELS, Claim
from verax.report.style import DASH
from verax.report.view import View

SYMBOLS = {"reproduced": "✓", "not reproduced": "✗", "not measured": DASH}  # so that colour is not needed


@dataclass(frozen=True)
class Cell:
    """A verdict.

    Attributes:
        claim: The claim with its verdict; None where the claim does not concern the model.
        span: How many columns it is about.
    """

    claim: Claim | None
    span: int = 1


@dataclass(frozen=True)
class Row:
    """A claim with its verdicts.

    Attributes:
        number: The claim's number.
        claim: What the paper says.
        cells: One verdict per model, or one for all.
    """

    number: int
    claim: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Matrix:
    """All claims.

    Attributes:
        models: The columns.
        rows: In the paper's order; claims that concern no model of the study are left out.
    """

    models: list[str]
    rows: list[Row]


def matrix(view: View) -> Matrix:
    """The claims that concern the study's models."""
    found: dict[tuple[int, str], dict[str, Claim]] = {}
    for one in view.claims:
        found.setdefault((one.number, one.claim), {})[one.model] = one
    rows = [Row(number, claim, _cells(view.models, verdicts)) for (number, claim), verdicts in found.items()]
    return Matrix(view.models, [row for row in rows if any(cell.claim for cell in row.cells)])


def _cells(models: list[str], verdicts: dict[str, Claim]) -> tuple[Cell, ...]:
    if not any(model in verdicts for model in models):
        about_all = next((claim for claim in verdicts.values() if claim.model == ALL_MODELS), None)
        return (Cell(about_all, len(models)),)
    return tuple(Cell(verdicts.get(model)) for model in models)
