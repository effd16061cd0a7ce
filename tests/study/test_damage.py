"""Damage on disk: it is found, named, set aside and computed anew, and the table is the same as before."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from study.studies import flip, images, ran, same, scores, spec, stamps, whole
from verax.core.files import Sealed
from verax.study.examples import read_example
from verax.study.results import read_results
from verax.study.store import Store, StoreError, parquet, read_facts
from verax.study.study import open_study
from verax.study.verify import Verdict, read_verdict, write_verdict


def first(folder: Path, kind: str = "scores") -> Path:
    return sorted((folder / kind).iterdir())[0]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("something")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "empty": empty,
    "a directory": replace_by_directory,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "zeros": lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
    **{f"bit {place}": lambda path, place=place: flip(path, place, abs(place) % 8) for place in (0, 4, 777, -1, -9)},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_unit_is_computed_anew(damage: Callable[[Path], None], copied: Path, finished: Path) -> None:
    path = first(copied)
    whole_ones = {name: stamp for name, stamp in stamps(copied).items() if name != path.name}
    damage(path)
    found, lines = ran(whole(), copied)
    assert found.computed == 1
    (line,) = lines
    assert line.startswith(f"scores/{path.name}: ")
    assert line.endswith(f"; moved to set-aside/{path.name}")
    assert (copied / "set-aside" / path.name).exists()
    assert whole_ones.items() <= stamps(copied).items()
    assert same(scores(copied), scores(finished))
    assert ran(whole(), copied)[0].computed == 0


def test_every_flipped_bit_is_found(finished: Path, tmp_path: Path) -> None:
    content = first(finished).read_bytes()
    copy = tmp_path / first(finished).name
    for place in range(0, len(content), 97):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        copy.write_bytes(changed)
        assert Sealed.read(copy) is None
    copy.write_bytes(content)
    assert Sealed.read(copy) == content


def test_a_file_that_is_not_of_the_study_is_moved_away(copied: Path, finished: Path) -> None:
    (copied / "scores" / "notes.txt").write_text("mine")
    (copied / "scores" / "download.part").write_text("mine as well")
    (copied / "scores" / "table.parquet").write_bytes(first(copied).read_bytes())
    (copied / "scores" / "folder").mkdir()
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    assert len(lines) == 4
    assert all("not a file of a study; moved to set-aside/" in line for line in lines)
    assert (copied / "set-aside" / "notes.txt").read_text() == "mine"
    assert (copied / "set-aside" / "download.part").read_text() == "mine as well"
    assert len(list((copied / "scores").iterdir())) == 8
    assert same(scores(copied), scores(finished))


def test_a_unit_of_another_study_is_moved_away(copied: Path, finished: Path, tmp_path: Path) -> None:
    """Its name says so, and what it says is hashed."""
    other = tmp_path / "other"
    shutil.copytree(finished / "models", other / "models")
    ran(spec(metrics={"samples": 17}), other)
    for path in (other / "scores").iterdir():
        shutil.copy(path, copied / "scores")
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    assert len(lines) == 3
    assert all("not part of this study" in line for line in lines)
    assert same(scores(copied), scores(finished))


def test_the_same_unit_twice_is_once_too_often(copied: Path, finished: Path) -> None:
    """As after two runs on different machines: the same unit with other seconds."""
    path = first(copied)
    facts = read_facts(path)
    table = pl.read_parquet(path).with_columns(pl.col("guided_seconds") + 1)
    stem = Sealed.stem(path)
    assert stem is not None
    again = Store(copied).put("scores", stem, parquet(table, facts), ".parquet")
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    (line,) = lines
    kept, moved = sorted((path.name, again.name))
    assert line == f"scores/{moved}: holds the same unit as {kept}; moved to set-aside/{moved}"
    assert len(list((copied / "scores").iterdir())) == 8


def test_what_is_set_aside_twice_keeps_both(copied: Path) -> None:
    name = first(copied).name
    for _ in range(3):
        truncate(copied / "scores" / name)
        ran(whole(), copied)
        (again,) = (copied / "scores").glob(f"{Sealed.stem(Path(name))}.*")
        again.rename(copied / "scores" / name)  # its seconds differ, and so does its name
    assert len(list((copied / "set-aside").iterdir())) >= 3


@pytest.mark.parametrize("kind", ["uncertainty", "examples"])
@pytest.mark.parametrize("damage", [truncate, empty, replace_by_directory], ids=lambda one: one.__name__)
def test_other_results_are_made_anew(
    kind: str, damage: Callable[[Path], None], copied: Path, finished: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = first(copied, kind)
    damage(path)
    (copied / kind / "strange.txt").write_text("x")
    assert ran(whole(), copied)[0].computed == 0
    said = capfd.readouterr().err
    assert f"{kind}/{path.name}: " in said
    assert f"{kind}/strange.txt: not a file of a study" in said
    assert sorted(one.name for one in (copied / kind).iterdir()) == sorted(
        one.name for one in (finished / kind).iterdir()
    )
    assert first(copied, kind).read_bytes() == first(finished, kind).read_bytes()


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
@pytest.mark.parametrize("damage", [truncate, empty, lambda path: flip(path, 200), Path.unlink], ids=range(4))
def test_a_damaged_model_is_trained_anew(
    suffix: str, damage: Callable[[Path], None], copied: Path, finished: Path
) -> None:
    """Training gives the same weights, so no unit has to be computed."""
    path = copied / "models" / f"Cancer-Linear{suffix}"
    damage(path)
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    if damage is Path.unlink and suffix == ".safetensors":
        assert lines[0] == "Cancer-Linear: training"
    else:
        assert lines[0].startswith("models/Cancer-Linear.safetensors: ")
        assert path.name in lines[0]
        assert lines[0].endswith("; moved to set-aside/Cancer-Linear.safetensors")
    assert (copied / "models" / "Cancer-Linear.safetensors").read_bytes() == (
        finished / "models" / "Cancer-Linear.safetensors"
    ).read_bytes()
    assert same(scores(copied), scores(finished))


def damaged_toml(path: Path) -> dict[str, bytes]:
    text = path.read_text()
    return {
        "truncated": text[: len(text) // 2].encode(),
        "empty": b"",
        "no text": b"\xff\xfe",
        "one value": text.replace("samples = 16", "samples = 17", 1).encode(),
        "another format": text.replace("format = 2", "format = 3", 1).encode(),
        "no seal": "\n".join(line for line in text.splitlines() if not line.startswith("seal")).encode(),
    }


@pytest.mark.parametrize("which", ["truncated", "empty", "no text", "one value", "another format", "no seal"])
def test_a_damaged_spec_is_written_anew(which: str, copied: Path, finished: Path) -> None:
    content = damaged_toml(finished / "study.toml")[which]
    assert content != (finished / "study.toml").read_bytes()
    (copied / "study.toml").write_bytes(content)
    with pytest.raises(StoreError, match=r"study.toml: (was changed by hand or )?damaged") as refused:
        open_study(copied)
    assert "Run the study again" in str(refused.value)
    found, lines = ran(whole(), copied)
    assert found.computed == 0
    assert lines[-1] == "study.toml: damaged or changed by hand; moved to set-aside/study.toml"
    assert (copied / "study.toml").read_bytes() == (finished / "study.toml").read_bytes()


def test_open_names_what_is_not_the_frozen_model(copied: Path) -> None:
    flip(copied / "models" / "Cancer-MLP.safetensors", -5)
    with pytest.raises(StoreError, match=r"Cancer-MLP.*Run the study again to have it made anew"):
        open_study(copied)
    for suffix in (".safetensors", ".json"):
        shutil.copy(copied / "models" / f"Cancer-Linear{suffix}", copied / "models" / f"Cancer-MLP{suffix}")
    with pytest.raises(StoreError, match="Cancer-MLP: the models are not those of the study; weights differs"):
        open_study(copied)


def test_a_damaged_cache_does_no_harm(copied: Path, finished: Path) -> None:
    shutil.rmtree(copied / "scores")
    for number, path in enumerate(sorted((copied / "attributions").iterdir())):
        if number % 2:
            flip(path, -1)
        elif number % 4:
            truncate(path)
        else:
            empty(path)
    found, _ = ran(whole(), copied)
    assert found.computed == 8
    assert same(scores(copied), scores(finished))


def test_a_cache_with_another_shape_does_no_harm(copied: Path, finished: Path) -> None:
    """A file under a wrong key is whole, but not what is asked for."""
    shutil.rmtree(copied / "scores")
    paths = sorted((copied / "attributions").iterdir())
    sizes = {path: path.stat().st_size for path in paths}
    small = min(paths, key=sizes.__getitem__)
    seal = small.name.split(".")[1]
    content = small.read_bytes()
    for path in paths:
        if sizes[path] != sizes[small]:
            path.unlink()
            path.with_name(f"{path.name.split('.')[0]}.{seal}.safetensors").write_bytes(content)
    ran(whole(), copied)
    assert same(scores(copied), scores(finished))


def test_readers_leave_damaged_files_out(copied: Path, finished: Path) -> None:
    study = open_study(copied)
    for kind in ("scores", "uncertainty"):
        truncate(first(copied, kind))
    found = read_results(study)
    assert [unit.stem for unit in found.missing] == [study.units[0].stem]
    assert found.tables.scores.height == scores(finished).height - 4 * 15
    assert found.tables.costs.height == 7
    assert set(found.tables.uncertainty["model"].to_list()) == {"Cancer-MLP", "Digits-Linear"}


VERDICT = Verdict(8, 1, 20, True, ())


def test_a_damaged_verdict_is_named_and_ignored(copied: Path) -> None:
    store, path = Store(copied), copied / "verified.json"
    assert read_verdict(store) is None
    write_verdict(store, VERDICT)
    whole_one = path.read_bytes()
    for content in (b"{", b"[]", b"", b"{}", b"null", b"\xff", json.dumps({"passed": True}).encode()):
        path.write_bytes(content)
        with pytest.warns(UserWarning, match=r"verified.json: damaged, .* ignored; run verax verify again"):
            assert read_verdict(store) is None
    for place in range(len(whole_one)):
        path.write_bytes(whole_one)
        flip(path, place, place % 7)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert read_verdict(store) is None
        assert said, place
    path.write_bytes(b"{}")
    with pytest.warns(UserWarning, match="verified.json: damaged"):
        assert "verified" not in read_results(open_study(copied)).tables.settings


def test_a_verdict_is_about_the_scores_that_were_verified(copied: Path) -> None:
    store = Store(copied)
    write_verdict(store, VERDICT)
    assert read_verdict(store) is not None
    verified = read_results(open_study(copied)).tables.settings["verified"]
    assert verified == {"compared": 20, "different": [], "bitwise": True}
    path = first(copied)
    path.rename(copied / "away")
    assert read_verdict(store) is None  # without a word: it is whole, but about another state
    (copied / "away").rename(path)
    assert read_verdict(store) is not None
    (copied / "scores" / path.name.replace("000000", "000099")).write_bytes(b"a study that grew")
    assert read_verdict(store) is None
    assert "verified" not in read_results(open_study(copied)).tables.settings


def test_examples_can_be_read_after_a_repair(copied: Path, finished: Path) -> None:
    truncate(first(copied, "examples"))
    ran(whole(), copied)
    one, other = (read_example(first(folder, "examples")) for folder in (copied, finished))
    assert one.configurations == other.configurations
    assert (one.attributions == other.attributions).all()


def test_a_directory_without_units_is_not_damaged(trained: Path) -> None:
    contents = Store(trained).contents("scores", ["x"])
    assert (contents.files, contents.strange) == ({}, [])
    ran(spec(images()), trained)
    assert not (trained / "set-aside").exists()
