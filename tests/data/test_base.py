"""Splits, standardisation and fingerprints: the contract that every data set keeps."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verax.data.base import PARTS, as_numbers
from verax.datasets import Dataset, Split, Standardisation, fingerprint, make_split, standardise_columns

GROUPS = st.lists(st.sampled_from([f"lesion {number}" for number in range(12)]), min_size=1, max_size=60)


def small(count=20, seed=0):
    inputs = np.random.default_rng(1).normal(5, 3, (count, 4))
    labels, ids = np.arange(count) % 2, tuple(f"row-{row}" for row in range(count))
    split = make_split(count, seed)
    scale = standardise_columns(inputs[split.train])
    return Dataset("small", inputs, labels, ids, tuple("abcd"), ("no", "yes"), split, scale, "")


def sizes(split):
    return tuple(len(split.rows(part)) for part in PARTS)


@pytest.mark.parametrize(
    ("count", "expected"), [(8290, (4974, 1658, 1658)), (10, (6, 2, 2)), (5, (3, 1, 1)), (1797, (1079, 359, 359))]
)
def test_sizes_are_60_20_20(count, expected):
    assert sizes(make_split(count)) == expected


@given(st.integers(1, 300), st.integers(-(2**40), 2**40))
def test_every_row_is_in_one_part(count, seed):
    split = make_split(count, seed)
    together = np.concatenate([split.rows(part) for part in PARTS])
    assert sorted(together) == list(range(count))
    for part, share in zip(PARTS, (0.6, 0.2, 0.2), strict=True):
        assert (np.diff(split.rows(part)) > 0).all()
        assert abs(len(split.rows(part)) - share * count) < 1 + 1e-9


@given(GROUPS, st.integers(0, 1000))
def test_no_group_is_in_two_parts(groups, seed):
    split = make_split(len(groups), seed, groups)
    seen = [{groups[row] for row in split.rows(part)} for part in PARTS]
    assert sum(map(len, seen)) == len(set(groups))
    assert sum(sizes(split)) == len(groups)


def test_a_seed_gives_a_split_again_and_another_seed_another():
    first, again, other = make_split(100, 3), make_split(100, 3), make_split(100, 4)
    for part in PARTS:
        np.testing.assert_array_equal(first.rows(part), again.rows(part))
        assert set(first.rows(part)) != set(other.rows(part))
    assert (first.seed, other.seed) == (3, 4)


def test_groups_that_do_not_fit_the_rows_are_refused():
    with pytest.raises(ValueError, match=r"groups: expected one per row \(3\), got 2"):
        make_split(3, groups=["a", "b"])


def test_a_part_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="part: expected one of 'train', 'validation', 'test', got 'dev'"):
        inspect.unwrap(Split.rows)(make_split(5), "dev")  # past the type check of the tests


def test_training_rows_come_out_with_mean_0_and_deviation_1():
    inputs, labels = small().part("train")
    assert inputs.dtype == torch.float32
    assert labels.dtype == torch.int64
    torch.testing.assert_close(inputs.mean(0), torch.zeros(4), atol=1e-6, rtol=0)
    torch.testing.assert_close(inputs.std(0, correction=0), torch.ones(4))


def test_the_limit_takes_the_first_rows_of_a_part():
    data = small()
    inputs, labels = data.part("test", limit=2)
    everything, all_labels = data.part("test")
    torch.testing.assert_close(inputs, everything[:2])
    torch.testing.assert_close(labels, all_labels[:2])
    assert len(data) == 20


def test_a_constant_column_is_only_centred():
    scale = standardise_columns(np.array([[2.0, 1.0], [2.0, 3.0]]))
    assert scale.std.tolist() == [1.0, 1.0]
    assert scale.apply(torch.tensor([[5.0, 1.0]])).tolist() == [[3.0, -1.0]]


@given(st.integers(0, 10_000))
def test_standardisation_is_undone_to_1e_5(seed):
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([0.01, 1.0, 300.0])
    scale = standardise_columns(rows.numpy())
    torch.testing.assert_close(scale.undo(scale.apply(rows)) / scale.std, rows / scale.std, atol=1e-5, rtol=0)


def test_images_are_standardised_per_channel_and_back():
    pixels = as_numbers(np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 2, 2) * 11)
    scale = Standardisation(torch.tensor([0.1, 0.2, 0.3])[:, None, None], torch.tensor([0.5, 1.0, 2.0])[:, None, None])
    out = scale.apply(pixels)
    torch.testing.assert_close(out[:, 2], (pixels[:, 2] - 0.3) / 2)
    torch.testing.assert_close(scale.undo(out), pixels, atol=1e-5, rtol=0)


def test_pixels_become_numbers_from_0_to_1_and_numbers_stay():
    assert as_numbers(np.array([[0, 51, 255]], dtype=np.uint8)).tolist() == [[0.0, pytest.approx(0.2), 1.0]]
    assert as_numbers(np.array([[-3.0, 255.0]])).tolist() == [[-3.0, 255.0]]


@given(st.integers(0, 2999), st.integers(0, 1))
def test_any_cell_changes_the_fingerprint(row, column):
    inputs, labels, ids = np.zeros((3000, 2)), np.zeros(3000, dtype=np.int64), [str(n) for n in range(3000)]
    before = fingerprint(inputs, labels, ids)
    inputs[row, column] = 1e-300
    assert fingerprint(inputs, labels, ids) != before


@given(st.integers(0, 9))
def test_any_label_or_id_changes_the_fingerprint(row):
    inputs, labels, ids = np.zeros((10, 2)), np.zeros(10, dtype=np.int64), [str(n) for n in range(10)]
    before = fingerprint(inputs, labels, ids)
    assert fingerprint(inputs, labels, list(ids)) == before
    assert fingerprint(inputs, np.where(np.arange(10) == row, 1, labels), ids) != before
    assert fingerprint(inputs, labels, [*ids[:row], "other", *ids[row + 1 :]]) != before


def test_shape_and_type_are_part_of_the_fingerprint():
    labels, ids = np.zeros(2, dtype=np.int64), ("a", "b")
    prints = {
        fingerprint(inputs, labels, ids)
        for inputs in (np.zeros((2, 4)), np.zeros((2, 2, 2)), np.zeros((2, 4), dtype=np.float32))
    }
    assert len(prints) == 3
