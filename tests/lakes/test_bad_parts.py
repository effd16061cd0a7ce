"""Bad parts stop the work with their name, as a rule before any work, and everything finished stays."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lakes.lakes import FEATURES, ROWS, SmallLake
from verax.lakes import Settings, score_lake
from verax.lakes.columns import model_columns
from verax.lakes.keys import find_holders, hashes
from verax.lakes.parts import open_lake

ZSTD = bytes.fromhex("28b52ffd")  # how a compressed page begins
Change = Callable[[pl.DataFrame], pl.DataFrame]


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


def another_key(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(id=pl.when(pl.int_range(pl.len()) == 3).then(-7).otherwise("id"))


def key_twice(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(id=pl.when(pl.int_range(pl.len()) == 3).then(pl.col("id").first()).otherwise("id"))


BAD: list[tuple[str, int, Change, str]] = [
    ("lime", 2, lambda table: table[1:], r"rows/part-\d\.parquet: id {lost} is in no part of .*lime/\*\.parquet\.$"),
    ("shap", 1, lambda table: table[3:], r"rows/part-1\.parquet: id .* is in no part of .*, nor are at least 2 more"),
    ("rows", 2, lambda table: table[1:], r"shap/part-2\.parquet: id {lost} is in no part of .*rows"),
    ("lime", 4, key_twice, r"lime/part-4\.parquet: expected each key once, found id \d+ twice"),
    ("rows", 0, another_key, r"rows/part-0\.parquet: id -7 is in no part of"),
    ("shap", 3, lambda table: table.drop("age"), r"shap/part-3\.parquet: expected the columns of .*; missing age\."),
    ("rows", 1, lambda table: table.with_columns(extra=1.0), r"rows/part-1\.parquet: .*; unknown extra\."),
    ("rows", 1, lambda table: table.cast({"age": pl.String}), r"rows/part-1\.parquet: .*; of another type age\."),
    ("rows", 3, lambda table: table.with_columns(id=pl.lit(None, pl.Int64)), r"rows/part-3\.parquet: expected a key"),
]


@pytest.mark.parametrize(("name", "number", "change", "message"), BAD)
def test_what_is_wrong_with_keys_and_columns_is_told_before_any_work(
    lake: SmallLake, name: str, number: int, change: Change, message: str
) -> None:
    lost = pl.read_parquet(lake.path(name, number))["id"][0]
    lake.change(name, number, change)
    with pytest.raises(ValueError, match=message.format(lost=lost)):
        lake.score()
    assert not (lake.folder / "scores").exists()


def test_a_key_in_two_parts_names_both(lake: SmallLake) -> None:
    double = pl.read_parquet(lake.path("rows", 0))[:1]
    lake.change("rows", 2, lambda table: pl.concat([table, double]))
    key = double["id"][0]
    with pytest.raises(ValueError, match=rf"rows/part-2\.parquet: .*found id {key} that .*rows/part-0\.parquet has as"):
        lake.score()


def test_keys_of_another_kind_and_columns_that_are_no_attributions(lake: SmallLake) -> None:
    for path in sorted((lake.folder / "lime").iterdir()):
        pl.read_parquet(path).cast({"id": pl.String}).write_parquet(path)
    with pytest.raises(ValueError, match=r"lime/part-0\.parquet: expected id to hold whole numbers, .* found text"):
        lake.score()
    with pytest.raises(ValueError, match=r"inputs: .*part-0\.parquet: there is no column number, which key names"):
        lake.score(key="number")
    for path in sorted((lake.folder / "lime").iterdir()):
        pl.read_parquet(path).rename({"age": "Age"}).write_parquet(path)
    with pytest.raises(ValueError, match=r"lime/part-0\.parquet: expected id and .*missing age and unknown Age"):
        lake.score()


def test_small_whole_numbers_are_the_same_keys_as_large_ones(lake: SmallLake) -> None:
    for path in sorted((lake.folder / "lime").iterdir()):
        pl.read_parquet(path).cast({"id": pl.Int16}).write_parquet(path)
    assert lake.score(settings=Settings(("pc",))).computed == 4


@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_damaged_part_is_named_and_what_was_finished_stays(lake: SmallLake, place: str) -> None:
    """A damaged last page is seen before any work, damaged values when they are read."""
    path = lake.path("rows", 3)
    content = path.read_bytes()
    at = len(content) - 12 if place == "end" else content.rindex(ZSTD)
    path.write_bytes(content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(ValueError, match=r"rows/part-3\.parquet: cannot be read as \.parquet file"):
        lake.score(settings=Settings(("pc",)))
    finished = lake.parts() if place == "middle" else {}
    path.write_bytes(content)
    assert lake.score(settings=Settings(("pc",))).computed == 4 - len(finished)
    assert finished.items() <= lake.parts().items()


def test_values_that_cannot_be_scored_name_part_and_key(lake: SmallLake) -> None:
    key = pl.read_parquet(lake.path("rows", 2))["id"][5]
    hole = pl.when(pl.col("id") == key).then(None).otherwise("income").alias("income")
    lake.change("rows", 2, lambda table: table.with_columns(hole))
    with pytest.raises(ValueError, match=rf"rows/part-2\.parquet: .*missing values in income, .* at id {key}"):
        lake.score()
    assert len(lake.parts()) in (0, 1, 2, 3)
    lake.change("rows", 2, lambda table: table.with_columns(pl.col("income").fill_null(0.0)))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize(("name", "number"), [("shap", 2), ("lime", 5)])
def test_an_attribution_that_is_no_number_names_itself_its_part_and_the_key(
    lake: SmallLake, name: str, number: int, value: float | None
) -> None:
    """Also where its parts are cut and sorted otherwise than those of the inputs."""
    key = pl.read_parquet(lake.path(name, number))["id"][3]
    hole = pl.when(pl.col("id") == key).then(value).otherwise("income").alias("income")
    lake.change(name, number, lambda table: table.with_columns(hole))
    message = (
        rf"{name}/part-{number}\.parquet: attribution {name}: expected a finite number in every row, .* in income, "
        rf"for instance at id {key}\.$"
    )
    with pytest.raises(ValueError, match=message):
        lake.score()


def test_a_part_that_vanishes_after_the_check(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a bucket is taken away while the work goes on."""
    real: Any = find_holders

    def then_lost(*arguments: Any) -> Any:
        found = real(*arguments)
        shutil.rmtree(lake.folder / "lime")
        return found

    monkeypatch.setattr("verax.lakes.run.find_holders", then_lost)
    with pytest.raises(FileNotFoundError, match=r"lime/part-\d\.parquet: there is no such file any more"):
        lake.score()


