"""The contract of data sets: inputs with labels and ids, a seeded split, and a standardisation that can be undone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_choice, checked_seed
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.data.columns import Columns, Task

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Split:
    """Which rows belong to which part.

    Attributes:
        train: Row numbers, ascending.
        validation: Row numbers, ascending.
        test: Row numbers, ascending.
        seed: The seed that made it.
        named: Whether the user has named the rows that are not for training.
    """

    train: Int[np.ndarray, " a"]
    validation: Int[np.ndarray, " b"]
    test: Int[np.ndarray, " c"]
    seed: int
    named: bool = False

    def rows(self, part: Part) -> Int[np.ndarray, " rows"]:
        """The rows of a part."""
        checked_choice("part", part, PARTS)
        return {"train": self.train, "validation": self.validation, "test": self.test}[part]


@dataclass(frozen=True)
class Standardisation:
    """Mean and standard deviation of the training rows, per feature or, for images, per channel of pixels in [0, 1].

    Both have a shape that broadcasts to one input: ``(features,)`` or ``(channels, 1, 1)``.

    Attributes:
        mean: What is subtracted.
        std: What the rest is divided by.
    """

    mean: Float[Tensor, "*cell"]
    std: Float[Tensor, "*cell"]

    def apply(self, inputs: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
        """Bring inputs to mean 0 and standard deviation 1."""
        return (inputs - self.mean.to(inputs)) / self.std.to(inputs)

    def undo(self, inputs: Float[Tensor, "n *shape"]) -> Float[Tensor, "n *shape"]:
        """Bring standardised inputs back to their own units."""
        return inputs * self.std.to(inputs) + self.mean.to(inputs)


@dataclass(frozen=True)
class Dataset:
    """Inputs with labels, split and standardised.

    Attributes:
        name: Which data set.
        inputs: Raw inputs: numbers ``(N, features)``, or pixels ``(N, channels, height, width)`` as uint8, possibly a
            memory map.
        labels: Class of each input, 0 or 1 for the paper's data sets; for a regression, its value.
        ids: A name for each input that does not depend on its place.
        feature_names: Names of the columns; empty for images.
        class_names: Names of the classes, in the order of their numbers; empty for a regression.
        split: Training, validation and test rows.
        standardisation: Computed from the training rows only.
        fingerprint: Hash of inputs, labels and ids.
        task: What is predicted, classes or values.
        features: Where one column takes several elements of an input, as a category does: the number of the column of
            each element. None where each element is a feature, or each pixel of an image.
        baselines: What a removed feature becomes, one number per element of a standardised input; None for 0.
        columns: The table as it was given, where ``inputs`` encode it: with categories and gaps.
    """

    name: str
    inputs: Shaped[np.ndarray, "n *shape"]
    labels: Shaped[np.ndarray, " n"]
    ids: tuple[str, ...]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    split: Split
    standardisation: Standardisation
    fingerprint: str
    task: Task = "classification"
    features: Int[np.ndarray, " elements"] | None = None
    baselines: Float[np.ndarray, " elements"] | None = None
    columns: Columns | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, part: Part, limit: int | None = None) -> tuple[Float[Tensor, "n *shape"], Shaped[Tensor, " n"]]:
        """Standardised inputs and labels of a part, or of its first rows, in single precision."""
        rows = self.split.rows(part)[:limit]
        return self.standardisation.apply(as_numbers(self.inputs[rows])), torch.from_numpy(self.labels[rows])


def as_numbers(raw: Shaped[np.ndarray, "n *shape"]) -> Float[Tensor, "n *shape"]:
    """Raw inputs as floating-point numbers; pixels become numbers from 0 to 1."""
    values = torch.from_numpy(np.array(raw))
    return values.float() / 255 if values.dtype == torch.uint8 else values.float()


def assembled(
    name: str,
    inputs: Shaped[np.ndarray, "n *shape"],
    labels: Shaped[np.ndarray, " n"],
    ids: Sequence[str],
    *,
    class_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    seed: int = 0,
    task: Task = "classification",
    held_out: Bool[np.ndarray, " n"] | None = None,
) -> Dataset:
    """A data set with a split of single rows, standardised by column or, for images, by channel."""
    split = split_of(len(labels), seed, held_out)
    standardise = standardise_channels if inputs.ndim == 4 else standardise_columns
    return Dataset(
        name=name,
        inputs=inputs,
        labels=labels,
        ids=tuple(ids),
        feature_names=tuple(feature_names),
        class_names=tuple(class_names),
        split=split,
        standardisation=standardise(inputs[split.train]),
        fingerprint=fingerprint(inputs, labels, ids),
        task=task,
    )


def split_of(count: int, seed: int, held_out: Bool[np.ndarray, " n"] | None) -> Split:
    """The rows that are not held out for training, the others half for validation, half as test rows; or at random."""
    if held_out is None:
        return make_split(count, seed)
    kept = np.flatnonzero(held_out)
    if len(kept) < 2 or len(kept) == count:
        raise ValueError(f"held_out: expected at least 2 rows and not all of {count}, got {len(kept)}.")
    key = noise.input_keys(torch.zeros(1, 1), checked_seed(seed), "split")
    order = noise.words(key, 0, len(kept))[0].argsort(stable=True).numpy()
    validation, test = (np.sort(kept[part]) for part in np.array_split(order, 2))
    return Split(np.flatnonzero(~held_out), validation, test, seed, named=True)


def make_split(
    count: int, seed: int = 0, groups: Sequence[str] | None = None, shares: tuple[float, float, float] = SHARES
) -> Split:
    """Split rows at random into training, validation and test rows; rows of one group stay together.

    Args:
        count: Number of rows.
        seed: Same seed, same split.
        groups: The group of each row, such as the lesion that an image shows; None for none.
        shares: Shares of the three parts. Without groups the sizes are exact to a row.
    """
    names = [str(row) for row in range(count)] if groups is None else list(groups)
    if len(names) != count:
        raise ValueError(f"groups: expected one per row ({count}), got {len(names)}.")
    members: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        members.setdefault(name, []).append(row)
    blocks = list(members.values())
    key = noise.input_keys(torch.zeros(1, 1), checked_seed(seed), "split")
    order = noise.words(key, 0, len(blocks))[0].argsort(stable=True).tolist()
    ends = np.cumsum([len(blocks[place]) for place in order])
    borders = [int(np.searchsorted(ends, count * share, side="left") + 1) for share in np.cumsum(shares[:2])]
    parts = (order[: borders[0]], order[borders[0] : borders[1]], order[borders[1] :])
    rows = [np.sort(np.array([row for place in part for row in blocks[place]], dtype=np.int64)) for part in parts]
    return Split(rows[0], rows[1], rows[2], checked_seed(seed))


def standardise_columns(train: Float[np.ndarray, "n features"]) -> Standardisation:
    """Mean and standard deviation of each column; a constant column is only centred.

    Args:
        train: The training rows.

    Example:
        >>> standardise_columns(np.array([[1.0, 5.0], [3.0, 5.0]])).std
        tensor([1., 1.])
    """
    return _standardisation(train.mean(0), train.std(0))


def standardise_channels(train: Shaped[np.ndarray, "n channels height width"]) -> Standardisation:
    """Mean and standard deviation of each channel of pixels in [0, 1]; a constant channel is only centred."""
    pixels, axes = train / (255 if train.dtype == np.uint8 else 1), (0, 2, 3)
    return _standardisation(pixels.mean(axes)[:, None, None], pixels.std(axes)[:, None, None])


def _standardisation(mean: np.ndarray, std: np.ndarray) -> Standardisation:
    return Standardisation(torch.from_numpy(mean).float(), torch.from_numpy(np.where(std > 0, std, 1.0)).float())


def fingerprint(inputs: Shaped[np.ndarray, "n *shape"], labels: Shaped[np.ndarray, " n"], ids: Sequence[str]) -> str:
    """Hash the content of a data set, a bounded piece at a time.

    Args:
        inputs: One row for each input.
        labels: Its class or value.
        ids: Its name.
    """
    digest = hashlib.sha256(f"{inputs.dtype.str}{inputs.shape}".encode())
    for start in range(0, len(inputs), 1024):
        digest.update(np.ascontiguousarray(inputs[start : start + 1024]).tobytes())
    kind = np.float64 if labels.dtype.kind == "f" else np.int64
    digest.update(np.ascontiguousarray(labels, dtype=kind).tobytes())
    digest.update("\n".join(ids).encode())
    return digest.hexdigest()
