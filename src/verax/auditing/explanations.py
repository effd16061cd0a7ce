"""False explanations made from a true one, and true ones that are damaged a little: what metrics must distinguish.

All take one number per input and feature, and give the same. Where one is not defined for an input (there is no inverse
of 0) or changes nothing, it is the truth itself there, and trials leave that input out.
"""

import torch
from torch import Tensor

from verax.auditing.subject import Ground, Subject
from verax.core import noise
from verax.core.shapes import Bool, Float

DRAWN = "(drawn at random)"  # unlike the name of anybody's explanation
NOISES = (0.25, 0.5, 1.0, 2.0)  # standard deviations, in units of the explanation's own size


def false_explanations(ground: Ground, truth: Float[Tensor, "n features"]) -> dict[str, Float[Tensor, "n features"]]:
    """All alternatives to a truth, by name.

    Args:
        ground: What the truth is about.
        truth: The explanation that is true.
    """
    subject, seed = ground.subject, ground.seed
    found = {
        "random": randomly(subject, seed, truth),
        "permuted": permuted(subject, seed, truth),
        "-a": -truth,
        "-1/a": inverse(truth, present(subject)),
        "half-reversed signs": half_reversed(truth, present(subject)),
        "a constant added": truth + 2 * truth.abs().amax(1, keepdim=True),  # no feature becomes 0 by it
    }
    local = subject.truths.get("local")
    if local is not None and subject.away is not None:
        slope = local.attribution.double()
        found["sign(g) |g (x - b)|"] = slope.sign() * (slope * subject.away).abs()
    found |= {f"noise {size}": noisy(subject, seed, truth, size) for size in NOISES}
    other = subject.truths.get("baseline" if ground.kind == "local" else "local")
    if other is not None:
        found["the truth of the other kind"] = other.attribution.double()
    return found


def randomly(
    subject: Subject, seed: int, like: Float[Tensor, "n features"], draw: int = 0
) -> Float[Tensor, "n features"]:
    """Normal numbers of the same size, which know nothing."""
    keys = subject.keys(seed, "random")
    return noise.normals(keys, draw, 1, like.shape[1], torch.float64)[:, 0] * _size(like)


def permuted(subject: Subject, seed: int, truth: Float[Tensor, "n features"]) -> Float[Tensor, "n features"]:
    """The same numbers on other features, at random."""
    lots = noise.words(subject.keys(seed, "permuted"), 0, truth.shape[1])
    absent = ~present(subject)
    order = lots.masked_fill(absent, torch.iinfo(torch.int64).max).argsort(dim=1, stable=True)
    return torch.where(absent, truth, truth.gather(1, order))


def inverse(truth: Float[Tensor, "n features"], there: Bool[Tensor, "n features"]) -> Float[Tensor, "n features"]:
    """``-1/a``: every sign and the whole ranking reversed; the truth itself where a feature has 0."""
    defined = ((truth != 0) | ~there).all(1, keepdim=True)
    safe = torch.where(truth == 0, 1.0, truth)
    return torch.where(defined & there, -1 / safe, truth)


def half_reversed(truth: Float[Tensor, "n features"], there: Bool[Tensor, "n features"]) -> Float[Tensor, "n features"]:
    """The signs of the smaller half of the features reversed."""
    size = truth.abs().masked_fill(~there, torch.inf)
    rank = size.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    lower = rank < there.sum(1, keepdim=True) // 2
    return torch.where(lower, -truth, truth)


def noisy(subject: Subject, seed: int, truth: Float[Tensor, "n features"], size: float) -> Float[Tensor, "n features"]:
    """Noise added, of so many times the explanation's own size."""
    drawn = noise.normals(subject.keys(seed, "noise"), 0, 1, truth.shape[1], torch.float64)[:, 0]
    return truth + size * _size(truth) * drawn


def damaged(
    subject: Subject, seed: int, truth: Float[Tensor, "n features"], damage: float
) -> Float[Tensor, "n features"]:
    """A mixture of an explanation and noise of its own size: from 0, untouched, to 1, noise alone."""
    drawn = noise.normals(subject.keys(seed, "damage"), 0, 1, truth.shape[1], torch.float64)[:, 0]
    return (1 - damage) * truth + damage * _size(truth) * drawn


def present(subject: Subject) -> Bool[Tensor, "n features"]:
    """Which features an input has; where inputs differ, some have fewer."""
    return torch.arange(subject.features) < subject.counts[:, None]


def _size(values: Float[Tensor, "n features"]) -> Float[Tensor, "n 1"]:
    """Root mean square of each input's explanation; 1 where it is 0 everywhere."""
    size = values.square().mean(1, keepdim=True).sqrt()
    return torch.where(size > 0, size, 1.0)
