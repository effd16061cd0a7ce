"""Tree SHAP: other packages read the trees; what they find is what exact Shapley values and other packages say."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import calls
import verax
from verax.attribution import KernelShap, TreeShap
from verax.metrics.choose import why_not

shap = pytest.importorskip("shap", reason="needs the extra shap")
FEATURES = 5


def data(classes=None, count=80):
    """Numbers and what follows from them: classes, or a value."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, FEATURES)).astype(np.float32).astype(np.float64)  # as trees store them
    value = x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * np.abs(x[:, 3])
    return x, value if classes is None else np.digitize(value, np.quantile(value, np.linspace(0, 1, classes + 1)[1:-1]))


SMALL = {"max_depth": 3, "random_state": 0}
ENSEMBLES = {
    "tree": (DecisionTreeClassifier(**SMALL), 3, "predict_proba", "values"),
    "forest": (RandomForestClassifier(n_estimators=4, **SMALL), 2, "predict_proba", "values"),
    "extra trees": (ExtraTreesRegressor(n_estimators=4, **SMALL), None, "predict", "values"),
    "boosted": (GradientBoostingClassifier(n_estimators=4, **SMALL), 2, "decision_function", "logits"),
    "histograms": (HistGradientBoostingClassifier(max_iter=4, **SMALL), 2, "decision_function", "logits"),
    "three classes": (HistGradientBoostingClassifier(max_iter=3, **SMALL), 3, "decision_function", "logits"),
    "values": (HistGradientBoostingRegressor(max_iter=4, **SMALL), None, "predict", "values"),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_one_background_row_is_a_baseline(name):
    """Averaged over one row, removed features become that row: exact Shapley values of what the trees add up."""
    model, classes, function, returns = ENSEMBLES[name]
    x, y = data(classes)
    model.fit(x, y)
    raw = verax.Scorer(getattr(model, function), returns=returns, takes="numpy")
    for target in range(classes or 1):
        found = TreeShap(interventional=True)(calls.problem(model, x[:6], target=target, background=x[7:8]))
        wanted = KernelShap(2**FEATURES)(calls.problem(raw, x[:6], target=target, baselines=x[7]))
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", ENSEMBLES)
@pytest.mark.parametrize("rows", [30, 130])
def test_every_row_of_the_background_counts(name, rows):
    """The values are the mean of those against each row, also beyond the 100 rows that shap draws of an array."""
    model, classes, function, _ = ENSEMBLES[name]
    x, y = data(classes, count=140)
    model.fit(x, y)
    found = TreeShap(interventional=True)(
        calls.problem(model, x[:6], target=None if classes is None else 1, background=x[-rows:])
    )
    scores, mean = (np.asarray(getattr(model, function)(part)) for part in (x[:6], x[-rows:]))
    own = (scores, mean) if scores.ndim == 1 else (scores[:, 1], mean[:, 1])
    np.testing.assert_allclose(found.sum(1), own[0] - own[1].mean(), atol=1e-5)


def test_values_that_do_not_sum_up_are_an_error(monkeypatch):
    x, y = data(None)
    model = ExtraTreesRegressor(n_estimators=4, **SMALL).fit(x, y)
    right = shap.TreeExplainer.shap_values
    monkeypatch.setattr(shap.TreeExplainer, "shap_values", lambda *args, **more: right(*args, **more) * 1.01)
    with pytest.raises(ValueError, match=r"values of shap are inexact for this model.*PermutationShap"):
        TreeShap(interventional=True)(calls.problem(model, x[:6], background=x[:50]))


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_trees_that_add_up_a_logarithm(loss):
    x, y = data(None)
    model = HistGradientBoostingRegressor(loss=loss, max_iter=4, **SMALL).fit(x, np.exp(y))
    found = TreeShap(interventional=True)(calls.problem(model, x[:6], background=x[:50]))
    logs = np.log(model.predict(x))
    np.testing.assert_allclose(found.sum(1), logs[:6] - logs[:50].mean(), atol=1e-5)


@pytest.mark.parametrize("name", ["forest", "extra trees", "boosted", "three classes"])
def test_without_a_background_values_sum_to_the_score_less_its_mean(name):
    model, classes, function, _ = ENSEMBLES[name]
    x, y = data(classes)
    model.fit(x, y)
    found = TreeShap()(calls.problem(model, x, target=None if classes is None else 1))
    scores = getattr(model, function)(x)
    gap = found.sum(1) - (scores if scores.ndim == 1 else scores[:, 1])
    np.testing.assert_allclose(gap, gap[0], atol=1e-5)


def boosted(package, classes, wrapped):
    """A small model of XGBoost or LightGBM, in scikit-learn's interface or as a bare booster."""
    module = pytest.importorskip(package)
    x, y = data(classes)
    kind = {"xgboost": "XGB", "lightgbm": "LGBM"}[package] + ("Regressor" if classes is None else "Classifier")
    quiet = {"verbosity": 0} if package == "xgboost" else {"verbosity": -1, "min_child_samples": 5}
    model = getattr(module, kind)(n_estimators=4, max_depth=3, n_jobs=1, **quiet).fit(x, y)
    if wrapped:
        return model, x
    return (model.get_booster() if package == "xgboost" else model.booster_), x


@pytest.mark.filterwarnings("ignore:LightGBM binary classifier")
@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("classes", [None, 2, 3])
@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_boosters_agree_with_shap(package, classes, wrapped):
    model, x = boosted(package, classes, wrapped)
    theirs = np.asarray(shap.TreeExplainer(model).shap_values(x)).reshape(len(x), FEATURES, -1)
    for target in range(classes or 1):
        found = TreeShap()(calls.problem(model, x, target=target))
        sign = -1 if classes == 2 and target == 0 else 1
        np.testing.assert_allclose(found, sign * theirs[:, :, 0 if classes == 2 else target], atol=1e-5)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_boosters_with_one_background_row(package):
    model, x = boosted(package, 2, wrapped=True)
    margins = {"xgboost": {"output_margin": True}, "lightgbm": {"raw_score": True}}[package]
    raw = verax.Scorer(lambda rows: model.predict(rows, **margins), returns="logits", takes="numpy")
    for target in (0, 1):
        found = TreeShap(interventional=True)(calls.problem(model, x[:6], target=target, background=x[7:8]))
        wanted = KernelShap(2**FEATURES)(calls.problem(raw, x[:6], target=target, baselines=x[7]))
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def categories_in_trees(package):
    """A booster that takes words, gaps among them, itself; their numbers are not those of the encoded rows."""
    pd = pytest.importorskip("pandas")
    module = pytest.importorskip(package)
    generator = np.random.default_rng(1)
    words = generator.choice(np.array(["Graz", "Wien", None], dtype=object), 80)
    frame = pd.DataFrame({"age": generator.normal(size=80), "town": words, "zip": generator.integers(7, 10, 80)})
    frame = frame.astype({"town": "category", "zip": "category"})
    y = (frame["age"] + 2 * (words == "Wien") + (frame["zip"] == 8).astype(int) > 0.5).astype(int)
    if package == "xgboost":
        return module.XGBClassifier(n_estimators=4, enable_categorical=True, n_jobs=1).fit(frame, y), frame
    return module.LGBMClassifier(n_estimators=4, min_child_samples=5, verbosity=-1, n_jobs=1).fit(frame, y), frame


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_categories_reach_the_trees_as_they_know_them(package):
    model, frame = categories_in_trees(package)
    problem = verax.tables.problem(model, frame[:20], background=frame, target=1)
    margins = {"xgboost": {"output_margin": True}, "lightgbm": {"raw_score": True}}[package]
    left = model.predict(frame[:20], **margins) - TreeShap()(problem).sum(1)
    np.testing.assert_allclose(left, left[0], atol=1e-5)  # the expected value, the same for every row
    with pytest.raises(TypeError, match=r"shap cannot read splits by category \(column town\)"):
        TreeShap(interventional=True)(problem)


def test_in_a_study_columns_in_another_order_find_their_values(tmp_path):
    model, frame = categories_in_trees("lightgbm")
    y = model.predict(frame)
    means = []
    for number, columns in enumerate((["age", "town", "zip"], ["zip", "age", "town"])):
        found = verax.run_study(
            models={"trees": model},
            data=(frame[columns], y),
            attributions=[TreeShap()],
            metrics=["pc"],
            limit=6,
            examples=0,
            out=tmp_path / str(number),
        )
        means.append(found.to_frame()["pc"].to_list())
    np.testing.assert_allclose(means[0], means[1], rtol=1e-9)


def test_every_row_has_its_own_class():
    model, x = boosted("lightgbm", 3, wrapped=True)
    targets = np.arange(9) % 3
    together = TreeShap()(calls.problem(model, x[:9], target=targets))
    for row, target in enumerate(targets):
        assert np.array_equal(together[row], TreeShap()(calls.problem(model, x[row : row + 1], target=int(target)))[0])


def test_it_asks_the_model_nothing_and_groups_have_the_sum():
    x, y = data(2)
    model = RandomForestClassifier(n_estimators=4, **SMALL).fit(x, y)
    scorer = verax.Scorer(model)
    alone = TreeShap()(calls.problem(scorer, x[:4], target=1))
    assert scorer.rows == 4  # the inputs themselves
    found = TreeShap()(calls.problem(scorer, x[:4], target=1, features=np.array([0, 0, 1, 2, 2])))
    np.testing.assert_allclose(found[:, 0] + found[:, 1], alone[:, 0] + alone[:, 1])
    assert np.array_equal(found[:, 3], found[:, 4])
    held = TreeShap()(calls.problem(scorer, x[:4], target=1, features=np.array([-1, 0, 0, 1, 2])))
    np.testing.assert_allclose(held[:, 1] + held[:, 2], alone[:, 1] + alone[:, 2])
    assert not held[:, 0].any()


def test_other_models_are_refused_before_they_run():
    x, y = data(3)
    cases = {
        "Sequential|TorchModule": torch.nn.Sequential(torch.nn.Linear(FEATURES, 3)).double(),
        "got LogisticRegression": LogisticRegression().fit(x, y),
        "got Pipeline.*without a pipeline": make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(x, y),
        "more than two classes": GradientBoostingClassifier(n_estimators=2, **SMALL).fit(x, y),
        "splits by category": HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]).fit(
            np.abs(x.round()), y
        ),
    }
    for message, model in cases.items():
        scorer = verax.Scorer(model)
        with pytest.raises(TypeError, match=f"^model: .*({message}).*KernelShap"):
            TreeShap()(calls.problem(scorer, x))
        assert scorer.rows == 0


