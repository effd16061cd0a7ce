"""``verax.Problem``: features, baselines, model_kwargs and gaps follow their rows through every call."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

import calls
import verax
from verax import attribution
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN
from verax.problem.inputs import Inputs

N, D = 6, 5
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(N, D, generator=GENERATOR, dtype=torch.float64)
A = torch.randn(N, D, generator=GENERATOR, dtype=torch.float64)
MODEL = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, 3)).double()
GROUPS, BASELINES = [0, 0, 1, 2, 2], torch.linspace(-0.5, 0.5, D).double()
METRICS = ("pc", "dpc", "infidelity", "sensitivity_n")


def test_every_verb_takes_a_problem():
    problem = verax.Problem(MODEL, X, features=GROUPS, baselines=BASELINES)
    assert PredictionChange()(problem, A).steps == 3
    assert DirectedPredictionChange()(problem, A).steps == 3
    assert Infidelity(samples=20, perturbation="baseline")(problem, A).value.shape == (N,)
    assert verax.compare(problem, {"a": A, "b": -A}, ["pc"]).evaluation["pc"].value["a"].shape == (N,)
    occlusion = attribution.Occlusion()(problem)
    assert occlusion.shape == X.shape
    torch.testing.assert_close(occlusion[:, 0], occlusion[:, 1])  # one feature, shared out evenly


def test_tune_takes_a_problem():
    pytest.importorskip("optuna")
    problem = verax.Problem(MODEL, X, features=GROUPS, baselines=BASELINES)
    tuned = verax.tune(problem, ["Occlusion", "Random"], metric="pc", trials=2)
    assert type(tuned.best).__name__ == "Occlusion"


def test_a_problem_is_not_made_of_a_problem():
    problem = verax.Problem(MODEL, X)
    with pytest.raises(TypeError, match=r"inputs: already a verax\.Problem; pass it to the verbs as it is"):
        verax.Problem(MODEL, problem)


@pytest.mark.parametrize("rows", [slice(1, 4), 2, [3, 0], np.array([True, False] * 3)], ids=repr)
def test_slicing_slices_all_that_is_held_per_row(rows):
    each = torch.randint(-1, 3, (N, D), generator=torch.Generator().manual_seed(1))
    each[:, 0] = 0
    model = verax.Scorer(lambda x, scale: x.square().sum(1) * scale, returns="values")
    scale = torch.arange(1.0, N + 1).double()
    problem = verax.Problem(model, X, features=each, baselines=X / 2, model_kwargs={"scale": scale})
    whole = PredictionChange()(problem, A).value
    at = [rows] if isinstance(rows, int) else rows
    part = PredictionChange()(problem[rows], A[at]).value
    torch.testing.assert_close(part, whole[at], rtol=1e-12, atol=1e-12)


def test_rows_one_by_one():
    problem = verax.Problem(MODEL, X, features=GROUPS, target=list(range(3)) * 2)
    assert [torch.equal(each.inputs, X[row : row + 1]) for row, each in enumerate(problem)] == [True] * N
    assert [each.classes.tolist() for each in problem] == [[row % 3] for row in range(N)]
    assert torch.equal(problem[-1].inputs, X[-1:])
    assert torch.equal(problem[np.int64(2)].inputs, X[2:3])
    for row in (N, -N - 1):
        with pytest.raises(IndexError):
            problem[row]


@pytest.mark.parametrize("side", [4, 12])  # few features, and more than fit into a number
def test_maps_and_attributions_with_channels_in_one_call(side):
    """Each has the scores that it has alone."""
    x = torch.randn(3, 2, side, side, generator=torch.Generator().manual_seed(1))
    a = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    model = nn.Sequential(nn.Flatten(), nn.Linear(2 * side * side, 3))
    given = {"channels": a, "map": a.sum(1), "one channel": a.sum(1, keepdim=True)}
    metrics = ("pc", "dpc", "lpc", "infidelity", "effect_correlation")
    together = calls.evaluate(model, x, given, metrics, samples=20)
    for name, one in given.items():
        alone = calls.evaluate(model, x, {name: one}, metrics, samples=20)
        for metric in metrics:
            torch.testing.assert_close(together[metric].value[name], alone[metric].value[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("metric", ["dpc", "lpc"])
def test_missing_baselines_have_no_direction(metric):
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = HistGradientBoostingClassifier().fit(x, x[:, 0] > 0)
    with pytest.raises(ValueError, match=f"^{metric}: baselines: all are NaN, which is in no direction"):
        verax.evaluate(verax.Problem(model, x, baselines=np.nan), x, [metric])
    some = verax.Problem(model, x, baselines=np.array([0.0, np.nan, 0.0]), names=["age", "town", "sex"])
    with pytest.warns(UserWarning, match="counts 0 for features that become NaN, which is in no direction: town"):
        verax.evaluate(some, x, [metric])
    assert verax.evaluate(verax.Problem(model, x, baselines=np.nan), x, ["pc"])["pc"].value.shape == (40,)


def test_one_attribution_per_feature_is_that_of_its_elements():
    features = [4, 4, 7, -1, 9]
    by_feature = torch.randn(N, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    by_element = torch.stack(
        [by_feature[:, 0] / 2, by_feature[:, 0] / 2, by_feature[:, 1], torch.full((N,), 99.0), by_feature[:, 2]], dim=1
    )
    one, other = (
        calls.evaluate(MODEL, X, each, METRICS, features=features, samples=20) for each in (by_feature, by_element)
    )
    for name in METRICS:
        torch.testing.assert_close(one[name].value, other[name].value)
    stack = PredictionChange()(verax.Problem(MODEL, X, features=features), torch.stack([by_feature, -by_feature]))
    assert stack.value.shape == (2, N)


class Recorded:
    """Keeps the rows that it is asked about."""

    def __init__(self):
        self.rows = []

    def __call__(self, batch):
        self.rows.append(batch.clone())
        return batch.sum(1) + batch[:, 0] * batch[:, 3]


@pytest.mark.parametrize("elements", [D, 80], ids=["bits", "ranks"])
def test_what_is_fixed_never_changes_and_does_not_count(elements):
    x = torch.randn(3, elements, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    features = torch.arange(elements)
    features[[1, 4]] = -1
    model = Recorded()
    scorer = verax.Scorer(model, returns="values")
    problem = verax.Problem(scorer, x, features=features)
    attributions = {"a": x, "b": -x}
    metrics = ["pc", "dpc", Infidelity(samples=20), SensitivityN((1, 2))]
    result = verax.evaluate(problem, attributions, metrics)
    for name in ("Occlusion", "KernelShap", "Random"):
        made = getattr(attribution, name)()(problem)
        assert (made[:, [1, 4]] == 0).all(), name
    for row in torch.cat(model.rows):
        assert min(float((row[[1, 4]] - one[[1, 4]]).abs().max()) for one in x) == 0
    loud = {name: one.index_fill(1, torch.tensor([1, 4]), 1e6) for name, one in attributions.items()}
    again = verax.evaluate(problem, loud, metrics)
    for name in result:
        torch.testing.assert_close(again[name].value["a"], result[name].value["a"])


def test_draws_do_not_depend_on_padding():
    model = verax.Scorer(lambda x: x[:, :3].sum(1) ** 2, returns="values")
    x = X[:, :3]
    padded = torch.cat((x, torch.full((N, 4), 7.0).double()), dim=1)
    short = verax.Problem(model, x, features=[0, 1, 2])
    long = verax.Problem(model, padded, features=[0, 1, 2, -1, -1, -1, -1])
    filled = torch.cat((A[:, :3], torch.zeros(N, 4)), dim=1)
    metric = Infidelity(perturbation="baseline", samples=30)
    torch.testing.assert_close(metric(short, A[:, :3]).value, metric(long, filled).value)
    for method in (attribution.KernelShap(samples=6), attribution.PermutationShap(samples=6), attribution.LimeGroups()):
        torch.testing.assert_close(method(long)[:, :3], method(short))


@pytest.mark.parametrize("key", [None, "values"])
def test_model_kwargs_follow_their_rows_by_name(key):
    scale = torch.arange(1.0, N + 1).double()

    def model(values, *, scale):
        return values.sum(1) * scale

    rows = X if key is None else Inputs(X, model_kwargs={"scale": scale}, key=key)
    kwargs = {"scale": scale} if key is None else None
    problem = verax.Problem(verax.Scorer(model, returns="values"), rows, model_kwargs=kwargs, batch_size=4)
    result = PredictionChange()(problem, A).value
    for row in range(N):
        scaled = verax.Scorer(lambda x, k=scale[row]: x.sum(1) * k, returns="values")
        alone = PredictionChange()(verax.Problem(scaled, X[row : row + 1]), A[row : row + 1]).value[0]
        torch.testing.assert_close(result[row], alone)


class Masked(nn.Module):
    """A tiny network that is called with a mask beside its rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, 2).double()

    def forward(self, x, mask=None):
        return self.layer(x * mask)


