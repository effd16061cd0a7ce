"""Tables of one's own: CSV and Parquet with categories, gaps and labels of any kind."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from verax.data.columns import MISSING, columns_of, read_labels
from verax.data.file import column_baselines, column_values, element_names
from verax.datasets import load_file

COUNT = 40
FRAME = pl.DataFrame(
    {
        "age": [None if row % 10 == 3 else float(row) for row in range(COUNT)],
        "town": [None if row % 9 == 4 else ("Wien", "Graz", "Wien")[row % 3] for row in range(COUNT)],
        "member": [row % 4 == 0 for row in range(COUNT)],
        "class": [("low", "mid", "high")[row % 3] for row in range(COUNT)],
        "price": [row * 1.5 for row in range(COUNT)],
    }
)


def written(folder: Path, ending: str, frame: pl.DataFrame = FRAME) -> Path:
    path = folder / f"homes{ending}"
    frame.write_csv(path) if ending == ".csv" else frame.write_parquet(path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_of_every_kind_of_column(ending: str, tmp_path: Path) -> None:
    result = load_file(written(tmp_path, ending, FRAME.drop("price")), label="class")
    assert (result.name, result.task, result.class_names) == ("homes", "classification", ("high", "low", "mid"))
    assert [result.class_names[label] for label in result.labels[:3]] == ["low", "mid", "high"]
    assert result.feature_names == ("age", "town", "member")
    assert element_names(result) == ("age", "town = Graz", "town = Wien", f"town = {MISSING}", "member")
    assert result.features is not None
    assert result.features.tolist() == [0, 1, 1, 1, 2]
    block = result.inputs[:, 1:4]
    assert (block.sum(1) == 1).all()  # a gap is a category of its own: no row lacks one
    assert block[4].tolist() == [0, 0, 1]
    train = result.split.train
    known = [age for age in FRAME["age"].gather(train).to_list() if age is not None]
    assert result.inputs[3, 0] == pytest.approx(np.mean(known))


def test_what_a_removed_feature_becomes(tmp_path: Path) -> None:
    """The mean of a number, and a category that exists: the most frequent one of the training rows."""
    result = load_file(written(tmp_path, ".csv", FRAME.drop("price")), label="class")
    assert result.baselines is not None
    assert result.baselines.tolist() == [0, 0, 1, 0, 0]
    rows, _ = result.part("train")
    numbers = rows[:, [0, 4]]
    assert numbers.mean(0).abs().max() < 1e-6
    assert set(rows[:, 1:4].unique().tolist()) == {0.0, 1.0}  # categories are not standardised
    assert column_baselines(result).tolist() == [0, 1, 0]  # type: ignore[union-attr]


def test_models_of_ones_own_get_the_columns_back(tmp_path: Path) -> None:
    result = load_file(written(tmp_path, ".csv", FRAME.drop("price")), label="class")
    values, scale = column_values(result)
    again = scale.undo(scale.apply(torch.from_numpy(values)))
    np.testing.assert_allclose(again.numpy(), values, rtol=1e-14, atol=1e-15)
    assert np.isnan(values[3, 0])
    assert np.isnan(values[4, 1])
    assert scale.mean[1] == 0
    assert scale.std[1] == 1
    train = values[result.split.train, 0]
    assert float(scale.mean[0]) == pytest.approx(np.nanmean(train))


def test_a_regression(tmp_path: Path) -> None:
    result = load_file(written(tmp_path, ".csv"), label="price")
    assert (result.task, result.class_names) == ("regression", ())
    assert result.labels.tolist() == FRAME["price"].to_list()
    assert result.feature_names == ("age", "town", "member", "class")


def test_a_plain_table_is_as_it_was(tmp_path: Path) -> None:
    numbers = FRAME.select(pl.col("price") * 2, "member", "class").with_columns(pl.col("member").cast(pl.Int8))
    result = load_file(written(tmp_path, ".csv", numbers), label="class")
    assert (result.features, result.baselines, result.columns) == (None, None, None)
    assert result.inputs.tolist() == numbers.drop("class").to_numpy().tolist()


def test_gaps_of_an_npz_file(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(COUNT, 3))
    inputs[5, 1] = np.nan
    np.savez(tmp_path / "own.npz", inputs=inputs, labels=np.arange(COUNT) % 3, price=np.arange(COUNT) / 7)
    result = load_file(tmp_path / "own.npz")
    assert np.isfinite(result.inputs).all()
    assert result.columns is not None
    assert np.isnan(result.columns.values[5, 1])
    assert result.class_names == ("class 0", "class 1", "class 2")
    assert load_file(tmp_path / "own.npz", label="price").task == "regression"


def test_the_fingerprint_sees_what_encoding_hides(tmp_path: Path) -> None:
    """A gap at the mean, and a category by another name, are other data."""
    first = load_file(written(tmp_path, ".csv", FRAME.drop("price")), label="class")
    renamed = FRAME.drop("price").with_columns(pl.col("town").str.replace("Graz", "Gmunden"))
    mean = float(first.inputs[3, 0])
    filled = FRAME.drop("price").with_columns(pl.col("age").fill_null(mean))
    others = [load_file(written(tmp_path, ".parquet", frame), label="class") for frame in (renamed, filled)]
    assert (others[0].inputs == first.inputs).all()
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 3


LABELS: dict[str, tuple[Any, str, list[Any]]] = {
    "words": (["no", "yes", "no", "yes"], "classification", ["no", "yes"]),
    "bytes": (np.array([b"a", b"b", b"a", b"b"]), "classification", ["a", "b"]),
    "truth": ([True, False, True, False], "classification", ["False", "True"]),
    "from 0 on": ([0, 1, 2, 0, 1, 2], "classification", ["class 0", "class 1", "class 2"]),
    "from 1 on": ([1, 2, 1, 2], "classification", ["1", "2"]),
    "whole floats": ([5.0, 7.0, 5.0, 7.0], "classification", ["5", "7"]),
    "amounts": ([0.5, 1.25, 3.0, 4.0], "regression", []),
    "many whole numbers": (list(range(30)), "regression", []),
    "a series with categories": (pd.Series(["a", "b", "a", "b"], dtype="category"), "classification", ["a", "b"]),
    "numbers as objects": (np.array([1.5, 2, 3, 4], dtype=object), "regression", []),
}


@pytest.mark.parametrize(("data", "task", "names"), LABELS.values(), ids=LABELS.keys())
def test_what_labels_are_taken_for(data: Any, task: str, names: list[str]) -> None:
    result = read_labels(data, len(data), "labels")
    assert (result.task, list(result.class_names)) == (task, names)
    assert result.values.dtype == (np.float64 if task == "regression" else np.int64)


def test_the_task_can_be_said() -> None:
    assert read_labels([1, 2, 1, 2], 4, "labels", "regression").values.tolist() == [1, 2, 1, 2]
    assert read_labels([0.5, 1.5, 0.5, 1.5], 4, "labels", "classification").class_names == ("0.5", "1.5")


UNUSABLE: dict[str, tuple[Any, Any, str]] = {
    "a gap": (["a", None, "b"], "auto", r"labels: expected a label in every row, missing in 1; leave these rows out"),
    "one class": (["a", "a", "a"], "auto", "labels: is a in every row.*nothing to predict"),
    "one value": ([1.5, 1.5, 1.5], "auto", "labels: is 1.5 in every row.*nothing to predict"),
    "names": ([f"n{row}" for row in range(9)], "auto", 'has 9 different labels in 9 rows.*task = "regression"'),
    "no end": ([1.5, np.inf, 3.5], "auto", "labels: expected finite numbers"),
    "words to regress": (["a", "b", "a", "b"], "regression", "got 'a'; say task = \"classification\""),
    "too few": ([[1], [2]], "auto", r"one label for each of 2 rows, got shape \(2, 1\)"),
}


@pytest.mark.parametrize(("data", "task", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_labels_that_cannot_be_used(data: Any, task: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_labels(data, len(data), "labels", task)


COLUMNS: dict[str, tuple[dict[str, Any], str]] = {
    "names": ({"x": [f"n{row}" for row in range(9)]}, "column 'x' holds 9 different texts in 9 rows.*leave the column"),
    "dates": ({"x": np.array(["2020-01-01"] * 9, dtype="datetime64[s]")}, "column 'x': expected numbers or text.*date"),
    "nothing": ({"x": [None] * 9}, "column 'x' has no value in any row; leave it out"),
    "both": ({"x": ["a", 1] * 4}, "column 'x': expected numbers or text throughout, got int such as 1"),
    "no end": ({"x": [1.0, np.inf]}, "column 'x': expected finite numbers, got infinity"),
}


@pytest.mark.parametrize(("data", "message"), COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_that_cannot_be_used(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"people: {message}"):
        columns_of(pd.DataFrame(data), "people")


def test_both_libraries_give_the_same_columns() -> None:
    """With gaps by any name: None, NaN, and those of pandas' own types."""
    content = {"n": [1, None, 3, 4], "w": ["a", None, "b", "a"], "t": [True, False, None, True]}
    kinds = {"n": "Int64", "w": "string", "t": "boolean"}
    frames = [pl.DataFrame(content), pd.DataFrame(content), pd.DataFrame(content).astype(kinds)]
    first, *others = (columns_of(frame, "x") for frame in frames)
    assert first.values[1, :2].tolist() == pytest.approx([np.nan, np.nan], nan_ok=True)
    for other in others:
        np.testing.assert_array_equal(first.values, other.values)
        assert first.categories == other.categories == (None, ("a", "b"), None)


