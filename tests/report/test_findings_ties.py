"""Of configurations that differ by rounding alone, the report names the first as the best."""

from dataclasses import replace

import polars as pl
import pytest

from report.synthetic import study
from verax.report.answers import best
from verax.report.view import View


@pytest.mark.parametrize("column", ["dpc_signed", "infidelity"])
def test_the_best_does_not_hang_on_rounding(column: str) -> None:
    tables = study(("HELOC-Linear",), inputs=3, every=100, uncertain=False)
    metric = tables.metric(column)
    names = tables.scores["configuration"].cast(pl.String).unique(maintain_order=True)
    far = 1.0 if metric.higher_is_better else -1.0
    name = pl.col("configuration").cast(pl.String)
    values = pl.when(name == names[1]).then(far).when(name == names[2]).then(far * (1 + 1e-14)).otherwise(0.0)
    scores = tables.scores.with_columns(values.cast(pl.Float64).alias(column))
    found = best(View(replace(tables, scores=scores), ()), "HELOC-Linear", metric)
    assert found is not None
    assert found.configuration == names[1]
