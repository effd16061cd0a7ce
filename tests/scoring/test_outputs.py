"""What a model returns: probabilities that are some, one output that says what it is, rows that stand alone."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from torch import nn

import calls
import verax


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


X = normal(12, 4)
WEIGHT = normal(4, 3, seed=1)


def probabilities(x):
    return torch.softmax(x @ WEIGHT.to(x), 1)


def on_perturbed(x, then):
    """Probabilities, but what ``then`` makes of them for rows that are not among the inputs."""
    new = ~(x[:, None] == X.to(x)).all(2).any(1)
    return torch.where(new[:, None], then(probabilities(x)), probabilities(x))


WRONG = {
    "too large": (lambda p: p * 3, "values from .* to"),
    "negative": (lambda p: p - 0.5, "values from -0"),
    "do not sum to 1": (lambda p: p * 0.9, "sum to 1 only up to 0.1.*multi-label"),
    "all the same": (torch.ones_like, "sum to 1 only up to 2.*multi-label"),
}
USES = {
    "pc": lambda model: calls.prediction_change(model, X, X),
    "infidelity": lambda model: calls.infidelity(model, X, X, samples=20),
    "LIME": lambda model: calls.explained(verax.attribution.LimeTabular(samples=20), model, X),
}


@pytest.mark.parametrize(("then", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_every_row_of_probabilities_is_checked(then, message, use):
    model = verax.Scorer(lambda x: on_perturbed(x, then), returns="probabilities")
    with pytest.raises(ValueError, match=f"model: expected probabilities, got .*{message}"):
        use(model)


class Perturbed(nn.Module):
    def forward(self, x):
        return on_perturbed(x, lambda p: p * 0.9)


def test_rows_through_which_gradients_are_taken_are_checked():
    with pytest.raises(ValueError, match="sum to 1 only up to"):
        verax.attribution.SmoothGrad()(verax.Problem(verax.Scorer(Perturbed(), returns="probabilities"), X))


def test_one_probability_is_in_the_unit_interval_on_every_row():
    def model(x):
        return on_perturbed(x, lambda p: p + 1)[:, 0]

    with pytest.raises(ValueError, match=r"values from .* to"):
        calls.prediction_change(verax.Scorer(model, returns="probabilities"), X, X)


def test_nan_of_a_class_that_is_not_followed_is_found():
    def model(x):
        return on_perturbed(x, lambda p: torch.where(torch.arange(3) == 2, torch.nan, p))

    with pytest.raises(ValueError, match="got NaN for some class"):
        calls.prediction_change(verax.Scorer(model, returns="probabilities"), X, X, target=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rounding_of_the_number_format_is_no_mistake(dtype):
    scorer = verax.Scorer(lambda x: probabilities(x).to(dtype), returns="probabilities")
    assert torch.isfinite(calls.prediction_change(scorer, X, X).value).all()


def test_probabilities_computed_in_half_precision_and_returned_in_single():
    network = nn.Sequential(nn.Linear(4, 3), nn.Softmax(1)).bfloat16()

    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network(x).float()

    calls.prediction_change(verax.Scorer(Single(), returns="probabilities"), X, X)


def test_rounded_to_four_digits_is_no_mistake():
    scorer = verax.Scorer(lambda x: np.round(probabilities(torch.tensor(x)).numpy(), 5), returns="probabilities")
    calls.prediction_change(scorer, X.numpy(), X.numpy())


def test_a_multi_label_classifier_is_refused_by_that_name():
    labels = np.stack((X[:, 0] > 0, X[:, 1] > 0, X[:, 2] > 0), 1).astype(int)
    model = OneVsRestClassifier(LogisticRegression()).fit(X.numpy(), labels)
    with pytest.raises(ValueError, match="multi-label"):
        calls.prediction_change(model, X.numpy(), X.numpy())


# One output that nobody described


class Ended(nn.Module):
    def __init__(self, end):
        super().__init__()
        self.layer, self.end = nn.Linear(4, 1), end
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[1.0, -2.0, 0.5, 3.0]]))

    def forward(self, x):
        return self.end(self.layer(x))


WARNED = {
    "linear": lambda: nn.Linear(4, 1),
    "chain": lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 1))),
    "unbounded": lambda: Ended(lambda z: z),
    "one axis": lambda: Ended(lambda z: z[:, 0]),
}
UNUSABLE = {
    "sigmoid last": lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()),
    "sigmoid as a function": lambda: Ended(torch.sigmoid),
    "all in [0, 1]": lambda: Ended(lambda z: z.clamp(0, 1)),
}
NAMES_THE_WAYS = r'logit, a probability or a regression value.*returns="logits".*returns="probabilities".*regression'


@pytest.mark.parametrize("make", WARNED.values(), ids=WARNED)
def test_one_output_is_warned_about_once(make):
    scorer = verax.Scorer(make())
    with pytest.warns(UserWarning, match=NAMES_THE_WAYS) as caught:
        calls.evaluate(scorer, X, {"x": X, "gradient": verax.attribution.Gradient()}, ["pc", "dpc"])
    assert len(caught) == 1
    calls.prediction_change(scorer, X, X)  # where warnings are errors


@pytest.mark.filterwarnings("ignore:All scores are saturated")
@pytest.mark.parametrize("make", UNUSABLE.values(), ids=UNUSABLE)
def test_one_output_that_may_be_a_probability_is_refused_until_it_is_said(make):
    scorer = verax.Scorer(make())
    for _ in range(2):
        with pytest.raises(ValueError, match=NAMES_THE_WAYS):
            calls.prediction_change(scorer, X, X)
    for returns in ("logits", "probabilities"):
        calls.prediction_change(verax.Scorer(make(), returns=returns), X, X)


def test_a_linear_output_in_the_unit_interval_is_no_probability():
    layer = nn.Linear(4, 1)
    with torch.no_grad():
        layer.weight.mul_(0.01)
        layer.bias.fill_(0.5)
    with pytest.warns(UserWarning, match="is taken to be a logit"):
        calls.prediction_change(layer, X, X)


def test_a_regression_value_can_be_followed_as_the_message_says():
    layer = nn.Linear(4, 1)
    result = calls.prediction_change(verax.Scorer(layer, returns="logits"), X, X, output="logit", target=1)
    torch.testing.assert_close(result.morf[:, 0], layer(X)[:, 0].detach())


# Rows that stand alone


def test_batch_norm_without_statistics_is_warned_about():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 2))
    with pytest.warns(UserWarning, match=r"batch norm 1 has no running statistics.*depends on the rows beside it"):
        verax.Scorer(model)


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16", "float16"])
def test_honest_models_are_not_warned_about(precision):
    model = nn.Sequential(nn.Linear(4, 64), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.ReLU(), nn.Linear(64, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer = verax.Scorer(model.train(), precision=precision)
        first = calls.prediction_change(scorer, X, X)
    assert scorer.rows == first.rows  # the row that is scored again is not counted
