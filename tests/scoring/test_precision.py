"""Precision, compilation and folding: the same scores from a faster copy, and a module that nothing was done to."""

import copy
import shutil
import sysconfig
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import calls
import verax
from verax.core.blocks import whole_batches
from verax.scoring.batchnorm_folding import ConvolutionReLU, FoldedLinear, folded
from verax.scoring.inference import Inference, Runner, ready, single_precision

can_compile = shutil.which("g++") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()
needs_compiler = pytest.mark.skipif(not can_compile, reason="torch.compile needs g++ and Python.h on a CPU")
PRECISIONS = ("float32", "tf32", "bfloat16", "float16")
TOLERANCE = {"float32": 1e-5, "tf32": 1e-5, "bfloat16": 0.02, "float16": 0.003}  # on a CPU TF32 is single precision


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def lively(model, seed=0):
    """Give batch norms statistics and weights that matter."""
    generator = torch.Generator().manual_seed(seed)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            for values, low, high in ((part.weight, 0.5, 2), (part.bias, -1, 1)):
                values.data.uniform_(low, high, generator=generator)
            if part.running_mean is not None:
                part.running_mean.normal_(generator=generator)
                part.running_var.uniform_(0.5, 2, generator=generator)
    return model


def convnet():
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 1), nn.ReLU(inplace=True))
    return lively(nn.Sequential(*body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)))


IMAGES = normal(5, 3, 12, 12, seed=1)
METRICS = ("pc", verax.metrics.DirectedPredictionChange(order="signed"))


def scores(model, **options):
    return calls.evaluate(model, IMAGES, IMAGES, METRICS, **options)


# Scores


@pytest.mark.parametrize("precision", PRECISIONS)
def test_scores_in_every_precision_are_those_of_the_module(precision):
    model = convnet().train()
    expected, result = scores(model), scores(verax.Scorer(model, precision=precision))
    for name in ("pc", "dpc"):
        torch.testing.assert_close(result[name].morf, expected[name].morf, rtol=0, atol=TOLERANCE[precision])
        assert result[name].value.dtype == torch.float32
        assert result[name].rows == expected[name].rows


def test_half_precision_is_used():
    seen = []
    model = convnet()
    model[-1].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    scores(verax.Scorer(model, precision="bfloat16"))
    assert seen[:2] == [torch.float32] * 2  # the folded copy is compared with the module first
    assert seen[2:].count(torch.float32) <= 1  # classes that are left undecided
    assert set(seen[2:]) - {torch.float32} == {torch.bfloat16}


def test_probabilities_are_computed_in_single_precision():
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.copy_(torch.tensor([0.0, 1.0]))
    x = normal(3, 4)
    scorer = verax.Scorer(model, returns="logits", precision="bfloat16")
    result = calls.prediction_change(scorer, x, x).morf
    torch.testing.assert_close(result, torch.full_like(result, float(torch.tensor(1.0).sigmoid())))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_gradients_are_taken_through_the_module_itself(precision):
    model = convnet()
    for method in (verax.attribution.Gradient(), verax.attribution.GuidedBackprop()):
        assert torch.equal(
            *(method(verax.Problem(each, IMAGES)) for each in (model, verax.Scorer(model, precision=precision)))
        )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_forward_passes_beside_gradients_run_on_the_copy(precision):
    model = convnet()
    lime, gradient = verax.attribution.LimeImage(samples=16), verax.attribution.Gradient()
    problem, plain = (verax.Problem(each, IMAGES) for each in (verax.Scorer(model, precision=precision), model))
    together = verax.explain(problem, [lime, gradient])
    assert torch.equal(together[lime.canonical], lime(problem))
    assert torch.equal(together[gradient.canonical], gradient(plain))
    if precision in ("bfloat16", "float16"):
        assert not torch.equal(together[lime.canonical], lime(plain))


