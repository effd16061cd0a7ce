"""Captum's calling convention: one tensor or several, further arguments, targets; values agree with Captum's."""

import inspect
from types import SimpleNamespace

import captum.metrics
import pytest
import torch
from torch import Tensor, nn

import calls
import verax
from verax.interop import captum as ours

GENERATOR = torch.Generator().manual_seed(0)
ROWS = 6


def draw(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


INNER, OUTER = draw(12, 10), draw(10, 3)
X, A = draw(ROWS, 12), draw(ROWS, 12)
OUTER_COLUMN = torch.linspace(-1, 1, 12, dtype=torch.float64)
TARGET = torch.tensor([0, 1, 2, 0, 1, 2])
METRICS = {
    "pc": ours.prediction_change,
    "dpc": ours.directed_prediction_change,
    "infidelity": ours.infidelity,
    "sensitivity_n": ours.sensitivity_n,
}
every_metric = pytest.mark.parametrize("name", METRICS)


def wanted(name, model, x, a, **arguments):
    settings = {"samples": 50} if name == "infidelity" else {}
    return calls.evaluate(model, x, a, [name], features="element", **settings, **arguments)[name].value


def found(name, *arguments, **named):
    settings = {"n_perturb_samples": 50} if name == "infidelity" else {}
    return METRICS[name](*arguments, **settings, **named)


class Whole(nn.Module):
    """Logits of flat rows."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Parameter(INNER), nn.Parameter(OUTER)

    def forward(self, x):
        return torch.tanh(x.flatten(1) @ self.inner) @ self.outer


class InParts(Whole):
    """The same logits of rows in three tensors of different shapes."""

    def forward(self, first, second, third):
        assert first.shape[1:] == (2, 3)
        assert second.shape[1:] == ()
        assert third.shape[1:] == (5,)
        return super().forward(torch.cat((first.flatten(1), second[:, None], third), dim=1))


def in_parts(rows):
    return rows[:, :6].reshape(-1, 2, 3), rows[:, 6], rows[:, 7:]


@every_metric
@pytest.mark.parametrize("target", [None, 1, TARGET, TARGET.tolist()], ids=["none", "one", "tensor", "list"])
def test_one_tensor_gives_what_verax_gives(name, target):
    scores = found(name, Whole(), X, A, target=target)
    assert isinstance(scores, Tensor)
    assert scores.shape == (ROWS,)
    torch.testing.assert_close(scores, wanted(name, Whole(), X, A, target=target), rtol=0, atol=1e-12)


@every_metric
def test_several_tensors_are_one_input(name):
    scores = found(name, InParts(), in_parts(X), in_parts(A), target=TARGET)
    torch.testing.assert_close(scores, wanted(name, Whole(), X, A, target=TARGET), rtol=0, atol=1e-12)


@every_metric
def test_every_element_of_an_image_is_a_feature(name):
    scores = found(name, Whole(), X.reshape(ROWS, 3, 2, 2), A.reshape(ROWS, 3, 2, 2), target=TARGET)
    torch.testing.assert_close(scores, wanted(name, Whole(), X, A, target=TARGET), rtol=0, atol=1e-12)


@every_metric
@pytest.mark.parametrize("kind", ["numbers", "tensors", "rows"])
def test_baselines(name, kind):
    baselines = {
        "numbers": (1.0, -2.0, 0.5),
        "tensors": tuple(one[:1] for one in in_parts(A)),
        "rows": in_parts(A),
    }[kind]
    flat = torch.cat(
        [
            torch.as_tensor(value).expand(one.shape).reshape(ROWS, -1)
            for value, one in zip(baselines, in_parts(X), strict=True)
        ],
        dim=1,
    )
    scores = found(name, InParts(), in_parts(X), in_parts(A), baselines, target=TARGET)
    torch.testing.assert_close(scores, wanted(name, Whole(), X, A, target=TARGET, baselines=flat), rtol=0, atol=1e-12)


@every_metric
@pytest.mark.parametrize("rows", [1, ROWS])
def test_a_feature_mask_puts_elements_of_all_tensors_together(name, rows):
    groups = torch.tensor([0, 0, 1, 1, 2, 2, 0, 3, 3, 4, 5, 6]).expand(rows, 12).clone()
    if rows > 1:
        groups[2] = torch.arange(12)
    scores = found(name, InParts(), in_parts(X), in_parts(A), target=TARGET, feature_mask=in_parts(groups))
    direct = calls.evaluate(
        Whole(), X, A, [name], target=TARGET, features=groups[0] if rows == 1 else groups,
        **({"samples": 50} if name == "infidelity" else {}),
    )[name].value  # fmt: skip
    torch.testing.assert_close(scores, direct, rtol=0, atol=1e-12)


@every_metric
def test_further_arguments_follow_their_rows(name):
    """The scale of each row and a switch for all are no features."""
    scale = draw(ROWS, 1).abs() + 0.5
    model = Whole()

    def forward(x, factor, negate):
        assert len(factor) == len(x)
        return -model(factor * x) if negate else model(factor * x)

    scores = found(name, forward, X, A, additional_forward_args=(scale, True), target=TARGET, returns="logits")
    one_by_one = [
        found(
            name,
            lambda x, factor=scale[row]: -model(factor * x),
            X[row : row + 1],
            A[row : row + 1],
            target=int(TARGET[row]),
            returns="logits",
        )
        for row in range(ROWS)
    ]
    torch.testing.assert_close(scores, torch.cat(one_by_one), rtol=0, atol=1e-12)


@every_metric
def test_one_further_argument_need_not_be_in_a_tuple(name):
    model = Whole()
    scores = found(name, lambda x, f: model(f * x), X, A, additional_forward_args=2.0, target=TARGET, returns="logits")
    direct = found(name, lambda x: model(2.0 * x), X, A, target=TARGET, returns="logits")
    torch.testing.assert_close(scores, direct, rtol=0, atol=0)


@every_metric
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("target", [None, 0])
def test_the_only_score_of_a_row_is_followed(name, shape, target):
    """Captum calls it output 0, or takes no target at all; to Verax it is class 1."""
    weight = draw(12)
    scores = found(name, lambda x: (x @ weight).reshape(shape), X, A, target=target, returns="logits", output="logit")
    direct = wanted(name, verax.Scorer(lambda x: x @ weight, returns="logits"), X, A, target=1, output="logit")
    torch.testing.assert_close(scores, direct, rtol=0, atol=1e-12)


def test_an_only_score_has_no_second_output():
    with pytest.raises(ValueError, match=r"target: forward_func returns one score per row.*got 1"):
        ours.prediction_change(lambda x: x[:, 0], X, A, target=1, returns="logits")


@every_metric
def test_batches_do_not_matter(name):
    whole = found(name, InParts(), in_parts(X), in_parts(A), target=TARGET)
    torch.testing.assert_close(
        found(name, InParts(), in_parts(X), in_parts(A), target=TARGET, max_examples_per_batch=5),
        whole,
        rtol=0,
        atol=1e-12,
    )


def test_probabilities_and_objects_with_logits():
    model = Whole()
    wanted_scores = ours.prediction_change(model, X, A)
    for forward, returns in (
        (lambda x: torch.softmax(model(x), dim=1), "probabilities"),
        (lambda x: SimpleNamespace(logits=model(x)), "logits"),
    ):
        torch.testing.assert_close(ours.prediction_change(forward, X, A, returns=returns), wanted_scores)


def test_a_module_is_put_in_evaluation_mode_and_back():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(12, 3, dtype=torch.float64))
    first = ours.prediction_change(model, X, A)
    torch.testing.assert_close(ours.prediction_change(model, X, A), first, rtol=0, atol=0)
    assert model.training
    assert model[0].training


def test_inputs_that_need_gradients_are_left_alone():
    x = X.clone().requires_grad_()
    scores = ours.prediction_change(Whole(), x, A)
    assert not scores.requires_grad
    assert x.grad is None
    torch.testing.assert_close(x.detach(), X, rtol=0, atol=0)


SIGMA, DRAWS = 0.2, 3000


def gaussian(inputs):
    drawn = tuple(SIGMA * torch.randn_like(one) for one in (inputs if isinstance(inputs, tuple) else (inputs,)))
    if isinstance(inputs, tuple):
        return drawn, tuple(one - noise for one, noise in zip(inputs, drawn, strict=True))
    return drawn[0], inputs - drawn[0]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("several", [True, False])
def test_infidelity_agrees_with_captums_within_the_monte_carlo_error(normalize, several):
    """Both draw as many, so both err as much: four combined standard errors are 4 sqrt(2) of one."""
    model, x, a = (InParts(), in_parts(X), in_parts(A)) if several else (Whole(), X, A)
    torch.manual_seed(0)
    theirs = captum.metrics.infidelity(
        model, gaussian, x, a, target=TARGET, n_perturb_samples=DRAWS, normalize=normalize
    ).detach()
    scores = ours.infidelity(
        model, x, a, target=TARGET, n_perturb_samples=DRAWS, normalize=normalize, sigma=SIGMA, output="logit"
    )
    found = calls.infidelity(
        Whole(), X, A, target=TARGET, samples=DRAWS, normalize=normalize, sigma=SIGMA, output="logit"
    )
    assert scores.shape == theirs.shape
    fits = (found.moments.ps[0] >= 0) | (not normalize)  # Captum's scale may be negative, ours is 0 then
    assert fits.any()
    assert ((scores - theirs).abs() / (2**0.5 * found.standard_error))[fits].max() < 4


def test_arguments_have_captums_names_and_order():
    theirs = [name for name in inspect.signature(captum.metrics.infidelity).parameters if name != "perturb_func"]
    assert list(inspect.signature(ours.infidelity).parameters)[: len(theirs)] == theirs
    shared = theirs[:6]
    for function in METRICS.values():
        names = list(inspect.signature(function).parameters)
        assert names[:6] == shared
        assert "max_examples_per_batch" in names


MODEL = Whole()
ERRORS = {
    "no function": ((3, X, A), {}, TypeError, r"forward_func: expected a module or a function, got int"),
    "says nothing": ((lambda x: x, X, A), {}, ValueError, r"returns: a function does not say .*returns=\"logits\""),
    "array": ((MODEL, X.numpy(), A), {}, TypeError, r"inputs: expected a tensor, got ndarray"),
    "whole numbers": ((MODEL, (X, X.long()), A), {}, TypeError, r"inputs\[1\]: expected floating-point.*int64"),
    "other rows": ((MODEL, (X, X[:2]), A), {}, ValueError, r"inputs\[1\]: expected one row per example.*\(2, 12\)"),
    "no tensor": ((MODEL, (), A), {}, ValueError, r"inputs: .*empty tuple"),
    "attributions": ((MODEL, X, A[:, :3]), {}, ValueError, r"attributions: .*\(6, 12\).*got \[\(6, 3\)\]"),
    "too few": ((InParts(), in_parts(X), A), {}, ValueError, r"attributions: expected the shapes of the inputs"),
    "baselines": ((MODEL, X, A, X[:, :3]), {}, ValueError, r"baselines: shape \(6, 3\) does not broadcast"),
    "one baseline": ((InParts(), in_parts(X), in_parts(A), 0.0), {}, ValueError, r"baselines: .*3 inputs, got 1"),
    "mask": ((MODEL, X, A), {"feature_mask": TARGET[None]}, ValueError, r"feature_mask: shape \(1, 6\) does not"),
    "mask of numbers": ((MODEL, X, A), {"feature_mask": X}, TypeError, r"features: group numbers must be whole"),
    "masks": ((MODEL, X, A), {"feature_mask": (TARGET, TARGET)}, ValueError, r"feature_mask: .*1 inputs, got 2"),
    "tuple": ((MODEL, X, A), {"target": (1, 2)}, TypeError, r"target: .*got \(1, 2\)"),
    "tuples": ((MODEL, X, A), {"target": [(1, 2)] * ROWS}, TypeError, r"target: .*one class per row"),
    "class": ((MODEL, X, A), {"target": 3}, ValueError, r"target: class 3 does not exist"),
}


@pytest.mark.parametrize(("arguments", "named", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_argument(arguments, named, error, message):
    with pytest.raises(error, match=message):
        ours.prediction_change(*arguments, **named)


@pytest.mark.parametrize(
    ("named", "message"),
    [({"target": -1}, "target: "), ({"baselines": float("nan")}, "baselines: ")],
)
def test_errors_come_before_the_model_runs(named, message):
    def model(x):
        raise AssertionError

    with pytest.raises(ValueError, match=message):
        ours.prediction_change(model, X, A, returns="logits", **named)


@every_metric
@pytest.mark.parametrize("target", [None, 0])
def test_one_value_per_row(name, target):
    value = lambda x: (x @ OUTER_COLUMN).sin()  # noqa: E731
    model = verax.Scorer(value, returns="values")
    expected = wanted(name, model, X, A)
    torch.testing.assert_close(found(name, value, X, A, target=target, returns="values"), expected, rtol=0, atol=0)


@every_metric
def test_one_of_several_values_per_row(name):
    values = lambda x: torch.stack([x @ OUTER_COLUMN, -x @ OUTER_COLUMN], 1)  # noqa: E731
    expected = wanted(name, verax.Scorer(values, returns="values"), X, A, target=1)
    torch.testing.assert_close(found(name, values, X, A, target=1, returns="values"), expected, rtol=0, atol=0)
