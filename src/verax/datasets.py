"""Data sets: the paper's, small ones that come with scikit-learn, and one's own."""

from verax.data.base import Dataset, Part, Split, Standardisation, fingerprint, make_split, standardise_columns
from verax.data.catalogue import Source, load_breast_cancer, load_diabetes, load_digits, load_named, register
from verax.data.file import load_file
from verax.paper.heloc import load_heloc
from verax.paper.isic import IsicReport, load_isic, load_isic_with_report

__all__ = [
    "Dataset",
    "IsicReport",
    "Part",
    "Source",
    "Split",
    "Standardisation",
    "fingerprint",
    "load_breast_cancer",
    "load_diabetes",
    "load_digits",
    "load_file",
    "load_heloc",
    "load_isic",
    "load_isic_with_report",
    "load_named",
    "make_split",
    "register",
    "standardise_columns",
]
