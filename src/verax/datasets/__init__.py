"""Data sets: the paper's, and small ones that come with scikit-learn."""

from verax.datasets.base import Dataset, Part, Split, Standardisation, fingerprint, make_split, standardise_columns
from verax.datasets.embedded import load_breast_cancer, load_digits
from verax.datasets.heloc import load_heloc
from verax.datasets.isic import IsicReport, load_isic, load_isic_with_report

__all__ = [
    "Dataset",
    "IsicReport",
    "Part",
    "Split",
    "Standardisation",
    "fingerprint",
    "load_breast_cancer",
    "load_digits",
    "load_heloc",
    "load_isic",
    "load_isic_with_report",
    "make_split",
    "standardise_columns",
]
