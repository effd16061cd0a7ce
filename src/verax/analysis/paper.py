"""What the paper reports for its four models."""

from collections.abc import Mapping
from dataclasses import dataclass


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
DRAWS = 640