def test_a_module_gets_model_kwargs_with_and_without_gradients():
    mask = (torch.rand(N, D, generator=GENERATOR) < 0.7).double()
    problem = verax.Problem(Masked(), X, model_kwargs={"mask": mask}, background=X, target=1, batch_size=4)
    for method in (attribution.Gradient(), attribution.IntegratedGradients(), attribution.SmoothGrad(samples=4)):
        result = method(problem)
        assert (result[mask == 0] == 0).all()
        assert (result[mask == 1] != 0).any()
    with pytest.raises(ValueError, match="this method runs rows of its own, which have no model_kwargs"):
        attribution.DeepLiftSHAP()(problem)


def test_model_kwargs_are_for_models_that_can_take_them():
    forest = HistGradientBoostingClassifier(max_iter=2).fit(X, [0, 1] * 3)
    with pytest.raises(TypeError, match=r"model_kwargs: a model behind Estimator takes rows alone, got mask"):
        PredictionChange()(verax.Problem(forest, X, model_kwargs={"mask": X}), A)
    with pytest.raises(ValueError, match=r"model_kwargs\['mask'\]: expected one entry for each of 6 rows, got 2"):
        verax.Problem(Masked(), X, model_kwargs={"mask": X[:2]})


IDS = torch.tensor([[5, 3, 2, 0], [4, 4, 1, 2]])


