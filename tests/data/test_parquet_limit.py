"""Small Parquet files that unpack to much: refused before they are read, in a line that says how to raise the limit."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from verax.data.array_files import read_table, read_words
from verax.data.limits import LimitError
from verax.problem.files.texts import read_texts

MANY = 300_000
LARGE: dict[str, dict[str, Any]] = {
    "numbers": {"a": pl.Series([1.0] * MANY)},
    "a list": {"a": pl.Series([[1.0] * MANY])},
    "lists of lists": {"a": pl.Series([[[1.0] * 1000] * 100] * 3)},
    "a list of structures": {"a": pl.Series([[{"x": 1.0, "y": 2.0}] * MANY])},
    "arrays": {"a": pl.Series([[1.0] * 1000] * 300, dtype=pl.Array(pl.Float64, 1000))},
    "equal long texts": {"text": pl.Series(["a" * 20_000] * 200)},
    "one long text": {"text": pl.Series(["a" * 3_000_000])},
    "equal long texts in structures": {"text": pl.Series([{"x": "a" * 20_000}] * 200)},
    "equal long bytes": {"text": pl.Series([b"a" * 20_000] * 200)},
    "equal long categories": {"text": pl.Series(["a" * 20_000] * 200, dtype=pl.Categorical)},
    "lists of equal long texts": {"text": pl.Series([["a" * 20_000] * 200])},
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("read", [read_table, read_words, read_texts])
def test_all_that_a_file_holds_counts(case: str, read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.parquet"
    pl.DataFrame(LARGE[case]).write_parquet(path, compression="zstd", row_group_size=100)
    monkeypatch.setenv("VERAX_MAX_GIB", "0.001")
    with pytest.raises(LimitError, match=r"large.parquet: holds .* GiB, above the limit .*VERAX_MAX_GIB"):
        read(path)


def test_an_ordinary_file_is_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.DataFrame({"text": ["a", None, "c"], "lists": [[1.0], [], [2.0, 3.0]], "flag": [True, False, None]})
    table.write_parquet(tmp_path / "x.parquet")
    monkeypatch.setenv("VERAX_MAX_GIB", "0.001")
    assert read_table(tmp_path / "x.parquet").equals(table)


def test_other_writers_are_read(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet")
    table = pl.DataFrame({"a": [1.0, 2.0], "b": [[1], [2, 3]], "c": ["x", "y"]})
    arrow.write_table(table.to_arrow(), tmp_path / "x.parquet", version="1.0")
    assert read_table(tmp_path / "x.parquet").equals(table)
    pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0]}).to_parquet(tmp_path / "y.parquet")
    assert read_table(tmp_path / "y.parquet")["a"].to_list() == [1, 2]
