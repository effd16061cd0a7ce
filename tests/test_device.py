"""Results on an accelerator equal those on the CPU; skipped where there is none."""

import pytest
import torch
from torch import nn

import verax
from verax.perturbation import noise

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
    metrics = ("pc", "dpc", "infidelity", "sensitivity_n")
    model = make()
    here = verax.evaluate(model, x, a, metrics)
    moved = verax.evaluate(model, x, a, metrics, device="cuda")
    assert next(model.parameters()).device.type == "cpu"  # moved back
    there = verax.evaluate(model.cuda(), x.cuda(), a.cuda(), metrics)
    for name in metrics:
        assert there[name].value.device.type == "cuda"
        assert moved[name].value.device.type == "cpu"
        torch.testing.assert_close(there[name].value.cpu(), here[name].value, rtol=0, atol=1e-10)
        torch.testing.assert_close(moved[name].value, here[name].value, rtol=0, atol=1e-10)
        assert there[name].rows == here[name].rows


def test_out_of_memory_on_the_device_halves_the_batch() -> None:
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(1)).cuda()
    model = network().float().cuda()
    calls = []

    def hungry(batch: torch.Tensor) -> torch.Tensor:
        calls.append(len(batch))
        if len(batch) > 100:
            torch.empty(1 << 50, device="cuda")
        return model(batch)

    scorer = verax.Scorer(hungry, returns="logits")
    found = verax.prediction_change(scorer, x, x)
    torch.testing.assert_close(found.value, verax.prediction_change(model, x, x).value, rtol=0, atol=1e-6)
    assert max(calls) > 100 >= calls[-1]
