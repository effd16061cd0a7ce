"""Data sets: the paper's, small ones that come with scikit-learn, and one's own."""

from verax.data.base import Dataset, Part, Split, Standardisation, fingerprint, make_split, standardise_columns
from verax.data.catalogue import (
    Source,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_heloc,
    load_isic,
    load_named,
    register,
)
from verax.data.file import load_file

__all__ = [
    "Dataset",
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
    "load_named",
    "make_split",
    "register",
    "standardise_columns",
]
