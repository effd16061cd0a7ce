"""Bad parts stop the work with their name, as a rule before any work, and everything finished stays."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scale.lakes import FEATURES, ROWS, SmallLake
from verax.lakes import score_lake
from verax.scale.lake import Join, feature_columns, first_rows, open_lake

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
    ("lime", 2, lambda table: table[1:], r"rows/part-\d\.parquet: id {lost} is in no file of .*lime/\*\.parquet\.$"),
    ("shap", 1, lambda table: table[3:], r"rows/part-1\.parquet: id .* is in no file of .*, and neither are 2 more"),
    ("rows", 2, lambda table: table[1:], r"shap/part-2\.parquet: id {lost} is in no file of .*rows"),
    ("lime", 4, key_twice, r"lime/part-4\.parquet: expected each key once, got id \d+ twice"),
    ("rows", 0, another_key, r"rows/part-0\.parquet: id -7 is in no file of"),
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
    with pytest.raises(ValueError, match=rf"rows/part-2\.parquet: .*got id {key} which .*rows/part-0\.parquet has as"):
        lake.score()


def test_keys_of_another_kind_and_columns_that_are_no_attributions(lake: SmallLake) -> None:
    lake.change_all(lambda table: table.cast({"id": pl.String}), "lime")
    with pytest.raises(ValueError, match=r"lime/part-0\.parquet: expected id to hold Int64, .* got String"):
        lake.score()
    with pytest.raises(ValueError, match=r"rows/part-0\.parquet: there is no column number, which key names"):
        lake.score(key="number")
    lake.change_all(lambda table: table.cast({"id": pl.Int64}).rename({"age": "Age"}), "lime")
    with pytest.raises(ValueError, match=r"lime/part-0\.parquet: expected id and .*missing age and unknown Age"):
        lake.score()


def test_small_whole_numbers_are_the_same_keys_as_large_ones(lake: SmallLake) -> None:
    lake.change_all(lambda table: table.cast({"id": pl.Int16}), "lime")
    assert lake.score(metrics=["pc"]).computed == ROWS


@pytest.mark.parametrize("place", ["end", "middle"])
def test_a_damaged_part_is_named_and_what_was_finished_stays(lake: SmallLake, place: str) -> None:
    """A damaged last page is seen before any work, damaged values when they are read."""
    path = lake.path("rows", 3)
    content = path.read_bytes()
    at = len(content) - 8 if place == "end" else content.rindex(ZSTD)
    path.write_bytes(content[:at] + bytes(4) + content[at + 4 :])
    with pytest.raises(ValueError, match=r"rows/part-3\.parquet: cannot be read as \.parquet file"):
        lake.score(metrics=["pc"])
    path.write_bytes(content)
    finished = lake.files()
    assert lake.score(metrics=["pc"]).computed == ROWS - 12 * len(finished)
    assert finished.items() <= lake.files().items()


def test_values_that_cannot_be_scored_name_part_and_key(lake: SmallLake) -> None:
    key = pl.read_parquet(lake.path("rows", 2))["id"][5]
    hole = pl.when(pl.col("id") == key).then(None).otherwise("income").alias("income")
    lake.change("rows", 2, lambda table: table.with_columns(hole))
    message = rf"rows/part-2\.parquet: expected a number in every row, .* income, .* at id {key}; .*takes_missing=True"
    with pytest.raises(ValueError, match=message):
        lake.score()
    finished = lake.files()
    assert len(finished) == 2
    lake.change("rows", 2, lambda table: table.with_columns(pl.col("income").fill_null(0.0)))
    lake.score()
    assert finished.items() <= lake.files().items()


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


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("vanishes", FileNotFoundError, "there is no such file any more"),
        ("is damaged", ValueError, "cannot be read as .parquet file"),
    ],
)
def test_a_part_that_vanishes_or_is_damaged_after_the_check(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch, what: str, error: type[Exception], message: str
) -> None:
    """As when a bucket is taken away while the work goes on."""
    check = Join.check

    def then_lost(join: Any) -> None:
        check(join)
        if what == "vanishes":
            shutil.rmtree(lake.folder / "lime")
        else:
            for path in (lake.folder / "lime").iterdir():
                path.write_bytes(path.read_bytes()[:-20])

    monkeypatch.setattr(Join, "check", then_lost)
    with pytest.raises(error, match=rf"lime/part-\d\.parquet: {message}"):
        lake.score()


@pytest.mark.parametrize("address", ["nowhere", "nowhere/*.parquet", "memory://nowhere/rows"])
def test_a_lake_that_is_not_there(lake: SmallLake, address: str) -> None:
    where = address if "://" in address else str(lake.folder / address)
    with pytest.raises(FileNotFoundError, match=r"nowhere.*no such f|nowhere.*no \.parquet file"):
        score_lake(lake.problem(), where, {"shap": str(lake.folder / "shap")}, lake.folder / "scores")


@pytest.mark.parametrize("address", ["martian://rows", "s3://key:s3cret@lake/rows", "s3://lake/rows?region=here"])
def test_a_store_that_nobody_knows_and_secrets_in_a_url(lake: SmallLake, address: str) -> None:
    with pytest.raises((ValueError, OSError), match=r"martian|credentials, endpoint and region are read from") as error:
        score_lake(lake.problem(), address, {"shap": address}, lake.folder / "scores")
    assert "s3cret" not in str(error.value)


def test_settings_that_do_not_fit_are_told_before_any_work(lake: SmallLake) -> None:
    with pytest.raises(ValueError, match=r"metrics: .*nothing"):
        lake.score(metrics=["nothing"])
    with pytest.raises(ValueError, match="target"):
        lake.score(problem=lake.problem(target=[0, 1, 1]))
    with pytest.raises(ValueError, match="attributions: expected at least one"):
        score_lake(lake.problem(), lake.folder / "rows", {}, lake.folder / "scores")
    lake.change_all(lambda table: table.rename({"id": "target"}), "rows", "shap", "lime")
    with pytest.raises(ValueError, match="key: target, the features and the columns of the scores need names"):
        lake.score(key="target")
    assert not (lake.folder / "scores").exists()


def test_columns_that_are_no_features_are_left_out(lake: SmallLake, caplog: pytest.LogCaptureFixture) -> None:
    """Those that the model does not name, or, where it names none, those that no attribution is of."""
    lake.change_all(lambda table: table.with_columns(label=pl.lit("yes"), filename=pl.lit("no")), "rows")
    rows, shap = (open_lake("inputs", str(lake.folder / name)) for name in ("rows", "shap"))
    assert feature_columns(rows, "id", ["weight", "age"], {"shap": shap}) == ["weight", "age"]
    assert feature_columns(rows, "id", None, {"shap": shap}) == list(FEATURES)
    with pytest.raises(ValueError, match=r"part-0\.parquet: expected the columns of the model; missing size"):
        feature_columns(rows, "id", ["weight", "size"], {"shap": shap})
    with pytest.raises(ValueError, match=r"part-0\.parquet: expected numbers, not so in label \(String\)"):
        first_rows(rows, feature_columns(rows, "id", None, {}))
    caplog.set_level("INFO", logger="verax.lakes")
    assert lake.score(metrics=["pc"]).computed == ROWS
    assert "columns that are left out, because the model does not take them: label, filename" in caplog.messages


def test_scores_are_kept_apart_from_the_lake(lake: SmallLake) -> None:
    for out in ("rows", "rows/scores", "lime"):
        with pytest.raises(ValueError, match="scores would be taken for its rows"):
            lake.score(out)


def test_a_name_that_is_a_pattern_is_refused(lake: SmallLake) -> None:
    """DuckDB would read other files, or none."""
    lake.path("rows", 0).rename(lake.folder / "rows" / "part[0].parquet")
    with pytest.raises(ValueError, match=r"part\[0\]\.parquet: .*taken for a pattern; rename it"):
        lake.score()


@pytest.mark.parametrize("kind", [pl.UInt64, pl.UInt32, pl.Categorical, pl.Date])
def test_keys_of_many_kinds(lake: SmallLake, kind: Any) -> None:
    text = pl.col("id").cast(pl.String) if kind == pl.Categorical else pl.col("id")
    lake.change_all(lambda table: table.with_columns(text.cast(kind)), "rows", "shap", "lime")
    assert lake.score(metrics=["pc"]).computed == ROWS
    assert lake.table()["id"].n_unique() == ROWS
    assert lake.score(metrics=["pc"]).computed == 0


def test_keys_that_are_fractions_are_refused(lake: SmallLake) -> None:
    lake.change_all(lambda table: table.cast({"id": pl.Float64}), "rows", "shap", "lime")
    with pytest.raises(ValueError, match="column id holds Float64; keys are whole numbers or text"):
        lake.score()
