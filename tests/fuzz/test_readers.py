"""Every reader of files, given any bytes and any structure: a result, or one clear line that names the file."""

import contextlib
import csv
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import tomli_w
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verax.data.array_files import SUFFIXES, read_arrays, read_words
from verax.data.file import load_file
from verax.models import load, save
from verax.paper.heloc import load_heloc
from verax.paper.images import FAULTS, read_image
from verax.paper.isic_labels import read_labels
from verax.paper.models import Linear
from verax.study.spec import load_spec

CLEAR = (ValueError, TypeError, OSError)
QUICK = settings(max_examples=30)
TABLE = {"a": [0.5, 1.5, 2.5], "b": [1, 2, 3]}


def told(read: Callable[[Path], Any], path: Path) -> None:
    """The rule: what goes wrong is of a kind that the command line tells in a line, and it names the file."""
    said = ""
    try:
        read(path)
    except CLEAR as error:
        said = str(error)
    assert not said or path.name in said or path.parent.name in said


def changed(content: bytes) -> st.SearchStrategy[bytes]:
    """The content cut short, with some bytes replaced, or with a piece of something else in it."""

    def change(start: int, length: int, other: bytes) -> bytes:
        return content[:start] + other + content[start + length :]

    return st.builds(change, st.integers(0, len(content)), st.integers(0, 64), st.binary(max_size=8))


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(6.0).reshape(3, 2))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, inputs=np.arange(6.0).reshape(3, 2), labels=np.array([0, 1, 1]))
    return file.getvalue()


def image(kind: str) -> bytes:
    file = io.BytesIO()
    pytest.importorskip("PIL.Image").new("RGB", (9, 7), "red").save(file, format=kind)
    return file.getvalue()


GOOD = {
    ".npy": npy(),
    ".npz": npz(),
    ".csv": b"a,b\n1,2\n3,4\n",
    ".safetensors": safetensors.torch.save({"x": torch.ones(3, 2)}),
}


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".parquet"])
def test_arrays_from_any_bytes(suffix: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / f"x{suffix}"

    @QUICK
    @given(st.one_of(st.binary(max_size=200), changed(GOOD[suffix])))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        told(read_arrays, path)
        told(read_words, path)
        if suffix == ".npz":
            told(load_file, path)

    check()


def test_parquet_from_any_bytes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cut anywhere; with changed bytes polars may take a file for a table of absurd size and end the process."""
    path = tmp_path_factory.mktemp("fuzz") / "x.parquet"
    file = io.BytesIO()
    pl.DataFrame(TABLE).write_parquet(file)
    good = file.getvalue()

    @QUICK
    @given(st.one_of(st.binary(max_size=200), st.integers(0, len(good)).map(lambda end: good[:end] + b"PAR1")))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        told(read_arrays, path)
        told(read_words, path)

    check()


CELLS = (
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.dates(), st.datetimes(), st.timedeltas(), st.decimals(-(10**6), 10**6, places=3),
    st.lists(st.floats(), max_size=2), st.fixed_dictionaries({"x": st.floats()}),
)  # fmt: skip
COLUMNS = st.sampled_from(CELLS).flatmap(lambda kind: st.lists(st.one_of(kind, st.none()), min_size=2, max_size=2))


@QUICK
@given(st.dictionaries(st.text(max_size=4), COLUMNS, max_size=4))
def test_parquet_of_any_columns(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.parquet"
    pl.DataFrame(columns).write_parquet(path)
    told(read_arrays, path)


@QUICK
@given(st.lists(st.lists(st.text(max_size=4), max_size=4), max_size=4), st.sampled_from(["\n", "\r", "\r\n", "\n\r"]))
@example([["a", "b"], ["1", "2"]], "\r")
def test_csv_of_any_cells(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], end: str) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    with (folder / "x.csv").open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        csv.writer(file, lineterminator=end).writerows(rows)
    told(read_arrays, folder / "x.csv")
    told(read_words, folder / "x.csv")
    told(load_heloc, folder / "x.csv")
    told(lambda path: read_labels(path.parent), folder / "x.csv")


DTYPES = ("<f8", ">i2", "|b1", "|O", "<U0", "|V0", "<M8[s]", "<c16", "f", "")
HEADERS = st.fixed_dictionaries(
    {
        "descr": st.one_of(st.sampled_from(DTYPES), st.text(max_size=3)),
        "fortran_order": st.one_of(st.booleans(), st.none()),
        "shape": st.one_of(st.lists(st.integers(-2, 2**62), max_size=4).map(tuple), st.text(max_size=2)),
    }
)


@QUICK
@given(HEADERS, st.binary(max_size=64))
def test_npy_of_any_header(tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any], rest: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    text = repr(header).encode("utf-8", "surrogatepass") + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + rest
    (folder / "x.npy").write_bytes(content)
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        archive.writestr("inputs.npy", content)
        archive.writestr("labels.npy", content)
    for name in ("x.npy", "x.npz"):
        told(read_arrays, folder / name)
    told(load_file, folder / "x.npz")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "EPS"])
def test_images_from_any_bytes(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """``decode_images`` names the file; the errors that it expects are those of a damaged image."""
    path = tmp_path_factory.mktemp("fuzz") / "x.jpg"

    @QUICK
    @given(st.one_of(st.binary(max_size=100), changed(image(kind))))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(*FAULTS):
            assert read_image(path, 4).shape == (3, 4, 4)

    check()


WORDS = st.one_of(st.text(max_size=6), st.sampled_from(["demo", "mlp", "../x"]))
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 5), st.floats(), WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["name", "seed", "datasets", "models", "methods", "metrics", "grid", "cache_gib", "precision"])


@QUICK
@given(st.one_of(st.binary(max_size=120), st.dictionaries(KEYS, VALUES, max_size=5)))
@example(b"a = " + b"[" * 20_000)
def test_specs_of_any_content(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.toml"
    path.write_bytes(content if isinstance(content, bytes) else tomli_w.dumps(content).encode())
    told(lambda one: load_spec(str(one)), path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    save(path, Linear(4).build(seed=0), Linear(4), dataset=None, hyperparameters={}, metrics={}, seed=0)
    return path


def test_models_of_any_content(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    weights, sidecar = saved.read_bytes(), saved.with_suffix(".json").read_bytes()
    path = tmp_path_factory.mktemp("fuzz") / "m.safetensors"
    content = json.loads(sidecar)
    other = st.dictionaries(st.sampled_from(sorted(content)), VALUES).map(
        lambda one: json.dumps(content | one).encode()
    )

    @QUICK
    @given(st.one_of(st.just(weights), changed(weights)), st.one_of(changed(sidecar), other, st.binary(max_size=50)))
    @example(weights, b"[" * 100_000)
    def check(one: bytes, two: bytes) -> None:
        path.write_bytes(one)
        path.with_suffix(".json").write_bytes(two)
        told(load, path)

    check()
