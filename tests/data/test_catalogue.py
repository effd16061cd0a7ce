"""The catalogue of data sets: shipped ones and one's own by name, and names that nothing has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verax.data import catalogue
from verax.data.catalogue import load_named, names, source_of
from verax.datasets import Dataset, Source, load_breast_cancer, load_digits, register


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_SOURCES", dict(catalogue._SOURCES))


def load_mine(path: Path, seed: int = 0) -> Dataset:
    return replace(load_breast_cancer(seed), name=path.name)


def test_the_shipped_ones_are_listed_once() -> None:
    assert names()[:6] == ["heloc", "isic", "breast-cancer", "digits", "diabetes", "file"]
    kinds = ["tabular", "image", "tabular", "image", "tabular", None]
    assert [source_of(name).modality for name in names()[:6]] == kinds
    assert [name for name in names()[:6] if source_of(name).takes_path] == ["heloc", "isic", "file"]
    assert [name for name in names()[:6] if source_of(name).needs_path] == ["isic", "file"]


def test_a_misspelt_name_is_never_taken_for_a_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", inputs=np.random.default_rng(0).normal(size=(20, 2)), labels=np.arange(20) % 2)
    assert len(load_named("file", tmp_path / "d.npz")) == 20
    with pytest.raises(ValueError, match=r"data set: expected heloc, .* got 'helco'; did you mean 'heloc'\?"):
        load_named("helco", tmp_path / "d.npz")


def test_paths_that_are_missing_or_not_wanted() -> None:
    with pytest.raises(ValueError, match="path: isic needs one; pass --data PATH or write it into the spec: the"):
        load_named("isic")
    with pytest.raises(ValueError, match="path: digits takes none"):
        load_named("digits", Path("x"))


def test_one_of_ones_own() -> None:
    register(Source("mine", load_mine, "tabular", "a file of mine", needs_path=True))
    assert "mine" in names()
    assert load_named("mine", Path("some.csv"), seed=3).name == "some.csv"
    assert load_named("mine", Path("some.csv"), seed=3).split.seed == 3
    with pytest.raises(ValueError, match=r"path: mine needs one; .*: a file of mine"):
        load_named("mine")


def test_a_name_belongs_to_one_loader() -> None:
    register(Source("mine", load_digits))
    register(Source("mine", load_digits, "image"))  # as when a cell of a notebook is run again
    assert source_of("mine").modality == "image"
    message = r"data set: 'mine' is loaded by verax\.data\.catalogue\.load_digits already, .*load_mine needs"
    with pytest.raises(ValueError, match=message):
        register(Source("mine", load_mine))
