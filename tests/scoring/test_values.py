"""Values: regressors and functions to numbers that are no class scores, followed as they are."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import calls
import reference
import verax
from verax import attribution

X, Y = load_diabetes(return_X_y=True)
X, Y = X[:24] * 10, Y[:24]
MODEL = LinearRegression().fit(X, Y)
W, B = MODEL.coef_, MODEL.intercept_


def torch_copy():
    layer = nn.Linear(10, 1).double()
    layer.weight.data[:] = torch.from_numpy(W)[None]
    layer.bias.data[:] = B
    return verax.Scorer(layer, returns="values")


def onnx_copy(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "linear.onnx"
    layer = torch_copy().adapter.module.float()
    torch.onnx.export(layer, (torch.zeros(1, 10),), path, dynamic_axes={"x": {0: "n"}}, input_names=["x"], dynamo=False)
    return verax.Scorer(path, returns="values")


COPIES = {
    "scikit-learn": lambda _: MODEL,
    "pipeline": lambda _: make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y),
    "search": lambda _: GridSearchCV(LinearRegression(), {"fit_intercept": [True]}, cv=2).fit(X, Y),
    "function": lambda _: verax.Scorer(lambda x: x @ W + B, returns="values"),
    "torch": lambda _: torch_copy(),
    "onnx": onnx_copy,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_copies_of_one_regressor_agree(make, tmp_path):
    result = calls.evaluate(make(tmp_path), X, W * X, samples=40)
    expected = calls.evaluate(MODEL, X, W * X, samples=40)
    for name in expected:
        np.testing.assert_allclose(result[name].value, expected[name].value, rtol=1e-5, atol=1e-4 * np.abs(Y).max())


class Step(nn.Module):
    """What a tree of one split computes."""

    def forward(self, x):
        return torch.where(x[:, :1] < 0, 1.0, 3.0).to(x.dtype)


SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 3))
STEP = np.where(SIGNS[:, 0] < 0, 1.0, 3.0)


def step_of_xgboost():
    settings = {"max_depth": 1, "eta": 1.0, "lambda": 0.0, "base_score": 0.0, "tree_method": "exact"}
    library = pytest.importorskip("xgboost")
    return library.train(settings, library.DMatrix(SIGNS, STEP), num_boost_round=1)


def step_of_lightgbm():
    library = pytest.importorskip("lightgbm")
    settings = {"n_estimators": 1, "num_leaves": 2, "learning_rate": 1.0, "min_child_samples": 1, "verbose": -1}
    return library.LGBMRegressor(**settings).fit(SIGNS, STEP)


def step_of_onnx(tmp_path):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "step.onnx"
    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    torch.onnx.export(Step(), (torch.zeros(1, 3),), path, dynamo=False, **names)
    return verax.Scorer(path, returns="values")


STEPS = {
    "xgboost": lambda _: step_of_xgboost(),
    "lightgbm": lambda _: step_of_lightgbm(),
    "torch": lambda _: verax.Scorer(Step(), returns="values"),
    "onnx": step_of_onnx,
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore::DeprecationWarning")
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS)
def test_one_tree_in_every_library_agrees(make, tmp_path):
    tree = DecisionTreeRegressor(max_depth=1).fit(SIGNS, STEP)
    a = np.random.default_rng(1).normal(size=SIGNS.shape)
    settings = {"samples": 50, "sigma": 1.0, "baselines": -SIGNS}
    result = calls.evaluate(make(tmp_path), SIGNS, a, **settings)
    expected = calls.evaluate(tree, SIGNS, a, **settings)
    for name in expected:
        np.testing.assert_allclose(result[name].value, expected[name].value, rtol=0, atol=1e-5)
    assert np.ptp(expected["pc"].value) > 1


@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_boosted_regressors_are_recognised_in_both_interfaces(package):
    library = pytest.importorskip(package)
    regressor = (library.XGBRegressor if package == "xgboost" else library.LGBMRegressor)(n_estimators=5)
    regressor.fit(X, Y)
    booster = regressor.get_booster() if package == "xgboost" else regressor.booster_
    for model in (regressor, booster):
        scorer = verax.Scorer(model)
        assert scorer.adapter.returns == "values"
        curve = calls.prediction_change(scorer, X, X).morf
        np.testing.assert_allclose(curve[:, 0], regressor.predict(X), rtol=1e-6)


def test_linear_regression_has_closed_forms():
    baselines = X.mean(0)
    contribution = W * (X - baselines)
    result = calls.evaluate(MODEL, X, contribution, ["pc", "dpc"], baselines=baselines)
    for row in range(len(X)):
        curves = reference.guided(
            lambda x: float(x @ W + B), X[row], baselines, contribution[row], range(10), "signed", 10
        )
        morf, lerf = (reference.metric_curve(curve, "pc", "cumulative") for curve in curves)
        assert result["pc"].value[row] == pytest.approx(reference.weighted_abpc(lerf, morf), abs=1e-10)
    gradient = np.broadcast_to(W, X.shape)
    # W is exactly how the value moves, so that nothing is left unexplained; its negation is no explanation at all
    exact = calls.infidelity(MODEL, X, {"w": gradient, "-w": -gradient}, normalize=False, samples=50)
    assert exact.value["w"].max() < 1e-18
    moved = calls.infidelity(MODEL, X, np.zeros_like(X), normalize=False, samples=4000)
    np.testing.assert_allclose(moved.value, 0.2**2 * W @ W, rtol=0.15)


def test_attributions_of_a_linear_regression_have_closed_forms():
    model, x = torch_copy(), torch.from_numpy(X)
    rows = {
        "gradient": (attribution.Gradient(), W),
        "smoothgrad": (attribution.SmoothGrad(), W),
        "gradient x input": (attribution.IntegratedGradients(baseline="mean"), W * (X - X.mean(0))),
        "occlusion": (attribution.Occlusion(), W * X),
        "kernel shap": (attribution.KernelShap(), W * X),
        "permutation shap": (attribution.PermutationShap(), W * X),
        "guided backprop": (attribution.GuidedBackprop(), W),
        "vargrad": (attribution.VarGrad(), 0 * W),
        "deeplift shap": (attribution.DeepLiftSHAP(samples=24), W * (X - X.mean(0))),
        "lime": (attribution.LimeTabular(alpha=0.0, samples=64), W),
        "lime on groups": (attribution.LimeGroups(alpha=1e-9, samples=64), W * X),
    }
    for name, (method, expected) in rows.items():
        result = method(verax.Problem(model, x, background=x))
        np.testing.assert_allclose(result, np.broadcast_to(expected, X.shape), rtol=1e-6, atol=1e-6, err_msg=name)


def test_nothing_speaks_of_classes():
    comparison = calls.compare(MODEL, X, {"a": W * X, "b": -W * X}, ["pc", "dpc"])
    page = comparison._repr_html_() + str(comparison) + repr(comparison.evaluation)
    assert "class score" not in page
    assert comparison.evaluation["pc"].context.score == "value"
    with pytest.raises(ValueError, match="target: output 1 does not exist; the model has one output, number 0"):
        calls.prediction_change(MODEL, X, X, target=1)


def test_of_several_values_one_is_followed_by_number_or_name():
    both = LinearRegression().fit(X, np.stack([Y, -2 * Y], axis=1))
    with pytest.raises(ValueError, match="target: the model returns 2 values for each row; say which one"):
        calls.prediction_change(both, X, X)
    first = calls.prediction_change(both, X, X, target=0).value
    np.testing.assert_allclose(calls.prediction_change(both, X, X, target=1).value, -2 * first)
    named = verax.Scorer(both, labels=["price", "loss"])
    np.testing.assert_array_equal(calls.prediction_change(named, X, X, target="loss").value, -2 * first)
    each = calls.prediction_change(named, X, X, target=["price", "loss"] * 12).value
    np.testing.assert_allclose(each[1::2], -2 * first[1::2])


def test_a_score_is_made_of_whatever_a_model_returns():
    class Boxes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(10, 4).double()

        def forward(self, x):
            return {"boxes": self.layer(x), "names": ["cat"]}

    module = Boxes()
    x = torch.from_numpy(X)
    margin = verax.Scorer(module, score=lambda result: result["boxes"][:, 0] - result["boxes"][:, 1])
    assert margin.adapter.returns == "values"
    weights = module.layer.weight.detach()
    torch.testing.assert_close(attribution.Gradient()(verax.Problem(margin, x))[0], weights[0] - weights[1])
    plain = verax.Scorer(lambda rows: {"boxes": rows @ weights.T}, score=lambda result: result["boxes"][:, 2])
    torch.testing.assert_close(calls.prediction_change(plain, x, x).morf[:, 0], x @ weights[2], rtol=1e-12, atol=1e-12)
    tree = GradientBoostingRegressor(n_estimators=3).fit(X, Y)
    doubled = verax.Scorer(tree, score=lambda values: 2 * values)
    np.testing.assert_allclose(
        calls.prediction_change(doubled, X, X).value, 2 * calls.prediction_change(tree, X, X).value
    )
    logits = verax.Scorer(module, score=lambda result: result["boxes"], returns="logits")
    assert calls.prediction_change(logits, x, x).morf.max() <= 1


def test_what_is_said_of_a_regressor_must_be_true():
    with pytest.raises(ValueError, match=r'returns: Ridge\.predict gives values; leave returns out or say "values"'):
        verax.Scorer(Ridge().fit(X, Y), returns="probabilities")


def test_whole_numbers_are_values():
    counts = verax.Scorer(lambda x: (x > 0).sum(1), returns="values")
    assert calls.prediction_change(counts, X, X).morf[:, 0].tolist() == (X > 0).sum(1).tolist()


def test_tuning_a_regressor_ranks_what_needs_no_gradients():
    pytest.importorskip("optuna")
    result = calls.tune(MODEL, X, metric="pc", trials=2, methods=["Occlusion", "Random"])
    assert type(result.best).__name__ == "Occlusion"
