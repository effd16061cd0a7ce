"""Small data sets that come with scikit-learn, for trying things out without any download."""

import numpy as np

from verax.data.base import Dataset, assembled


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
