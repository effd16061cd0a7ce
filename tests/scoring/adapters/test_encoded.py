"""Pipelines with column transformers: which encoded columns are one feature, and that metrics treat them as one."""

import numpy as np
import pytest
import torch
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import calls
import verax

pd = pytest.importorskip("pandas")
QUANTILES = (  # scikit-learn from 1.7 on warns where it is left out
    {"quantile_method": "averaged_inverted_cdf"} if "quantile_method" in KBinsDiscretizer().get_params() else {}
)

RNG = np.random.default_rng(0)
COUNT = 60
FRAME = pd.DataFrame(
    {
        "town": RNG.choice(["Graz", "Linz", "Wien"], COUNT),
        "age": RNG.normal(40, 10, COUNT),
        "town_size": RNG.choice(["s", "m", "l", "xl"], COUNT),
        "income": RNG.normal(3, 1, COUNT),
        "owner": RNG.choice(["no", "yes"], COUNT),
    }
)
LABELS = ((FRAME["age"] > 40) ^ (FRAME["town"] == "Wien")).to_numpy().astype(int)
NUMBERS, TEXT = ["age", "income"], ["town", "town_size", "owner"]


def fitted(*transformers, after=(), frame=FRAME, **settings):
    named = [(f"t{place}", *one) for place, one in enumerate(transformers)]
    pipeline = make_pipeline(ColumnTransformer(named, **settings), *after, LogisticRegression(max_iter=5000))
    return pipeline.fit(frame, LABELS)


def cut(*transformers, frame=FRAME, **settings):
    return verax.adapters.encoded(fitted(*transformers, frame=frame, **settings), frame)


def blocks(result):
    """Number of encoded columns of each feature, by name."""
    return dict(zip(result.names, np.bincount(result.features).tolist(), strict=True))


WIDTHS = {"town": 3, "age": 1, "town_size": 4, "income": 1, "owner": 2}


def one_hot(**settings):
    return OneHotEncoder(sparse_output=False, **settings)


def imputed(encoder):
    return make_pipeline(SimpleImputer(strategy="most_frequent"), encoder)


CASES = {
    "scaled and one-hot": ([(StandardScaler(), NUMBERS), (one_hot(), TEXT)], WIDTHS),
    "sparse": ([(StandardScaler(), NUMBERS), (OneHotEncoder(), TEXT)], WIDTHS),
    "passed through": ([("passthrough", NUMBERS), (one_hot(), TEXT)], WIDTHS),
    "first category dropped": (
        [(one_hot(drop="first"), TEXT), ("passthrough", NUMBERS)],
        {"town": 2, "age": 1, "town_size": 3, "income": 1, "owner": 1},
    ),
    "dropped if binary": ([(one_hot(drop="if_binary"), TEXT), ("passthrough", NUMBERS)], WIDTHS | {"owner": 1}),
    "infrequent together": (
        [(one_hot(max_categories=2), TEXT), ("passthrough", NUMBERS)],
        WIDTHS | {"town": 2, "town_size": 2},
    ),
    "imputed first": ([(imputed(StandardScaler()), NUMBERS), (imputed(one_hot()), TEXT)], WIDTHS),
    "columns left out": ([(one_hot(), ["town"]), ("drop", ["age"])], {"town": 3}),
    "in bins": (
        [(KBinsDiscretizer(3, encode="onehot-dense", **QUANTILES), NUMBERS)],
        {"age": 3, "income": 3},
    ),
    "ordinal": ([(OrdinalEncoder(), TEXT)], {"town": 1, "town_size": 1, "owner": 1}),
    "one column in two transformers": (
        [
            ("passthrough", NUMBERS),
            (KBinsDiscretizer(3, encode="onehot-dense", **QUANTILES), ["age"]),
        ],
        {"age": 4, "income": 1},
    ),
    "a function of each column": ([(FunctionTransformer(np.log1p, feature_names_out="one-to-one"), NUMBERS)], None),
    "mixed columns": ([(PCA(2), NUMBERS), (one_hot(), ["town"])], {"town": 3, "age+income": 2}),
    "an unknown function": ([(FunctionTransformer(lambda x: x), NUMBERS)], {"age+income": 2}),
    "mixed after encoding": (
        [(make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)), NUMBERS)],
        {"age+income": 5},
    ),
    "mixed and alone": (
        [(PCA(1), NUMBERS), ("passthrough", ["income"]), (one_hot(), ["owner"])],
        {"age+income": 2, "owner": 2},
    ),
    "by position": ([("passthrough", [1, -2]), (one_hot(), [0])], {"town": 3, "age": 1, "income": 1}),
    "by slice": ([(one_hot(), slice(0, 1)), ("passthrough", [1])], {"town": 3, "age": 1}),
    "by slice of names": ([(OrdinalEncoder(), slice("town", "town_size"))], {"town": 1, "age": 1, "town_size": 1}),
    "by mask": ([("passthrough", [False, True, False, True, False])], {"age": 1, "income": 1}),
    "by selector": (
        [
            (StandardScaler(), make_column_selector(dtype_include=np.number)),
            (one_hot(), make_column_selector(dtype_exclude=np.number)),
        ],
        WIDTHS,
    ),
    "one by name": ([(OrdinalEncoder(), ["owner"]), (FunctionTransformer(), ["age"])], {"age": 1, "owner": 1}),
}


