"""Small examples of what modules of this folder share among themselves."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from verax.data.base import Split
from verax.data.columns import Column, Columns, columns_of, read_labels
from verax.data.file import encode, held_out_rows
from verax.data.limits import LimitError, check_bytes, unpacked_bytes


def test_limits_check_bytes():
    with pytest.raises(
        LimitError, match=re.escape("x.npz: holds 1,024 GiB, above the limit of 4 GiB; set VERAX_MAX_GIB to more.")
    ):
        check_bytes("x.npz", 1 << 40)


def test_file_encode():
    values = np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 1.0], [2.0, 1.0], [2.0, np.nan]])
    table = Columns((Column("age"), Column("town", ("Graz", "Wien"))), values)
    result = encode(table, Split(np.arange(4), np.array([4]), np.array([4]), 0), "people")
    assert (result.inputs[1].tolist(), result.features.tolist(), result.baselines.tolist()) == (
        [2.0, 0.0, 1.0, 0.0],
        [0, 1, 1, 1],
        [0.0, 0.0, 1.0, 0.0],
    )


def test_file_held_out_rows():
    assert held_out_rows([4, 1], 5, "held_out").tolist() == [False, True, False, False, True]


def test_columns_columns_of():
    result = columns_of(pd.DataFrame({"age": [20.0, None], "town": ["Wien", "Graz"]}), "people")
    assert repr((result.values.tolist(), result.categories)) == "([[20.0, 1.0], [nan, 0.0]], (None, ('Graz', 'Wien')))"


def test_columns_read_labels():
    assert read_labels(["no", "yes", "no"], 3, "labels").values.tolist() == [0, 1, 0]
    assert read_labels([1.5, 2.25, 0.5], 3, "labels").task == "regression"


def test_limits_unpacked_bytes():
    file = io.BytesIO()
    pl.DataFrame({"lists": [[0.5] * 1000, [0.5]]}).write_parquet(file)
    assert len(file.getvalue()) < 1000
    assert unpacked_bytes(Path("x.parquet"), file.getvalue()) >= 8008
