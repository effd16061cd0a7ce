"""Data sets that come with scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn import datasets

from verax.data.catalogue import load_breast_cancer, load_digits

LOADERS = pytest.mark.parametrize("load", [load_breast_cancer, load_digits])


@LOADERS
def test_the_contract_holds(load):
    data = load()
    assert len(data) == len(data.inputs) == len(data.ids) == len(set(data.ids))
    assert set(data.labels.tolist()) == {0, 1}
    assert data.labels.dtype == np.int64
    inputs, _ = data.part("train")
    torch.testing.assert_close(inputs.double().mean(), torch.tensor(0.0).double(), atol=1e-5, rtol=0)
    raw = data.standardisation.undo(data.part("test")[0])
    again = data.inputs[data.split.test] / (255 if data.inputs.dtype == np.uint8 else 1)
    error = (raw - torch.from_numpy(again).float()) / data.standardisation.std
    assert error.abs().max() < 1e-5


@LOADERS
def test_the_seed_moves_the_split_and_not_the_data(load):
    first, again, other = load(seed=1), load(seed=1), load(seed=2)
    assert first.fingerprint == again.fingerprint == other.fingerprint
    assert first.ids == other.ids
    np.testing.assert_array_equal(first.split.test, again.split.test)
    assert set(first.split.test) != set(other.split.test)


@LOADERS
def test_the_standardisation_is_that_of_the_training_rows(load):
    data = load(seed=3)
    train = data.inputs[data.split.train] / (255 if data.inputs.dtype == np.uint8 else 1)
    axes = tuple(axis for axis in range(train.ndim) if axis != 1)
    np.testing.assert_allclose(data.standardisation.mean.flatten(), train.mean(axes), rtol=1e-5)
    np.testing.assert_allclose(data.standardisation.std.flatten(), train.std(axes), rtol=1e-5)


def test_breast_cancer_has_malignant_as_class_1():
    data, dataset = load_breast_cancer(), datasets.load_breast_cancer()
    assert data.inputs.shape == (569, 30)
    assert len(data.feature_names) == 30
    assert data.feature_names[0] == "mean radius"
    assert data.class_names == ("benign", "malignant")
    assert np.bincount(data.labels).tolist() == [357, 212]
    names = [data.class_names[label] for label in data.labels]
    assert names == [str(dataset.target_names[label]) for label in dataset.target]


def test_digits_are_images_of_the_full_range_in_two_classes():
    data, dataset = load_digits(), datasets.load_digits()
    assert data.inputs.shape == (1797, 1, 8, 8)
    assert data.inputs.dtype == np.uint8
    assert (data.inputs.min(), data.inputs.max()) == (0, 255)
    assert np.abs(data.inputs[:, 0] / 255 - dataset.images / 16).max() <= 0.5 / 255
    assert data.standardisation.mean.shape == data.standardisation.std.shape == (1, 1, 1)
    assert data.feature_names == ()
    assert data.class_names == ("0 to 4", "5 to 9")
    assert {int(digit) for digit in dataset.target[data.labels == 1]} == {5, 6, 7, 8, 9}
