import copy
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import Any
from unittest import mock

import captum.attr
import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import calls
import verax
from attribution.networks import convnet, mlp, rows
from calls import attribute
from contract.attribution_contract import CHECKS, Case, image, tabular
from verax.attribution import Attributions, families, stream
from verax.attribution.deeplift import Tile, tiles
from verax.attribution.deeplift_shap import DeepLiftFamily, DeepLiftSHAP


@pytest.fixture
def any_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wrong types through to the library's own checks."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


NETWORKS = {"perceptron": (mlp, (6,)), "convolutional": (convnet, (3, 12, 12))}
LABELS = [number / 10 for number in range(11)]


def stratified(samples: int, **settings: Any) -> list[DeepLiftSHAP]:
    """The 22 configurations with a stratified background."""
    return [DeepLiftSHAP(label, on, samples, **settings) for label, on in product(LABELS, (True, False))]


CASES = (
    tabular(DeepLiftSHAP(samples=5), labels=True, others={"background": (0.2, 0.6, 1.0)}),
    tabular(
        DeepLiftSHAP(0.6, multiply_by_inputs=False, samples=5), labels=True, others={"background": (0.2, "random")}
    ),
    image(DeepLiftSHAP(0.5, samples=4), labels=True, others={"background": (0.0, "random")}),
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_contract(case: Case, check: Callable[[Case], None]) -> None:
    check(case)


def captums(model: nn.Module, x: Tensor, references: Tensor, target: Tensor, multiply: bool) -> Tensor:
    """Captum's DeepLIFT, averaged over references, on a model that it can take.

    Captum 0.9 mixes up the gradients of two nonlinear modules when the second is given the very tensor that the first
    returned (its issue 1104), so each max pooling gets copies; and where windows overlap, its ``max_unpool2d`` keeps
    one of those that share an element, so here they add up. Otherwise its sums miss the score differences by far.
    """
    with warnings.catch_warnings(), mock.patch.object(F, "max_unpool2d", adding_unpool):
        warnings.simplefilter("ignore")
        peer = captum.attr.DeepLiftShap(spaced(model), multiply_by_inputs=multiply)
        return peer.attribute(x.clone(), references, target=target).detach()


class Copy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


def spaced(model: nn.Module) -> nn.Module:
    model = copy.deepcopy(model)
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.MaxPool2d):
                setattr(part, name, nn.Sequential(Copy(), child, Copy()))
    return model


def adding_unpool(values: Tensor, places: Tensor, kernel: Any, stride: Any, padding: Any, shape: list[int]) -> Tensor:
    flat = torch.zeros(shape, dtype=values.dtype).flatten(2)
    return flat.scatter_add(2, places.flatten(2), values.flatten(2)).reshape(shape)


@pytest.mark.parametrize("multiply", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_captum(name: str, multiply: bool) -> None:
    build, shape = NETWORKS[name]
    model, x = build().double().eval(), rows(5, *shape, dtype=torch.float64)
    background, target = rows(11, *shape, seed=2, dtype=torch.float64), torch.arange(5) % 3
    found = DeepLiftSHAP("random", multiply, samples=11)(calls.problem(model, x, target=target, background=background))
    torch.testing.assert_close(found, captums(model, x, background, target, multiply), rtol=0, atol=1e-8)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Softplus])
def test_equals_captum_for_other_activations(activation: type[nn.Module]) -> None:
    """Some elements of inputs and references are equal, so that derivatives take the place of slopes."""
    model = nn.Sequential(activation(), nn.Linear(6, 8), activation(), nn.Linear(8, 3), activation()).double()
    x, background = (rows(4, 6, seed=seed, dtype=torch.float64) for seed in (1, 2))
    background[:, :3] = x[:, :3]
    target = torch.arange(4) % 3
    for multiply in (True, False):
        found = DeepLiftSHAP("random", multiply, samples=4)(
            calls.problem(model, x, target=target, background=background)
        )
        torch.testing.assert_close(found, captums(model, x, background, target, multiply), rtol=0, atol=1e-8)


