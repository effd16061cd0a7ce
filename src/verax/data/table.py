"""Tables of one's own: columns with categories and gaps, encoded as the shipped models take them."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from verax.core.hashing import digest
from verax.core.shapes import Bool, Float, Int
from verax.data.base import Dataset, Split, Standardisation, assembled, fingerprint, split_of, standardise_columns
from verax.data.columns import MISSING, Columns
from verax.data.labels import Labels


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

    Args:
        name: Which data set.
        columns: The table.
        labels: What is to be predicted.
        ids: A name for each row.
        seed: Of the split.
        held_out: Which rows are not for training; by default chosen at random.
    """
    if columns.plain:
        words = {"feature_names": columns.names, "class_names": labels.class_names}
        return assembled(
            name, columns.values, labels.values, ids, **words, seed=seed, task=labels.task, held_out=held_out
        )
    split = split_of(len(columns), seed, held_out)
    encoded = encode(columns, split, name)
    content = fingerprint(encoded.inputs, labels.values, ids)
    given = hashlib.sha256(columns.values.tobytes()).hexdigest()
    return Dataset(
        name=name,
        inputs=encoded.inputs,
        labels=labels.values,
        ids=tuple(ids),
        feature_names=columns.names,
        class_names=labels.class_names,
        split=split,
        standardisation=encoded.standardisation,
        fingerprint=digest(encoded=content, given=given, categories=columns.categories),
        task=labels.task,
        features=encoded.features,
        baselines=encoded.baselines,
        columns=columns,
    )


@dataclass(frozen=True)
class Encoding:
    """A table as numbers without gaps.

    Attributes:
        inputs: Rows of elements, in their own units.
        features: The number of the column of each element.
        baselines: The row that replaces removed features, in standardised units.
        standardisation: Of numbers; elements of categories stay 0 and 1.
    """

    inputs: Float[np.ndarray, "n elements"]
    features: Int[np.ndarray, " elements"]
    baselines: Float[np.ndarray, " elements"]
    standardisation: Standardisation


def encode(columns: Columns, split: Split, source: str) -> Encoding:
    """Encode columns, with means and most frequent categories of the training rows.

    Example:
        >>> values = np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 1.0], [2.0, 1.0], [2.0, np.nan]])
        >>> table = Columns(("age", "town"), values, (None, ("Graz", "Wien")))
        >>> found = encode(table, Split(np.arange(4), np.array([4]), np.array([4]), 0), "people")
        >>> found.inputs[1].tolist(), found.features.tolist(), found.baselines.tolist()
        ([2.0, 0.0, 1.0, 0.0], [0, 1, 1, 1], [0.0, 0.0, 1.0, 0.0])
    """
    parts: list[Any] = []
    baselines: list[float] = []
    for place, words in enumerate(columns.categories):
        own = columns.values[:, place]
        known = own[split.train][~np.isnan(own[split.train])]
        if words is None and not len(known):
            column = columns.names[place]
            raise ValueError(f"{source}: column {column!r} has no value among the training rows; leave it out.")
        if words is None:
            parts.append(np.where(np.isnan(own), known.mean(), own)[:, None])
            baselines.append(0.0)
        else:
            block = _one_hot(own, len(words))
            parts.append(block)
            usual = int(block[split.train].sum(0).argmax())
            baselines += [float(number == usual) for number in range(block.shape[1])]
    inputs = np.concatenate(parts, 1)
    widths = [part.shape[1] for part in parts]
    features = np.repeat(np.arange(len(widths)), widths)
    amounts = np.array([columns.categories[place] is None for place in features])
    return Encoding(inputs, features, np.array(baselines), _of_amounts(inputs[split.train], amounts))


def column_values(dataset: Dataset) -> tuple[Float[np.ndarray, "n *shape"], Standardisation]:
    """The table as it was given, with gaps and numbers of categories, and how its numbers are standardised, exactly.

    For models of one's own, which take columns rather than elements. Of images, their pixels from 0 to 1.
    """
    if dataset.inputs.ndim != 2:
        return dataset.inputs, dataset.standardisation
    given = dataset.columns or Columns(dataset.feature_names, dataset.inputs, (None,) * dataset.inputs.shape[1])
    train = given.values[dataset.split.train]
    mean, std = np.nanmean(train, 0), np.nanstd(train, 0)
    codes = np.array([words is not None for words in given.categories])
    mean, std = np.where(codes, 0.0, mean), np.where(codes | (std == 0), 1.0, std)
    return given.values, Standardisation(torch.from_numpy(mean), torch.from_numpy(std))


def column_baselines(dataset: Dataset) -> Float[np.ndarray, " columns"] | None:
    """What a removed column becomes: of a standardised number 0, of a category the most frequent one in training."""
    if dataset.columns is None:
        return None
    train = dataset.columns.values[dataset.split.train]
    found = np.zeros(train.shape[1])
    for place, words in enumerate(dataset.columns.categories):
        if words is not None:
            found[place] = _usual(train[:, place], len(words))
    return found


def element_names(dataset: Dataset) -> tuple[str, ...]:
    """Names of the elements of an input: those of the columns, with the category where a column takes several."""
    if dataset.columns is None or dataset.features is None:
        return dataset.feature_names
    names: list[str] = []
    for place, (name, words) in enumerate(zip(dataset.columns.names, dataset.columns.categories, strict=True)):
        width = int((dataset.features == place).sum())
        names += [name] if words is None else [f"{name} = {word}" for word in (*words, MISSING)[:width]]
    return tuple(names)


def _usual(codes: np.ndarray, count: int) -> float:
    """The most frequent category; NaN where most rows have none."""
    place = int(_one_hot(codes, count).sum(0).argmax())
    return float(place) if place < count else math.nan


def _one_hot(codes: np.ndarray, count: int) -> np.ndarray:
    """One element per category, and one more where a value is missing somewhere; exactly one of them is 1."""
    gaps = np.isnan(codes)
    places = np.where(gaps, count, codes).astype(np.int64)
    return np.eye(count + bool(gaps.any()))[places]


def _of_amounts(train: np.ndarray, amounts: np.ndarray) -> Standardisation:
    """Mean and standard deviation of numbers; categories are left alone."""
    found = standardise_columns(train)
    mean, std = found.mean.clone(), found.std.clone()
    mean[~amounts], std[~amounts] = 0.0, 1.0
    return Standardisation(mean, std)
