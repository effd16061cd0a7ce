"""``verax.Inputs``: features, baselines, companions and gaps travel with their rows through every call."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

import verax
from verax import attribution
from verax.metrics import PredictionChange, SensitivityN
from verax.problem.checked_inputs import checked_inputs

N, D = 6, 5
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(N, D, generator=GENERATOR, dtype=torch.float64)
A = torch.randn(N, D, generator=GENERATOR, dtype=torch.float64)
MODEL = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, 3)).double()
GROUPS, BASELINES = [0, 0, 1, 2, 2], torch.linspace(-0.5, 0.5, D).double()
METRICS = ("pc", "dpc", "infidelity", "sensitivity_n")


def values(evaluation):
    return {name: result.value for name, result in evaluation.items()}


def test_inputs_are_the_same_as_arguments_beside_an_array():
    beside = verax.evaluate(MODEL, X, A, METRICS, features=GROUPS, baselines=BASELINES, samples=20)
    brought = verax.evaluate(MODEL, verax.Inputs(X, GROUPS, BASELINES), A, METRICS, samples=20)
    for name, wanted in values(beside).items():
        torch.testing.assert_close(brought[name].value, wanted, rtol=0, atol=0)


def test_everything_takes_inputs():
    inputs = verax.Inputs(X, GROUPS, BASELINES)
    assert verax.prediction_change(MODEL, inputs, A).steps == 3
    assert verax.directed_prediction_change(MODEL, inputs, A).steps == 3
    assert verax.infidelity(MODEL, inputs, A, samples=20, perturbation="baseline").value.shape == (N,)
    assert verax.compare(MODEL, inputs, {"a": A, "b": -A}, ["pc"]).evaluation["pc"].value["a"].shape == (N,)
    found = attribution.Occlusion()(MODEL, inputs)
    assert found.shape == X.shape
    torch.testing.assert_close(found[:, 0], found[:, 1])  # one feature, shared out evenly


def test_tune_takes_inputs():
    pytest.importorskip("optuna")
    inputs = verax.Inputs(X, GROUPS, BASELINES)
    found = verax.tune(MODEL, inputs, metric="pc", trials=2, methods=["Occlusion", "Random"])
    assert type(found.best).__name__ == "Occlusion"


@pytest.mark.parametrize("beside", [{"features": GROUPS}, {"baselines": 1.0}, {"baselines": BASELINES}])
def test_what_inputs_bring_is_not_said_twice(beside):
    with pytest.raises(ValueError, match=f"{next(iter(beside))}: the inputs bring their own"):
        verax.prediction_change(MODEL, verax.Inputs(X), A, **beside)


@pytest.mark.parametrize("rows", [slice(1, 4), 2, [3, 0], np.array([True, False] * 3)], ids=repr)
def test_slicing_slices_all_that_is_held_per_row(rows):
    each = torch.randint(-1, 3, (N, D), generator=torch.Generator().manual_seed(1))
    each[:, 0] = 0
    inputs = verax.Inputs(X, each, X / 2, alongside={"scale": torch.arange(1.0, N + 1).double()})
    model = verax.Scorer(lambda x, scale: x.square().sum(1) * scale, returns="values")
    whole = verax.prediction_change(model, inputs, A).value
    at = [rows] if isinstance(rows, int) else rows
    part = verax.prediction_change(model, inputs[rows], A[at]).value
    torch.testing.assert_close(part, whole[at], rtol=1e-12, atol=1e-12)


def test_rows_one_by_one():
    inputs = verax.Inputs(X, GROUPS, alongside={"mask": torch.arange(N)})
    assert [one.alongside["mask"].tolist() for one in inputs] == [[row] for row in range(N)]
    assert torch.equal(inputs[-1].values, X[-1:])
    assert torch.equal(inputs[np.int64(2)].values, X[2:3])
    for row in (N, -N - 1):
        with pytest.raises(IndexError):
            inputs[row]


@pytest.mark.parametrize("side", [4, 12])  # few features, and more than fit into a number
def test_maps_and_attributions_with_channels_in_one_call(side):
    """Each has the scores that it has alone."""
    x = torch.randn(3, 2, side, side, generator=torch.Generator().manual_seed(1))
    a = torch.randn(x.shape, generator=torch.Generator().manual_seed(2))
    model = nn.Sequential(nn.Flatten(), nn.Linear(2 * side * side, 3))
    given = {"channels": a, "map": a.sum(1), "one channel": a.sum(1, keepdim=True)}
    metrics = ("pc", "dpc", "lpc", "infidelity", "effect_correlation")
    together = verax.evaluate(model, x, given, metrics, samples=20)
    for name, one in given.items():
        alone = verax.evaluate(model, x, {name: one}, metrics, samples=20)
        for metric in metrics:
            torch.testing.assert_close(together[metric].value[name], alone[metric].value[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("metric", ["dpc", "lpc"])
def test_missing_baselines_have_no_direction(metric):
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = HistGradientBoostingClassifier().fit(x, x[:, 0] > 0)
    with pytest.raises(ValueError, match=f"^{metric}: baselines: all are NaN, which is in no direction"):
        verax.evaluate(model, verax.Inputs(x, baselines=np.nan), x, [metric])
    some = verax.Inputs(x, baselines=np.array([0.0, np.nan, 0.0]), names=["age", "town", "sex"])
    with pytest.warns(UserWarning, match="counts 0 for features that become NaN, which is in no direction: town"):
        verax.evaluate(model, some, x, [metric])
    assert verax.evaluate(model, verax.Inputs(x, baselines=np.nan), x, ["pc"])["pc"].value.shape == (40,)


def test_one_attribution_per_feature_is_that_of_its_elements():
    inputs = verax.Inputs(X, [4, 4, 7, -1, 9])
    by_feature = torch.randn(N, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    by_element = torch.stack(
        [by_feature[:, 0] / 2, by_feature[:, 0] / 2, by_feature[:, 1], torch.full((N,), 99.0), by_feature[:, 2]], dim=1
    )
    one, other = (verax.evaluate(MODEL, inputs, a, METRICS, samples=20) for a in (by_feature, by_element))
    for name in METRICS:
        torch.testing.assert_close(one[name].value, other[name].value)
    stack = verax.prediction_change(MODEL, inputs, torch.stack([by_feature, -by_feature]))
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
    inputs = verax.Inputs(x, features)
    attributions = {"a": x, "b": -x}
    found = verax.evaluate(scorer, inputs, attributions, ["pc", "dpc", "infidelity", SensitivityN((1, 2))], samples=20)
    for name in ("Occlusion", "KernelShap", "Random"):
        made = getattr(attribution, name)()(scorer, inputs)
        assert (made[:, [1, 4]] == 0).all(), name
    for row in torch.cat(model.rows):
        assert min(float((row[[1, 4]] - one[[1, 4]]).abs().max()) for one in x) == 0
    loud = {name: one.index_fill(1, torch.tensor([1, 4]), 1e6) for name, one in attributions.items()}
    again = verax.evaluate(scorer, inputs, loud, ["pc", "dpc", "infidelity", SensitivityN((1, 2))], samples=20)
    for name in found:
        torch.testing.assert_close(again[name].value["a"], found[name].value["a"])


def test_draws_do_not_depend_on_padding():
    model = verax.Scorer(lambda x: x[:, :3].sum(1) ** 2, returns="values")
    x = X[:, :3]
    padded = torch.cat((x, torch.full((N, 4), 7.0).double()), dim=1)
    short = verax.Inputs(x, [0, 1, 2])
    long = verax.Inputs(padded, [0, 1, 2, -1, -1, -1, -1])
    filled = torch.cat((A[:, :3], torch.zeros(N, 4)), dim=1)
    one = verax.infidelity(model, short, A[:, :3], perturbation="baseline", samples=30).value
    two = verax.infidelity(model, long, filled, perturbation="baseline", samples=30).value
    torch.testing.assert_close(one, two)
    for method in (attribution.KernelShap(samples=6), attribution.PermutationShap(samples=6), attribution.LimeGroups()):
        torch.testing.assert_close(method(model, long)[:, :3], method(model, short))


def test_companions_follow_their_rows_by_name():
    scale = torch.arange(1.0, N + 1).double()
    inputs = verax.Inputs(X, alongside={"scale": scale}, key="values")

    def model(*, values, scale):
        return values.sum(1) * scale

    found = verax.prediction_change(verax.Scorer(model, returns="values"), inputs, A, batch_size=4).value
    for row in range(N):
        own = verax.Scorer(lambda x, k=scale[row]: x.sum(1) * k, returns="values")
        torch.testing.assert_close(
            found[row], verax.prediction_change(own, X[row : row + 1], A[row : row + 1]).value[0]
        )


class Masked(nn.Module):
    """A tiny network that is called with a mask beside its rows."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(D, 2).double()

    def forward(self, x, mask=None):
        return self.layer(x * mask)