def test_of_a_linear_model() -> None:
    model = nn.Linear(5, 2).double()
    x, background = rows(4, 5, dtype=torch.float64), rows(7, 5, seed=2, dtype=torch.float64)
    for multiply, wanted in ((True, model.weight[1] * (x - background.mean(0))), (False, model.weight[1].expand(4, 5))):
        found = DeepLiftSHAP("random", multiply, samples=7)(calls.problem(model, x, target=1, background=background))
        torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_completeness(name: str, dtype: torch.dtype) -> None:
    build, shape = NETWORKS[name]
    model, x, background = build().to(dtype), rows(9, *shape, dtype=dtype), rows(20, *shape, seed=2, dtype=dtype)
    configuration = DeepLiftSHAP(samples=20)
    result = attribute([configuration], model, x, background=background)
    top = model.eval()(x).max(1)
    difference = top.values - model(background).mean(0)[top.indices]
    total = result[configuration.canonical].flatten(1).sum(1)
    torch.testing.assert_close(total, difference.detach(), rtol=1e-3, atol=0)
    assert result.delta[configuration.canonical] < (1e-4 if dtype == torch.float32 else 1e-12)


POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "overlapping": nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
    "dilated": nn.MaxPool2d(2, stride=1, dilation=2),
    "function": lambda x: F.max_pool2d(x, 2),
    "torch's own": lambda x: torch.max_pool2d(input=x, kernel_size=2),
    "adaptive": nn.AdaptiveMaxPool2d(3),
    "one axis": lambda x: F.max_pool1d(x.flatten(2), 3, 2),
    "three axes": lambda x: nn.MaxPool3d(2)(x[:, None]),
    "channels as rows": lambda x: nn.MaxPool2d(2)(x.flatten(0, 1)).reshape(len(x), -1, 4, 4),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_max_pooling_is_complete(name: str) -> None:
    class Pooled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            pooled = POOLINGS[name](x).flatten(1)
            return torch.stack([pooled.sum(1), -pooled[:, :5].sum(1)], 1)

    x, background = rows(3, 2, 8, 8, dtype=torch.float64), rows(5, 2, 8, 8, seed=2, dtype=torch.float64)
    background[:, :, 2:5] = x[0, :, 2:5]  # ties
    configuration = DeepLiftSHAP(samples=5)
    result = attribute([configuration], Pooled(), x, background=background)
    assert result.delta[configuration.canonical] < 1e-12
    assert torch.isfinite(result[configuration.canonical]).all()


def test_max_pooling_by_hand() -> None:
    """Each window's rise goes to the element with the larger maximum."""
    x, reference = torch.tensor([[5.0, 1.0, 2.0, 3.0]]), torch.tensor([[1.0, 4.0, 7.0, 3.0]])
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 2, bias=False))
    nn.init.ones_(model[3].weight)
    found = DeepLiftSHAP(samples=1)(calls.problem(model, x, target=1, background=reference))
    assert torch.equal(found, torch.tensor([[1.0, 0.0, -4.0, 0.0]]))


def found_with(model: Any, x: Tensor | None = None, **settings: Any) -> Attributions:
    """Both variants for a model of six features, with twelve references."""
    x = rows(7, 6) if x is None else x
    background = rows(12, *x.shape[1:], seed=2, dtype=x.dtype)
    pair = [DeepLiftSHAP("random", on, samples=12) for on in (True, False)]
    return attribute(pair, model, x, background=background, **settings)