def test_ids_are_categories_and_need_a_baseline():
    table = torch.nn.Embedding(6, 4).double()
    model = verax.Scorer(lambda ids: table(ids).detach().mean(1), returns="logits")
    with pytest.raises(ValueError, match="baselines: categories have no usual one"):
        verax.Problem(model, IDS, categorical=True)
    problem = verax.Problem(model, IDS, categorical=True, baselines=0)
    result = verax.evaluate(problem, torch.rand(2, 4), ["pc", "sensitivity_n"])
    assert result["pc"].value.shape == (2,)
    assert attribution.Random()(problem).is_floating_point()
    assert attribution.Occlusion()(problem).is_floating_point()
    with pytest.raises(ValueError, match="dpc: categorical inputs have no direction"):
        DirectedPredictionChange()(problem, torch.rand(2, 4))
    with pytest.raises(ValueError, match="noise is undefined for categorical values"):
        Infidelity()(problem, torch.rand(2, 4))
    with pytest.raises(TypeError, match="expected floating-point numbers"):
        verax.Problem(model, IDS, baselines=0)


def test_a_collate_closes_gaps_before_the_model_is_called():
    lengths = []

    def squeeze(ids, model_kwargs):
        keep = ids >= 0
        order = (~keep).long().argsort(dim=1, stable=True)
        width = int(keep.sum(1).max())
        lengths.append(width)
        return ids.gather(1, order)[:, :width], {"mask": keep.gather(1, order)[:, :width]}

    def model(ids, mask):
        return (ids * mask).sum(1).double()

    inputs = Inputs(IDS, baselines=-1, collate=squeeze)
    problem = verax.Problem(verax.Scorer(model, returns="values"), inputs)
    curve = PredictionChange()(problem, IDS.double()).morf
    assert curve[0].tolist() == [10, 5, 2, 0, 0]
    assert min(lengths) < 4