def test_a_module_gets_companions_with_and_without_gradients():
    mask = (torch.rand(N, D, generator=GENERATOR) < 0.7).double()
    module, inputs = Masked(), verax.Inputs(X, alongside={"mask": mask})
    for method in (attribution.Gradient(), attribution.IntegratedGradients(), attribution.SmoothGrad(samples=4)):
        found = method(module, inputs, background=X, target=1, batch_size=4)
        assert (found[mask == 0] == 0).all()
        assert (found[mask == 1] != 0).any()
    with pytest.raises(ValueError, match="this method runs rows of its own, which have no companions"):
        attribution.DeepLiftSHAP()(module, inputs, background=X)


def test_companions_are_for_models_that_can_take_them():
    forest = HistGradientBoostingClassifier(max_iter=2).fit(X, [0, 1] * 3)
    with pytest.raises(TypeError, match=r"inputs: they bring companions \(mask\)"):
        verax.prediction_change(forest, verax.Inputs(X, alongside={"mask": X}), A)
    with pytest.raises(ValueError, match=r"alongside\['mask'\]: expected one entry for each of 6 rows, found 2"):
        verax.Inputs(X, alongside={"mask": X[:2]})


IDS = torch.tensor([[5, 3, 2, 0], [4, 4, 1, 2]])