@pytest.mark.parametrize("address", ["nowhere", "nowhere/*.parquet", "memory://nowhere/rows"])
def test_a_lake_that_is_not_there(lake: SmallLake, address: str) -> None:
    where = address if "://" in address else str(lake.folder / address)
    with pytest.raises(FileNotFoundError, match=r"nowhere.*no such f|nowhere.*no \.parquet file"):
        score_lake(lake.model, where, {"shap": str(lake.folder / "shap")}, lake.folder / "scores")


def test_a_store_that_nobody_knows(lake: SmallLake) -> None:
    with pytest.raises((ValueError, OSError), match="martian"):
        score_lake(lake.model, "martian://rows", {"shap": "martian://shap"}, lake.folder / "scores")


def test_settings_that_do_not_fit_are_told_before_any_work(lake: SmallLake) -> None:
    for settings, message in [
        (Settings(("pc",), target=7), "target"),
        (Settings(("nothing",)), "metrics: .*nothing"),
    ]:
        with pytest.raises(ValueError, match=message):
            lake.score(settings=settings)
    for path in [path for name in ("rows", "shap", "lime") for path in (lake.folder / name).iterdir()]:
        pl.read_parquet(path).rename({"id": "target"}).write_parquet(path)
    with pytest.raises(ValueError, match="key: target is a column of the scores"):
        lake.score(key="target")
    assert not (lake.folder / "scores").exists()


def test_the_join_is_right_with_many_buckets(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a brute-force search; with few keys in each bucket."""
    monkeypatch.setattr("verax.lakes.keys._BUCKET_ROWS", 7)
    rows, lime = (open_lake("inputs", str(lake.folder / name)) for name in ("rows", "lime"))
    found = find_holders(rows, {"lime": lime}, "id")["lime"]
    keys = {part.name: set(pl.read_parquet(part.address)["id"]) for part in lime.parts}
    for part, holders in zip(rows.parts, found, strict=True):
        own = set(pl.read_parquet(part.address)["id"])
        assert {one.name for one in holders} == {name for name, theirs in keys.items() if own & theirs}


def test_whole_numbers_never_share_a_hash() -> None:
    keys = pl.Series([*range(-(2**15), 2**15), *(2**at for at in range(16, 63)), *(-(2**at) for at in range(16, 64))])
    assert len(np.unique(hashes(keys))) == len(keys)


def test_columns_that_are_no_features_are_left_out(lake: SmallLake) -> None:
    """Those that the model does not name, or, where it names none, those that no attribution is of."""
    for path in sorted((lake.folder / "rows").iterdir()):
        pl.read_parquet(path).with_columns(label=pl.lit("yes")).write_parquet(path)
    rows, shap = (open_lake("inputs", str(lake.folder / name)) for name in ("rows", "shap"))
    assert model_columns(rows, "id", ["weight", "age"], [shap]) == ("weight", "age")
    assert model_columns(rows, "id", None, [shap]) == FEATURES
    with pytest.raises(ValueError, match=r"part-0\.parquet: expected the columns of the model; missing size"):
        model_columns(rows, "id", ["weight", "size"], [shap])
    with pytest.raises(ValueError, match=r"part-0\.parquet: expected numbers, not so in label \(String\)"):
        model_columns(rows, "id", None, [rows])
    lines: list[str] = []
    assert lake.score(settings=Settings(("pc",)), log=lines.append).computed == 4
    assert "columns that are left out, because no attribution is of them: label" in lines


def test_scores_are_kept_apart_from_the_lake(lake: SmallLake) -> None:
    for out in ("rows", "rows/scores", "lime"):
        with pytest.raises(ValueError, match="scores would be taken for parts"):
            lake.score(out)


@pytest.mark.parametrize("kind", [pl.UInt64, pl.UInt32, pl.Categorical, pl.Date])
def test_keys_of_many_kinds(lake: SmallLake, kind: Any) -> None:
    text = pl.col("id").cast(pl.String) if kind == pl.Categorical else pl.col("id")
    for path in [path for name in ("rows", "shap", "lime") for path in (lake.folder / name).iterdir()]:
        pl.read_parquet(path).with_columns(text.cast(kind)).write_parquet(path)
    assert lake.score(settings=Settings(("pc",))).computed == 4
    assert lake.table()["id"].n_unique() == ROWS


def test_a_gap_in_the_first_row_is_told_before_any_work(lake: SmallLake) -> None:
    lake.change("rows", 0, lambda table: table.with_columns(age=pl.lit(None, pl.Float64)))
    with pytest.raises(ValueError, match=r"rows/part-0\.parquet: .*missing values in age.* say so .missing=True"):
        lake.score()
    assert not (lake.folder / "scores").exists()
