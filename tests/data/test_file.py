"""Data sets of one's own: what is read from an ``.npz`` file, and what is refused."""

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from verax.data.base import make_split
from verax.data.file import load_file

COUNT = 50
TABLE = np.random.default_rng(0).random((COUNT, 3))
IMAGES = np.random.default_rng(1).integers(0, 256, (COUNT, 2, 4, 5)).astype(np.uint8)
LABELS = np.arange(COUNT) % 2


def saved(folder: Path, **arrays: Any) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def test_a_table(tmp_path: Path) -> None:
    dataset = load_file(saved(tmp_path, inputs=TABLE, labels=LABELS), seed=3)
    assert dataset.name == "own"
    assert (dataset.inputs == TABLE).all()
    assert dataset.labels.tolist() == LABELS.tolist()
    assert dataset.ids[:2] == ("row 0", "row 1")
    assert dataset.feature_names == ("feature 0", "feature 1", "feature 2")
    assert dataset.class_names == ("class 0", "class 1")
    assert dataset.split.train.tolist() == make_split(COUNT, 3).train.tolist()
    train, labels = dataset.part("train")
    assert train.mean(0).abs().max() < 1e-6
    assert (train.std(0, correction=0) - 1).abs().max() < 1e-5
    assert labels.equal(torch.from_numpy(LABELS[dataset.split.train]))


def test_images(tmp_path: Path) -> None:
    dataset = load_file(saved(tmp_path, inputs=IMAGES, labels=LABELS))
    assert dataset.inputs.dtype == np.uint8
    assert dataset.feature_names == ()
    assert dataset.standardisation.mean.shape == (2, 1, 1)
    train, _ = dataset.part("train")
    assert train.mean((0, 2, 3)).abs().max() < 1e-5
    assert (train.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-4
    raw = torch.from_numpy(IMAGES[dataset.split.train]) / 255
    assert (dataset.standardisation.undo(train) - raw).abs().max() < 1e-5


def test_names_are_taken(tmp_path: Path) -> None:
    names = {"feature_names": ["a", "b", "c"], "class_names": ["no", "yes"], "ids": [f"p{row}" for row in range(COUNT)]}
    dataset = load_file(
        saved(tmp_path, inputs=TABLE, labels=LABELS, **{name: np.array(entries) for name, entries in names.items()})
    )
    assert dataset.feature_names == ("a", "b", "c")
    assert dataset.class_names == ("no", "yes")
    assert dataset.ids[:2] == ("p0", "p1")
    numbers = load_file(saved(tmp_path, inputs=TABLE, labels=LABELS, ids=np.arange(COUNT) + 100))
    assert numbers.ids[:2] == ("100", "101")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int64, np.int8, np.uint16], ids=lambda kind: kind.__name__)
def test_numbers_of_any_kind(kind: type, tmp_path: Path) -> None:
    table = (TABLE * 100).astype(kind)
    dataset = load_file(saved(tmp_path, inputs=table, labels=LABELS.astype(np.float32)))
    assert dataset.inputs.dtype == np.float64
    assert (dataset.inputs == table).all()
    assert dataset.labels.dtype == np.int64


def test_a_constant_column_is_only_centred(tmp_path: Path) -> None:
    table = TABLE.copy()
    table[:, 1] = 7.0
    dataset = load_file(saved(tmp_path, inputs=table, labels=LABELS))
    assert dataset.part("train")[0][:, 1].abs().max() == 0


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    def print_of(**changed: Any) -> str:
        return load_file(saved(tmp_path, **{"inputs": TABLE, "labels": LABELS, **changed})).fingerprint

    other = TABLE.copy()
    other[3, 1] += 1e-12
    prints = [
        print_of(),
        print_of(inputs=other),
        print_of(labels=1 - LABELS),
        print_of(ids=np.arange(COUNT)),
    ]
    assert len(set(prints)) == 4
    assert print_of() == prints[0]
    assert print_of(feature_names=np.array(["a", "b", "c"])) == prints[0]  # names are not data


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no labels": ({"inputs": TABLE}, ["expected an array 'labels'", "got inputs"]),
    "no inputs": ({"labels": LABELS, "data": TABLE}, ["expected an array 'inputs'", "got data, labels"]),
    "nothing": ({}, ["expected an array 'inputs'", "got none"]),
    "one axis": ({"inputs": TABLE[:, 0], "labels": LABELS}, ["inputs", "(N, features)", "float64 (50,)"]),
    "three axes": ({"inputs": TABLE[:, None], "labels": LABELS}, ["inputs", "float64 (50, 1, 3)"]),
    "no axis": ({"inputs": np.array(1.0), "labels": LABELS}, ["inputs", "float64 ()"]),
    "images as numbers": (
        {"inputs": IMAGES / 255, "labels": LABELS},
        ["inputs", "uint8 pixels", "float64 (50, 2, 4, 5)"],
    ),
    "an empty column": ({"inputs": TABLE * [1, np.nan, 1], "labels": LABELS}, ["inputs", "a number in every column"]),
    "without end": ({"inputs": np.where(TABLE > 0.9, np.inf, TABLE), "labels": LABELS}, ["inputs", "finite numbers"]),
    "words": ({"inputs": TABLE.astype(str), "labels": LABELS}, ["inputs", "real numbers"]),
    "truths": ({"inputs": TABLE > 0.5, "labels": LABELS}, ["inputs", "real numbers"]),
    "labels that are none": (
        {"inputs": TABLE, "labels": np.where(LABELS, np.nan, 0)},
        ["labels: expected a label in every row, missing in 25; leave these rows out"],
    ),
    "too few labels": ({"inputs": TABLE, "labels": LABELS[1:]}, ["labels: expected", "50 rows", "(49,)"]),
    "labels in a column": ({"inputs": TABLE, "labels": LABELS[:, None]}, ["labels: expected", "(50, 1)"]),
    "pickled inputs": ({"inputs": np.array([None] * COUNT), "labels": LABELS}, ["plain arrays", "allow_pickle=False"]),
    "pickled ids": ({"inputs": TABLE, "labels": LABELS, "ids": np.array([None] * COUNT)}, ["allow_pickle=False"]),
}