@pytest.mark.parametrize("start", ["zero", LogisticRegression(), DecisionTreeClassifier(max_depth=2)])
def test_boosted_trees_that_start_from_a_model_are_refused_before_they_run(start):
    x, y = data(2)
    scorer = verax.Scorer(GradientBoostingClassifier(n_estimators=2, init=start, **SMALL).fit(x, y))
    for method in (TreeShap(), TreeShap(interventional=True)):
        with pytest.raises(TypeError, match=r"^model: .*GradientBoostingClassifier with init=.*KernelShap"):
            method(calls.problem(scorer, x, background=x[:9]))
    assert scorer.rows == 0
    assert bool(why_not(calls.problem(scorer, x))) == (not isinstance(start, LogisticRegression))  # is it flat?


@pytest.mark.parametrize("of_booster", [False, True])
def test_linear_trees_of_lightgbm_are_refused_and_not_taken_to_be_flat(of_booster):
    lightgbm = pytest.importorskip("lightgbm")
    x, y = data()
    model = lightgbm.LGBMRegressor(n_estimators=3, linear_tree=True, verbose=-1, n_jobs=1).fit(x, y)
    scorer = verax.Scorer(model.booster_ if of_booster else model)
    for method in (TreeShap(), TreeShap(interventional=True)):
        with pytest.raises(TypeError, match=r"^model: TreeShap cannot read .* with linear_tree=True.*KernelShap"):
            method(calls.problem(scorer, x, background=x[:9]))
    assert scorer.rows == 0
    assert not why_not(calls.problem(scorer, x))