def test_missing_values_go_where_a_model_takes_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = (np.nan_to_num(x).sum(1) > 0).astype(int)
    trees = HistGradientBoostingClassifier(max_iter=5).fit(x, y)
    a = rng.normal(size=x.shape)
    outcome = calls.evaluate(trees, x, a, ["pc", "dpc", "infidelity"], samples=20)
    assert all(np.isfinite(result.value).all() for result in outcome.values())
    for row in (0, 7):
        order = np.argsort(-a[row], kind="stable")
        expected, now = [], x[row].copy()
        target = trees.predict_proba(x[row : row + 1]).argmax()
        for feature in [None, *order]:
            if feature is not None:
                now[feature] = 0.0
            expected.append(trees.predict_proba(now[None])[0, target])
        np.testing.assert_allclose(outcome["pc"].morf[row], expected, rtol=1e-12)
    gone = verax.Problem(trees, x, baselines=np.nan)  # a removed feature is missing
    removed = PredictionChange()(gone, a)
    everything = trees.predict_proba(np.full((1, 4), np.nan))[0]
    np.testing.assert_allclose(removed.morf[:, -1], everything[removed.target], rtol=1e-12)
    assert np.isfinite(attribution.Occlusion()(gone)).all()
    with pytest.raises(ValueError, match=r"inputs: expected finite numbers, got nan in row .*takes_missing=True"):
        verax.Problem(MODEL, np.where(np.eye(5) > 0, np.nan, 1.0))
    open_minded = verax.Scorer(MODEL, takes_missing=True)
    with pytest.raises(ValueError, match="model: expected finite scores"):
        PredictionChange()(verax.Problem(open_minded, np.where(np.eye(5) > 0, np.nan, 1.0)), np.ones((5, 5)))


def test_what_is_missing_has_no_direction():
    """Of two features, one missing: DPC is that of the other alone."""
    model = verax.Scorer(
        lambda x: torch.nan_to_num(x, nan=5.0) @ torch.tensor([1.0, 2.0]).double(), returns="values", takes_missing=True
    )
    x = torch.tensor([[float("nan"), 3.0]]).double()
    whole = DirectedPredictionChange()(verax.Problem(model, x), torch.tensor([[1.0, 2.0]]).double())
    assert whole.directed_morf.tolist() == [[11.0, 5.0, 5.0]]


def test_names_categories_and_maps_are_checked():
    with pytest.raises(ValueError, match="names: expected one for each of 3 features, got 2"):
        verax.Problem(MODEL, X, features=GROUPS, names=["a", "b"])
    with pytest.raises(TypeError, match="categorical: expected True or False"):
        verax.Problem(MODEL, X, categorical=[1, 0, 0, 0, 0], baselines=1)
    with pytest.raises(ValueError, match=r"features: negative numbers .* there is no other in row 1"):
        verax.Problem(MODEL, X[:2, :2], features=[[0, 1], [-1, -2]])


def test_one_number_for_all_that_follows_an_axis():
    embeddings = torch.randn(2, 3, 4, dtype=torch.float64)
    words = torch.tensor([[0, 1, 1], [0, 1, -1]])
    result = verax.Problem(MODEL, embeddings, features=words).features
    assert result.numbers().tolist() == words[..., None].expand(2, 3, 4).tolist()
    square = torch.zeros(3, 3, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="can be read as one map for all inputs or as one number for each"):
        verax.Problem(MODEL, square, features=torch.arange(9).reshape(3, 3))


@pytest.mark.parametrize(
    ("word", "expected"), [("mean", [2.5, 3.0]), ("median", [1.5, 3.0]), ("mode", [1.0, 3.0]), ("zero", [0.0, 0.0])]
)
def test_baselines_are_statistics_of_the_background(word, expected):
    background = torch.tensor([[1.0, 3.0], [1.0, 3.0], [2.0, float("nan")], [6.0, 3.0]]).double()
    result = verax.Problem(
        verax.Scorer(MODEL, takes_missing=True), X[:, :2], baselines=word, background=background
    ).baselines
    assert result[0].tolist() == expected


def test_sigma_may_be_one_per_element_or_that_of_the_background():
    background = X * torch.tensor([1.0, 10.0, 100.0, 1.0, 1.0])
    spread = background.std(0, correction=0)
    one = calls.infidelity(MODEL, X, A, sigma="std", background=background, samples=20).value
    other = calls.infidelity(MODEL, X, A, sigma=spread, samples=20).value
    torch.testing.assert_close(one, other)
    same = calls.infidelity(MODEL, X, A, sigma=[0.3] * D, samples=20).value
    torch.testing.assert_close(same, calls.infidelity(MODEL, X, A, sigma=0.3, samples=20).value)