@pytest.mark.parametrize(("transformers", "expected"), CASES.values(), ids=CASES)
def test_features_and_their_encoded_columns(transformers, expected):
    frame = FRAME.assign(age=FRAME["age"].abs(), income=FRAME["income"].abs())
    result = cut(*transformers, frame=frame)
    assert blocks(result) == (expected or {"age": 1, "income": 1})
    assert result.names == sorted(result.names, key=lambda name: list(FRAME).index(name.split("+")[0]))
    assert result.inputs.shape == (COUNT, len(result.features))
    assert result.inputs.dtype == np.float64


@pytest.mark.parametrize(("transformers", "expected"), CASES.values(), ids=CASES)
def test_a_column_changes_its_own_encoded_columns_alone(transformers, expected):
    frame = FRAME.assign(age=FRAME["age"].abs(), income=FRAME["income"].abs())
    pipeline = fitted(*transformers, frame=frame)
    result = verax.adapters.encoded(pipeline, frame)
    for column in FRAME:
        changed = frame.assign(**{column: np.roll(frame[column].to_numpy(), 1)})
        moved = (verax.adapters.encoded(pipeline, changed).inputs != result.inputs).any(0)
        touched = {result.names[feature] for feature in result.features[moved]}
        assert all(column in name.split("+") for name in touched)
        assert bool(touched) == any(column in name.split("+") for name in result.names)


def test_missing_values_are_told_by_a_column_of_the_same_feature():
    frame = FRAME.assign(age=FRAME["age"].where(np.arange(COUNT) % 7 > 0), void=np.nan)
    imputer = SimpleImputer(add_indicator=True)
    with pytest.warns(UserWarning, match="void|without any observed"):
        pipeline = fitted((imputer, [*NUMBERS, "void"]), frame=frame)
    with pytest.warns(UserWarning, match="void|without any observed"):
        result = verax.adapters.encoded(pipeline, frame)
    assert blocks(result) == {"age": 2, "income": 1, "void": 1}


def test_remainder_is_passed_through():
    assert blocks(cut((one_hot(), TEXT), remainder="passthrough")) == WIDTHS


def test_the_cut_model_predicts_what_the_pipeline_predicts():
    pipeline = fitted((StandardScaler(), NUMBERS), (one_hot(), TEXT), after=[StandardScaler()])
    result = verax.adapters.encoded(pipeline, FRAME)
    np.testing.assert_allclose(result.model.predict_proba(result.inputs), pipeline.predict_proba(FRAME))


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_removing_a_feature_removes_all_of_its_columns(output):
    pipeline = make_pipeline(
        ColumnTransformer([("n", StandardScaler(), NUMBERS), ("c", one_hot(), TEXT)]), LogisticRegression()
    ).set_output(transform=output)
    outcome = verax.adapters.encoded(pipeline.fit(FRAME, LABELS), FRAME)
    by_column = RNG.normal(size=(COUNT, 5))
    result = calls.prediction_change(
        outcome.model, outcome.inputs, outcome.spread(by_column), features=outcome.features
    )
    assert result.steps == 5
    for row in range(3):
        encoded = outcome.inputs[row].copy()
        expected = []
        for feature in np.argsort(-by_column[row], kind="stable"):
            encoded[outcome.features == feature] = 0.0
            rows = pd.DataFrame(encoded[None], columns=getattr(outcome.model, "feature_names_in_", None))
            rows = rows if output == "pandas" else rows.to_numpy()
            expected.append(outcome.model.predict_proba(rows)[0, result.target[row]])
        np.testing.assert_allclose(result.morf[row, 1:], expected, rtol=0, atol=1e-12)


