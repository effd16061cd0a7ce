"""What a newcomer brings first, each walked to a ranking that means something: no dead end.

Other tests walk the rest. On the command line: categories and gaps in ``tests/cli/test_mixed_tables.py``, regressors
and raw units in ``tests/cli/test_own_models.py``. In a study: CSV files, three classes, labels of text and regression
in ``tests/study/test_own_tables.py``.
"""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import calls
import verax
from verax.attribution import KernelShap, LimeTabular, Occlusion, Random

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3))
UNITS, OFFSETS = np.array([1.0, 9_000.0, 0.02]), np.array([40.0, 40_000.0, 1.3])
WEIGHTS = np.array([2.0, -1.0, 0.5])


def test_a_regressor_is_measured_in_its_own_unit():
    model = LinearRegression().fit(TABLE, 1000 * TABLE @ WEIGHTS)
    found = calls.compare(model, TABLE[:20], {"exact": 1000 * TABLE[:20] * WEIGHTS, "random": Random()}, ["pc"])
    assert found.best("pc") == ["exact"]
    assert found.ranking("pc")[0].mean > 500  # zeros once


def test_gaps_go_where_trees_take_them():
    rows = np.where(RNG.random(TABLE.shape) < 0.2, np.nan, TABLE)
    model = HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5).fit(rows, TABLE[:, 0] > 0)
    found = calls.compare(model, rows, {"shap": KernelShap(8), "random": Random()}, ["pc"])
    assert found.best("pc") == ["shap"]


def test_raw_units_by_following_one_sentence_of_the_docs():
    raw = OFFSETS + UNITS * TABLE
    model = LinearRegression().fit(raw, TABLE @ WEIGHTS)
    plain = {"LIME": LimeTabular(samples=64), "random": Random()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls.compare(model, raw, plain, ["pc", "infidelity"], samples=32)
    said = " ".join(str(one.message) for one in caught)
    assert 'Pass baselines="mean" with background=' in said
    assert 'Give the metric sigma="std", and the problem background=train_inputs' in said

    advised = {"LIME": LimeTabular(sigma="std", scale_kernel=True, samples=64, alpha=0.0), "random": Random()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calls.compare(
            model, raw, advised, ["pc", "infidelity"], baselines="mean", sigma="std", background=raw, samples=32
        )
    assert found.best("infidelity") == ["LIME"]
    assert found.ranking("infidelity")[0].mean < 1e-9  # a linear model, and its very slopes
    assert found.ranking("infidelity")[1].mean > 1


def test_three_classes_with_labels_of_text():
    labels = np.array(["low", "mid", "high"])[np.digitize(TABLE @ WEIGHTS, [-1.0, 1.0])]
    model = LogisticRegression().fit(TABLE, labels)
    found = calls.compare(model, TABLE, {"occlusion": Occlusion(), "random": Random()}, ["pc"], target="high")
    assert set(model.classes_[found.evaluation["pc"].target]) == {"high"}
    assert found.best("pc") == ["occlusion"]


@pytest.mark.filterwarnings("ignore")  # of shap's own imports
def test_explanations_of_shap_go_in_as_they_are():
    shap = pytest.importorskip("shap")
    model = LinearRegression().fit(TABLE, TABLE @ WEIGHTS)
    explained = shap.LinearExplainer(model, TABLE)(TABLE[:20])
    found = calls.compare(
        model, TABLE[:20], {"shap": explained, "random": Random()}, ["pc"], baselines="mean", background=TABLE
    )
    assert found.best("pc") == ["shap"]
    classes = np.digitize(TABLE[:, 0], [-0.5, 0.5])
    trees = HistGradientBoostingClassifier(max_iter=10, min_samples_leaf=5).fit(TABLE, classes)
    several = shap.TreeExplainer(trees)(TABLE)
    with pytest.raises(ValueError, match=r"shap\.from_explanation\(explanation, target=\.\.\.\) takes one of them"):
        calls.compare(trees, TABLE, {"shap": several.values}, ["pc"])
    assert calls.compare(trees, TABLE, {"shap": several, "random": Random()}, ["pc"]).best("pc") == ["shap"]
    one = verax.interop.shap.from_explanation(several, target=2).attributions
    assert calls.compare(trees, TABLE, {"shap": one, "random": Random()}, ["pc"], target=2).best("pc") == ["shap"]
