"""The catalogue of data sets: those that are shipped and one's own, by the names that commands and specs use."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from verax.core.registry import unknown
from verax.data.base import Dataset, assembled
from verax.data.columns import LabelTask
from verax.data.file import load_file
from verax.paper.heloc import load_heloc as load_heloc  # noqa: PLC0414  # verax.datasets takes both from here
from verax.paper.isic import load_isic as load_isic  # noqa: PLC0414


def load_breast_cancer(seed: int = 0) -> Dataset:
    """Wisconsin breast cancer: 569 tumours, 30 measurements of cell nuclei each.

    Class 1 is "malignant" (212), class 0 "benign" (357): the other way round than in scikit-learn, so that class 1 is
    the one to be found, as in the other data sets.

    Args:
        seed: Of the split into training, validation and test rows.

    Example:
        >>> load_breast_cancer().inputs.shape
        (569, 30)
    """
    from sklearn import datasets  # noqa: PLC0415  (slow to import, and needed here only)

    bunch = datasets.load_breast_cancer()
    labels = 1 - bunch.target.astype(np.int64)
    return assembled(
        "breast-cancer",
        bunch.data.astype(np.float64),
        labels,
        [f"breast-cancer-{row}" for row in range(len(labels))],
        class_names=("benign", "malignant"),
        feature_names=[str(name) for name in bunch.feature_names],
        seed=seed,
    )


def load_digits(seed: int = 0) -> Dataset:
    """Handwritten digits: 1,797 grey images of 8 x 8 pixels, shape ``(N, 1, 8, 8)``, from 0 to 255.

    The models here tell two classes apart: class 1 is "5 to 9", class 0 "0 to 4".

    Args:
        seed: Of the split into training, validation and test rows.

    Example:
        >>> load_digits().inputs.shape
        (1797, 1, 8, 8)
    """
    from sklearn import datasets  # noqa: PLC0415  (slow to import, and needed here only)

    bunch = datasets.load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = (bunch.target >= 5).astype(np.int64)
    ids = [f"digits-{row}" for row in range(len(labels))]
    return assembled("digits", images, labels, ids, class_names=("0 to 4", "5 to 9"), seed=seed)


def load_diabetes(seed: int = 0) -> Dataset:
    """Diabetes: 442 patients, ten measurements each, and a measure of how far the disease went in the year after.

    A regression: labels are that measure, from 25 to 346. Measurements are in the units of the clinic.

    Args:
        seed: Of the split into training, validation and test rows.

    Example:
        >>> data = load_diabetes()
        >>> data.task, data.inputs.shape, data.feature_names[:3]
        ('regression', (442, 10), ('age', 'sex', 'bmi'))
    """
    from sklearn import datasets  # noqa: PLC0415  (slow to import, and needed here only)

    bunch = datasets.load_diabetes(scaled=False)
    return assembled(
        "diabetes",
        bunch.data.astype(np.float64),
        bunch.target.astype(np.float64),
        [f"diabetes-{row}" for row in range(len(bunch.target))],
        feature_names=[str(name) for name in bunch.feature_names],
        seed=seed,
        task="regression",
    )


Modality = Literal["tabular", "image"]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes:
        name: What commands and specs call it.
        load: Its loader, called with the path where it takes one, with ``seed`` (of the split) and, where it keeps
            downloads or decoded images, with ``cache``, their folder.
        modality: ``"tabular"`` or ``"image"``; None where its files decide.
        path: What its path is, in a word or two for the help; empty if it takes none.
        needs_path: Whether it cannot be loaded without.
        takes_cache: Whether it keeps files in a cache folder.
        takes_label: Whether its loader takes ``label``, the column to predict, ``task`` and, if there is one,
            ``held_out``, the column that marks the rows that are not for training.

    Example:
        >>> Source("loans", load_file, "tabular", path="an .npz file", needs_path=True).check_path(False)
        Traceback (most recent call last):
        ValueError: path: loans needs one; pass --data PATH or write it into the spec: an .npz file.
    """

    name: str
    load: Callable[..., Dataset]
    modality: Modality | None = None
    path: str = ""
    needs_path: bool = False
    takes_cache: bool = False
    takes_label: bool = False

    @property
    def takes_path(self) -> bool:
        """Whether it can be given a path."""
        return bool(self.path)

    def check_path(self, has_path: bool, argument: str = "path") -> None:
        """Raise for a path that it does not take, and the lack of one that it needs."""
        if has_path and not self.takes_path:
            raise ValueError(f"{argument}: {self.name} takes none.")
        if self.needs_path and not has_path:
            raise ValueError(
                f"{argument}: {self.name} needs one; pass --data PATH or write it into the spec: {self.path}."
            )

    def check_label(self, label: str | None, task: LabelTask, held_out: str | None = None) -> None:
        """Raise for a label, a task or a split where the data set has its own."""
        if not self.takes_label and held_out is not None:
            raise ValueError(f"held_out: {self.name} says itself which rows are for training; leave held_out out.")
        if not self.takes_label and (label is not None or task != "auto"):
            argument = "label" if label is not None else "task"
            raise ValueError(f"{argument}: {self.name} says itself what is to be predicted; leave {argument} out.")