@pytest.mark.parametrize(("arrays", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_the_file(arrays: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    path = saved(tmp_path, **arrays)
    with pytest.raises(ValueError, match=r"own.npz: ") as dataset:
        load_file(path)
    assert str(dataset.value).startswith(f"{path}: ")
    for word in words:
        assert word in str(dataset.value)


NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "ids twice": ({"ids": np.zeros(COUNT)}, "ids: expected 50 different names, got 1"),
    "too few ids": ({"ids": np.arange(3)}, "ids: expected 50 different names, got 3"),
    "too few features": ({"feature_names": np.array(["a"])}, "feature_names: expected 3 different names, got 1"),
    "a class twice": ({"class_names": np.array(["a", "a"])}, "class_names: expected 2 different names, got 1"),
    "three classes": ({"class_names": np.array(["a", "b", "c"])}, "class_names: expected 2 different names, got 3"),
}


@pytest.mark.parametrize(("arrays", "message"), NAMES.values(), ids=NAMES.keys())
def test_wrong_names_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, inputs=TABLE, labels=LABELS, **arrays)
    with pytest.raises(ValueError, match=message):
        load_file(path)


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(bytes(content))


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES: dict[str, Callable[[Path], Any]] = {
    "text": lambda path: path.write_text("inputs, labels"),
    "a pickle": lambda path: path.write_bytes(pickle.dumps([1, 2])),
    "a changed byte": lambda path: flipped(path, 300),
    "a directory": as_directory,
    "no file": Path.unlink,
}


@pytest.mark.parametrize("spoil", FILES.values(), ids=FILES.keys())
def test_other_files_are_refused(spoil: Callable[[Path], Any], tmp_path: Path) -> None:
    path = saved(tmp_path, inputs=TABLE, labels=LABELS)
    spoil(path)
    with pytest.raises(ValueError, match=r"cannot be read as an .npz file of plain arrays") as dataset:
        load_file(path)
    assert str(dataset.value).startswith(f"{path}: ")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """An array of objects could run code when it is read."""
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (ran,)

    path = saved(tmp_path, inputs=TABLE, labels=LABELS, ids=np.array([Bomb()] * COUNT))
    with pytest.raises(ValueError, match="plain arrays"):
        load_file(path)
    assert not ran.exists()


def rewritten(**arrays: Any) -> Callable[[Path], Any]:
    return lambda path: np.savez(path, **{"inputs": TABLE, "labels": LABELS, **arrays})


def as_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, TABLE)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:500])


SPOILED: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "one array": as_array,
    "truncated": cut,
    "complex numbers": rewritten(inputs=TABLE + 1j),
    "no rows": rewritten(inputs=TABLE[:0], labels=LABELS[:0]),
    "no features": rewritten(inputs=TABLE[:, :0]),
    "one name for all": rewritten(ids=np.array("a")),
    "a table of names": rewritten(ids=np.arange(2 * COUNT).reshape(COUNT, 2)),
    "a name twice": rewritten(ids=np.zeros(COUNT)),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_spoiled_files_are_refused_by_name(spoil: Callable[[Path], Any], tmp_path: Path) -> None:
    path = saved(tmp_path, inputs=TABLE, labels=LABELS)
    spoil(path)
    with pytest.raises(ValueError, match=r"own.npz: ") as dataset:
        load_file(path)
    assert str(dataset.value).startswith(f"{path}: ")
    dataset = None  # type: ignore[assignment]
    gc.collect()  # a file that was left open says so now