FILES: dict[str, tuple[str, str | None, str]] = {
    "no label said": ("a,b\n1,2\n", None, 'say which column is to be predicted, label = "COLUMN"; there are a, b'),
    "a misspelt label": ("price,b\n1,2\n", "prize", "label: expected price or b, got 'prize'; did you mean 'price'?"),
    "a label alone": ("a\n1\n2\n", "a", "expected columns beside the label 'a'"),
    "an index": (",a\n1,2\n", "a", "looks like an index"),
    "no rows": ("a,b\n", "a", "got 0 rows"),
    "ragged": ("a,b\n1,2,3\n", "a", "cannot be read as .csv file"),
    "a gap": ("a,b\n1,x\n2,\n3,y\n", "b", "label 'b': expected a label in every row, missing in 1"),
}


@pytest.mark.parametrize(("text", "label", "message"), FILES.values(), ids=FILES.keys())
def test_files_that_cannot_be_used(text: str, label: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"own.csv: ") as result:
        load_file(path, label=label)
    assert message in str(result.value)
    assert "\n" not in str(result.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a file that ends in .csv, .parquet, .npz"):
        load_file(tmp_path / "own.xlsx", label="a")
    with pytest.raises(FileNotFoundError, match=r"own.csv: there is no such file"):
        load_file(tmp_path / "own.csv", label="a")