def test_ids_are_codes_and_need_a_baseline():
    table = torch.nn.Embedding(6, 4).double()
    model = verax.Scorer(lambda ids: table(ids).detach().mean(1), returns="logits")
    with pytest.raises(ValueError, match="baselines: codes have no usual one"):
        verax.prediction_change(model, verax.Inputs(IDS), torch.rand(2, 4))
    inputs = verax.Inputs(IDS, baselines=0)
    found = verax.evaluate(model, inputs, torch.rand(2, 4), ["pc", "sensitivity_n"])
    assert found["pc"].value.shape == (2,)
    assert attribution.Random()(model, inputs).is_floating_point()
    assert attribution.Occlusion()(model, inputs).is_floating_point()
    with pytest.raises(ValueError, match="dpc: the inputs are codes, which have no direction"):
        verax.directed_prediction_change(model, inputs, torch.rand(2, 4))
    with pytest.raises(ValueError, match="noise means nothing for codes"):
        verax.infidelity(model, inputs, torch.rand(2, 4))
    with pytest.raises(TypeError, match="expected floating-point numbers"):
        verax.prediction_change(model, IDS, torch.rand(2, 4), baselines=0)


def test_a_collate_closes_gaps_before_the_model_is_called():
    lengths = []

    def squeeze(ids, alongside):
        keep = ids >= 0
        order = (~keep).long().argsort(dim=1, stable=True)
        width = int(keep.sum(1).max())
        lengths.append(width)
        return ids.gather(1, order)[:, :width], {"mask": keep.gather(1, order)[:, :width]}

    def model(ids, mask):
        return (ids * mask).sum(1).double()

    inputs = verax.Inputs(IDS, baselines=-1, collate=squeeze)
    curve = verax.prediction_change(verax.Scorer(model, returns="values"), inputs, IDS.double()).morf
    assert curve[0].tolist() == [10, 5, 2, 0, 0]
    assert min(lengths) < 4


