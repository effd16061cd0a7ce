"""A data set from one file or table: CSV, Parquet or NumPy's .npz; categories and gaps encoded."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verax.core.files import digest
from verax.core.registry import unknown
from verax.core.shapes import Bool, Float, Int
from verax.data.array_files import read_npz, read_table
from verax.data.base import Dataset, Split, Standardisation, assembled, fingerprint, split_of, standardise_columns
from verax.data.columns import MISSING, Column, Columns, Labels, LabelTask, columns_of, numbers_of, read_labels


def table_dataset(
    name: str,
    columns: Columns,
    labels: Labels,
    ids: Sequence[str],
    seed: int = 0,
    held_out: Bool[np.ndarray, " n"] | None = None,
) -> Dataset:
    """A data set of a table.

    Numbers stay as they are, with the training mean where one is missing. A category becomes one element for each of
    its values, one of which is 1; a gap is a value of its own. These elements are one feature, and a feature that is
    removed becomes the most frequent category of the training rows, which exists, where a number becomes its mean.
    """
    if columns.plain:
        words = {"feature_names": columns.names, "class_names": labels.class_names}
        return assembled(
            name, columns.values, labels.values, ids, **words, seed=seed, task=labels.task, held_out=held_out
        )
    split = split_of(len(columns), seed, held_out)
    encoded = encode(columns, split, name)
    content = fingerprint(encoded.inputs, labels.values, ids)
    values_digest = hashlib.sha256(columns.values.tobytes()).hexdigest()
    return Dataset(
        name=name,
        inputs=encoded.inputs,
        labels=labels.values,
        ids=tuple(ids),
        feature_names=columns.names,
        class_names=labels.class_names,
        split=split,
        standardisation=encoded.standardisation,
        fingerprint=digest(encoded=content, given=values_digest, categories=columns.categories),
        task=labels.task,
        features=encoded.features,
        baselines=encoded.baselines,
        columns=columns,
    )


@dataclass(frozen=True)
class Encoding:
    """A table as numbers without gaps."""

    inputs: Float[np.ndarray, "n elements"]  # rows of elements, in their own units
    features: Int[np.ndarray, " elements"]  # the number of the column of each element
    baselines: Float[np.ndarray, " elements"]  # the row that replaces removed features, in standardised units
    standardisation: Standardisation  # of numbers; elements of categories stay 0 and 1


def encode(columns: Columns, split: Split, source: str) -> Encoding:
    """Encode columns, with means and most frequent categories of the training rows."""
    parts: list[Any] = []
    baselines: list[float] = []
    for place, words in enumerate(columns.categories):
        values = columns.values[:, place]
        known = values[split.train][~np.isnan(values[split.train])]
        if words is None and not len(known):
            column = columns.names[place]
            raise ValueError(f"{source}: column {column!r} has no value among the training rows; leave it out.")
        if words is None:
            parts.append(np.where(np.isnan(values), known.mean(), values)[:, None])
            baselines.append(0.0)
        else:
            block = _one_hot(values, len(words))
            parts.append(block)
            usual = int(block[split.train].sum(0).argmax())
            baselines += [float(number == usual) for number in range(block.shape[1])]
    inputs = np.concatenate(parts, 1)
    widths = [part.shape[1] for part in parts]
    features = np.repeat(np.arange(len(widths)), widths)
    categories = torch.tensor([columns.categories[place] is not None for place in features])
    scale = standardise_columns(inputs[split.train])
    scale = Standardisation(scale.mean.masked_fill(categories, 0.0), scale.std.masked_fill(categories, 1.0))
    return Encoding(inputs, features, np.array(baselines), scale)


def column_values(dataset: Dataset) -> tuple[Float[np.ndarray, "n *shape"], Standardisation]:
    """The table as it was given, with gaps and numbers of categories, and how its numbers are standardised, exactly.

    For models of one's own, which take columns rather than elements. Of images, their pixels from 0 to 1.
    """
    if dataset.inputs.ndim != 2:
        return dataset.inputs, dataset.standardisation
    columns = dataset.columns or Columns(tuple(map(Column, dataset.feature_names)), dataset.inputs)
    train = columns.values[dataset.split.train]
    mean, std = np.nanmean(train, 0), np.nanstd(train, 0)
    codes = np.array([words is not None for words in columns.categories])
    mean, std = np.where(codes, 0.0, mean), np.where(codes | (std == 0), 1.0, std)
    return columns.values, Standardisation(torch.from_numpy(mean), torch.from_numpy(std))


def column_baselines(dataset: Dataset) -> Float[np.ndarray, " columns"] | None:
    """What a removed column becomes: of a standardised number 0, of a category the most frequent one in training."""
    if dataset.columns is None:
        return None
    train = dataset.columns.values[dataset.split.train]
    baselines = np.zeros(train.shape[1])
    for place, words in enumerate(dataset.columns.categories):
        if words is not None:
            usual = int(_one_hot(train[:, place], len(words)).sum(0).argmax())
            baselines[place] = usual if usual < len(words) else math.nan  # where most rows have none
    return baselines


def element_names(dataset: Dataset) -> tuple[str, ...]:
    """Names of the elements of an input: those of the columns, with the category where a column takes several."""
    if dataset.columns is None or dataset.features is None:
        return dataset.feature_names
    names: list[str] = []
    for place, (name, words) in enumerate(zip(dataset.columns.names, dataset.columns.categories, strict=True)):
        width = int((dataset.features == place).sum())
        names += [name] if words is None else [f"{name} = {word}" for word in (*words, MISSING)[:width]]
    return tuple(names)


def _one_hot(codes: np.ndarray, count: int) -> np.ndarray:
    """One element per category, and one more where a value is missing somewhere; exactly one of them is 1."""
    gaps = np.isnan(codes)
    places = np.where(gaps, count, codes).astype(np.int64)
    return np.eye(count + bool(gaps.any()))[places]


def held_out_rows(rows: Any, count: int, where: str) -> Bool[np.ndarray, " n"]:
    """Which rows are held out."""
    values = np.asarray(rows)
    if values.ndim != 1 or values.dtype.kind not in "biu":
        raise ValueError(
            f"{where}: expected true or false (or 1 or 0) for each row, or row numbers, got {values.dtype} "
            f"{values.shape}."
        )
    if values.dtype.kind == "b" or len(values) == count:
        if len(values) != count or not np.isin(values, (0, 1)).all():
            raise ValueError(f"{where}: expected {count} truth values, or 0 and 1, one per row; or some row numbers.")
        return values.astype(bool)
    if len(values) and (values.min() < 0 or values.max() >= count):
        raise ValueError(f"{where}: expected row numbers from 0 to {count - 1}, got {values.min()} to {values.max()}.")
    mask = np.zeros(count, dtype=bool)
    mask[values] = True
    return mask


SUFFIXES = (".csv", ".parquet", ".npz")


def load_file(
    path: str | Path,
    *,
    label: str | None = None,
    task: LabelTask = "auto",
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


def _from_arrays(path: Path, label: str, task: LabelTask, seed: int, held_out: str | None) -> Dataset:
    arrays = read_npz(path)
    if held_out is not None and held_out not in arrays:
        raise ValueError(f"{path}: held_out: {unknown(held_out, arrays)}")
    for name in ("inputs", label):
        if name not in arrays:
            raise ValueError(f"{path}: expected an array {name!r}, got {', '.join(sorted(arrays)) or 'none'}.")
    inputs = _checked(path, arrays["inputs"])
    ids = _column_names(path, arrays, "ids", len(inputs), "row")
    labels = read_labels(arrays[label], len(inputs), f"{path}: {label}", task)
    if "class_names" in arrays and labels.task != "regression":
        labels = replace(
            labels, class_names=_column_names(path, arrays, "class_names", len(labels.class_names), "class")
        )
    kept = None if held_out is None else held_out_rows(arrays[held_out], len(inputs), f"{path}: held_out")
    if inputs.ndim == 4:
        words = {"class_names": labels.class_names}
        return assembled(path.stem, inputs, labels.values, ids, **words, seed=seed, task=labels.task, held_out=kept)
    names = _column_names(path, arrays, "feature_names", inputs.shape[1], "feature")
    return table_dataset(path.stem, numbers_of(inputs, names), labels, ids, seed, kept)


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


def _column_names(path: Path, arrays: dict[str, Any], name: str, count: int, word: str) -> tuple[str, ...]:
    if name not in arrays:
        return tuple(f"{word} {number}" for number in range(count))
    names_array = arrays[name]
    if names_array.ndim != 1:
        raise ValueError(f"{path}: {name}: expected a list of names, got an array of shape {names_array.shape}.")
    names = tuple(str(entry.decode() if isinstance(entry, bytes) else entry) for entry in names_array.tolist())
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{path}: {name}: expected {count} different names, got {len(set(names))}.")
    return names
