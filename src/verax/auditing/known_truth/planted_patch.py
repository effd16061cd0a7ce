"""An image with a planted patch: a network looks for bright patches, and one is there."""

import torch
from torch import Tensor, nn

from verax.auditing.case import Case, Truth
from verax.auditing.known_truth.common import BACKGROUND_ROWS, GRADIENT, SHAPLEY, fixed, known, normal_rows
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem
from verax.scoring.scorer import Scorer

_HEIGHT, _WIDTH, _SIDE = 6, 8, 2
_PATCHES = (_HEIGHT // _SIDE) * (_WIDTH // _SIDE)
_NOISE, _BRIGHTNESS = 0.3, 1.5
_STEEPNESS, _THRESHOLD = 4.0, 0.75


class BrightPatches(nn.Module):
    """How much the patches of an image exceed a brightness, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(1, 1, _SIDE, stride=_SIDE, device="meta")
        self.look.weight = known(torch.full((1, 1, _SIDE, _SIDE), 1 / _SIDE**2, dtype=torch.float64))
        self.look.bias = fixed(-_THRESHOLD)

    def forward(self, images: Float[Tensor, "n 1 6 8"]) -> Float[Tensor, " n"]:
        """One value per image."""
        return nn.functional.softplus(self.look(images), beta=_STEEPNESS).flatten(1).sum(1)


def _patch_numbers() -> Int[Tensor, "1 6 8"]:
    numbers = torch.arange(_PATCHES).reshape(1, _HEIGHT // _SIDE, _WIDTH // _SIDE)
    return numbers.repeat_interleave(_SIDE, 1).repeat_interleave(_SIDE, 2)


def _images(purpose: str, count: int, seed: int) -> Float[Tensor, "{count} 1 6 8"]:
    """Noise, and one bright patch at a place of its own."""
    noise = normal_rows(purpose, count, _HEIGHT * _WIDTH, seed).reshape(count, 1, _HEIGHT, _WIDTH)
    planted = normal_rows(f"{purpose}/place", count, _PATCHES, seed).argmax(1)
    return _NOISE * noise + _BRIGHTNESS * (_patch_numbers() == planted[:, None, None, None])


def planted_patch(inputs: int, seed: int) -> Case:
    """``sum_p softplus_4(m_p - 0.75)`` with the mean ``m_p`` of each patch: one feature is a patch.

    All pixels of a patch have one gradient, and a patch's is their sum; patches add up, so that a patch's Shapley value
    is its term less what it is at the baseline.
    """
    images = _images("planted patch", inputs, seed)
    above = nn.functional.avg_pool2d(images, _SIDE).flatten(1) - _THRESHOLD
    term = nn.functional.softplus(above, beta=_STEEPNESS)
    absent = nn.functional.softplus(torch.full_like(above[:1], -_THRESHOLD), beta=_STEEPNESS)
    return Case(
        "planted patch",
        "A network adds up how far twelve patches of an image exceed a brightness; one does.",
        Problem(
            Scorer(BrightPatches(), returns="values"),
            images,
            features=_patch_numbers(),
            background=_images("planted patch/background", BACKGROUND_ROWS, seed),
        ),
        Truth((_STEEPNESS * above).sigmoid(), GRADIENT),
        Truth(term - absent, SHAPLEY),
    )