def test_missing_values_go_where_a_model_takes_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = (np.nan_to_num(x).sum(1) > 0).astype(int)
    trees = HistGradientBoostingClassifier(max_iter=5).fit(x, y)
    a = rng.normal(size=x.shape)
    found = verax.evaluate(trees, x, a, ["pc", "dpc", "infidelity"], samples=20)
    assert all(np.isfinite(result.value).all() for result in found.values())
    for row in (0, 7):
        order = np.argsort(-a[row], kind="stable")
        wanted, now = [], x[row].copy()
        target = trees.predict_proba(x[row : row + 1]).argmax()
        for feature in [None, *order]:
            if feature is not None:
                now[feature] = 0.0
            wanted.append(trees.predict_proba(now[None])[0, target])
        np.testing.assert_allclose(found["pc"].morf[row], wanted, rtol=1e-12)
    gone = verax.Inputs(x, baselines=np.nan)  # a removed feature is missing
    removed = verax.prediction_change(trees, gone, a)
    everything = trees.predict_proba(np.full((1, 4), np.nan))[0]
    np.testing.assert_allclose(removed.morf[:, -1], everything[removed.target], rtol=1e-12)
    assert np.isfinite(attribution.Occlusion()(trees, gone)).all()
    with pytest.raises(ValueError, match=r"inputs: expected finite numbers, found nan in row .* verax.Inputs"):
        verax.prediction_change(MODEL, np.where(np.eye(5) > 0, np.nan, 1.0), np.ones((5, 5)))
    with pytest.raises(ValueError, match="model: expected finite scores"):
        verax.prediction_change(MODEL, verax.Inputs(np.where(np.eye(5) > 0, np.nan, 1.0)), np.ones((5, 5)))


def test_what_is_missing_has_no_direction():
    """Of two features, one missing: DPC is that of the other alone."""
    model = verax.Scorer(lambda x: torch.nan_to_num(x, nan=5.0) @ torch.tensor([1.0, 2.0]).double(), returns="values")
    x = torch.tensor([[float("nan"), 3.0]]).double()
    whole = verax.directed_prediction_change(model, verax.Inputs(x), torch.tensor([[1.0, 2.0]]).double())
    assert whole.directed_morf.tolist() == [[11.0, 5.0, 5.0]]


def test_names_codes_and_maps_are_checked():
    with pytest.raises(ValueError, match="names: expected one for each of 3 features, found 2"):
        verax.prediction_change(MODEL, verax.Inputs(X, GROUPS, names=["a", "b"]), A)
    with pytest.raises(TypeError, match="codes: expected True or False"):
        verax.prediction_change(MODEL, verax.Inputs(X, codes=[1, 0, 0, 0, 0]), A)
    with pytest.raises(ValueError, match=r"features: negative numbers .* there is no other in row 1"):
        checked_inputs(verax.Inputs(X[:2, :2], [[0, 1], [-1, -2]]))
    with pytest.raises(TypeError, match="values: already a verax"):
        verax.Inputs(verax.Inputs(X))


def test_one_number_for_all_that_follows_an_axis():
    embeddings = torch.randn(2, 3, 4, dtype=torch.float64)
    words = torch.tensor([[0, 1, 1], [0, 1, -1]])
    found = checked_inputs(verax.Inputs(embeddings, words)).features
    assert found.numbers().tolist() == words[..., None].expand(2, 3, 4).tolist()
    square = torch.zeros(3, 3, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="can be read as one map for all inputs or as one number for each"):
        checked_inputs(verax.Inputs(square, torch.arange(9).reshape(3, 3)))


@pytest.mark.parametrize(
    ("word", "wanted"), [("mean", [2.5, 3.0]), ("median", [1.5, 3.0]), ("mode", [1.0, 3.0]), ("zero", [0.0, 0.0])]
)
def test_baselines_are_statistics_of_the_background(word, wanted):
    background = torch.tensor([[1.0, 3.0], [1.0, 3.0], [2.0, float("nan")], [6.0, 3.0]]).double()
    found = checked_inputs(verax.Inputs(X[:, :2], baselines=word), background).baselines
    assert found[0].tolist() == wanted


