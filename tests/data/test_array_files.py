"""Tables from files: a damaged one is refused in one line, and what only looks like a table as well."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from verax.data.array_files import read_arrays


def damaged(content: bytes, draws: np.random.Generator) -> bytes:
    """The same with its end cut off, as by a download that broke off, or with a piece missing within.

    Bytes are not changed here: polars takes a few such files for tables of absurd sizes and ends the process.
    """
    start, kind = int(draws.integers(len(content))), draws.integers(3)
    if kind < 2:
        return content[:start] + (b"PAR1" if kind else b"")
    return content[:start] + content[start + int(draws.integers(1, 20)) :]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "uncompressed"])
def test_a_damaged_parquet_file_is_refused_in_one_line(compression: str, tmp_path: Path) -> None:
    """Or it is read where nothing shows the damage; polars panics over some."""
    buffer = io.BytesIO()
    table = {"a": np.linspace(0, 1, 20), "b": np.arange(20), "c": np.arange(20) % 2 == 0}
    pl.DataFrame(table).write_parquet(buffer, compression=compression)  # type: ignore[arg-type]
    path, draws, messages = tmp_path / "t.parquet", np.random.default_rng(0), []
    for _ in range(300):
        path.write_bytes(damaged(buffer.getvalue(), draws))
        try:
            read_arrays(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert all(message.startswith(f"{path}: ") and "\n" not in message for message in messages)


def test_a_panic_of_polars_is_an_error_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(source: object) -> None:
        raise pl.exceptions.PanicException("range end index out of range\nmore")

    monkeypatch.setattr(pl, "scan_parquet", panic)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"t\.parquet: cannot be read as .* \(range end index out of range\)"):
        read_arrays(tmp_path / "t.parquet")


def test_what_polars_panics_over_is_told_by_its_cause(tmp_path: Path) -> None:
    """A time zone that it does not know; where it has learned not to panic, the column is named."""
    path = tmp_path / "t.parquet"
    when = pa.array([1, 2, 3], pa.timestamp("ns", tz="+07:30"))
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "when": when}), path)
    reason = r"t\.parquet: (cannot be read as \.parquet file \(unable to parse time zone: '\+07:30'|.* not so in when)"
    with pytest.raises(ValueError, match=reason):
        read_arrays(path)


def test_columns_that_are_there_twice_are_found_among_many(tmp_path: Path) -> None:
    header = [f"c{place}" for place in range(50_000)]
    (tmp_path / "wide.csv").write_text(",".join([*header, "c7"]) + "\n" + ",".join(["1"] * 50_001) + "\n")
    with pytest.raises(ValueError, match="expected each column once, got several called c7"):
        read_arrays(tmp_path / "wide.csv")