@pytest.mark.parametrize(
    ("settings", "what"), [({"booster": "gblinear"}, "gblinear"), ({"num_parallel_tree": 2}, "parallel trees")]
)
def test_boosters_that_shap_cannot_read_are_refused_with_a_background(settings, what):
    xgboost = pytest.importorskip("xgboost")
    x, y = data()
    scorer = verax.Scorer(xgboost.XGBRegressor(n_estimators=3, n_jobs=1, **settings).fit(x, y))
    with pytest.raises(
        TypeError, match=rf"^TreeShap\(interventional=True\): shap cannot read .*{what}.*use TreeShap\(\)"
    ):
        TreeShap(interventional=True)(calls.problem(scorer, x, background=x[:9]))
    assert scorer.rows == 0
    assert TreeShap()(calls.problem(scorer, x[:4])).shape == (4, FEATURES)
    assert bool(why_not(calls.problem(scorer, x))) == (what != "gblinear")


def test_what_it_needs_is_said_before_any_work():
    x, y = data(2)
    scorer = verax.Scorer(DecisionTreeClassifier(**SMALL).fit(x, y))
    with pytest.raises(ValueError, match=r"^background: TreeShap\(interventional=True\) needs rows"):
        TreeShap(interventional=True)(calls.problem(scorer, x))
    with pytest.raises(ValueError, match=r"^inputs: TreeShap needs a table"):
        TreeShap()(calls.problem(scorer, x[:, None]))
    assert scorer.rows == 0