def test_nothing_is_compiled_twice_for_gradients(monkeypatch):
    modes = []

    class Compiled(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            modes.append(torch.is_inference_mode_enabled())
            return self.module(x)

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: Compiled(module))
    scorer = verax.Scorer(convnet(), compile=True)
    result = calls.attribute([verax.attribution.LimeImage(samples=16), verax.attribution.VarGrad()], scorer, IMAGES)
    assert not any(value.is_inference() for value in result.values())
    scores(scorer)
    assert len(modes) > 2
    assert all(modes)


def test_weights_are_read_anew_in_every_call():
    model = convnet()
    scorer = verax.Scorer(model, precision="float32")
    scores(scorer)
    model[-1].weight.data.mul_(2)
    torch.testing.assert_close(scores(scorer)["pc"].value, scores(model)["pc"].value)


# Nothing is done to the module or to torch's settings


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = convnet()
        self.fails = True

    def forward(self, x):
        if self.fails and x.shape[0] > 5:
            raise KeyError("broken")
        return self.first(x)


def state_of(model):
    tensors = [*model.parameters(), *model.buffers()]
    return (
        [(one.data_ptr(), one.stride(), one.dtype, one.requires_grad, one._version) for one in tensors],
        [(type(part), part.training, list(part._forward_hooks)) for part in model.modules()],
    )


def settings():
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("fails", [False, True])
def test_module_and_settings_are_left_as_they_were(precision, fails):
    model = Broken().train()
    model.fails = fails
    model.first[1].eval()
    model.first[2].register_forward_hook(lambda *_: None)
    before, values, around = state_of(model), copy.deepcopy(model.state_dict()), settings()
    scorer = verax.Scorer(model, precision=precision)
    if fails:
        with pytest.raises(KeyError, match="broken"):
            scores(scorer)
    else:
        scores(scorer)
    assert state_of(model) == before
    assert settings() == around
    assert all(torch.equal(value, values[name]) for name, value in model.state_dict().items())


def test_single_precision_switches_and_switches_back():
    before = settings()
    with single_precision("tf32"):
        assert settings()[:3] == ("high", True, True)
        with single_precision("float32"):
            assert settings()[:3] == ("highest", False, False)
        assert settings()[:3] == ("high", True, True)
    with single_precision("bfloat16"):
        assert settings() == before
    assert settings() == before


def test_channels_last_weights_come_back_in_the_very_memory_they_had():
    model = convnet()
    before = state_of(model)

    def run():
        with ready(model, torch.device("cpu"), torch.device("cpu"), torch.channels_last):
            assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
            assert not model[0].weight.is_contiguous()
            raise KeyError("broken")

    with pytest.raises(KeyError):
        run()
    assert state_of(model) == before


@pytest.mark.parametrize("order", ["signed", "magnitude"])
def test_channels_last_changes_no_result(monkeypatch, order):
    model = convnet().double()
    x, a = normal(3, 3, 12, 12).double(), normal(4, 3, 3, 12, 12, seed=2).double()
    expected = calls.prediction_change(model, x, a, order=order, batch_size=29)
    monkeypatch.setattr("verax.scoring.scorer.best_layout", lambda inputs, device: torch.channels_last)
    result = calls.prediction_change(model, x, a, order=order, batch_size=29)
    torch.testing.assert_close(result.morf, expected.morf)
    torch.testing.assert_close(result.lerf, expected.lerf)
    gradient = calls.explained(verax.attribution.Gradient(), model, x)
    assert gradient.is_contiguous()


# What cannot be done is said


@pytest.mark.parametrize("options", [{"precision": "float16"}, {"precision": "bfloat16"}, {"compile": True}])
def test_a_plain_function_cannot_be_cast_or_compiled(options):
    with pytest.raises(TypeError, match=r"needs a torch module, got a model behind"):
        verax.Scorer(lambda x: x.sum(1), returns="logits", **options)


def test_a_plain_function_can_run_in_exact_single_precision():
    seen = []

    def function(x):
        seen.append(settings()[:2])
        return x.sum(1)

    x = normal(3, 4)
    calls.prediction_change(verax.Scorer(function, returns="logits", precision="float32"), x, x)
    assert set(seen) == {("highest", False)}


