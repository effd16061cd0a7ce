"""Small data sets that come with scikit-learn, for trying things out without any download."""

import numpy as np
import torch

from verax.datasets.base import Dataset, Standardisation, fingerprint, make_split, standardise_columns
from verax.shapes import Shaped


def load_breast_cancer(seed: int = 0) -> Dataset:
    """Wisconsin breast cancer: 569 tumours, 30 measurements of cell nuclei each.

    Class 1 is "malignant" (212), class 0 "benign" (357): the other way round than in scikit-learn, so that class 1 is
    the one to be found, as in the other data sets.

    Args:
        seed: Of the split into training, validation and test rows.
    """
    from sklearn import datasets  # noqa: PLC0415  (slow to import, and needed here only)

    found = datasets.load_breast_cancer()
    inputs, labels = found.data.astype(np.float64), 1 - found.target.astype(np.int64)
    ids = tuple(f"breast-cancer-{row}" for row in range(len(labels)))
    split = make_split(len(labels), seed)
    return Dataset(
        name="breast-cancer",
        inputs=inputs,
        labels=labels,
        ids=ids,
        feature_names=tuple(str(name) for name in found.feature_names),
        class_names=("benign", "malignant"),
        split=split,
        standardisation=standardise_columns(inputs[split.train]),
        fingerprint=fingerprint(inputs, labels, ids),
    )


def load_digits(seed: int = 0) -> Dataset:
    """Handwritten digits: 1,797 grey images of 8 x 8 pixels, shape ``(N, 1, 8, 8)``, from 0 to 255.

    The models here tell two classes apart: class 1 is "5 to 9", class 0 "0 to 4".

    Args:
        seed: Of the split into training, validation and test rows.
    """
    from sklearn import datasets  # noqa: PLC0415  (slow to import, and needed here only)

    found = datasets.load_digits()
    images = np.rint(found.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = (found.target >= 5).astype(np.int64)
    ids = tuple(f"digits-{row}" for row in range(len(labels)))
    split = make_split(len(labels), seed)
    return Dataset(
        name="digits",
        inputs=images,
        labels=labels,
        ids=ids,
        feature_names=(),
        class_names=("0 to 4", "5 to 9"),
        split=split,
        standardisation=standardise_channels(images[split.train]),
        fingerprint=fingerprint(images, labels, ids),
    )


def standardise_channels(train: Shaped[np.ndarray, "n channels height width"]) -> Standardisation:
    """Mean and standard deviation of each channel of pixels in [0, 1]; a constant channel is only centred."""
    pixels = train / 255
    mean, std = (getattr(pixels, name)(axis=(0, 2, 3))[:, None, None] for name in ("mean", "std"))
    return Standardisation(torch.from_numpy(mean).float(), torch.from_numpy(np.where(std > 0, std, 1.0)).float())
