"""A table of polars with nulls: the scores are those of the model called on the very frame that was given."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

import verax
from verax.metrics import PredictionChange

pl = pytest.importorskip("polars")
pytest.importorskip("pandas")

COUNT = 90
RNG = np.random.default_rng(0)
TABLE = pl.DataFrame(
    {
        "income": RNG.normal(30, 8, COUNT),
        "town": [["Graz", "Wien", None][one] for one in RNG.choice(3, COUNT, p=[0.3, 0.4, 0.3])],
        "owner": [[True, False, None][one] for one in RNG.choice(3, COUNT, p=[0.4, 0.4, 0.2])],
        "rooms": [[1, 2, 3, None][one] for one in RNG.choice(4, COUNT)],
    }
)
LABELS = (TABLE["town"].is_null() ^ (TABLE["income"] > 38)).to_numpy().astype(int)
CATEGORIES = ["town", "owner", "rooms"]
ENCODERS = {
    "one-hot, unknown ignored": OneHotEncoder(handle_unknown="ignore"),
    "one-hot, unknown refused": OneHotEncoder(),
    "one-hot, rare ones together": OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5),
    "ordinal": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    "target": TargetEncoder(cv=2),
}
TEXTS = {"String": pl.String, "Categorical": pl.Categorical, "Enum": pl.Enum(["Graz", "Linz", "Wien"])}


def fitted(encoder, table=TABLE):
    columns = make_column_transformer((encoder, CATEGORIES), remainder="passthrough")
    return make_pipeline(columns, LogisticRegression(max_iter=5000)).fit(table, LABELS)


def start_of_curves(problem):
    attributions = np.ones((len(problem), len(problem.names)))
    return PredictionChange()(problem.with_target(1), attributions).morf[:, 0]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_unperturbed_scores_are_those_of_the_model_on_the_own_frame(encoder, text):
    table = TABLE.with_columns(pl.col("town").cast(text))
    model = fitted(encoder, table)
    problem = verax.tables.problem(model, table[:40], background=table)
    assert table["town"][:40].null_count() > 5
    np.testing.assert_allclose(start_of_curves(problem), model.predict_proba(table[:40])[:, 1], rtol=0, atol=1e-12)


def test_every_removed_feature_is_what_the_model_says_of_the_changed_frame():
    model = fitted(OneHotEncoder(handle_unknown="ignore"))
    removed = {"income": 33.0, "town": "Graz", "owner": True, "rooms": 2.0}
    problem = verax.tables.problem(model, TABLE[:20], background=TABLE, baselines=removed)
    attributions = np.tile([4.0, 3.0, 2.0, 1.0], (20, 1))
    curves = PredictionChange()(problem.with_target(1), attributions).morf
    now = TABLE[:20]
    for step, name in enumerate(TABLE.columns):
        now = now.with_columns(pl.lit(removed[name]).cast(TABLE[name].dtype).alias(name))
        np.testing.assert_allclose(curves[:, step + 1], model.predict_proba(now)[:, 1], rtol=0, atol=1e-12)


def test_missing_as_the_baseline_of_rows_that_miss_nothing():
    """Nulls that only the training rows have are nulls for the model all the same."""
    model = fitted(OneHotEncoder(handle_unknown="ignore"))
    rows = TABLE.drop_nulls()[:10]
    problem = verax.tables.problem(model, rows, background=TABLE, baselines={"town": None, "owner": None})
    attributions = np.tile([1.0, 4.0, 3.0, 2.0], (10, 1))
    curves = PredictionChange()(problem.with_target(1), attributions).morf
    for step, names in ((0, []), (1, ["town"]), (2, ["town", "owner"])):
        now = rows.with_columns(pl.lit(None).cast(TABLE[name].dtype).alias(name) for name in names)
        np.testing.assert_allclose(curves[:, step], model.predict_proba(now)[:, 1], rtol=0, atol=1e-12)


def test_a_model_fitted_on_pandas_is_asked_as_it_would_be_by_its_owner():
    """It learnt NaN; a null of polars is unknown to it, and so it is in the scores."""
    pandas_table = TABLE.to_pandas()
    model = fitted(OneHotEncoder(handle_unknown="ignore"), pandas_table)
    for rows, train in ((TABLE[:30], TABLE), (pandas_table[:30], pandas_table)):
        problem = verax.tables.problem(model, rows, background=train)
        expected = model.predict_proba(rows)[:, 1]
        np.testing.assert_allclose(start_of_curves(problem), expected, rtol=0, atol=1e-12)


class ReadsTypes(LogisticRegression):
    """A model that tells frames of polars from others."""

    def predict_proba(self, X):
        sure = 0.9 if hasattr(X, "to_dicts") else 0.2
        return np.tile([1 - sure, sure], (len(X), 1))


def test_another_answer_on_the_own_frame_is_an_error():
    model = ReadsTypes().fit(TABLE[["income"]].to_numpy(), LABELS)
    with pytest.raises(ValueError, match=r"frame: the model's predictions on the polars frame .* differ by up to 0\.7"):
        verax.tables.problem(model, TABLE[["income"]])