def test_sigma_may_be_one_per_element_or_that_of_the_background():
    background = X * torch.tensor([1.0, 10.0, 100.0, 1.0, 1.0])
    spread = background.std(0, correction=0)
    one = verax.infidelity(MODEL, X, A, sigma="std", background=background, samples=20).value
    other = verax.infidelity(MODEL, X, A, sigma=spread, samples=20).value
    torch.testing.assert_close(one, other)
    same = verax.infidelity(MODEL, X, A, sigma=[0.3] * D, samples=20).value
    torch.testing.assert_close(same, verax.infidelity(MODEL, X, A, sigma=0.3, samples=20).value)


def test_doubtful_scales_are_said():
    rng = np.random.default_rng(0)
    raw = np.stack([rng.normal(40, 8, 50), rng.normal(4e4, 9e3, 50), rng.normal(0, 1, 50)], axis=1)
    model = verax.Scorer(lambda x: 1 / (1 + np.exp(-x[:, 2])), returns="probabilities", takes="numpy")
    with pytest.warns(UserWarning, match="baselines: outside what the data hold in column 0, column 1"):
        verax.prediction_change(model, raw, raw)
    with pytest.warns(UserWarning, match="sigma: one number for columns whose spreads go from"):
        verax.infidelity(model, raw, raw, samples=20)
    settings = {"baselines": "mean", "sigma": "std", "background": raw, "samples": 20}
    verax.evaluate(model, raw, raw, ["pc", "infidelity"], **settings)  # says nothing
    with pytest.warns(UserWarning, match=r"DPC ranks features by the size .* spreads of the columns go from"):
        verax.evaluate(model, raw, raw, ["dpc"], **settings)
    frame = pytest.importorskip("pandas").DataFrame(raw, columns=["age", "income", "risk"])
    with pytest.warns(UserWarning, match="baselines: outside what the data hold in age, income "):
        verax.prediction_change(model, frame, raw)
    sure = verax.Scorer(lambda x: np.where(x[:, 2] > 0, 1.0, 0.0), returns="probabilities", takes="numpy")
    with pytest.warns(UserWarning, match="All scores are saturated"):
        verax.evaluate(sure, raw, raw, [PredictionChange()], baselines="mean", background=raw)


TOWNS = {"age": [20.0, 30.0, 40.0], "town": ["Graz", "Wien", "Graz"]}
TABLES = r"scorer, inputs = verax\.tables\.encoded\(model, frame, background=train_frame\)"
TEXTS = r"inputs = verax\.text\.tokenized\(tokenizer, texts\)"


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
    "compare": lambda x: verax.compare(MODEL, x, {"random": A}),
    "compare a method": lambda x: verax.compare(MODEL, x, {"kernel": attribution.KernelShap()}),
    "evaluate": lambda x: verax.evaluate(MODEL, x, A),
    "metric": lambda x: verax.prediction_change(MODEL, x, A),
    "Inputs": lambda x: verax.evaluate(MODEL, verax.Inputs(x), A),
    "method": lambda x: attribution.KernelShap()(MODEL, x),
    "limits": lambda x: verax.limits(MODEL, x),
    "tune": lambda x: verax.tune(MODEL, x, metric="pc", trials=1),
    "audit": lambda x: verax.audit(MODEL, x, {"kernel": attribution.KernelShap()}),
    "background": lambda x: verax.evaluate(MODEL, X, A, background=x),
}


@pytest.mark.parametrize("kind", frames())
@pytest.mark.parametrize("call", CALLS)
def test_tables_and_texts_are_told_what_takes_them(kind, call):
    given, message = frames()[kind]
    with pytest.raises(TypeError, match=message):
        CALLS[call](given)


def test_attributions_that_are_no_numbers_get_no_advice_about_texts():
    with pytest.raises(TypeError, match="attributions: expected an array of numbers, found str") as caught:
        verax.evaluate(MODEL, X, "gradient")
    assert "tokenized" not in str(caught.value)
