"""Results on an accelerator equal those on the CPU; skipped where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import calls
import verax
from verax.attribution.ridge import weighted_ridge
from verax.core import noise
from verax.paper.models import InceptionV1
from verax.perturbation.guided import guided_scores
from verax.perturbation.removed_sets import Experiment
from verax.problem.attributed import Task, attributed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3)).double()


def image_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2)).double()


def test_draws_have_the_same_bits_on_every_device() -> None:
    x = torch.randn(7, 33, generator=torch.Generator().manual_seed(0))
    keys = noise.input_keys(x, 3, "gaussian")
    assert torch.equal(keys, noise.input_keys(x.cuda(), 3, "gaussian").cpu())
    for dtype in (torch.float32, torch.float64):
        here = noise.normals(keys, 5, 11, 33, dtype)
        assert torch.equal(here, noise.normals(keys.cuda(), 5, 11, 33, dtype).cpu())
    counts = torch.tensor([33])
    here = noise.subsets(keys, 0, 9, 33, 4, counts)
    assert torch.equal(here, noise.subsets(keys.cuda(), 0, 9, 33, 4, counts.cuda()).cpu())


@pytest.mark.parametrize("make", [network, image_network])
def test_metrics_agree_between_devices(make) -> None:
    shape = (20,) if make is network else (3, 16, 16)
    x = torch.randn(9, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a = torch.randn(4, 9, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    metrics = {name: name for name in ("pc", "dpc", "infidelity", "sensitivity_n")}
    metrics["adaptive"] = verax.metrics.DirectedPredictionChange(steps="adaptive")
    model = make()
    here = calls.evaluate(model, x, a, metrics)
    moved = calls.evaluate(model, x, a, metrics, device="cuda")
    assert next(model.parameters()).device.type == "cpu"  # moved back
    there = calls.evaluate(model.cuda(), x.cuda(), a.cuda(), metrics)
    for name in metrics:
        assert there[name].value.device.type == "cuda"
        assert moved[name].value.device.type == "cpu"
        torch.testing.assert_close(there[name].value.cpu(), here[name].value, rtol=0, atol=1e-10)
        torch.testing.assert_close(moved[name].value, here[name].value, rtol=0, atol=1e-10)
        assert there[name].rows == here[name].rows


def test_out_of_memory_on_the_device_halves_the_batch() -> None:
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(1)).cuda()
    model = network().float().cuda()
    sizes = []

    def hungry(batch: torch.Tensor) -> torch.Tensor:
        sizes.append(len(batch))
        if len(batch) > 100:
            torch.empty(1 << 50, device="cuda")
        return model(batch)

    scorer = verax.Scorer(hungry, returns="logits")
    found = calls.prediction_change(scorer, x, x)
    torch.testing.assert_close(found.value, calls.prediction_change(model, x, x).value, rtol=0, atol=1e-6)
    assert max(sizes) > 100 >= sizes[-1]


# Precision, layout, streaming


def normed_network(size: int = 32) -> nn.Module:
    torch.manual_seed(0)
    body = (nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.ReLU())
    model = nn.Sequential(*body, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * (size // 2 - 2) ** 2, 2))
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    return model


def images(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


METRICS = ("pc", verax.metrics.DirectedPredictionChange(order="signed"))
TOLERANCE = {None: 2e-3, "float32": 1e-5, "tf32": 2e-3, "bfloat16": 0.03, "float16": 4e-3}


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("home", ["cpu", "cuda"])
def test_every_precision_scores_images_as_the_cpu_does(precision, home) -> None:
    model, x, a = normed_network(), images(9), images(9, seed=2)
    wanted = calls.evaluate(model, x, a, METRICS)
    scorer = verax.Scorer(model.to(home), precision=precision, device="cuda")
    before = [(one.data_ptr(), one.stride()) for one in model.parameters()] if home == "cuda" else None
    found = calls.evaluate(scorer, x, a, METRICS, batch_size=50)
    for name in ("pc", "dpc"):
        torch.testing.assert_close(found[name].morf, wanted[name].morf, rtol=0, atol=TOLERANCE[precision])
        assert found[name].rows == wanted[name].rows
    assert next(model.parameters()).device.type == home
    if before is not None:
        assert [(one.data_ptr(), one.stride()) for one in model.parameters()] == before


COMPILED = """
import sys
sys.path.append({tests!r})
import calls, torch, verax
from test_device import METRICS, TOLERANCE, images, normed_network
model, x, a = normed_network().cuda(), images(9).cuda(), images(9, seed=2).cuda()
scorer = verax.Scorer(model, precision={precision!r}, compile=True, batch_size=64)
found, wanted = calls.evaluate(scorer, x, a, METRICS), calls.evaluate(model, x, a, METRICS)
torch.testing.assert_close(found["pc"].morf, wanted["pc"].morf, rtol=0, atol=TOLERANCE[{precision!r}])
assert found.rows == wanted.rows
print("the same")
"""


@pytest.mark.parametrize("precision", ["tf32", "float16"])
def test_compiled_scores_are_the_same(precision) -> None:
    """In a process of its own: the checks of shapes that tests run with cannot be part of a compiled graph."""
    script = COMPILED.format(tests=str(Path(__file__).parent), precision=precision)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.stdout.endswith("the same\n"), found.stderr


def test_a_model_runs_channels_last() -> None:
    seen = []
    model = normed_network().cuda()
    model[3].register_forward_hook(lambda module, inputs, output: seen.append((inputs[0], output)))
    calls.prediction_change(model, images(4).cuda(), images(4).cuda())
    assert all(one.is_contiguous(memory_format=torch.channels_last) for pair in seen for one in pair)


@pytest.mark.parametrize("method", [verax.attribution.Gradient(), verax.attribution.GuidedBackprop()])
def test_gradients_of_images_agree_between_devices(method) -> None:
    model, x = normed_network().double(), images(5).double()
    here, there = (method(verax.Problem(model, x, device=device)) for device in (None, "cuda"))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)
    assert there.is_contiguous()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # which torch calls a prototype
def test_nothing_waits_inside_the_guided_stream() -> None:
    x, scorer = images(20).cuda(), verax.Scorer(normed_network().cuda(), batch_size=64)
    rated = attributed(verax.Problem(scorer, x), images(20, seed=2).cuda())
    with scorer.session(x, "torch", "probability") as session:
        scores = session.class_scores(x)
        task = Task(rated, scores.argmax(1), scores.amax(1))
        try:
            torch.cuda.set_sync_debug_mode("error")
            (found,) = guided_scores(session, task, [Experiment("signed", 20)])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(found.curves).all()


def test_scores_that_are_not_finite_are_found_although_nothing_waits() -> None:
    class Holes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sums = x.flatten(1).sum(1)
            return torch.where((x == 0).flatten(1).sum(1) > 1500, torch.nan, sums)

    with pytest.raises(ValueError, match=r"expected finite scores.*a perturbed copy of the input"):
        calls.prediction_change(verax.Scorer(Holes(), returns="values"), images(4).cuda(), images(4).cuda())


def test_images_on_the_cpu_go_to_the_device_block_by_block(monkeypatch) -> None:
    monkeypatch.setattr("verax.perturbation.guided.block_bytes", lambda device: 1 << 20)
    model, x, a = normed_network(), images(40), torch.stack([images(40, seed=seed) for seed in (2, 3)])
    groups = (torch.arange(1024) // 8).reshape(32, 32)
    for features in ("auto", groups):
        wanted = calls.prediction_change(model, x, a, features=features)
        scorer = verax.Scorer(model, precision="float32", device="cuda", batch_size=100)
        found = calls.prediction_change(scorer, x, a, features=features)
        torch.testing.assert_close(found.value, wanted.value, rtol=0, atol=1e-5)


def test_inputs_with_all_that_travels_along_agree_between_devices() -> None:
    """Groups, fixed elements, gaps, companions and noise of many sizes are kept on the CPU and used on the GPU."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(6, 70, dtype=torch.float64, generator=generator)
    x[0, 3] = torch.nan
    groups = torch.randint(-1, 40, (6, 70), generator=generator)
    weight = torch.randn(70, dtype=torch.float64, generator=generator)
    a = {name: torch.randn(6, 70, dtype=torch.float64, generator=generator) for name in "ab"}

    def model(rows, scale):
        return rows.nan_to_num(nan=2.0) @ weight.to(rows.device) * scale

    scorer = verax.Scorer(model, returns="values", takes_missing=True)
    said = {"features": groups, "baselines": 0.5, "model_kwargs": {"scale": torch.arange(1.0, 7.0).double()}}
    settings = {"sigma": torch.linspace(0.1, 1.0, 70).double(), "samples": 30}
    here = calls.evaluate(scorer, x, a, **said, **settings)
    there = calls.evaluate(scorer, x, a, device="cuda", **said, **settings)
    for name in here:
        for one in a:
            torch.testing.assert_close(there[name].value[one], here[name].value[one], rtol=1e-9, atol=1e-9)
    home, away = (verax.Problem(scorer, x, device=device, **said) for device in (None, "cuda"))
    occlusion = verax.attribution.Occlusion()
    torch.testing.assert_close(occlusion(away), occlusion(home), rtol=0, atol=1e-9)
    shap = verax.attribution.KernelShap(samples=300)
    torch.testing.assert_close(shap(away), shap(home), rtol=1e-6, atol=1e-6)


