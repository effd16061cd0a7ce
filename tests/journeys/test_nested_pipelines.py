"""Postcodes behind pipelines of any depth: a removed one becomes another that exists, as the model itself sees it."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import verax
from verax.metrics import PredictionChange

pd = pytest.importorskip("pandas")

COUNT = 120
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "income": RNG.normal(30, 8, COUNT),
        "zip": RNG.choice([1010, 4020, 8010, 9020], COUNT, p=[0.2, 0.3, 0.4, 0.1]),
        "age": RNG.normal(45, 12, COUNT),
        "children": RNG.integers(0, 4, COUNT),
    }
)
LABELS = (TABLE["zip"].isin([4020, 9020]) ^ (TABLE["income"] > 35)).to_numpy().astype(int)
NUMBERS = ["income", "age", "children"]


def one_hot():
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def columns(encoder=None):
    """Numbers first, so that the postcode, second of the table, comes last."""
    return make_column_transformer((StandardScaler(), NUMBERS), (encoder or one_hot(), ["zip"]))


def reordering(numbers="passthrough"):
    return make_column_transformer((numbers, NUMBERS), ("passthrough", ["zip"]))


def by_place(place=-1):
    """A second column transformer, which finds the postcode by its place behind the first one."""
    rest = [one for one in range(4) if one != place % 4]
    return ColumnTransformer([("numbers", StandardScaler(), rest), ("zip", one_hot(), [place])])


def logistic():
    return LogisticRegression(max_iter=5000)


def piped(*steps):
    return make_pipeline(*(steps or (columns(),)), logistic())


def selected(name):
    return make_column_transformer((one_hot() if name == "zip" else "passthrough", [name]))


def by_name_after_reordering():
    first = reordering().set_output(transform="pandas")
    second = make_column_transformer((one_hot(), ["passthrough-2__zip"]), remainder="passthrough")
    return piped(first, second)


def trees_by_place():
    return make_pipeline(reordering(), HistGradientBoostingClassifier(max_iter=5, categorical_features=[3]))


CLASSIFIERS = {
    "pipeline": piped,
    "pipeline in pipeline": lambda: piped(make_pipeline(make_pipeline(columns()))),
    "pipeline as the last step": lambda: make_pipeline(FunctionTransformer(), piped()),
    "encoder deep in a column": lambda: piped(columns(make_pipeline(SimpleImputer(), make_pipeline(one_hot())))),
    "union": lambda: piped(make_union(selected("zip"), selected("income"), selected("age"))),
    "union in a pipeline in a column": lambda: piped(
        columns(make_pipeline(FeatureUnion([("a", one_hot()), ("b", OrdinalEncoder())])))
    ),
    "column transformer in column transformer": lambda: piped(
        make_column_transformer((columns(), list(TABLE.columns)))
    ),
    "by place in an inner column transformer": lambda: piped(
        make_column_transformer((by_place(1), ["income", "zip", "age", "children"]))
    ),
    "by place after a reordering": lambda: piped(reordering(), by_place()),
    "by place after scaling and reordering": lambda: piped(reordering(StandardScaler()), by_place(3)),
    "by place after another encoder": lambda: piped(
        make_column_transformer((OrdinalEncoder(), ["zip"]), remainder="passthrough"), by_place(0)
    ),
    "by name after a reordering": by_name_after_reordering,
    "after a selection of columns": lambda: piped(
        reordering(), SelectKBest(k=4), ColumnTransformer([("zip", one_hot(), [3])], remainder="passthrough")
    ),
    "trees by place after a reordering": trees_by_place,
    "calibrated": lambda: CalibratedClassifierCV(piped(), cv=2),
    "calibrated, fitted before": lambda: CalibratedClassifierCV(FrozenEstimator(piped().fit(TABLE, LABELS)), cv=2),
    "voting": lambda: VotingClassifier([("a", piped()), ("b", piped(make_pipeline(columns())))], voting="soft"),
    "stacking": lambda: StackingClassifier([("a", piped())], logistic(), cv=2),
    "stacking with the columns": lambda: StackingClassifier(
        [("a", make_pipeline(StandardScaler(), logistic()))],
        make_pipeline(ColumnTransformer([("zip", one_hot(), [2])], remainder="passthrough"), logistic()),
        cv=2,
        passthrough=True,
    ),
    "bagging": lambda: BaggingClassifier(piped(by_place(1)), 2, random_state=0),
    "bagging of some columns": lambda: BaggingClassifier(  # it draws the columns 2, 0, 1
        piped(ColumnTransformer([("zip", one_hot(), [2])], remainder="passthrough")), 1, max_features=3, random_state=7
    ),
    "one against the rest": lambda: OneVsRestClassifier(piped(by_place(1))),
    "threshold": lambda: FixedThresholdClassifier(piped()),
    "search": lambda: GridSearchCV(make_pipeline(make_pipeline(columns()), logistic()), {}, cv=2),
    "voting of calibrated searches": lambda: VotingClassifier(
        [("a", CalibratedClassifierCV(GridSearchCV(piped(reordering(), by_place()), {}, cv=2), cv=2))], voting="soft"
    ),
}


def check_curves(predict, problem, rows, target=1):
    """Remove columns one after the other, and ask the model itself about each changed table."""
    removed = {"income": TABLE["income"].mean(), "zip": 8010, "age": TABLE["age"].mean()}
    removed["children"] = TABLE["children"].mean()
    order = ["zip", "age", "income", "children"]
    attributions = np.tile([float(-order.index(name)) for name in problem.names], (len(rows), 1))
    curves = PredictionChange()(problem.with_target(target), attributions)
    now = rows.copy()
    np.testing.assert_allclose(curves.morf[:, 0], predict(now), rtol=0, atol=1e-9)
    for step, name in enumerate(order):
        now[name] = removed[name]
        np.testing.assert_allclose(curves.morf[:, step + 1], predict(now), rtol=0, atol=1e-9)


@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_removed_postcode_is_one_that_exists(make):
    model = make().fit(TABLE, LABELS)
    problem = verax.tables.problem(model, TABLE[:10], background=TABLE)
    assert dict(zip(problem.names, problem.rows.codes, strict=True)) == dict.fromkeys(NUMBERS, False) | {"zip": True}
    check_curves(lambda rows: model.predict_proba(rows)[:, 1], problem, TABLE[:10])


REGRESSORS = {
    "transformed target": lambda: TransformedTargetRegressor(
        make_pipeline(columns(), Ridge()), transformer=StandardScaler()
    ),
    "voting": lambda: VotingRegressor([("a", make_pipeline(make_pipeline(columns()), Ridge()))]),
}


@pytest.mark.parametrize("make", REGRESSORS.values(), ids=REGRESSORS)
def test_a_regressor(make):
    model = make().fit(TABLE, TABLE["income"] + 5 * (TABLE["zip"] == 4020))
    problem = verax.tables.problem(model, TABLE[:10], background=TABLE)
    check_curves(model.predict, problem, TABLE[:10], target=None)


class Wrapped(ClassifierMixin, BaseEstimator):
    """A class of the user's own around a pipeline."""

    def __init__(self, renamed=False):
        self.renamed = renamed

    def rows(self, table):
        return table.rename(columns=str.upper) if self.renamed else table[["zip", *NUMBERS]]

    def fit(self, table, labels):
        names = ["ZIP"] if self.renamed else ["zip"]
        transformer = make_column_transformer((one_hot(), names), remainder="passthrough")
        self.inner = make_pipeline(transformer, logistic()).fit(self.rows(table), labels)
        self.classes_, self.feature_names_in_ = self.inner.classes_, np.array(table.columns, dtype=object)
        return self

    def predict_proba(self, table):
        return self.inner.predict_proba(self.rows(table))


