"""Group maps of sequences, and metrics and attributions on series and embeddings against the plain definitions."""

import numpy as np
import pytest
import torch

import calls
import reference
import verax
from verax import attribution, groups
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN

N, T, C, CLASSES = 4, 7, 3, 3


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SERIES, ATTRIBUTIONS, BASELINES = normal(N, T, C), normal(N, T, C, seed=1), 0.5 * normal(T, C, seed=2)
NETWORK = reference.TwoLayers.random(np.random.default_rng(0), T * C, classes=CLASSES)
TARGET = torch.tensor([0, 1, 2, 1])
WINDOWS = {
    "windows": groups.windows(T, C, width=2),
    "of a channel": groups.windows(T, C, width=3, per_channel=True),
    "one each": torch.stack([groups.windows(T, C, width) for width in (1, 2, 3, 7)]),
    "tokens": groups.tokens(torch.arange(T) < torch.tensor([[7], [1], [3], [5]]), C),
}


def model(batch):
    return np.stack([NETWORK.probabilities(row) for row in batch.reshape(len(batch), -1)])


SCORER = verax.Scorer(model, returns="probabilities", takes="numpy")


def maps(features):
    """The groups of each input, flat."""
    return features.expand(N, T, C).reshape(N, -1).tolist()


# The maps


@pytest.mark.parametrize("width", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("per_channel", [True, False])
def test_windows_hold_neighbouring_steps(width, per_channel):
    result = groups.windows(T, C, width, per_channel=per_channel)
    assert result.shape == (T, C)
    for step, channel in np.ndindex(T, C):
        expected = (step // width) * C + channel if per_channel else step // width
        assert result[step, channel] == expected
    assert sorted(result.unique().tolist()) == list(range(int(result.max()) + 1))


@pytest.mark.parametrize("kind", [torch.as_tensor, lambda mask: mask.numpy()])
def test_tokens_are_numbered_in_each_text(kind):
    present = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1]]).bool()  # padded at either end
    result = groups.tokens(kind(present), dimensions=2)
    assert type(result) is type(kind(present))
    for text, mask in zip(result, present, strict=True):
        assert text.shape == (4, 2)
        assert (text[:, 0] == text[:, 1]).all()
        assert text[mask.nonzero()[:, 0], 0].tolist() == list(range(int(mask.sum())))
        assert (text[(~mask).nonzero()[:, 0]] == -1).all()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="width: expected a whole number of at least 1, got 0"):
        groups.windows(5, 2, 0)
    with pytest.raises(ValueError, match="present: expected at least one token in every text, got none in row 1"):
        groups.tokens(torch.tensor([[True], [False]]), 2)
    with pytest.raises(TypeError, match=r"present: expected True or False, shape \(N, length\), got torch.int64"):
        groups.tokens(torch.ones(2, 3, dtype=torch.int64), 2)
    with pytest.raises(ValueError, match="dimensions: expected a whole number"):
        groups.tokens(torch.ones(2, 3).bool(), 0)


# Metrics on sequences