# Folding


def kinds(model):
    return [type(part) for part in model]


def assert_folds_exactly(model, *shape):
    x, result = normal(*(shape or (4, 3, 9, 9))).double(), folded(model.double().eval())
    with torch.no_grad():
        torch.testing.assert_close(result(x.clone()), model(x.clone()), rtol=1e-9, atol=1e-9)
    return result


def test_convolution_batch_norm_and_relu_become_one_layer():
    result = assert_folds_exactly(convnet())
    assert kinds(result)[:5] == [ConvolutionReLU, nn.Identity, nn.Identity, ConvolutionReLU, nn.Identity]


def test_linear_layer_batch_norm_and_relu_become_one_layer():
    layers = (nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5))
    result = assert_folds_exactly(lively(nn.Sequential(*layers, nn.Linear(5, 2), nn.ReLU(), nn.Linear(2, 1))), 4, 3)
    gone = nn.Identity
    assert kinds(result) == [FoldedLinear, gone, gone, FoldedLinear, gone, FoldedLinear, gone, nn.Linear]


def test_a_batch_norm_of_another_axis_than_that_of_the_linear_layer_before_it_stays():
    layers = (nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU())
    assert_folds_exactly(lively(nn.Sequential(*layers)), 4, 6, 6)
    assert_folds_exactly(lively(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(7), nn.ReLU())), 4, 7, 6)


def test_the_perceptron_of_the_paper_folds_altogether():
    model = lively(verax.paper.models.MLP(20).build(seed=0)).double().eval()
    result, x = folded(model), normal(7, 20).double()
    assert sum(isinstance(part, nn.BatchNorm1d) for part in model.modules()) == 7
    with torch.no_grad():
        torch.testing.assert_close(result(x), model(x))
        for part in result.modules():
            if isinstance(part, FoldedLinear):
                part.norm.weight.fill_(torch.nan)  # none is used
        torch.testing.assert_close(result(x), model(x))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_scores_of_tables_in_every_precision_are_those_of_the_module(precision):
    model, x = lively(verax.paper.models.MLP(4, hidden=(8, 8)).build(seed=0)), normal(6, 4)
    expected = calls.evaluate(verax.Scorer(model, returns="logits"), x, x, METRICS)
    result = calls.evaluate(verax.Scorer(model, returns="logits", precision=precision), x, x, METRICS)
    torch.testing.assert_close(result["pc"].morf, expected["pc"].morf, rtol=0, atol=TOLERANCE[precision])


def test_settings_of_a_convolution_are_kept():
    layers = (nn.Conv2d(3, 6, 3, 2, padding=2, dilation=2, groups=3), nn.BatchNorm2d(6), nn.ReLU())
    assert_folds_exactly(lively(nn.Sequential(*layers)))
    assert_folds_exactly(lively(nn.Sequential(nn.Conv2d(3, 6, 3, padding="same"), nn.BatchNorm2d(6), nn.ReLU())))