def test_a_class_of_ones_own_around_a_pipeline():
    model = Wrapped().fit(TABLE, LABELS)
    problem = verax.tables.problem(model, TABLE[:10], background=TABLE)
    check_curves(lambda rows: model.predict_proba(rows)[:, 1], problem, TABLE[:10])


def shuffle(rows):
    return np.asarray(rows)[:, ::-1]


UNTRACEABLE = {
    "a function of several columns": lambda: piped(
        FunctionTransformer(shuffle), ColumnTransformer([("zip", one_hot(), [2])], remainder="passthrough")
    ),
    "mixed before": lambda: piped(PCA(3), ColumnTransformer([("bins", one_hot(), [0])], remainder="passthrough")),
    "renamed by a class of one's own": lambda: Wrapped(renamed=True),
    "a union of a function": lambda: piped(
        Pipeline([("both", make_union(FunctionTransformer(shuffle), StandardScaler()))]),
        ColumnTransformer([("zip", one_hot(), [2])], remainder="passthrough"),
    ),
}


@pytest.mark.parametrize("make", UNTRACEABLE.values(), ids=UNTRACEABLE)
def test_columns_that_cannot_be_traced_are_asked_for(make):
    model = make().fit(TABLE, LABELS)
    with pytest.raises(
        ValueError, match=r"columns income, zip, age, children .*: categorical=\[\.\.\.\] \(\[\] for none\)"
    ):
        verax.tables.problem(model, TABLE[:10], background=TABLE)
    problem = verax.tables.problem(model, TABLE[:10], background=TABLE, categorical=["zip"])
    check_curves(lambda rows: model.predict_proba(rows)[:, 1], problem, TABLE[:10])
    assert not verax.tables.problem(model, TABLE[:10], background=TABLE, categorical=[]).rows.codes.any()


def test_text_that_is_mixed_before_its_encoder_needs_no_answer():
    table = pd.DataFrame(
        {"town": ["Graz", "Wien"] * 20, "street": ["a", "b", "c", "d"] * 10, "income": np.arange(40.0)}
    )
    words = make_pipeline(FunctionTransformer(lambda rows: np.asarray(rows)[:, ::-1]), one_hot())
    transformer = make_column_transformer((words, ["town", "street"]), remainder="passthrough")
    model = make_pipeline(transformer, logistic()).fit(table, np.arange(40) % 4 > 1)
    assert verax.tables.problem(model, table[:5], background=table).rows.codes.tolist() == [True, True, False]


@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_numbers_that_boosters_take_as_categories(package):
    library = pytest.importorskip(package)
    if package == "lightgbm":
        model = library.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1)
        model.fit(TABLE, LABELS, categorical_feature=["zip"])
    else:
        model = library.XGBClassifier(n_estimators=5, feature_types=["float", "c", "float", "int"])
        model.set_params(enable_categorical=True, tree_method="hist")
        model.fit(TABLE.assign(zip=TABLE["zip"] // 1000), LABELS)
    problem = verax.tables.problem(model, TABLE[:10] if package == "lightgbm" else small(), background=None)
    assert problem.rows.codes.tolist() == [False, True, False, False]


def small():
    return TABLE[:10].assign(zip=TABLE["zip"] // 1000)