class Twin(nn.Module):
    """The perceptron's layers with activations of another making."""

    def __init__(self, *activations: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.norm, _, _, self.second, _, _, self.last = mlp()
        self.activations = activations
        self.parts = nn.ModuleList(one for one in activations if isinstance(one, nn.Module))

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.activations
        return self.last(two(self.second(one(self.norm(self.first(x))))))


REUSED = nn.ReLU(inplace=True)


@pytest.mark.parametrize(
    "activations",
    [
        (REUSED, REUSED),
        (F.relu, torch.relu),
        (lambda x: F.relu(x, inplace=True), torch.relu_),
        (Tensor.relu, Tensor.relu_),
        (lambda x: torch.relu(input=x), F.relu_),
        (lambda x: x.clamp(min=0), lambda x: x.clamp_(min=0)),
        (lambda x: F.threshold(x, 0.0, 0.0), lambda x: F.leaky_relu(x, 0.0, inplace=True)),
        (lambda x: F.relu(x).add_(1).sub_(1), nn.PReLU(init=0.0)),
    ],
)
def test_activations_count_however_they_are_called(activations: tuple[Any, Any]) -> None:
    wanted, found = found_with(mlp()), found_with(Twin(*activations))
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "activation",
    [
        *(nn.Sigmoid(), nn.LogSigmoid(), nn.Tanh(), nn.LeakyReLU(0.2, inplace=True), nn.PReLU(), nn.ELU(inplace=True)),
        *(
            nn.SELU(),
            nn.CELU(),
            nn.Softplus(),
            nn.GELU(),
            nn.GELU("tanh"),
            nn.SiLU(inplace=True),
            nn.Mish(),
            nn.ReLU6(),
        ),
        *(nn.Hardtanh(), nn.Hardswish(), nn.Hardsigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(), nn.RReLU()),
        *(torch.square, torch.abs, torch.erf, torch.special.expit, torch.sin_),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_activations_are_complete(activation: Callable[[Tensor], Tensor]) -> None:
    if activation is torch.sin_:  # one without a rule is noticed
        with pytest.raises(ValueError, match="rescale rule does not apply"):
            found_with(Twin(activation, activation))
    else:
        assert max(found_with(Twin(activation, activation)).delta.values()) < 1e-3


def test_a_model_may_begin_in_place() -> None:
    x, references, target = rows(7, 6), rows(12, 6, seed=2), torch.arange(7) % 3
    given = x.clone(), references.clone()

    def run(model: nn.Module) -> list[Tile]:
        with verax.Scorer(model).session(x, "torch", "logit", gradients=True) as session:
            return list(tiles(session, x, references, target))

    (wanted,), (found,) = run(nn.Sequential(nn.ReLU(), mlp())), run(nn.Sequential(nn.ReLU(inplace=True), mlp()))
    assert torch.equal(found.multipliers, wanted.multipliers)
    assert torch.equal(found.reference_scores, wanted.reference_scores)
    assert all(map(torch.equal, (x, references), given))


def test_short_chords_in_single_precision() -> None:
    """Where input and reference differ by rounding only, the slope is the derivative, not a quotient of errors."""
    model = nn.Sequential(nn.Linear(6, 1, bias=False), nn.Sigmoid())
    nn.init.ones_(model[0].weight)
    scorer = verax.Scorer(model, returns="logits")  # the sigmoid itself is what is explained
    x = rows(200, 6)
    for row in x:
        near = torch.nextafter(row, torch.full_like(row, math.inf))[None]
        found = DeepLiftSHAP("random", False, samples=1)(calls.problem(scorer, row[None], target=1, background=near))
        slope = torch.sigmoid(row.sum()) * torch.sigmoid(-row.sum())
        torch.testing.assert_close(found, slope.expand(1, 6), rtol=1e-3, atol=1e-7)


def test_functions_of_weights_are_left_alone() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()
            self.scale = nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))
            self.whole = nn.Parameter(torch.tensor(0.5))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) * F.softplus(self.scale) * torch.sigmoid(self.whole)

    for size in (1, None):
        assert max(found_with(Scaled(), batch_size=size).delta.values()) < 1e-4