class Skip(nn.Module):
    """The convolution's output is used twice, so the batch norm cannot go into it."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU()

    def forward(self, x):
        y = self.conv(x)
        return self.relu(self.norm(y)) + y


class Shapely(Skip):
    """Looks at the shape, so it cannot be traced; its order of calls is not the order of its parts either."""

    def forward(self, x):
        y = self.norm(self.conv(x)) if x.shape[-1] == 1 else self.conv(self.norm(x))
        return y * len(x)


class Choosy(Skip):
    """Refuses what is not a tensor, in words of its own."""

    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise KeyError(type(x))
        return self.relu(self.norm(self.conv(x)))


class Reused(Skip):
    def forward(self, x):
        return self.relu(self.norm(self.conv(self.norm(self.conv(x)))))


class Functional(Skip):
    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class Tied(Skip):
    """Its weights are used twice."""

    def forward(self, x):
        return F.conv_transpose2d(self.relu(self.norm(self.conv(x))), self.conv.weight)


@pytest.mark.parametrize("make", [Skip, Shapely, Choosy, Reused, Tied])
def test_what_cannot_be_folded_is_left_alone(make):
    result = assert_folds_exactly(lively(make()))
    assert type(result.conv) is nn.Conv2d
    assert type(result.norm) is nn.BatchNorm2d


class FromAbove(nn.Module):
    """Uses a part of its part, beside the part itself."""

    def __init__(self, use):
        super().__init__()
        self.block, self.use = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU()), use

    def forward(self, x):
        return self.block(x) + self.use(self.block[0], x)


@pytest.mark.parametrize("use", [lambda layer, x: layer(x), lambda layer, x: x * layer.weight.sum()])
def test_what_is_used_from_above_is_left_alone(use):
    assert kinds(assert_folds_exactly(lively(FromAbove(use))).block) == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU]


def test_a_functional_relu_stays_and_the_batch_norm_is_folded():
    result = assert_folds_exactly(lively(Functional()))
    assert (type(result.conv), type(result.norm)) == (nn.Conv2d, nn.Identity)


def test_shared_layers_are_left_alone():
    layer, norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
    assert kinds(assert_folds_exactly(lively(nn.Sequential(layer, norm, layer, nn.ReLU()))))[0] is nn.Conv2d
    shared = nn.Sequential(nn.Sequential(layer, norm), nn.Sequential(nn.Conv2d(3, 3, 1), norm))
    assert kinds(assert_folds_exactly(lively(shared))[0]) == [nn.Conv2d, nn.BatchNorm2d]


def test_a_batch_norm_without_running_statistics_is_left_alone():
    norm = nn.BatchNorm2d(3, track_running_stats=False)
    assert kinds(assert_folds_exactly(nn.Sequential(nn.Conv2d(3, 3, 1), norm, nn.ReLU())))[1] is nn.BatchNorm2d


def test_layers_with_hooks_are_left_alone():
    model = convnet()
    model[1].register_forward_hook(lambda module, inputs, output: output * 2)
    assert kinds(assert_folds_exactly(model))[1] is nn.BatchNorm2d


def test_inception_folds_altogether(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it checks that values are tensors; fx's are not
    model = lively(verax.paper.models.InceptionV1(outputs=2).build(seed=0)).double().eval()
    result, x = folded(model), normal(2, 3, 33, 33).double()
    assert not any(isinstance(part, nn.BatchNorm2d | nn.ReLU) for part in result.modules())
    assert sum(isinstance(part, nn.BatchNorm2d) for part in model.modules()) == 57
    with torch.no_grad():
        torch.testing.assert_close(result(x), model(x))


class Deep(nn.Module):
    """Cannot be traced, and calls parts of its part."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU())
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        y = self.block[0](x) if len(x) > 0 else self.block(x)
        return self.last(y.mean((2, 3)))


class Around(nn.Module):
    """Holds a module that cannot be traced, deeper down."""

    def __init__(self):
        super().__init__()
        self.inner = Deep()

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("make", [Deep, Around])
@pytest.mark.parametrize("precision", [None, "float32"])
def test_nothing_is_folded_below_what_cannot_be_traced(make, precision):
    model = lively(make()).eval()
    assert kinds_of(folded(model)) == kinds_of(model)
    result, expected = scores(verax.Scorer(model, precision=precision)), scores(model)
    torch.testing.assert_close(result["pc"].morf, expected["pc"].morf, rtol=0, atol=1e-5)


def kinds_of(model):
    return [type(part) for part in model.modules()]


class Reader(nn.Module):
    """Reads the weights of a layer that is not its own, out of anybody's sight."""

    def __init__(self, layer):
        super().__init__()
        self.seen = [layer]

    def forward(self, x):
        return x * self.seen[0].weight.sum()


