"""Compare the scores of two directories of the same study, bit for bit: ``compare_studies.py BEFORE AFTER``.

For whoever changes the inside of Verax: run a study with the code before and after, and see whether any score moved.
Columns are compared by name; those that one side does not have are listed.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl

KEYS = ["model", "configuration", "input"]
COSTS = ("_rows", "_rows_backward", "_seconds")


def scores_of(folder: Path) -> pl.DataFrame:
    tables = [pl.read_parquet(path) for path in sorted((folder / "scores").glob("*.parquet"))]
    whole = pl.concat([table.with_columns(pl.col("model", "configuration").cast(pl.String)) for table in tables])
    measured = [name for name in whole.columns if whole[name].dtype.is_numeric() and not name.endswith(COSTS)]
    return whole.select(list(dict.fromkeys([*KEYS, *measured]))).sort(KEYS)


def main(before: Path, after: Path) -> int:
    old, new = scores_of(before), scores_of(after)
    if not old.select(KEYS).equals(new.select(KEYS)):
        print(f"other rows: {old.height:,} and {new.height:,}")
        return 1
    shared = [name for name in old.columns if name in new.columns and name not in KEYS]
    others = sorted(set(old.columns) ^ set(new.columns))
    different = 0
    for name in shared:
        a, b = (table[name].to_numpy() for table in (old, new))
        count = int((~((a == b) | (np.isnan(a) & np.isnan(b)))).sum())
        different += count
        print(f"{name:28} {len(a):>10,} values, {count:,} different")
    only = ", ".join(others) or "none"
    print(f"{old.height * len(shared):,} values compared, {different:,} different; in one only: {only}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