@pytest.mark.parametrize("features", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize("reading", ["pc", "magnitude", "signed", "literal"])
def test_pc_and_dpc_are_the_plain_definitions(features, steps, reading):
    metric = PredictionChange(steps=steps) if reading == "pc" else DirectedPredictionChange(reading, steps)
    result = calls.evaluate(
        SCORER, SERIES, ATTRIBUTIONS, {"it": metric}, target=TARGET, baselines=BASELINES, features=features
    )["it"]
    order = "magnitude" if reading == "magnitude" else "signed"
    for row, one in enumerate(maps(features)):
        count = len({group for group in one if group >= 0})
        curves = reference.guided(
            NETWORK.score(int(TARGET[row])),
            SERIES[row].flatten().numpy(),
            BASELINES.flatten().numpy(),
            ATTRIBUTIONS[row].flatten().numpy(),
            one,
            order,
            min(steps, count),
        )
        morf, lerf = (reference.metric_curve(curve, reading, "cumulative") for curve in curves)
        assert result.value[row].item() == pytest.approx(reference.weighted_abpc(lerf, morf), abs=1e-12)
        assert result.directed_morf[row, : len(morf)].tolist() == pytest.approx(morf, abs=1e-12)


class Recording:
    """Keeps the rows that a model is asked about."""

    def __init__(self):
        self.rows = []

    def __call__(self, batch):
        self.rows.extend(batch.reshape(len(batch), -1).copy())
        return model(batch)


def measured(metric, features, row):
    """A metric of one series, and the rows that the model was asked for."""
    recording = Recording()
    result = calls.evaluate(
        verax.Scorer(recording, returns="probabilities", takes="numpy"),
        SERIES[row : row + 1],
        ATTRIBUTIONS[row : row + 1],
        {"it": metric},
        target=int(TARGET[row]),
        baselines=BASELINES,
        features=features[row : row + 1] if features.ndim == 3 else features,
    )
    return result["it"], recording


@pytest.mark.parametrize("features", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("settings", [{}, {"subset": 1}, {"perturbation": "baseline"}, {"normalize": False}], ids=str)
def test_infidelity_is_the_plain_definition(features, settings):
    metric = Infidelity(samples=30, **settings)
    for row, one in enumerate(maps(features)):
        result, recording = measured(metric, features, row)
        x, drawn = SERIES[row].flatten().numpy(), recording.rows[-30:]
        attribution_row, score = ATTRIBUTIONS[row].flatten().numpy(), NETWORK.score(int(TARGET[row]))
        expected = reference.infidelity(score, x, drawn, attribution_row, metric.normalize, metric.draws.effect)
        assert result.value.item() == pytest.approx(expected, rel=1e-9)
        moved = np.stack(drawn) != x
        for group in set(one):  # a group moves as one
            part = moved[:, np.array(one) == group]
            assert (part.all(1) == part.any(1)).all()
        if metric.subset:
            assert all(len({one[element] for element in draw.nonzero()[0]}) == 1 for draw in moved)


@pytest.mark.parametrize("features", WINDOWS.values(), ids=WINDOWS)
def test_sensitivity_n_compares_the_sum_over_groups_with_their_effect(features):
    metric = SensitivityN(sizes=(1,), samples=25)
    for row, one in enumerate(maps(features)):
        result, recording = measured(metric, features, row)
        score, x = NETWORK.score(int(TARGET[row])), SERIES[row].flatten().numpy()
        sums = reference.feature_sums(ATTRIBUTIONS[row].flatten().numpy(), one)
        squares = []
        for drawn in recording.rows[-25:]:
            (gone,) = {reference.feature_of_element(one)[element] for element in (drawn != x).nonzero()[0]}
            squares.append((sums[gone] - (score(x) - score(drawn))) ** 2)
        assert result.value.item() == pytest.approx(np.mean(squares) ** 0.5, rel=1e-9)


def test_the_predicted_class_is_followed_where_none_is_given():
    predicted = model(SERIES.numpy()).argmax(1)
    for metric in ("pc", "infidelity"):
        given, own = (
            calls.evaluate(
                SCORER, SERIES, ATTRIBUTIONS, [metric], target=target, features=WINDOWS["windows"], samples=9
            )
            for target in (torch.from_numpy(predicted), None)
        )
        assert torch.equal(given[metric].value, own[metric].value)


def turned(batch):
    """The model for series with channels first."""
    return model(batch.swapaxes(1, 2))


def test_series_with_channels_first_take_the_transposed_map():
    features = WINDOWS["of a channel"]
    steps_first = calls.prediction_change(SCORER, SERIES, ATTRIBUTIONS, features=features)
    scorer = verax.Scorer(turned, returns="probabilities", takes="numpy")
    channels_first = calls.prediction_change(scorer, SERIES.mT, ATTRIBUTIONS.mT, features=features.T)
    torch.testing.assert_close(steps_first.value, channels_first.value)


# Padding


class Bag(torch.nn.Module):
    """A text classifier to which padding makes no difference: a sum over tokens of something that is 0 at 0."""

    def __init__(self):
        super().__init__()
        self.first, self.last = (torch.nn.Linear(4, 5, bias=False), torch.nn.Linear(5, 3))
        for layer, seed in ((self.first, 0), (self.last, 1)):
            layer.weight.data = normal(*layer.weight.shape, seed=seed)
            layer.bias = torch.nn.Parameter(normal(3, seed=2)) if layer is self.last else None

    def forward(self, vectors):
        return self.last(self.first(vectors).tanh().sum(1))


@pytest.mark.parametrize("metric", ["pc", "dpc"])
def test_padding_is_no_feature(metric):
    lengths, longest = [5, 1, 3], 6
    present = torch.arange(longest) < torch.tensor(lengths)[:, None]
    x, given = (normal(3, longest, 4, seed=seed) * present[..., None] for seed in (3, 4))
    together = calls.evaluate(Bag(), x, given, [metric], features=groups.tokens(present, 4))[metric]
    for row, length in enumerate(lengths):
        alone = calls.evaluate(
            Bag(),
            x[row : row + 1, :length],
            given[row : row + 1, :length],
            [metric],
            features=groups.windows(length, 4, width=1),
        )[metric]
        torch.testing.assert_close(together.value[row], alone.value[0])
        torch.testing.assert_close(together.morf[row, : length + 1], alone.morf[0])


# Attributions of sequences

METHODS = [
    attribution.Gradient(),
    attribution.GuidedBackprop(),
    attribution.IntegratedGradients(points=8),
    attribution.SmoothGrad(0.1),
    attribution.VarGrad(0.1),
    attribution.DeepLiftSHAP(samples=8),
    attribution.LimeTabular(samples=64),
    attribution.Random(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_attributions_of_series_are_those_of_the_flat_rows(method):
    torch.manual_seed(0)
    flat = torch.nn.Sequential(torch.nn.Linear(T * C, 8), torch.nn.ReLU(), torch.nn.Linear(8, CLASSES)).double()
    shaped = torch.nn.Sequential(torch.nn.Flatten(), *flat)
    background, labels = normal(20, T, C, seed=5), torch.arange(20) % CLASSES
    message = {"target": TARGET, "background_labels": labels}
    result = method(verax.Problem(shaped, SERIES, background=background, **message))
    expected = method(verax.Problem(flat, SERIES.flatten(1), background=background.flatten(1), **message))
    torch.testing.assert_close(result.flatten(1), expected)
