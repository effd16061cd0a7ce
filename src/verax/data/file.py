"""A data set from one file: a table as CSV or Parquet, or NumPy's ``.npz`` with inputs and labels."""

from pathlib import Path
from typing import Any

import numpy as np

from verax.core.registry import unknown
from verax.data.array_files import read_npz, read_table
from verax.data.base import Dataset, assembled
from verax.data.columns import columns_of, numbers_of
from verax.data.held_out import held_out_rows
from verax.data.labels import Asked, Labels, read_labels
from verax.data.table import table_dataset

SUFFIXES = (".csv", ".parquet", ".npz")


def load_file(
    path: str | Path,
    *,
    label: str | None = None,
    task: Asked = "auto",
    seed: int = 0,
    held_out: str | None = None,
) -> Dataset:
    r"""Load a data set of one's own.

    Columns of numbers and of text (categories) are taken, with gaps. Labels may be text, truth values or numbers, of
    any number of classes; or amounts, for a regression.

    Args:
        path: A ``.csv`` or ``.parquet`` file with a column for each feature and one for the label. Or an ``.npz`` file
            with ``inputs``, numbers ``(N, features)`` or pixels ``(N, channels, height, width)`` as uint8, and
            ``labels``; optionally ``feature_names``, ``class_names`` and ``ids``.
        label: The column, or the array of an ``.npz`` file, that is to be predicted.
        task: ``"classification"``, ``"regression"``, or ``"auto"``: text, truth values and at most 20 different whole
            numbers are classes, other numbers are values.
        seed: Of the split into training, validation and test rows.
        held_out: The column, or the array of an ``.npz`` file, that is true or 1 for rows that models have not learnt
            from, and false or 0 for the training rows. It is no feature. By default rows are split at random.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = [f"{row},{'red' if row % 3 else 'blue'},{row * 0.5}" for row in range(50)]
        ...     _ = Path(folder, "own.csv").write_text("\n".join(["size,colour,price", *rows]))
        ...     data = load_file(f"{folder}/own.csv", label="price")
        >>> data.task, data.feature_names, data.inputs.shape
        ('regression', ('size', 'colour'), (50, 3))
    """
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}.")
    if place.suffix.lower() == ".npz":
        return _from_arrays(place, label or "labels", task, seed, held_out)
    table = read_table(place)
    if label is None:
        listed = ", ".join(table.columns)
        raise ValueError(f'{path}: say which column is to be predicted, label = "COLUMN"; there are {listed}.')
    for argument, name in (("label", label), ("held_out", held_out)):
        if name is not None and name not in table.columns:
            raise ValueError(f"{path}: {argument}: {unknown(name, table.columns)}")
    ours = [label] if held_out is None else [label, held_out]
    if table.width < len(ours) + 1:
        mark = "" if held_out is None else f" and held_out {held_out!r}"
        raise ValueError(f"{path}: expected columns beside the label {label!r}{mark}, got none.")
    labels = read_labels(table[label], table.height, f"{path}: label {label!r}", task)
    columns = columns_of(table.drop(ours), str(path))
    kept = None if held_out is None else held_out_rows(table[held_out].to_numpy(), table.height, f"{path}: held_out")
    return table_dataset(place.stem, columns, labels, [f"row {row}" for row in range(table.height)], seed, kept)


def _from_arrays(path: Path, label: str, task: Asked, seed: int, held_out: str | None) -> Dataset:
    arrays = read_npz(path)
    if held_out is not None and held_out not in arrays:
        raise ValueError(f"{path}: held_out: {unknown(held_out, arrays)}")
    for name in ("inputs", label):
        if name not in arrays:
            raise ValueError(f"{path}: expected an array {name!r}, got {', '.join(sorted(arrays)) or 'none'}.")
    inputs = _checked(path, arrays["inputs"])
    ids = _names(path, arrays, "ids", len(inputs), "row")
    labels = _labels(path, arrays, label, task)
    kept = None if held_out is None else held_out_rows(arrays[held_out], len(inputs), f"{path}: held_out")
    if inputs.ndim == 4:
        words = {"class_names": labels.class_names}
        return assembled(path.stem, inputs, labels.values, ids, **words, seed=seed, task=labels.task, held_out=kept)
    names = _names(path, arrays, "feature_names", inputs.shape[1], "feature")
    return table_dataset(path.stem, numbers_of(inputs, names), labels, ids, seed, kept)


def _labels(path: Path, arrays: dict[str, Any], label: str, task: Asked) -> Labels:
    rows, given = len(arrays["inputs"]), arrays.get("class_names")
    labels = read_labels(arrays[label], rows, f"{path}: {label}", task)
    if given is None or labels.task == "regression":
        return labels
    names = _names(path, arrays, "class_names", len(labels.class_names), "class")
    return Labels(labels.task, labels.values, names)


def _checked(path: Path, inputs: Any) -> Any:
    """Inputs as numbers or pixels."""
    images = inputs.ndim == 4 and inputs.dtype == np.uint8
    table = inputs.ndim == 2 and inputs.dtype.kind in "fiu"
    if not (images or table) or not inputs.size:
        raise ValueError(
            f"{path}: inputs: expected real numbers (N, features) or uint8 pixels (N, channels, height, width), got "
            f"{inputs.dtype} {inputs.shape}."
        )
    if table and np.isinf(inputs).any():
        raise ValueError(f"{path}: inputs: expected finite numbers, or NaN where one is missing; got infinity.")
    if table and np.isnan(inputs).all(0).any():
        raise ValueError(f"{path}: inputs: expected a number in every column, got one of NaN alone; leave it out.")
    return inputs


def _names(path: Path, arrays: dict[str, Any], name: str, count: int, word: str) -> tuple[str, ...]:
    if name not in arrays:
        return tuple(f"{word} {number}" for number in range(count))
    given = arrays[name]
    if given.ndim != 1:
        raise ValueError(f"{path}: {name}: expected a list of names, got an array of shape {given.shape}.")
    names = tuple(str(entry.decode() if isinstance(entry, bytes) else entry) for entry in given.tolist())
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{path}: {name}: expected {count} different names, got {len(set(names))}.")
    return names
