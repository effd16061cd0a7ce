"""A data set from one file: NumPy's ``.npz`` with inputs and labels."""

from pathlib import Path
from typing import Any

import numpy as np

from verax.datasets.array_files import read_npz
from verax.datasets.base import Dataset, assembled


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
    arrays = read_npz(Path(path))
    inputs, labels = _checked(path, arrays)
    return assembled(
        Path(path).stem,
        inputs,
        labels,
        _names(path, arrays, "ids", len(inputs), "row"),
        feature_names=() if inputs.ndim == 4 else _names(path, arrays, "feature_names", inputs.shape[1], "feature"),
        class_names=_names(path, arrays, "class_names", 2, "class"),
        seed=seed,
    )


def _checked(path: str | Path, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """Inputs as numbers or pixels, and labels as whole numbers."""
    for name in ("inputs", "labels"):
        if name not in arrays:
            raise ValueError(f"{path}: expected an array {name!r}, found {', '.join(sorted(arrays)) or 'none'}.")
    inputs, labels = arrays["inputs"], arrays["labels"]
    images = inputs.ndim == 4 and inputs.dtype == np.uint8
    table = inputs.ndim == 2 and (np.issubdtype(inputs.dtype, np.floating) or np.issubdtype(inputs.dtype, np.integer))
    if not (images or table) or not inputs.size:
        raise ValueError(
            f"{path}: inputs: expected real numbers (N, features) or uint8 pixels (N, channels, height, width), found "
            f"{inputs.dtype} {inputs.shape}."
        )
    if labels.shape != inputs.shape[:1] or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"{path}: labels: expected 0 or 1 for each of {len(inputs)} inputs, found {labels.shape}.")
    if table and not np.isfinite(inputs).all():
        raise ValueError(f"{path}: inputs: expected finite numbers, found NaN or infinity.")
    return inputs if images else inputs.astype(np.float64), labels.astype(np.int64)


def _names(path: str | Path, arrays: dict[str, Any], name: str, count: int, word: str) -> tuple[str, ...]:
    if name not in arrays:
        return tuple(f"{word} {number}" for number in range(count))
    given = arrays[name]
    if given.ndim != 1:
        raise ValueError(f"{path}: {name}: expected a list of names, found an array of shape {given.shape}.")
    names = tuple(str(entry.decode() if isinstance(entry, bytes) else entry) for entry in given.tolist())
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{path}: {name}: expected {count} different names, found {len(set(names))}.")
    return names
