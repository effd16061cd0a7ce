"""A data set from one file: NumPy's ``.npz`` with inputs and labels."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from verax.datasets.base import Dataset, fingerprint, make_split, standardise_columns
from verax.datasets.embedded import standardise_channels


def load_file(path: str | Path, *, seed: int = 0) -> Dataset:
    """Load a data set of one's own.

    Args:
        path: An ``.npz`` file with ``inputs``, numbers ``(N, features)`` or pixels ``(N, channels, height, width)`` as
            uint8, and ``labels``, 0 or 1; optionally ``feature_names``, ``class_names`` and ``ids``.
        seed: Of the split into training, validation and test rows.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/own.npz", inputs=np.random.rand(50, 3), labels=np.arange(50) % 2)
        ...     data = load_file(f"{folder}/own.npz")
        >>> len(data), data.feature_names
        (50, ('feature 0', 'feature 1', 'feature 2'))
    """
    arrays = _read(Path(path))
    for name in ("inputs", "labels"):
        if name not in arrays:
            raise ValueError(f"{path}: expected an array {name!r}, found {', '.join(sorted(arrays)) or 'none'}.")
    inputs, labels = arrays["inputs"], arrays["labels"]
    images = inputs.ndim == 4
    if inputs.ndim not in (2, 4) or images != (inputs.dtype == np.uint8):
        raise ValueError(
            f"{path}: inputs: expected numbers (N, features) or uint8 pixels (N, channels, height, width), found "
            f"{inputs.dtype} {inputs.shape}."
        )
    if labels.shape != inputs.shape[:1] or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"{path}: labels: expected 0 or 1 for each of {len(inputs)} inputs, found {labels.shape}.")
    if not images and not (np.issubdtype(inputs.dtype, np.number) and np.isfinite(inputs).all()):
        raise ValueError(f"{path}: inputs: expected finite numbers.")
    own = inputs if images else inputs.astype(np.float64)
    split = make_split(len(own), seed)
    ids = _names(arrays, "ids", len(own), "row")
    return Dataset(
        name=Path(path).stem,
        inputs=own,
        labels=labels.astype(np.int64),
        ids=ids,
        feature_names=() if images else _names(arrays, "feature_names", own.shape[1], "feature"),
        class_names=_names(arrays, "class_names", 2, "class"),
        split=split,
        standardisation=(standardise_channels if images else standardise_columns)(own[split.train]),
        fingerprint=fingerprint(own, labels.astype(np.int64), ids),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise ValueError(f"{path}: cannot be read as an .npz file of plain arrays: {error}.") from None


def _names(arrays: dict[str, Any], name: str, count: int, word: str) -> tuple[str, ...]:
    if name not in arrays:
        return tuple(f"{word} {number}" for number in range(count))
    found = tuple(str(one) for one in arrays[name])
    if len(found) != count or len(set(found)) != count:
        raise ValueError(f"{name}: expected {count} different names, found {len(set(found))}.")
    return found
