"""Scores stay what they were: a small study of every method and metric, against a table that an earlier version made.

On the processor and torch version that made the table every bit must be the same; elsewhere sums may round otherwise.
"""

import json

import polars as pl
import torch
from typer.testing import CliRunner

from study.golden.small_study import KEYS, MADE_ON, SCORES, VALUES, machine, scores_of, write_spec
from verax.cli import app

NOTHING = 1e-6
ROUNDING = 1e-4  # of the spread of a column: float32 models, and scores that are differences of their outputs


def test_scores_are_those_of_the_golden_table(tmp_path):
    threads = torch.get_num_threads()
    command = ["study", "run", str(write_spec(tmp_path)), "--out", str(tmp_path / "study"), "--workers", "1"]
    found = CliRunner().invoke(app, command)
    torch.set_num_threads(threads)
    assert found.exit_code == 0, found.output
    scores = scores_of(tmp_path / "study")
    golden = pl.read_csv(SCORES, schema=scores.schema)
    assert scores.select(KEYS).equals(golden.select(KEYS))
    exact = machine() == json.loads(MADE_ON.read_text())
    if not exact:  # LIME that finds nothing ranks its features by rounding
        something = (golden["attribution_norm"] > NOTHING) | (scores["attribution_norm"] > NOTHING)
        scores, golden = scores.filter(something), golden.filter(something)
    for name in VALUES:
        old, new = (table[name].cast(pl.Float64).to_numpy() for table in (golden, scores))
        allowed = 0.0 if exact else ROUNDING * (old.max() - old.min())
        assert abs(new - old).max() <= allowed, f"{name}: {abs(new - old).max()} instead of at most {allowed}"
