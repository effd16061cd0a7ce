"""Mixed tables: numbers, categories and gaps through encoders and through models that take them themselves."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

import reference
import verax
from verax import attribution
from verax.metrics import Infidelity, PredictionChange

pd = pytest.importorskip("pandas")
N = 60
COLUMNS = ("age", "children", "town", "zip", "owner")


def mixed_table(rows=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(40, 10, rows)),
            "children": rng.integers(0, 4, rows),
            "town": rng.choice(np.array(["Graz", "Wien", None], dtype=object), rows, p=[0.3, 0.5, 0.2]),
            "zip": rng.integers(1000, 1004, rows),
            "owner": rng.random(rows) < 0.6,
        }
    )
    liking = np.nan_to_num(frame["age"], nan=45) + 8 * (frame["town"] == "Graz") - 6 * frame["owner"]
    return frame, np.where(liking > 38, "yes", "no")


FRAME, LABELS = mixed_table()
NUMBERS = (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "children"])


def categorical(frame):
    return frame.assign(town=frame["town"].astype("category"), zip=frame["zip"].astype("category"))


def piped(encoder, model=None, frame=FRAME):
    columns = make_column_transformer(NUMBERS, (encoder, ["town", "zip", "owner"]))
    return make_pipeline(columns, LogisticRegression() if model is None else model).fit(frame, LABELS), frame


def boosted_categories():
    frame = categorical(FRAME)
    return HistGradientBoostingClassifier(max_iter=5).fit(frame, LABELS), frame


def lightgbm():
    library = pytest.importorskip("lightgbm")
    frame = categorical(FRAME)
    return library.LGBMClassifier(n_estimators=5, min_child_samples=2, verbose=-1).fit(frame, LABELS), frame


def xgboost():
    library = pytest.importorskip("xgboost")
    frame = categorical(FRAME)
    model = library.XGBClassifier(n_estimators=5, enable_categorical=True, tree_method="hist")
    return model.fit(frame, (LABELS == "yes").astype(int)), frame


def binned():
    columns = make_column_transformer((KBinsDiscretizer(3, strategy="uniform"), ["children"]))
    return make_pipeline(columns, LogisticRegression()).fit(FRAME, LABELS), FRAME


MODELS = {
    "one-hot": lambda: piped(OneHotEncoder(handle_unknown="ignore")),
    "one-hot, one dropped": lambda: piped(OneHotEncoder(drop="first")),
    "ordinal": lambda: piped(
        OrdinalEncoder(encoded_missing_value=-1), RandomForestClassifier(5, max_depth=2, random_state=0)
    ),
    "target": lambda: piped(TargetEncoder(cv=2)),
    "binned": binned,
    "search": lambda: (
        GridSearchCV(piped(OneHotEncoder(handle_unknown="ignore"))[0], {}, cv=2).fit(FRAME, LABELS),
        FRAME,
    ),
    "categories in trees": boosted_categories,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def case(request):
    with np.errstate(all="ignore"):
        model, frame = request.param()
    return model, frame, verax.tables.problem(model, frame[:8], background=frame)


def test_the_model_sees_the_very_rows(case):
    model, frame, problem = case
    result = PredictionChange()(problem.with_target(1), np.ones((8, len(problem.names))))
    np.testing.assert_allclose(result.morf[:, 0], model.predict_proba(frame[:8])[:, 1], rtol=1e-6)


def test_features_are_the_columns_and_removed_ones_take_values_that_exist(case):
    _, frame, problem = case
    names = list(getattr(problem.scorer.adapter.estimator, "feature_names_in_", frame.columns))
    assert list(problem.names) == names
    asked = []
    adapter = problem.scorer.adapter
    spy = verax.Scorer(
        lambda rows: asked.append(rows.copy()) or adapter(_tensor(rows), "numpy"),
        returns="probabilities",
        takes="numpy",
    )
    verax.evaluate(problem.with_model(spy), np.arange(8.0 * len(names)).reshape(8, -1), ["pc", "sensitivity_n"])
    seen = adapter.frame(np.concatenate(asked))
    coded = [name for name, code in zip(names, problem.rows.codes, strict=True) if code]
    for name in coded:
        assert set(map(str, seen[name].unique())) <= set(map(str, frame[name].unique()))
    removed = adapter.frame(problem.rows.baselines[None]).iloc[0]
    for name in set(names) - set(coded):
        assert removed[name] == pytest.approx(frame[name].mean())


def _tensor(rows):
    return pytest.importorskip("torch").from_numpy(rows)


def test_baselines_are_the_mean_and_the_most_frequent_category():
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:3], background=frame)
    row = problem.scorer.adapter.frame(problem.rows.baselines[None]).iloc[0]
    assert row["age"] == pytest.approx(frame["age"].mean())  # gaps left out
    assert row["town"] == frame["town"].mode()[0]
    assert row["zip"] == frame["zip"].mode()[0]  # a number that is encoded is a category
    assert problem.rows.codes.tolist() == [False, False, True, True, True]
    encoded_row = model[:-1].transform(problem.scorer.adapter.frame(problem.rows.baselines[None]))
    blocks = np.asarray(encoded_row.todense() if hasattr(encoded_row, "todense") else encoded_row)[0, 2:]
    assert blocks.sum() == 3  # one category in each block


@pytest.mark.parametrize(
    ("baselines", "age", "town"),
    [
        ("median", "median", "Wien"),
        ({"town": "Graz"}, "mean", "Graz"),
        (pd.Series({"age": 1.0, "town": None}), 1.0, None),
        (FRAME[:1].assign(age=2.0, town="Graz"), 2.0, "Graz"),
    ],
    ids=["word", "dict", "series", "row"],
)
def test_baselines_may_be_said(baselines, age, town):
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:3], background=frame, baselines=baselines)
    row = problem.scorer.adapter.frame(problem.rows.baselines[None]).iloc[0]
    assert row["age"] == pytest.approx(getattr(frame["age"], age)() if isinstance(age, str) else age)
    assert row["town"] == town or (town is None and pd.isna(row["town"]))


def test_missing_may_be_what_a_removed_feature_becomes():
    frame = categorical(FRAME)[["age", "town"]]
    model = HistGradientBoostingClassifier(max_iter=5).fit(frame, LABELS)
    problem = verax.tables.problem(model, frame[:5], background=frame, baselines="missing")
    result = PredictionChange()(problem.with_target("yes"), np.ones((5, 2)))
    nothing = frame[:1].assign(age=np.nan, town=pd.Series([None], dtype=frame["town"].dtype))
    assert result.morf[:, -1] == pytest.approx(model.predict_proba(nothing)[0, 1])
    with pytest.raises(ValueError, match="baselines: nothing is missing in column zip"):
        verax.tables.problem(*piped(OneHotEncoder())[:1], FRAME[:5], background=FRAME, baselines="missing")


def test_curves_are_the_plain_definition():
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:6], background=frame)
    a = np.random.default_rng(1).normal(size=(6, 5))
    result = PredictionChange()(problem.with_target("yes"), a)
    typical = problem.scorer.adapter.frame(problem.rows.baselines[None])
    for row in range(6):
        now, expected = frame[row : row + 1].copy().reset_index(drop=True), []
        for column in [None, *(COLUMNS[one] for one in reference.ranking(a[row].tolist(), "signed"))]:
            if column is not None:
                now[column] = typical[column]
            expected.append(model.predict_proba(now)[0, 1])
        np.testing.assert_allclose(result.morf[row], expected, rtol=1e-12)


def test_methods_and_other_metrics_take_it():
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:6], background=frame)
    methods = {"occlusion": attribution.Occlusion(), "shap": attribution.KernelShap(), "random": attribution.Random()}
    with pytest.warns(UserWarning, match="DPC counts 0 for features that are categorical .* town, zip, owner"):
        result = verax.evaluate(problem, methods, ["pc", "dpc", Infidelity(sigma="std", samples=20)])
    assert result["pc"].mean()["occlusion"].mean > result["pc"].mean()["random"].mean
    exact = attribution.KernelShap()(problem)  # 2^5 rows: exact, so it adds up
    everything = model.predict_proba(problem.scorer.adapter.frame(problem.rows.baselines[None]))[0]
    whole = model.predict_proba(frame[:6])
    chosen = whole.argmax(1)
    logit = np.log(whole / (1 - whole))[np.arange(6), chosen] - np.log(everything / (1 - everything))[chosen]
    np.testing.assert_allclose(exact.sum(1), logit, rtol=1e-6)


def test_a_regressor_of_a_mixed_table():
    frame = categorical(FRAME)
    price = np.nan_to_num(frame["age"], nan=40) * 1000
    model = HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=3).fit(frame, price)
    problem = verax.tables.problem(model, frame[:6], background=frame)
    curve = PredictionChange()(problem, np.ones((6, 5))).morf
    np.testing.assert_allclose(curve[:, 0], model.predict(frame[:6]))


def test_polars_frames_are_taken():
    polars = pytest.importorskip("polars")
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    columns = {name: frame[name].astype(object) for name in frame}
    other = polars.DataFrame({name: one.where(one.notna(), None).tolist() for name, one in columns.items()})
    problem = verax.tables.problem(model, other[:6], background=other)
    curve = PredictionChange()(problem.with_target("yes"), np.ones((6, 5))).morf
    np.testing.assert_allclose(curve[:, 0], model.predict_proba(other[:6])[:, 1])  # None is no category that it knows
    known = other["town"][:6].is_not_null().to_numpy()
    np.testing.assert_allclose(curve[known, 0], model.predict_proba(frame[:6])[known, 1])


def test_names_with_blanks_which_lightgbm_does_not_keep():
    library = pytest.importorskip("lightgbm")
    frame = FRAME[["age", "children"]].rename(columns={"age": "years of age"})
    model = library.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1).fit(frame, LABELS)
    problem = verax.tables.problem(model, frame[["children", "years of age"]][:6], background=frame)
    assert problem.names == ("years of age", "children")
    curve = PredictionChange()(problem.with_target("yes"), np.ones((6, 2))).morf
    np.testing.assert_allclose(curve[:, 0], model.predict_proba(frame[:6])[:, 1])


def test_what_cannot_be_taken_is_named():
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    with pytest.raises(ValueError, match=r"frame: expected the columns .* missing: zip"):
        verax.tables.problem(model, frame.drop(columns="zip"), background=frame)
    with pytest.raises(ValueError, match="categorical: the frame has no column street"):
        verax.tables.problem(model, frame, background=frame, categorical=["street"])
    with pytest.raises(ValueError, match=r"baselines: there is no column street"):
        verax.tables.problem(model, frame, background=frame, baselines={"street": 1})
    with pytest.raises(TypeError, match=r"inputs: text or categories in town; verax\.tables\.problem\("):
        verax.Problem(verax.Scorer(lambda x: x, returns="logits"), frame)
    with pytest.raises(TypeError, match="frame: expected a data frame of pandas or polars, got ndarray"):
        verax.tables.problem(model, np.zeros((3, 5)))
    dated = frame.assign(age=pd.Timestamp("2020-01-01"))
    with pytest.raises(TypeError, match="frame: column age holds dates"):
        verax.tables.problem(model, dated, background=dated)
    sparse = pytest.importorskip("scipy.sparse").eye(5).tocsr()
    with pytest.raises(TypeError, match=r"inputs: a sparse matrix \(csr_.*\) is not taken; pass inputs\.toarray\(\)"):
        verax.Problem(verax.Scorer(lambda x: x, returns="logits"), sparse)


def test_a_method_that_moves_numbers_refuses_categories_and_names_the_one_that_does_not():
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:6], background=frame)
    with pytest.raises(ValueError, match=r"LimeTabular: it moves numbers .* use LimeGroups"):
        attribution.LimeTabular()(problem)
    assert attribution.LimeGroups(samples=64)(problem).shape == (6, 5)


BOOSTERS = {
    "scikit-learn": lambda: HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=2),
    "lightgbm": lambda: pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=20, min_child_samples=2, min_data_per_group=1, cat_smooth=0.1, verbose=-1
    ),
    "xgboost": lambda: pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, enable_categorical=True),
}


@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
@pytest.mark.parametrize("make", BOOSTERS.values(), ids=BOOSTERS)
@pytest.mark.parametrize("baselines", ["mean", {"town": "Linz"}], ids=["most frequent", "by name"])
def test_a_category_dtype_that_lacks_the_category_of_the_baseline(make, ordered, baselines):
    """Rows of Graz and Wien alone, whose type lists no other town; a removed town is Linz all the same."""
    towns = np.array(["Wien"] * 30 + ["Linz"] * 50 + ["Graz"] * 30)
    train = pd.DataFrame({"town": pd.Categorical(towns, ["Wien", "Linz", "Graz"], ordered=ordered), "age": 1.0})
    model = make().fit(train, (towns == "Linz").astype(int))
    rows = train[towns != "Linz"][25:35].copy()
    whole = rows.copy()
    rows["town"] = rows["town"].cat.remove_unused_categories()
    problem = verax.tables.problem(model, rows, background=train, baselines=baselines)
    curves = PredictionChange()(problem.with_target(1), np.tile([2.0, 1.0], (10, 1))).morf
    np.testing.assert_allclose(curves[:, 0], model.predict_proba(rows)[:, 1], rtol=1e-6)
    whole["town"] = pd.Categorical(["Linz"] * 10, train["town"].cat.categories, ordered=ordered)
    np.testing.assert_allclose(curves[:, 1], model.predict_proba(whole)[:, 1], rtol=1e-6)
    assert curves[0, 1] > 0.5 > curves[0, 0]


NUMBERED = {
    "pipeline": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [2, 3, 4]), (SimpleImputer(), [0, 1])),
        LogisticRegression(max_iter=5000),
    ),
    "trees": lambda: HistGradientBoostingClassifier(max_iter=5, categorical_features=[2, 3]),
}


@pytest.mark.parametrize("make", NUMBERED.values(), ids=NUMBERED)
@pytest.mark.parametrize("labels", [range(5), [7, 3, 5, 1, 9]], ids=["from 0", "any"])
def test_columns_with_numbers_for_names(make, labels):
    frame = categorical(FRAME).set_axis(list(labels), axis=1)
    model = make().fit(frame, LABELS)
    first, town = (str(list(labels)[place]) for place in (0, 2))
    problem = verax.tables.problem(
        model, frame[:6], background=frame, baselines={int(town): "Graz"}, categorical=[int(town)]
    )
    assert problem.names == tuple(map(str, labels))
    assert problem.rows.codes.tolist() == [False, False, True, True, True]
    attributions = np.tile([1.0, 2, 5, 3, 4], (6, 1))
    curves = PredictionChange()(problem.with_target("yes"), attributions).morf
    np.testing.assert_allclose(curves[:, 0], model.predict_proba(frame[:6])[:, 1], rtol=1e-6)
    changed = frame[:6].copy()
    changed[int(town)] = pd.Categorical(["Graz"] * 6, frame[int(town)].cat.categories)
    np.testing.assert_allclose(curves[:, 1], model.predict_proba(changed)[:, 1], rtol=1e-6)
    with pytest.raises(ValueError, match=f"categorical: the frame has no column 12; it has {first}, "):
        verax.tables.problem(model, frame[:6], background=frame, categorical=[12])


def test_what_open_model_and_a_scorer_hold_is_taken(tmp_path):
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    skops = pytest.importorskip("skops.io")
    skops.dump(model, tmp_path / "model.skops")
    expected = model.predict_proba(frame[:6])[:, 1]
    scorer = verax.tables.problem(model, frame, background=frame).scorer
    for one in (verax.models.open_model(tmp_path / "model.skops"), verax.Scorer(model), scorer):
        problem = verax.tables.problem(one, frame[:6], background=frame)
        curve = PredictionChange()(problem.with_target(1), np.ones((6, len(problem.names)))).morf
        np.testing.assert_allclose(curve[:, 0], expected)


def test_boosters_are_sent_to_the_interface_of_scikit_learn():
    lightgbm = pytest.importorskip("lightgbm")
    frame = pd.DataFrame({"age": np.arange(40.0), "town": pd.Categorical(["Graz", "Wien"] * 20)})
    model = lightgbm.LGBMClassifier(n_estimators=2, min_child_samples=1, verbose=-1).fit(frame, [0, 1] * 20)
    for one in (model.booster_, verax.Scorer(model.booster_)):
        with pytest.raises(TypeError, match="got a booster, which takes numbers alone"):
            verax.tables.problem(one, frame)


def test_the_same_question_about_another_frame_and_about_some_rows(case):
    """A frame of other rows, columns in another order; what removed features become stays that of the background."""
    model, frame, problem = case
    other = verax.tables.problem(model, frame[8:20], background=frame)
    rows = frame[list(frame.columns)[::-1]][8:20]
    occlusion = {"occlusion": attribution.Occlusion()}
    result, expected = (PredictionChange()(each, occlusion) for each in (problem.on(rows), other))
    np.testing.assert_array_equal(result.value["occlusion"], expected.value["occlusion"])
    part = PredictionChange()(other[[5, 2]], occlusion).value["occlusion"]
    np.testing.assert_allclose(part, expected.value["occlusion"][[5, 2]], rtol=1e-12, atol=1e-12)


def test_the_background_of_the_problem_is_that_of_replacements_and_noise():
    """As the model sees it: amounts as they are, categories as numbers that no noise touches."""
    model, frame = piped(OneHotEncoder(handle_unknown="ignore"))
    problem = verax.tables.problem(model, frame[:6], background=frame, target=1)
    assert problem.background.shape == (N, 5)
    assert float(problem.spread[0]) == pytest.approx(frame["age"].std(ddof=0))
    rows = []
    spy = verax.Scorer(
        lambda batch: rows.append(batch.copy()) or model.predict_proba(problem.scorer.adapter.frame(batch)),
        returns="probabilities",
        takes="numpy",
        takes_missing=True,
    )
    Infidelity(sigma="std", samples=20)(problem.with_model(spy), np.ones((6, 5)))
    seen = np.concatenate(rows)
    for place in (2, 3, 4):
        assert set(seen[:, place]) <= set(problem.background[:, place].tolist())
    std, spread = (
        Infidelity(sigma=sigma, samples=20)(problem, np.ones((6, 5)))
        for sigma in ("std", tuple(problem.spread.tolist()))
    )
    np.testing.assert_allclose(std.value, spread.value, rtol=1e-12)
    rows.clear()
    nudged = problem.with_model(spy).with_replacement(verax.replacement.Nudge(0.5))
    PredictionChange()(nudged, np.ones((6, 5)))
    step = np.abs(np.concatenate(rows)[:, 1][:, None] - problem.inputs[:, 1].numpy()).min(1).max()
    assert step <= 0.5 * float(problem.spread[1]) + 1e-9