def test_every_metric_works_with_one_attribution_per_column():
    outcome = cut((StandardScaler(), NUMBERS), (one_hot(), TEXT))
    attributions = {"a": outcome.spread(RNG.normal(size=(COUNT, 5)))}
    result = calls.evaluate(
        outcome.model,
        outcome.inputs,
        attributions,
        ["pc", "dpc", "infidelity", "sensitivity_n"],
        features=outcome.features,
        samples=20,
    )
    assert all(np.isfinite(one.value["a"]).all() for one in result.values())


@pytest.mark.parametrize("convert", [np.asarray, torch.tensor])
def test_spread_attributions_sum_up_to_what_was_given(convert):
    result = cut((StandardScaler(), NUMBERS), (one_hot(), TEXT))
    given = RNG.normal(size=(2, COUNT, 5))
    spread = result.spread(convert(given))
    assert type(spread) is type(convert(given))
    assert spread.shape == (2, COUNT, result.inputs.shape[1])
    sums = np.stack([np.asarray(spread)[..., result.features == one].sum(-1) for one in range(5)], axis=-1)
    np.testing.assert_allclose(sums, given, rtol=0, atol=1e-12)


def test_a_search_is_read_through_its_best_estimator():
    search = GridSearchCV(fitted((one_hot(), TEXT)), {"logisticregression__C": [0.1, 1.0]}, cv=2)
    assert blocks(verax.adapters.encoded(search.fit(FRAME, LABELS), FRAME)) == {"town": 3, "town_size": 4, "owner": 2}


def test_a_frame_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: FRAME[name].tolist() for name in FRAME})
    pipeline = fitted((StandardScaler(), NUMBERS), (one_hot(), TEXT), frame=frame)
    assert blocks(verax.adapters.encoded(pipeline, frame)) == WIDTHS


def test_single_precision_is_kept():
    frame = FRAME[NUMBERS].astype(np.float32)
    assert cut(("passthrough", NUMBERS), frame=frame).inputs.dtype == np.float32


ERRORS = {
    "no pipeline": (
        LogisticRegression(),
        TypeError,
        "pipeline: expected a fitted .*Pipeline, got LogisticRegression",
    ),
    "no column transformer": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        ValueError,
        "pipeline: expected one ColumnTransformer.*got the steps StandardScaler, LogisticRegression",
    ),
    "no classifier": (make_pipeline(ColumnTransformer([])), ValueError, "then a classifier; got the steps Column"),
    "not fitted": (
        make_pipeline(ColumnTransformer([]), LogisticRegression()),
        ValueError,
        "ColumnTransformer is not fitted; call fit first",
    ),
}


@pytest.mark.parametrize(("pipeline", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(pipeline, error, message):
    with pytest.raises(error, match=message):
        verax.adapters.encoded(pipeline, FRAME)


def test_text_that_is_not_encoded():
    pipeline = make_pipeline(
        ColumnTransformer([("t", "passthrough", ["town"])]), OrdinalEncoder(), LogisticRegression()
    )
    with pytest.raises(TypeError, match="expected its column transformer to give numbers, got object"):
        verax.adapters.encoded(pipeline.fit(FRAME, LABELS), FRAME)


def test_attributions_with_another_number_of_columns():
    result = cut((one_hot(), TEXT))
    with pytest.raises(
        ValueError, match=r"attributions: .*town, town_size, owner, shape \(\.\.\., 3\), got .*\(9, 5\)"
    ):
        result.spread(np.zeros((9, 5)))