def test_doubtful_scales_are_said():
    rng = np.random.default_rng(0)
    raw = np.stack([rng.normal(40, 8, 50), rng.normal(4e4, 9e3, 50), rng.normal(0, 1, 50)], axis=1)
    model = verax.Scorer(lambda x: 1 / (1 + np.exp(-x[:, 2])), returns="probabilities", takes="numpy")
    with pytest.warns(UserWarning, match="baselines: outside what the data hold in column 0, column 1"):
        calls.prediction_change(model, raw, raw)
    with pytest.warns(UserWarning, match="sigma: one number for columns whose spreads go from"):
        calls.infidelity(model, raw, raw, samples=20)
    settings = {"baselines": "mean", "sigma": "std", "background": raw, "samples": 20}
    calls.evaluate(model, raw, raw, ["pc", "infidelity"], **settings)  # says nothing
    with pytest.warns(UserWarning, match=r"DPC ranks features by the size .* spreads of the columns go from"):
        calls.evaluate(model, raw, raw, ["dpc"], **settings)
    frame = pytest.importorskip("pandas").DataFrame(raw, columns=["age", "income", "risk"])
    with pytest.warns(UserWarning, match="baselines: outside what the data hold in age, income "):
        calls.prediction_change(model, frame, raw)
    sure = verax.Scorer(lambda x: np.where(x[:, 2] > 0, 1.0, 0.0), returns="probabilities", takes="numpy")
    with pytest.warns(UserWarning, match="All scores are saturated"):
        calls.evaluate(sure, raw, raw, [PredictionChange()], baselines="mean", background=raw)


TOWNS = {"age": [20.0, 30.0, 40.0], "town": ["Graz", "Wien", "Graz"]}
TABLES = r"verax\.tables\.problem\(model, frame, background=train_frame\) makes a problem of them"
TEXTS = r"verax\.text\.classification\(model, tokenizer, texts\) makes a problem of them"


def frames():
    """What is no array of numbers, with what its message names."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(TOWNS)
    texts = ["a good film", "bad", "fine"]
    return {
        "pandas": (frame, f"text or categories in town; {TABLES}"),
        "polars": (polars.DataFrame(TOWNS), f"text or categories in town; {TABLES}"),
        "categories": (frame.astype({"town": "category"}), f"text or categories in town; {TABLES}"),
        "objects": (frame.to_numpy(), f"text among the values: as a data frame, {TABLES}"),
        "dicts": (frame.to_dict("records"), f"rows as dicts: make a data frame of them.*{TABLES}"),
        "flags": (pandas.DataFrame({"age": [1.0], "new": [True]}), r"values of type object; convert .*astype\(float\)"),
        "list": (texts, TEXTS),
        "array": (np.array(texts), TEXTS),
        "series": (pandas.Series(texts), TEXTS),
        "polars series": (polars.Series(texts), TEXTS),
        "one text": ("a good film", TEXTS),
    }


CALLS = {
    "inputs": lambda rows: verax.Problem(MODEL, rows),
    "background": lambda rows: verax.Problem(MODEL, X, background=rows),
    "other rows": lambda rows: verax.Problem(MODEL, X).on(rows),
    "batches": lambda rows: verax.stream(verax.Problem(MODEL, X), [rows], {"random": attribution.Random()}).totals(),
}


@pytest.mark.parametrize("kind", frames())
@pytest.mark.parametrize("call", CALLS)
def test_tables_and_texts_are_told_what_takes_them(kind, call):
    rows, message = frames()[kind]
    with pytest.raises(TypeError, match=message):
        CALLS[call](rows)


def test_attributions_that_are_no_numbers_get_no_advice_about_texts():
    with pytest.raises(TypeError, match="attributions: expected an array of numbers, got str") as caught:
        calls.evaluate(MODEL, X, "gradient")
    assert "verax.text" not in str(caught.value)