class Changed(nn.Module):
    """The perceptron with something done to its outputs."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = mlp()
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.inner(x))


UNUSABLE: dict[str, Any] = {
    "softmax": Changed(lambda y: 5 * torch.softmax(y, 1)),
    "product": Changed(lambda y: y * torch.sigmoid(y.flip(1))),
    "normalisation": Changed(lambda y: F.layer_norm(y, (3,))),
    "softmax as probabilities": verax.Scorer(Changed(lambda y: torch.softmax(y, 1)), returns="probabilities"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_where_the_rule_does_not_apply(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"model: DeepLiftSHAP's .* miss the difference of logits by 0\.\d+ of its size"
    ):
        found_with(UNUSABLE[name])


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rescale rule does not apply.*torch\.jit"):
        found_with(torch.jit.trace(mlp().eval(), rows(3, 6)))


def test_where_the_rule_nearly_applies_one_warning_names_the_gap() -> None:
    model = Changed(lambda y: y * (1 + 0.01 * torch.tanh(y.flip(1))))
    with pytest.warns(
        UserWarning, match=r"DeepLiftSHAP: contributions miss .* by up to 0\.0\d+ of its mean size"
    ) as seen:
        result = found_with(model, rows(600, 6))
    assert len(seen) == 1
    named = float(re.findall(r"up to (\S+) of", str(seen[0].message))[0])
    assert 1e-2 < named <= max(result.delta.values()) * 1.1


def test_bounds_that_depend_on_the_row_are_noticed() -> None:
    with pytest.warns(UserWarning, match="not covered by the rescale rule"):
        found_with(Changed(lambda y: torch.clamp(y, min=y.flip(1))))


def test_delta_is_the_largest_gap_of_the_input_over_its_mean_difference() -> None:
    model = Changed(lambda y: y * (1 + 0.001 * torch.tanh(y.flip(1)))).double().eval()
    x, background = rows(4, 6, dtype=torch.float64), rows(9, 6, seed=2, dtype=torch.float64)
    target = model(x).argmax(1)
    one = DeepLiftSHAP(samples=9)
    settings = {"background": background, "batch_size": 5}
    (piece,) = [piece for _, piece in stream(families([one]), calls.problem(model, x, **settings))]
    gaps, sizes = torch.empty(4, 9).double(), torch.empty(4, 9).double()
    for column, reference in enumerate(background):
        total = DeepLiftSHAP(samples=1)(calls.problem(model, x, target=target, background=reference[None])).sum(1)
        wanted = (model(x) - model(reference[None])).gather(1, target[:, None])[:, 0]
        gaps[:, column], sizes[:, column] = (total - wanted).abs(), torch.maximum(total.abs(), wanted.abs())
    assert piece.delta is not None
    assert piece.delta.max() > 1e-4
    torch.testing.assert_close(piece.delta, (gaps.amax(1) / sizes.mean(1)).detach())


def test_a_constant_model_has_no_gap() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    nn.init.constant_(model[0].bias, -100.0)
    result = found_with(model)
    assert all(torch.equal(values, torch.zeros(7, 6)) for values in result.values())
    assert set(result.delta.values()) == {0.0}


def test_probabilities_of_one_sigmoid_are_explained_on_the_logit() -> None:
    inner = mlp(outputs=1)
    scorer = verax.Scorer(nn.Sequential(inner, nn.Sigmoid()), returns="probabilities")
    wanted, found = found_with(verax.Scorer(inner, returns="logits")), found_with(scorer)
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("samples", [10, 23])
def test_a_family_equals_its_members(samples: int) -> None:
    """Also where a class has fewer rows than asked for (six of class 1)."""
    model, x, background = mlp().double(), rows(5, 6, dtype=torch.float64), rows(20, 6, seed=2, dtype=torch.float64)
    settings = {
        "background": background,
        "background_labels": (torch.arange(20) % 3 == 1).int()[:20] * (torch.arange(20) < 18),
    }
    members = [
        *stratified(samples),
        DeepLiftSHAP(samples=samples),
        DeepLiftSHAP(samples=samples, multiply_by_inputs=False),
    ]
    together = attribute(members, model, x, **settings)
    assert len(families(members)) == 2
    for one in members:
        torch.testing.assert_close(
            together[one.canonical], one(calls.problem(model, x, **settings)), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(("samples", "used"), [(10, 20), (16, 32), (64, 100)])
def test_all_stratified_configurations_share_their_references(samples: int, used: int) -> None:
    """22 configurations need two references per sample, and no background row twice."""
    x, background, labels = rows(9, 6), rows(100, 6, seed=2), torch.arange(100) % 2
    settings = {"background": background, "background_labels": labels}
    everything = attribute(stratified(samples), mlp(), x, **settings)
    assert everything.rows_backward == 9 * used
    assert everything.rows <= 9 + 9 * used + 22 * samples
    one = attribute(stratified(samples)[8:9], mlp(), x, **settings)
    assert one.rows_backward == 9 * min(samples, 100)


@pytest.mark.parametrize(("batch", "runs"), [(1000, 1), (60, 4), (3, 64)])
def test_inputs_run_once_for_all_references(batch: int, runs: int) -> None:
    """Three inputs run as often as references go with them at a time; the last references may be fewer."""
    heights: list[int] = []
    model = mlp()
    model.register_forward_hook(lambda part, given, output: heights.append(len(output)))
    settings = {"background": rows(64, 6, seed=2)}
    method = DeepLiftSHAP(samples=64)
    found = method(calls.problem(model, rows(3, 6), batch_size=batch, **settings))
    width = -(-64 // runs)
    assert heights == [3, width, 3 * width, *(width for _ in range(runs - 1))]
    torch.testing.assert_close(found, method(calls.problem(model, rows(3, 6), **settings)), rtol=0, atol=1e-6)


def test_rows_are_counted_and_references_run_once_for_many_inputs() -> None:
    counted = {"rows": 0}
    model = mlp()
    model.register_forward_hook(lambda part, given, output: counted.update(rows=counted["rows"] + len(output)))
    result = found_with(model, rows(16, 6), batch_size=16 * 12)
    assert (result.rows, result.rows_backward) == (16 + 12 + 16 * 12, 16 * 12)
    assert counted["rows"] == result.rows
    assert found_with(model, rows(16, 6), batch_size=1).rows == 16 + 16 * (1 + 12)


def drawn(label: float | str, samples: int, labels: Tensor, seed: int = 0) -> list[int]:
    """The background rows of a configuration, each as often as it is used."""
    member = DeepLiftSHAP(label, samples=samples, seed=seed)  # type: ignore[arg-type]
    nothing = torch.zeros(len(labels), 1)
    problem = verax.Problem(torch.nn.Linear(1, 2), nothing, background=nothing, background_labels=labels)
    return [
        row
        for segment in member.family.segments([member], problem)
        for row in segment.rows.tolist()
        for _ in range(segment.uses[0])
    ]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("samples", [1, 7, 100, 1024])
def test_shares_of_labels_are_exact(label: float, samples: int) -> None:
    labels = torch.arange(400) % 3 % 2
    chosen = drawn(label, samples, labels)
    assert len(chosen) == samples
    assert int(labels[chosen].sum()) == round(label * samples)
    for name in (0, 1):
        uses = np.bincount([row for row in chosen if labels[row] == name], minlength=400)[labels == name]
        assert uses.max() - uses.min() <= 1
        assert uses.max() <= -(-samples // int((labels == name).sum()))


def test_backgrounds_are_nested_and_depend_on_the_seed() -> None:
    labels = torch.arange(400) % 2
    ones = [{row for row in drawn(label, 100, labels) if labels[row]} for label in LABELS]
    assert all(smaller < larger for smaller, larger in pairwise(ones))
    assert set(drawn(0.5, 100, labels, seed=1)) != set(drawn(0.5, 100, labels))
    assert len(set(drawn("random", 100, labels))) == 100
    often = np.bincount(np.concatenate([drawn("random", 100, labels, seed) for seed in range(200)]), minlength=400)
    assert abs(often - 50).max() < 5 * (200 * 0.25 * 0.75) ** 0.5


def test_the_mean_is_over_the_drawn_rows() -> None:
    model, x = mlp().double().eval(), rows(3, 6, dtype=torch.float64)
    background, labels, target = (
        rows(30, 6, seed=2, dtype=torch.float64),
        torch.arange(30) % 4 % 2,
        torch.tensor([0, 1, 2]),
    )
    for label in (0.0, 0.3, "random", 1.0):
        chosen = drawn(label, 20, labels)
        method = DeepLiftSHAP(label, samples=20)  # type: ignore[arg-type]
        found = method(calls.problem(model, x, target=target, background=background, background_labels=labels))
        wanted = captums(model, x, background[chosen], target, multiply=True)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-8)


def test_members_without_multiplication_are_local() -> None:
    assert [DeepLiftSHAP(0.5, on).local for on in (True, False)] == [False, True]
    assert (
        DeepLiftSHAP(0.5).family == DeepLiftSHAP(0.1, multiply_by_inputs=False).family == DeepLiftFamily(True, 1024, 0)
    )
    assert DeepLiftSHAP().family == DeepLiftFamily(False, 1024, 0)


@pytest.mark.usefixtures("any_types")
def test_canonical_form_of_numbers() -> None:
    wanted = "DeepLiftSHAP(background=1.0, multiply_by_inputs=True, samples=4, seed=2)"
    assert DeepLiftSHAP(1, samples=np.int64(4), seed=np.int32(2)).canonical == wanted  # type: ignore[arg-type]
    assert DeepLiftSHAP(np.float32(0.5)).canonical == DeepLiftSHAP(0.5).canonical  # type: ignore[arg-type]
    assert DeepLiftSHAP(-0.0).canonical == DeepLiftSHAP(0).canonical


@pytest.mark.usefixtures("any_types")
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"background": "stratified"}, 'background: expected "random" or an expected label from 0 to 1, got \'strat'),
        ({"background": 1.1}, "from 0 to 1, got 1.1; the rows themselves are passed in the call"),
        ({"background": -0.1}, "from 0 to 1, got -0.1"),
        ({"background": math.nan}, "from 0 to 1, got nan"),
        ({"background": True}, "from 0 to 1, got True"),
        ({"background": None}, "from 0 to 1, got None"),
        ({"samples": 0}, "samples: expected a whole number of at least 1, got 0"),
        ({"samples": 2.5}, "samples: expected a whole number of at least 1, got 2.5"),
        ({"seed": 0.5}, "seed: expected a whole number, got 0.5"),
        ({"multiply_by_inputs": 1}, "multiply_by_inputs: expected True or False, got 1"),
    ],
)
def test_wrong_settings(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}" if ": " in message[:20] else re.escape(message)):
        replace(DeepLiftSHAP(), **setting)


@pytest.mark.parametrize(
    ("label", "labels", "message"),
    [
        (0.25, None, r"^background_labels: a stratified background needs the class of each background row, 0 or 1"),
        (0.25, [0, 1, 2, 0], r"^background_labels: expected classes 0 and 1 for a stratified background, got 2"),
        (0.25, [0, 1, -1, 0], r"got -1"),
        (
            0.25,
            [0, 0, 0, 0],
            r"^background: an expected label of 0\.25 needs 2 rows of class 1, .* has 4 of class 0 and 0 of",
        ),
        (
            0.75,
            [1, 1, 1, 1],
            r"an expected label of 0\.75 needs 2 rows of class 0, .* has 0 of class 0 and 4 of class 1",
        ),
    ],
)
def test_wrong_labels(label: float, labels: list[int] | None, message: str) -> None:
    given = None if labels is None else torch.tensor(labels)
    scorer = verax.Scorer(mlp())
    with pytest.raises(ValueError, match=message):
        DeepLiftSHAP(label, samples=8)(
            calls.problem(scorer, rows(2, 6), background=rows(4, 6), background_labels=given)
        )
    assert scorer.rows == 0


def test_a_class_of_which_no_row_is_needed_may_be_missing() -> None:
    zeros = torch.zeros(4, dtype=torch.int64)
    settings = {"background": rows(4, 6), "background_labels": zeros}
    model = mlp()
    found = DeepLiftSHAP(0.0, samples=4)(calls.problem(model, rows(2, 6), **settings))
    torch.testing.assert_close(found, DeepLiftSHAP("random", samples=4)(calls.problem(model, rows(2, 6), **settings)))
    DeepLiftSHAP(samples=4)(
        calls.problem(model, rows(2, 6), background=rows(4, 6), background_labels=torch.tensor([0, 1, 2, 3]))
    )


class Wandering(nn.Module):
    """A way through the layers that depends on the values."""

    def __init__(self, more: Callable[[Tensor], Tensor], less: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 2)
        self.more, self.less = more, less

    def forward(self, x: Tensor) -> Tensor:
        return self.more(self.inner(x)) if x.mean() > 0 else self.less(self.inner(x))


@pytest.mark.parametrize(
    ("more", "less", "message"),
    [
        (torch.relu, torch.sigmoid, "where references came to sigmoid, pairs came to relu"),
        (torch.relu, lambda y: y, "where references came to nothing, pairs came to relu"),
        (lambda y: y, torch.relu, "where references came to relu, pairs came to nothing"),
    ],
)
def test_a_way_that_depends_on_values_is_refused(more: Any, less: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepLiftSHAP(samples=4)(calls.problem(Wandering(more, less), torch.ones(2, 6), background=-torch.ones(4, 6)))


class Sequences(nn.Module):
    """One layer for every step of a sequence."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 8), nn.Linear(8, 3)
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        if self.axis == 0:
            return self.outer(torch.relu(self.inner(x.flatten(0, 1))).reshape(len(x), 5, 8).mean(1))
        return self.outer(torch.relu(self.inner(x.transpose(0, 1))).mean(0))


