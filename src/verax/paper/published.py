"""What the paper reports for its four models, and which columns of a study are read as its metrics.

Everything that is called "the paper's" or "as published" follows ``PAPER_DPC`` and ``PAPER_INFIDELITY``: the rules of
claims, the figures, labels and texts of reports, and the examples of a study. The reading is the one that
``scripts/search_reading.py`` found by a rule that was stated before it was run: signed and magnitude order agree with
as many of the paper's statements, and signed order shares PC's experiment, as the paper says of DPC.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from verax.study.tables import LEADING_DPC, LEADING_INFIDELITY, LEADING_PC, NORMALISED_INFIDELITY

PAPER_PC, PAPER_DPC, PAPER_INFIDELITY = LEADING_PC, LEADING_DPC, LEADING_INFIDELITY


@dataclass(frozen=True)
class DpcReading:
    """A reading of what the paper writes about DPC."""

    order: Literal["magnitude", "signed", "literal"]  # the setting of ``DirectedPredictionChange``
    words: str  # how it ranks and what it counts, to follow "DPC"
    flaw: str  # what it cannot distinguish, as a sentence; empty where nothing is known
    timed_as: str  # PC and DPC together in a runtime table

    @property
    def shares_pc(self) -> bool:
        """Whether it ranks features as PC does, so that both need the same model evaluations."""
        return self.order != "magnitude"


DPC_READINGS: Mapping[str, DpcReading] = {
    "dpc_magnitude": DpcReading(
        "magnitude",
        "ranks features by the magnitude of their attribution and counts a change with the signs of the attribution "
        "and of the step",
        "It cannot tell an attribution from its negated inverse: what holds under it alone, and under no other local "
        "metric, is to be doubted.",
        "PC and DPC",
    ),
    "dpc_signed": DpcReading(
        "signed",
        "ranks features by their attribution, as PC does, and counts a change with the sign of the step",
        "",
        "PC and DPC, signed order",
    ),
    "dpc_literal": DpcReading(
        "literal",
        "ranks features by their attribution, as PC does, and counts a change with the signs of the attribution and of "
        "the step",
        "It cannot tell an attribution from its negative: what holds under it alone, and under no other local metric, "
        "is to be doubted.",
        "PC and DPC, signed order",
    ),
}
PAPER_READING = DPC_READINGS[PAPER_DPC]
AS_READ = (
    f"DPC is the column {PAPER_DPC}: it {PAPER_READING.words}. Infidelity is the paper's equation, the column "
    f"{PAPER_INFIDELITY}, in which the scale of an attribution counts; normalised Infidelity, the column "
    f"{NORMALISED_INFIDELITY}, which first multiplies each attribution by the factor that suits it best, is one of the "
    "other readings."
)


@dataclass(frozen=True)
class PaperModel:
    """Published figures of one model: quality on the test split, and correlations of DPC with local Infidelity.

    Spearman correlations are over 44 configurations, or over the LIME grid, whose Pareto set has ``pareto`` members.
    """

    linear: bool
    auroc: float
    accuracy: float
    spearman: float
    lime_spearman: float
    pareto: int
    lime_configurations: int


PAPER: Mapping[str, PaperModel] = {
    "HELOC-Linear": PaperModel(True, 0.7946, 0.7343, -0.71, -0.83, 9, 729),
    "HELOC-MLP": PaperModel(False, 0.7972, 0.7301, -0.42, +0.70, 21, 729),
    "ISIC-Linear": PaperModel(True, 0.8299, 0.6929, -0.57, -0.07, 11, 1536),
    "ISIC-Inception": PaperModel(False, 0.9291, 0.8834, -0.42, -0.64, 13, 1536),
}
SPEED_UP_MEAN = 4924.83 / 593.54  # 8.30: seconds of Infidelity by seconds of DPC, ISIC-Inception, one A100-80GB
SPEED_UP_MEDIAN = 5714.21 / 576.67  # 9.91
SPEED_UP_BOTH = 20.0  # median, two Infidelities by PC and DPC together
DRAWS = 640
