"""The paper's claims at a glance: one row per claim, one column per model."""

from dataclasses import dataclass

from verax.analysis.claims import ALL_MODELS, Claim
from verax.report.view import View


@dataclass(frozen=True)
class Cell:
    """A verdict over so many columns; None where the claim does not concern the model."""

    claim: Claim | None
    span: int = 1


@dataclass(frozen=True)
class Row:
    """A claim with one verdict per model, or one for all."""

    number: int
    claim: str
    cells: tuple[Cell, ...]


def matrix(view: View) -> list[Row]:
    """The claims that concern the study's models, in the paper's order."""
    verdicts: dict[tuple[int, str], dict[str, Claim]] = {}
    for claim in view.claims:
        verdicts.setdefault((claim.number, claim.claim), {})[claim.model] = claim
    rows = [Row(*key, _cells(view.models, by_model)) for key, by_model in verdicts.items()]
    return [row for row in rows if any(cell.claim for cell in row.cells)]


def _cells(models: list[str], verdicts: dict[str, Claim]) -> tuple[Cell, ...]:
    if not any(model in verdicts for model in models):
        return (Cell(verdicts.get(ALL_MODELS), len(models)),)
    return tuple(Cell(verdicts.get(model)) for model in models)
