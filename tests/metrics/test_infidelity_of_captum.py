"""Infidelity against Captum's, on independent draws and on the very same ones.

Captum's normalised score is not corrected for the fitted scale, and lets it be negative: ours is n / (n - 1) times as
large, and that of no attribution where Captum's scale is negative.
"""

from typing import Any

import pytest
import torch
from captum.metrics import infidelity as captum_infidelity
from torch import Tensor, nn

import calls
from verax.core import noise

INPUTS, FEATURES, SIGMA = 6, 8, 0.2


class Classifier(nn.Module):
    """Tells logits or probabilities, for Captum, which has no choice of output."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.inner = nn.Parameter(torch.randn(FEATURES, 10, generator=generator, dtype=torch.float64))
        self.outer = nn.Parameter(torch.randn(10, 3, generator=generator, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.inner) @ self.outer

    def scores(self, output: str) -> "nn.Module | nn.Sequential":
        return self if output == "logit" else nn.Sequential(self, nn.Softmax(dim=1))


def problem() -> tuple[Classifier, Tensor, Tensor, Tensor]:
    """Model, inputs, attributions (the gradient of the logit and two random ones) and classes."""
    generator = torch.Generator().manual_seed(1)
    model = Classifier()
    x = torch.randn(INPUTS, FEATURES, generator=generator, dtype=torch.float64)
    target = torch.randint(0, 3, (INPUTS,), generator=generator)
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(leaf).gather(1, target[:, None]).sum(), leaf)
    others = torch.randn(2, INPUTS, FEATURES, generator=generator, dtype=torch.float64)
    return model, x, torch.cat([gradient[None], others]), target


def as_bad_as_none(result: Any, attribution: int) -> Tensor:
    """Where an attribution points the wrong way."""
    found: Tensor = result.moments.ps[attribution] < 0
    return found


both_outputs = pytest.mark.parametrize("output", ["logit", "probability"])
both_scales = pytest.mark.parametrize("normalize", [True, False])


@both_outputs
@both_scales
def test_independent_draws_agree_within_their_errors(output: str, normalize: bool) -> None:
    """Captum draws as many, so it errs as much: four combined standard errors are 4 sqrt(2) of ours."""
    model, x, attributions, target = problem()
    samples = 2000
    result = calls.infidelity(
        model, x, attributions, target=target, samples=samples, normalize=normalize, output=output
    )
    generator = torch.Generator().manual_seed(2)

    def perturb(rows: Tensor) -> tuple[Tensor, Tensor]:
        drawn = SIGMA * torch.randn(rows.shape, generator=generator, dtype=rows.dtype)
        return drawn, rows - drawn

    for k, attribution in enumerate(attributions):
        theirs = captum_infidelity(
            model.scores(output),
            perturb,
            x,
            attribution,
            target=target,
            n_perturb_samples=samples,
            normalize=normalize,
        )
        fits = ~as_bad_as_none(result, k) if normalize else torch.ones(INPUTS, dtype=torch.bool)
        difference = (result.value[k] - theirs).abs() / (2**0.5 * result.standard_error[k])
        assert difference[fits].max() < 4


@both_outputs
@both_scales
@pytest.mark.parametrize("subset", [None, 3])
def test_the_same_draws_give_the_same_value(output: str, normalize: bool, subset: int | None) -> None:
    model, x, attributions, target = problem()
    samples, seed = 300, 5
    result = calls.infidelity(
        model,
        x,
        attributions,
        target=target,
        samples=samples,
        seed=seed,
        subset=subset,
        normalize=normalize,
        output=output,
    )
    drawn = SIGMA * noise.normals(noise.input_keys(x, seed, "gaussian"), 0, samples, FEATURES, x.dtype)
    if subset is not None:
        keys = noise.input_keys(x, seed, "subset")
        drawn = drawn * noise.subsets(keys, 0, samples, FEATURES, subset, torch.tensor([FEATURES]))
    moved = (x[:, None] + drawn).flatten(0, 1)
    for k, attribution in enumerate(attributions):
        theirs = captum_infidelity(
            model.scores(output),
            lambda rows: (rows - moved, moved),
            x,
            attribution,
            target=target,
            n_perturb_samples=samples,
            normalize=normalize,
        )
        if normalize:
            none = as_bad_as_none(result, k)
            theirs = torch.where(none, result.moments.ss[k] / samples, theirs) * samples / (samples - 1)
            assert k == 0 or none.any()
        torch.testing.assert_close(result.value[k], theirs, rtol=0, atol=1e-10)
