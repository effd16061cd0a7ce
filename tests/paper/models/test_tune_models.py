"""The search for recipes: it sees no test row, and its value is a validation AUROC."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from verax.datasets import load_heloc

optuna = pytest.importorskip("optuna", reason="needs the extra tune")
SCRIPT = Path(__file__).parents[3] / "scripts" / "tune_models.py"
CSV = Path(__file__).parents[4] / "shared" / "data" / "heloc.csv"


@pytest.fixture(scope="module")
def tune():
    spec = importlib.util.spec_from_file_location("tune_models", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tune_models"] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tune_models"]


def test_every_search_starts_inside_its_space(tune):
    for search in tune.SEARCHES.values():
        for settings in search.first:
            search.space(optuna.trial.FixedTrial(settings))


@pytest.mark.skipif(not CSV.exists(), reason=f"needs the HELOC data at {CSV}")
def test_the_test_rows_are_out_of_reach(tune):
    table = load_heloc(CSV)
    found = tune.divisions("heloc", CSV)
    assert len(found) == tune.DIVISIONS
    for one in found:
        train, validation = one.split.train, one.split.validation
        assert len(train) == len(table.split.train)
        assert not np.intersect1d(train, validation).size
        assert not np.intersect1d(np.concatenate([train, validation, one.split.test]), table.split.test).size
        np.testing.assert_allclose(one.standardisation.mean, table.inputs[train].mean(0), rtol=1e-5)
    assert not np.array_equal(found[0].split.validation, found[1].split.validation)


@pytest.mark.skipif(not CSV.exists(), reason=f"needs the HELOC data at {CSV}")
def test_the_value_is_the_mean_validation_auroc(tune):
    data = tune.divisions("heloc", CSV)[:2]
    search = tune.SEARCHES["heloc", "linear"]
    trial = optuna.trial.FixedTrial(search.first[0])
    both, *single = (tune.objective(search, some, trial, 2, "cpu") for some in (data, data[:1]))
    assert 0.7 < both < 0.85
    assert single != [both]