# Rows written by kernels


@pytest.mark.parametrize("precision", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("replacement", [None, verax.replacement.Nudge(0.1)])
def test_kernels_write_the_rows_that_are_made_otherwise(precision, replacement, monkeypatch) -> None:
    """One attribution, and several in both rules, with baselines for all inputs or one each: bit for bit."""
    model, x = normed_network().cuda(), images(5).cuda()
    several = torch.stack([images(5, seed=seed).cuda() for seed in (2, 3, 4)])
    metrics = {
        "pc": "pc",
        "dpc": verax.metrics.DirectedPredictionChange(),
        "split": verax.metrics.DirectedPredictionChange(rule="coherent"),
    }
    scorer = verax.Scorer(model, precision=precision)

    def found() -> list[torch.Tensor]:
        pairs = [(several[0], ["pc"]), (several, metrics)]
        return [
            result.scores
            for attributions, asked in pairs
            for result in calls.evaluate(scorer, x, attributions, asked, replacement=replacement).values()
        ]

    written = found()
    monkeypatch.setattr("verax.perturbation.block.can_write", lambda device, layout: False)
    for one, other in zip(written, found(), strict=True):
        assert torch.equal(one, other)


def test_lime_on_images_agrees_between_devices(monkeypatch) -> None:
    coarse = nn.functional.interpolate(images(5)[..., :4, :4], size=(32, 32)).double()
    model, x = normed_network().double(), coarse + images(5, seed=3).double() / 10
    settings = [
        verax.attribution.LimeImage(alpha, 0.5, replacement, segmenter, samples=300, distance=distance)
        for alpha in (0.001, 0.1)
        for replacement in ("segment", "image", "dataset")
        for segmenter in (verax.attribution.Slic(60), verax.attribution.Quickshift(5.0))
        for distance in ("masks", "inputs")
    ]
    here = calls.attribute(settings, model, x)
    there = calls.attribute(settings, model, x, device="cuda")
    for name, wanted in here.items():
        torch.testing.assert_close(there[name], wanted, rtol=0, atol=1e-8 * float(wanted.abs().max()))
    monkeypatch.setattr("verax.attribution.lime_image.can_write", lambda device, layout: False)
    again = calls.attribute(settings, model, x, device="cuda")
    assert all(torch.equal(again[name], there[name]) for name in here)


@pytest.mark.parametrize(
    "method",
    [
        verax.attribution.Gradient(),
        verax.attribution.GuidedBackprop(),
        verax.attribution.IntegratedGradients(points=8),
        verax.attribution.SmoothGrad(samples=8),
        verax.attribution.DeepLiftSHAP(samples=8),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.filterwarnings("ignore:DeepLiftSHAP. contributions miss")  # by TF32, as logits hardly differ
def test_gradients_are_repeatable(method) -> None:
    torch.manual_seed(0)
    x, background = torch.randn(12, 3, 224, 224, device="cuda"), torch.randn(8, 3, 224, 224, device="cuda")
    model = verax.Scorer(InceptionV1().build(seed=0).eval().cuda(), returns="logits")
    first, second = (method(verax.Problem(model, x, background=background)) for _ in range(2))
    assert torch.equal(first, second)


def test_lime_does_not_wait_for_its_regressions() -> None:
    drawn = torch.randn(8, 1025, 60, device="cuda").gt(0).double()
    scores, weights = torch.randn(8, 1025, device="cuda"), torch.rand(8, 4, 1025, device="cuda")
    weighted_ridge(drawn, scores, weights, [0.01, 0.1])  # loads the libraries
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # about a second of work that is queued before
    busy = torch.cuda.Event()
    busy.record()
    found = weighted_ridge(drawn, scores, weights, [0.01, 0.1])
    assert not busy.query()
    assert torch.isfinite(found).all()
