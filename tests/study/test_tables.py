"""The tables of a study."""

import polars as pl
import pytest

from paper.synthetic import COLUMNS, HELOC_MLP, METRICS, study, without_metrics
from verax.study.tables import COST_COLUMNS, COSTS_SCHEMA, UNCERTAINTY_SCHEMA, empty, scores_schema


@pytest.mark.parametrize("schema", [scores_schema(METRICS), scores_schema([]), UNCERTAINTY_SCHEMA, COSTS_SCHEMA])
def test_an_empty_table_has_the_columns_of_its_schema_and_takes_rows_of_a_full_one(schema):
    table = empty(schema)
    assert table.height == 0
    assert table.columns == list(schema)
    assert pl.concat([table, table.clear(2)]).height == 2


def test_every_metric_and_every_cost_is_a_column_and_noise_has_one_of_its_own():
    schema = scores_schema(METRICS)
    assert set(COLUMNS) | set(COST_COLUMNS) <= set(schema)
    assert [name for name in schema if name.endswith("_se")] == [
        "infidelity_plain_se",
        "infidelity_se",
        "infidelity_baseline_se",
    ]
    assert (schema["pc"], schema["infidelity"]) == (pl.Float32(), pl.Float64())


def test_a_metric_is_found_by_its_column():
    tables = study([HELOC_MLP], inputs=2)
    assert [tables.metric(name).higher_is_better for name in ("pc", "infidelity")] == [True, False]
    with pytest.raises(ValueError, match=r"metric: expected pc, .*got 'infidelty'; did you mean 'infidelity'\?"):
        tables.metric("infidelty")
    with pytest.raises(ValueError, match="expected a study with metrics, got 'pc'"):
        without_metrics(tables, *COLUMNS).metric("pc")
