"""The Scorer: rows, class scores, batches, memory, precision, and a model that is given back as it was."""

import random
import warnings

import jaxtyping
import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

import calls
import verax
from verax.metrics import SensitivityN


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def linear(features, outputs, seed=1, dtype=torch.float32):
    layer = nn.Linear(features, outputs, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(normal(outputs, features, seed=seed, dtype=dtype))
        layer.bias.copy_(normal(outputs, seed=seed + 1, dtype=dtype))
    return layer


# Rows


def test_pc_costs_forty_rows_per_input_at_twenty_features():
    x = normal(7, 20)
    scorer = verax.Scorer(linear(20, 3))
    result = calls.prediction_change(scorer, x, normal(7, 20, seed=5))
    assert result.rows == scorer.rows == 7 * 40


def test_infidelity_costs_one_row_per_draw_and_one_per_input_whatever_the_number_of_attributions():
    x = normal(5, 6)
    result = calls.infidelity(linear(6, 2), x, normal(3, 5, 6, seed=2), samples=17)
    assert result.rows == 5 * (1 + 17)


def test_rows_that_the_model_saw_are_the_rows_reported():
    seen = []

    def model(x):
        seen.append(len(x))
        return x[:, 0]

    x = normal(4, 20)
    result = calls.evaluate(verax.Scorer(model, returns="logits"), x, normal(4, 20, seed=3), samples=11, batch_size=13)
    assert sum(seen) == result.rows
    assert max(seen) == 13


def test_scorer_rows_accumulate_over_calls():
    x, scorer = normal(3, 20), verax.Scorer(linear(20, 2))
    first = calls.prediction_change(scorer, x, x)
    second = calls.infidelity(scorer, x, x, samples=9)
    assert (first.rows, second.rows, scorer.rows) == (120, 30, 150)


def test_inputs_that_equal_the_baseline_cost_one_row_and_score_zero():
    result = calls.prediction_change(linear(20, 2), torch.zeros(3, 20), normal(3, 20))
    assert result.rows == 3
    assert torch.equal(result.value, torch.zeros(3))


# Class scores: the first point of a curve is the score of the unperturbed input


def clean_scores(model, x, **options):
    result = calls.prediction_change(model, x, torch.zeros_like(x), **options)
    return result.morf[:, 0], result.target


X = normal(6, 3, seed=11, dtype=torch.float64)
Z1 = X @ torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
ZK = X @ normal(3, 4, seed=12, dtype=torch.float64)
W1 = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
WK = normal(3, 4, seed=12, dtype=torch.float64)
sigmoid_pair = torch.stack((1 / (1 + Z1.exp()), 1 / (1 + (-Z1).exp())), dim=1)
softmax = ZK.exp() / ZK.exp().sum(1, keepdim=True)

# name: (function, what it returns, score of every class as probability, as logit)
MODELS = {
    "one logit (B,)": (lambda x: x @ W1, "logits", sigmoid_pair, torch.stack((-Z1, Z1), 1)),
    "one logit (B, 1)": (lambda x: (x @ W1)[:, None], "logits", sigmoid_pair, torch.stack((-Z1, Z1), 1)),
    "two logits": (
        lambda x: torch.stack((-(x @ W1) / 2, (x @ W1) / 2), 1),
        "logits",
        sigmoid_pair,
        torch.stack((-Z1 / 2, Z1 / 2), 1),
    ),
    "four logits": (lambda x: x @ WK, "logits", softmax, ZK),
    "one probability (B,)": (
        lambda x: torch.sigmoid(x @ W1),
        "probabilities",
        sigmoid_pair,
        torch.stack((-Z1, Z1), 1),
    ),
    "one probability (B, 1)": (
        lambda x: torch.sigmoid(x @ W1)[:, None],
        "probabilities",
        sigmoid_pair,
        torch.stack((-Z1, Z1), 1),
    ),
    "four probabilities": (
        lambda x: torch.softmax(x @ WK, 1),
        "probabilities",
        softmax,
        torch.log(softmax / (1 - softmax)),
    ),
}
models = pytest.mark.parametrize(("function", "returns", "probability", "logit"), MODELS.values(), ids=MODELS)


@models
@pytest.mark.parametrize("output", ["probability", "logit"])
def test_class_scores_of_every_class(function, returns, probability, logit, output):
    expected = probability if output == "probability" else logit
    for target in range(expected.shape[1]):
        result, _ = clean_scores(verax.Scorer(function, returns=returns), X, target=target, output=output)
        torch.testing.assert_close(result, expected[:, target])


@models
def test_target_defaults_to_the_predicted_class(function, returns, probability, logit):
    result, target = clean_scores(verax.Scorer(function, returns=returns), X)
    assert torch.equal(target, probability.argmax(1))
    torch.testing.assert_close(result, probability.amax(1))


@models
def test_target_per_row(function, returns, probability, logit):
    expected = torch.arange(len(X)) % probability.shape[1]
    for given in (expected, expected.to(torch.int32), expected.numpy(), expected.tolist()):
        result, target = clean_scores(verax.Scorer(function, returns=returns), X, target=given)
        assert torch.equal(target, expected)
        torch.testing.assert_close(result, probability.gather(1, expected[:, None])[:, 0])


def test_target_is_followed_on_perturbed_rows():
    model = verax.Scorer(lambda x: x @ WK, returns="logits")
    target = torch.tensor([3, 0, 1, 2, 0, 3])
    result = calls.prediction_change(model, X, X, target=target, baselines=0.5)
    everything_replaced = torch.softmax(torch.full((3,), 0.5, dtype=torch.float64) @ WK, 0)
    torch.testing.assert_close(result.morf[:, -1], everything_replaced[target])
    assert torch.equal(result.morf[:, -1], result.lerf[:, -1])


def test_numpy_scalar_target():
    _, target = clean_scores(verax.Scorer(lambda x: x @ WK, returns="logits"), X, target=np.int64(2))
    assert target.tolist() == [2] * len(X)


# Batches and memory


def results(model, x, **options):
    pc = calls.prediction_change(model, x, x, **options)
    infidelity = calls.infidelity(model, x, x, samples=10, **options)
    return pc.morf, pc.lerf, infidelity.value


@pytest.mark.parametrize("batch_size", [1, 3, 64, 100_000])
def test_results_do_not_depend_on_the_batch_size(batch_size):
    x, model = normal(5, 6, dtype=torch.float64), linear(6, 3, dtype=torch.float64)
    for result, expected in zip(results(model, x, batch_size=batch_size), results(model, x), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-14)


class ReusedBuffer(nn.Module):
    """A module that writes its outputs into one piece of memory, over those of the call before."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.held = torch.zeros(1000, layer.out_features, dtype=layer.weight.dtype)

    def forward(self, x):
        if torch.is_grad_enabled():
            return self.layer(x)
        self.held[: len(x)] = self.layer(x)
        return self.held[: len(x)]


def numpy_buffer(layer):
    held = np.zeros((1000, layer.out_features))

    def model(x):
        np.matmul(x, layer.weight.detach().numpy().T, out=held[: len(x)])
        held[: len(x)] += layer.bias.detach().numpy()
        return held[: len(x)]

    return model


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize("returns", ["logits", "values"])
@pytest.mark.parametrize("kind", ["module", "torch", "numpy"])
def test_a_model_may_return_a_view_of_memory_that_it_writes_again(kind, returns, output):
    layer, x = linear(6, 3, dtype=torch.float64).eval(), normal(40, 6, dtype=torch.float64)
    module = ReusedBuffer(layer).eval()
    model = {"module": module, "torch": module.__call__, "numpy": numpy_buffer(layer)}[kind]
    scorer = verax.Scorer(model, returns=returns, takes=None if kind == "module" else kind)
    plain = verax.Scorer(layer, returns=returns)
    methods = {"x": x, "Shapley": verax.attribution.KernelShap(samples=16)}
    if kind == "module":
        methods |= {"gradient": verax.attribution.Gradient()}
    result, expected = (
        calls.evaluate(one, x, methods, target=1, samples=10, output=output, batch_size=16) for one in (scorer, plain)
    )
    for name in expected:
        torch.testing.assert_close(result[name].scores, expected[name].scores, rtol=1e-9, atol=1e-12)


def test_batch_size_of_the_call_goes_before_that_of_the_scorer():
    seen = []

    def model(x):
        seen.append(len(x))
        return x[:, 0]

    scorer = verax.Scorer(model, returns="logits", batch_size=4)
    calls.prediction_change(scorer, normal(9, 3), normal(9, 3))
    assert max(seen) == 4
    seen.clear()
    calls.prediction_change(scorer, normal(9, 3), normal(9, 3), batch_size=2)
    assert max(seen) == 2


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory."),
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 8 bytes"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_batch_is_halved_until_it_fits_the_memory(error):
    sizes = []

    def model(x, room=8):
        sizes.append(len(x))
        if len(x) > room:
            raise error
        return x.sum(1)

    x = normal(11, 5, dtype=torch.float64)
    free = verax.Scorer(lambda x: x.sum(1), returns="logits")
    tight = verax.Scorer(model, returns="logits")
    for result, expected in zip(results(tight, x), results(free, x), strict=True):
        torch.testing.assert_close(result, expected)
    assert tight.rows == free.rows == sum(size for size in sizes if size <= 8)


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_a_single_row_that_does_not_fit_the_memory_raises(error):
    sizes = []

    def model(x):
        sizes.append(len(x))
        raise error

    with pytest.raises(type(error)) as caught:
        calls.prediction_change(verax.Scorer(model, returns="logits"), normal(6, 3), normal(6, 3))
    assert caught.value is error
    assert sizes == [6, 3, 1]


def test_other_runtime_errors_are_passed_on_at_once():
    sizes = []

    def model(x):
        sizes.append(len(x))
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        calls.prediction_change(verax.Scorer(model, returns="logits"), normal(6, 3), normal(6, 3))
    assert sizes == [6]


# A model is given back as it was


class Network(nn.Module):
    """Batch norm and dropout, so that the mode matters; raises on demand."""

    def __init__(self, fails=False):
        super().__init__()
        self.first = linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.last = linear(8, 3)
        self.fails = fails

    def forward(self, x):
        if self.fails:
            raise KeyError("broken")
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def mixed_modes(model):
    model.train()
    model.norm.eval()
    model.last.eval()
    return [part.training for part in model.modules()]


def test_mode_of_every_submodule_is_restored():
    model = Network()
    modes = mixed_modes(model)
    assert len(set(modes)) == 2
    results(model, normal(4, 6))
    assert [part.training for part in model.modules()] == modes


def test_mode_of_every_submodule_is_restored_after_an_exception():
    model = Network(fails=True)
    modes = mixed_modes(model)
    with pytest.raises(KeyError, match="broken"):
        calls.prediction_change(model, normal(4, 6), normal(4, 6))
    assert [part.training for part in model.modules()] == modes
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_model_runs_in_evaluation_mode():
    model, x = Network(), normal(4, 6)
    expected = results(model.eval(), x)
    for result, same in zip(results(model.train(), x), expected, strict=True):
        assert torch.equal(result, same)


def test_parameters_buffers_and_hooks_are_unchanged():
    model = Network().train()
    model.first.weight.requires_grad_(False)
    model.first.weight.grad = None
    model.last.weight.grad = torch.ones_like(model.last.weight)
    calls = []
    handle = model.norm.register_forward_hook(lambda *_: calls.append(1))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    needs = {name: value.requires_grad for name, value in model.named_parameters()}
    places = {name: value.data_ptr() for name, value in model.named_parameters()}
    results(model, normal(4, 6))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert {name: value.requires_grad for name, value in model.named_parameters()} == needs
    assert {name: value.data_ptr() for name, value in model.named_parameters()} == places
    assert torch.equal(model.last.weight.grad, torch.ones_like(model.last.weight))
    assert [list(part._forward_hooks) for part in model.modules()] == [[], [], [handle.id], [], []]
    assert not any(part._forward_pre_hooks or part._backward_hooks for part in model.modules())
    assert calls


def test_model_can_be_trained_after_a_call():
    model, x = Network().train(), normal(4, 6)
    results(model, x)
    model(x).sum().backward()
    assert all(value.grad is not None for value in model.parameters())


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_mode_is_restored(enabled):
    with torch.set_grad_enabled(enabled):
        results(linear(6, 2), normal(4, 6))
        assert torch.is_grad_enabled() is enabled
        assert not torch.is_inference_mode_enabled()


def test_global_random_states_are_untouched(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # beartype draws from Python's generator

    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002

    model, x = Network(), normal(4, 6)
    before = states()
    result = calls.evaluate(model, x, x, ("pc", "dpc", "infidelity", SensitivityN(sizes=(2,))), samples=10)
    result["pc"].mean("bootstrap", resamples=10)
    assert states() == before


def test_inputs_and_attributions_are_unchanged():
    x, a = normal(4, 6), normal(4, 6, seed=1)
    results(linear(6, 2), x)
    calls.directed_prediction_change(linear(6, 2), x, a)
    assert torch.equal(x, normal(4, 6))
    assert torch.equal(a, normal(4, 6, seed=1))


# What comes back


def floating_results():
    x, model = normal(4, 6), linear(6, 2)
    result = calls.evaluate(model, x, x.requires_grad_(), ("pc", "dpc", "infidelity"), samples=10)
    names = ("value", "morf", "lerf", "directed_morf", "directed_lerf", "aupc_morf", "aupc_lerf", "abpc", "scores")
    for metric in ("pc", "dpc"):
        yield from ((f"{metric}.{name}", getattr(result[metric], name)) for name in names)
    for name in ("value", "standard_error", "beta", "scores"):
        yield f"infidelity.{name}", getattr(result["infidelity"], name)


def test_results_can_be_used_in_autograd():
    for name, values in floating_results():
        assert not values.requires_grad, name
        assert not values.is_inference(), name
        factor = torch.ones((), requires_grad=True)
        (factor * values).sum().backward()
        assert factor.grad.item() == pytest.approx(values.sum().item(), rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize("target", [None, 1, [0, 1, 1, 0]])
def test_target_of_a_result_can_be_used_in_autograd(target):
    x, model = normal(4, 6), linear(6, 2)
    result = calls.prediction_change(model, x, x, target=target)
    model(x).gather(1, result.target[:, None]).sum().backward()
    assert model.weight.grad is not None


class Softmax(nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)


def test_a_module_whose_outputs_look_like_probabilities_is_warned_about():
    with pytest.warns(UserWarning, match=r'look like probabilities.*returns="probabilities"'):
        calls.prediction_change(Softmax(), normal(4, 3), normal(4, 3))


@pytest.mark.parametrize("returns", ["logits", "probabilities"])
def test_saying_what_a_module_returns_silences_the_warning(returns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls.prediction_change(verax.Scorer(Softmax(), returns=returns), normal(4, 3), normal(4, 3))


def test_logits_are_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls.prediction_change(linear(3, 2), normal(4, 3), normal(4, 3))


PRECISIONS = [
    (torch.float64, torch.float32, torch.float64),
    (torch.float64, torch.float64, torch.float64),
    (torch.float32, torch.float64, torch.float32),
    (torch.float32, torch.float32, torch.float32),
    (torch.float16, torch.float32, torch.float32),
    (torch.bfloat16, torch.float32, torch.float32),
    (torch.float32, torch.bfloat16, torch.float32),
]


@pytest.mark.parametrize(("of_inputs", "of_model", "of_results"), PRECISIONS, ids=str)
def test_precision_of_results_follows_the_inputs_but_is_at_least_single(of_inputs, of_model, of_results):
    x, model = normal(4, 6).to(torch.float16), linear(6, 3).to(of_model)
    expected = results(linear(6, 3).double(), x.double())[0]
    for index, result in enumerate(results(model, x.to(of_inputs))):
        assert result.dtype == of_results
        if index == 0:
            loose = torch.bfloat16 in (of_inputs, of_model)
            torch.testing.assert_close(result.double(), expected, rtol=0, atol=0.05 if loose else 1e-5)


def test_half_precision_inputs_through_a_callable_give_single_precision_results():
    x = normal(4, 6).half()
    result = calls.prediction_change(verax.Scorer(lambda x: x.sum(1), returns="logits"), x, x)
    assert result.value.dtype == result.morf.dtype == torch.float32


def test_half_precision_inputs_that_equal_the_baseline_have_flat_curves():
    x = torch.zeros(2, 3, dtype=torch.float16)
    scorer = verax.Scorer(lambda x: x.float().sum(1) + 0.1234567, returns="logits")
    curve = calls.prediction_change(scorer, x, x).morf
    assert torch.equal(curve, curve[:, :1].expand_as(curve))


def test_repr_says_what_and_how_much():
    scorer = verax.Scorer(linear(3, 2))
    calls.prediction_change(scorer, normal(2, 3), normal(2, 3))
    assert repr(scorer) == "Scorer(TorchModule, returns='logits', rows=12)"


def test_a_model_that_begins_in_place_leaves_the_inputs_alone():
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    plain = nn.Sequential(nn.ReLU(), model[1])
    for name, result in calls.evaluate(model, x, x).items():
        assert torch.equal(result.value, calls.evaluate(plain, x, x)[name].value)
    assert torch.equal(*(verax.attribution.Gradient()(verax.Problem(each, x)) for each in (model, plain)))
    assert torch.equal(x, before)


def test_works_inside_inference_mode_and_on_inference_tensors():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.inference_mode():
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
        inside = calls.explained(verax.attribution.Gradient(), model, x)
        scores = calls.prediction_change(model, x, inside).value
    outside = calls.explained(verax.attribution.Gradient(), model, x)
    assert torch.equal(inside, outside)
    assert torch.equal(scores, calls.prediction_change(model, x, outside).value)


def test_an_exported_program_can_be_scored():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    torch.testing.assert_close(
        calls.prediction_change(exported, x, x).value, calls.prediction_change(model, x, x).value
    )


def test_a_model_that_is_sure_can_be_explained():
    """A forest's probabilities of 0 and 1 have no finite log-odds; those nearest to them have."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    forest = RandomForestClassifier(20, random_state=0).fit(x, y)
    sure = x[(forest.predict_proba(x).max(1) == 1).nonzero()[0][:5]]
    result = verax.attribution.LimeTabular(samples=64)(verax.Problem(forest, sure))
    assert np.isfinite(result).all()
    assert np.abs(result).max() > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_device_that_is_not_here(device: str | torch.device) -> None:
    x, model = torch.randn(3, 4), nn.Linear(4, 2)
    for call in (lambda: verax.Problem(model, x, device=device), lambda: verax.Scorer(model, device=device)):
        with pytest.raises(ValueError, match=r"^device: expected a device of this machine, got cuda.*no CUDA device"):
            call()