class Secret(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU())
        self.reader, self.pool = Reader(self.block[0]), nn.AdaptiveAvgPool2d(1)
        self.flat, self.last = nn.Flatten(), nn.Linear(3, 2)

    def forward(self, x):
        return self.last(self.flat(self.pool(self.reader(self.block(x)))))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_folded_copy_that_gives_other_outputs_is_not_used(precision):
    torch.manual_seed(0)
    model = lively(Secret()).eval()
    with torch.no_grad():
        assert not torch.allclose(folded(model)(IMAGES), model(IMAGES), atol=1e-3)
    scorer, expected = verax.Scorer(model, precision=precision), scores(model)
    with pytest.warns(UserWarning, match="batch norms folded gives other outputs than the model") as caught:
        result = scores(scorer)
    assert len(caught) == 1
    scores(scorer)  # where warnings are errors
    torch.testing.assert_close(result["pc"].morf, expected["pc"].morf, rtol=0, atol=TOLERANCE[precision])


# Compilation


@needs_compiler
@pytest.mark.filterwarnings("ignore")  # of torch.compile, about itself
def test_compiled_scores_are_the_same_and_partial_batches_are_filled_up(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # torch.compile cannot look through its checks
    model = nn.Sequential(nn.Flatten(), nn.Linear(432, 8), nn.ReLU(), nn.Linear(8, 3))
    scorer = verax.Scorer(model, compile=True, batch_size=64)
    expected, result = scores(model), scores(scorer)
    torch.testing.assert_close(result["pc"].morf, expected["pc"].morf)
    assert result.rows == expected.rows == scorer.rows == 5 * 40
    compiled = scorer.inference.compiled
    model[1].weight.data.mul_(2)
    torch.testing.assert_close(scores(scorer)["pc"].morf, scores(model)["pc"].morf)
    assert scorer.inference.compiled is compiled  # weights are new, what was compiled is not


def test_what_was_compiled_is_kept_as_long_as_the_structure_stays(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: module)
    model, made = convnet().eval(), []
    inference = Inference(verax.Scorer(model).adapter, None, compile=True)
    plain = Runner(inference.adapter, torch.float32, torch.preserve_format)
    changes = (
        lambda: None,
        lambda: model[-1].weight.data.mul_(2),
        lambda: setattr(model[-3], "output_size", (2, 2)),
        lambda: model[-1].register_forward_hook(print),
    )
    for change in changes:
        change()
        made.append(inference.runner(plain, IMAGES, torch.device("cpu")).adapter.module)
    assert made[0] is made[1]
    assert len({id(one) for one in made}) == 3


def test_out_of_memory_with_fixed_batches_halves_them(monkeypatch):
    sizes = []

    class Hungry(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            sizes.append(len(x))
            if len(x) > 16:
                raise torch.OutOfMemoryError
            return self.module(x)

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: Hungry(module))
    model = convnet()
    result = scores(verax.Scorer(model, compile=True, batch_size=64))
    torch.testing.assert_close(result["pc"].value, scores(model)["pc"].value)
    assert set(sizes) == {64, 32, 16}
    assert result.rows == 5 * 40


# Batches


def test_whole_batches_fill_the_last_one():
    for count in (1, 20, 243, 1000):
        for batch_size in (64, 1024):
            result = whole_batches(count, 38, batch_size)
            assert 1 <= result <= count
            assert result == count or -result * 38 % batch_size < 38


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_an_undecided_class_is_predicted_in_single_precision(precision):
    """In half precision the first two logits are 0; among many classes some are decided, and stay as they are."""
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[-1.0, 1.0001]])
    x = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 3.0]])
    scorer = verax.Scorer(model, precision=precision, returns="logits")
    result = calls.prediction_change(scorer, x, torch.ones_like(x))
    assert result.target.tolist() == [1, 0, 1]
    assert result.rows == calls.prediction_change(verax.Scorer(model, returns="logits"), x, torch.ones_like(x)).rows
    assert calls.prediction_change(scorer, x, torch.ones_like(x), target=0).target.tolist() == [0, 0, 0]