def test_rows_must_be_on_the_first_axis() -> None:
    found_with(Sequences(axis=0), rows(7, 5, 4))  # rows and steps folded together: right, and complete
    with pytest.raises(ValueError, match=r"along the first axis, but relu saw shape \(5, 12, 8\) for the references"):
        found_with(Sequences(axis=1), rows(7, 5, 4))


def test_an_infinite_reference_is_named() -> None:
    class Overflowing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, torch.exp(x) + 1], 1)

    background = torch.full((3, 1), 1000.0)
    with pytest.raises(
        ValueError, match=r"model: expected finite class scores .* for input 0 paired with a background row"
    ):
        DeepLiftSHAP(samples=3)(calls.problem(Overflowing(), torch.zeros(2, 1), target=1, background=background))


def test_an_output_without_the_input_is_refused() -> None:
    class Blind(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.detach())

    with pytest.raises(TypeError, match="the model's output does not depend on its input"):
        found_with(Blind())


def test_out_of_memory_halves_the_batch() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.largest = mlp(), 0

        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 10:
                raise torch.OutOfMemoryError("out of memory")
            self.largest = max(self.largest, len(x))
            return self.inner(x)

    model, wanted = Small(), found_with(mlp())
    found = found_with(model)
    assert 5 < model.largest <= 10
    for name, values in wanted.items():
        torch.testing.assert_close(found[name], values, rtol=0, atol=1e-5)
    assert found.rows_backward == wanted.rows_backward == 7 * 12


def test_any_other_failure_is_passed_on() -> None:
    def fail(y: Tensor) -> Tensor:
        if len(y) > 12:
            raise RuntimeError("broken")
        return y

    with pytest.raises(RuntimeError, match="broken"):
        found_with(Changed(fail), batch_size=84)
    assert torch.overrides._len_torch_function_stack() == 0
