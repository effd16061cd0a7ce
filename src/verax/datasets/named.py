"""Data sets by name, for commands and specs."""

from pathlib import Path

from verax.datasets.base import Dataset
from verax.datasets.embedded import load_breast_cancer, load_digits
from verax.datasets.file import load_file
from verax.datasets.heloc import load_heloc
from verax.datasets.isic import load_isic


def load_named(name: str, path: Path | None = None, *, seed: int = 0, cache: Path | None = None) -> Dataset:
    """Load a data set by its name.

    Args:
        name: ``"heloc"``, ``"isic"``, ``"breast-cancer"``, ``"digits"`` or ``"file"``.
        path: ``heloc``: a CSV file (else it is downloaded); ``isic``: a folder; ``file``: an ``.npz`` file.
        seed: Of the split.
        cache: Where downloads and decoded images are kept.

    Example:
        >>> load_named("digits").class_names
        ('0 to 4', '5 to 9')
    """
    if name == "heloc":
        return load_heloc(path, seed=seed, cache=cache)
    if name == "breast-cancer":
        return load_breast_cancer(seed)
    if name == "digits":
        return load_digits(seed)
    if path is None:
        raise ValueError(f"path: {name} needs one; pass --data PATH or write it into the spec.")
    return load_isic(path, seed=seed, cache=cache) if name == "isic" else load_file(path, seed=seed)