_SHIPPED = (
    Source("heloc", load_heloc, "tabular", "a CSV file (else downloaded)", takes_cache=True),
    Source("isic", load_isic, "image", "the folder of images and labels", needs_path=True, takes_cache=True),
    Source("breast-cancer", load_breast_cancer, "tabular"),
    Source("digits", load_digits, "image"),
    Source("diabetes", load_diabetes, "tabular"),
    Source("file", load_file, None, "a .csv, .parquet or .npz file", needs_path=True, takes_label=True),
)
_SOURCES = {source.name: source for source in _SHIPPED}


def register(source: Source) -> None:
    """Make a data set known by its name, for ``verax train`` and studies (``--import`` runs the module that does it).

    Args:
        source: Its name and its loader.

    Example:
        >>> from verax.datasets import Source, load_digits, load_named, register
        >>> register(Source("my-digits", load_digits, "image"))
        >>> load_named("my-digits").class_names
        ('0 to 4', '5 to 9')
    """
    before = _SOURCES.get(source.name)
    if before is not None and _place(before) != _place(source):
        raise ValueError(
            f"data set: {source.name!r} is loaded by {_place(before)} already, so that of {_place(source)} needs "
            "another name."
        )
    _SOURCES[source.name] = source


def names() -> list[str]:
    """The names of all data sets that are known."""
    return list(_SOURCES)


def source_of(name: str) -> Source:
    """The data set of that name, or which ones there are instead."""
    if name not in _SOURCES:
        raise ValueError(f"data set: {unknown(name, _SOURCES)}")
    return _SOURCES[name]


def load_named(
    name: str,
    path: Path | None = None,
    *,
    seed: int = 0,
    cache: Path | None = None,
    label: str | None = None,
    task: LabelTask = "auto",
    held_out: str | None = None,
) -> Dataset:
    """Load a data set by its name.

    Args:
        name: One of ``names()``.
        path: For a data set that takes one.
        seed: Of the split.
        cache: Where downloads and decoded images are kept.
        label: The column to predict, for a data set without a label of its own.
        task: What for: ``"classification"``, ``"regression"``, or as the labels look.
        held_out: The column that marks the rows that are not for training; by default rows are split at random.

    Example:
        >>> load_named("digits").class_names
        ('0 to 4', '5 to 9')
    """
    source = source_of(name)
    source.check_path(path is not None)
    source.check_label(label, task, held_out)
    places = (path,) if source.takes_path else ()
    kept = {"cache": cache} if source.takes_cache else {}
    settings: dict[str, str | None] = {"label": label, "task": task} if source.takes_label else {}
    settings |= {} if held_out is None else {"held_out": held_out}
    return source.load(*places, seed=seed, **kept, **settings)


def _place(source: Source) -> str:
    return f"{source.load.__module__}.{getattr(source.load, '__qualname__', source.load)}"
