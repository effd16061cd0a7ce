"""The tables of a study."""

import polars as pl
import pytest

from analysis.synthetic import HELOC_MLP, study
from verax.analysis.tables import (
    COST_COLUMNS,
    COSTS_SCHEMA,
    METRICS,
    SCORES_SCHEMA,
    UNCERTAINTY_SCHEMA,
    empty,
    higher_is_better,
)


@pytest.mark.parametrize("schema", [SCORES_SCHEMA, UNCERTAINTY_SCHEMA, COSTS_SCHEMA])
def test_an_empty_table_has_the_columns_of_its_schema_and_takes_rows_of_a_full_one(schema):
    table = empty(schema)
    assert table.height == 0
    assert table.columns == list(schema)
    assert pl.concat([table, table.clear(2)]).height == 2


def test_every_metric_and_every_cost_is_a_column_of_the_scores():
    assert set(METRICS) | set(COST_COLUMNS) <= set(SCORES_SCHEMA)


def test_direction_is_known_for_metrics_and_nothing_else():
    assert [name for name in METRICS if not higher_is_better(name)] == ["infidelity", "infidelity_baseline"]
    with pytest.raises(ValueError, match=r"metric: expected one of pc, .*found 'accuracy'"):
        higher_is_better("accuracy")


def test_a_model_is_found_by_name():
    tables = study([HELOC_MLP], inputs=2)
    assert tables.model("HELOC-MLP").architecture == "mlp"
    assert tables.model("HELOC-mlp") is None
