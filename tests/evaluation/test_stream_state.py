"""What a stream says of itself, and the model rows that finding the class of explanations costs."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import verax

X = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
LAYER = torch.nn.Linear(4, 2, dtype=torch.float64)


def problem(rows: torch.Tensor = X) -> verax.Problem:
    return verax.Problem(LAYER, rows.double())


def explanation(rows: torch.Tensor = X) -> Any:
    """As shap's linear explainers make them, of the log-odds of class 1."""
    weights = (LAYER.weight[1] - LAYER.weight[0]).detach().numpy()
    base = float((LAYER.bias[1] - LAYER.bias[0]).detach())
    values = rows.double().numpy() * weights
    return SimpleNamespace(values=values, base_values=np.full(len(rows), base), data=None)


def by_class(rows: torch.Tensor = X) -> Any:
    one = explanation(rows)
    return SimpleNamespace(
        values=np.stack((-one.values, one.values), -1), base_values=np.stack((-one.base_values, one.base_values), -1)
    )


def test_it_says_where_it_stands() -> None:
    batches = [(part, {"x": part}) for part in X.double().split(200)]
    stream = verax.stream(problem(), batches, metrics=["pc"])
    assert repr(stream) == "Stream: 0 rows evaluated so far; iterate over it, or call totals() to evaluate what is left"
    stream.totals()
    assert repr(stream) == "Stream: all 600 rows evaluated; totals() has their means"
    over = verax.stream(problem(), batches, metrics=["pc"])
    assert len(list(over)) == 3
    assert repr(over) == "Stream: all 600 rows evaluated; totals() has their means"
    early = verax.stream(problem(), X.double(), X.double(), ["pc"], until=10.0)
    early.totals()
    assert repr(early) == "Stream: stopped early, after 256 rows; totals() has their means"
    broken = verax.stream(problem(), iter([batches[0], 7]), metrics=["pc"], until=1e-9)
    with pytest.raises(TypeError):
        broken.totals()
    assert repr(broken) == "Stream: it failed after 200 rows; their totals are in so_far"


@pytest.mark.parametrize("made", [explanation, by_class])
def test_every_model_row_is_counted(made: Any) -> None:
    """Whatever a stream asks of the model is in the totals, and the means are those of one call."""
    whole = verax.evaluate(problem(), {"it": made()}, ["pc"])["pc"]
    mean = float(whole.value["it"].mean())
    parts = X.split(250)

    sources: list[tuple[Any, Any]] = [
        (None, {"it": made()}),
        (X.double(), {"it": made()}),
        ([(part.double(), {"it": made(part)}) for part in parts], None),
    ]
    for batches, attributions in sources:
        asked = problem()
        totals = verax.stream(asked, batches, attributions, ["pc"]).totals()
        assert totals.rows == asked.scorer.rows
        assert totals.count == 600
        assert totals["pc"].mean()["it"].mean == pytest.approx(mean)


def test_one_call_scores_each_input_once() -> None:
    """Finding the class reads the scores of the problem."""
    for made in (explanation, by_class):
        asked = problem()
        found = verax.evaluate(asked, {"it": made()}, ["pc"])
        plain = verax.evaluate(problem(), {"it": X.double()}, ["pc"])
        assert found.rows == asked.scorer.rows == plain.rows
        verax.evaluate(asked, {"it": made()}, ["pc"])
        assert asked.scorer.rows == 2 * plain.rows - 600
