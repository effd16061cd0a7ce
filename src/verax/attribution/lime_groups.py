"""LIME over any features: a weighted ridge regression on features that are kept or removed at random."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.coalitions import by_count, coalition_scores, spread_evenly
from verax.attribution.family import Family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.attribution.ridge import weighted_ridge
from verax.core import noise, palette
from verax.core.arguments import checked_count, checked_positive, checked_seed, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.scoring.meter import Rows


@dataclass(frozen=True)
class LimeGroups(Attribution):
    """LIME on features that are there or not: elements, blocks of columns, segments, words (Ribeiro et al. 2016).

    ``a = argmin_v min_c sum_j w_j (f(z_j) - c - v . z_j)^2 + alpha |v|^2``, where ``z_j`` says which features are kept,
    each with probability 1/2, and ``f(z_j)`` is the logit with all others at their baselines. A mask counts
    ``exp(-D^2 / (2 kernel_width^2))`` with its cosine distance ``D`` to the unperturbed input, which counts 1.

    ``LimeTabular`` moves numbers instead and ``LimeImage`` finds segments by itself; this one takes the features and
    baselines of the call.

    Args:
        alpha: Ridge penalty.
        kernel_width: How fast the weight falls with the distance.
        samples: Masks per input; the first ones are the same whatever their number.
        seed: Masks are a function of the seed and the input's values.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
        >>> blocks = torch.tensor([0, 0, 1, 1])
        >>> problem = verax.Problem(model, x, target=1, explained="logit", features=blocks)
        >>> found = LimeGroups(alpha=1e-6, samples=64)(problem)
        >>> effect = (model.weight[1] * x)[:, :2].sum(1)
        >>> bool(torch.allclose(found[:, :2].sum(1), effect, atol=1e-3)), bool(torch.equal(found[:, 0], found[:, 1]))
        (True, True)
    """

    alpha: float = 0.01
    kernel_width: float = 0.25
    samples: int = 1024
    seed: int = 0

    random: ClassVar[bool] = True
    local: ClassVar[bool] = False  # a feature is there or replaced, which is no small change
    label: ClassVar[str] = "LIME on groups"
    colour: ClassVar[str | None] = palette.TEAL
    worth_showing: ClassVar[tuple[str, ...] | None] = ("alpha", "kernel_width", "samples")
    citation: ClassVar[str] = "Ribeiro, Singh, Guestrin: Why should I trust you?, KDD 2016"

    def __post_init__(self) -> None:
        settle(
            self,
            alpha=checked_positive("alpha", self.alpha),
            kernel_width=checked_positive("kernel_width", self.kernel_width),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @property
    def family(self) -> "LimeGroupsFamily":
        """Everything but the seed is varied within the family."""
        return LimeGroupsFamily(self.seed)


@dataclass(frozen=True)
class LimeGroupsFamily(Family):
    """One set of masks per input; each member weights and fits its first ones."""

    seed: int

    needs_gradients: ClassVar[bool] = False

    def rows(self, members: Sequence[LimeGroups], given: Given, place: Place) -> Rows:
        """One per mask of the largest member."""
        return Rows(len(given.inputs) * max(one.samples for one in members))

    def pieces(self, members: Sequence[LimeGroups], explained: Explained) -> Iterator[Piece]:
        """Yield the coefficients of every member."""
        fmap, device = explained.features, explained.session.device
        samples = max(one.samples for one in members)
        per_input = 40 * (samples + 1) * (fmap.most + 2)
        for rows in pieces(len(explained.inputs), max(1, block_bytes(device) // per_input)):
            count = rows.stop - rows.start
            values = torch.zeros(len(members), count, fmap.most, dtype=torch.float64, device=device)
            for features, which in by_count(fmap, rows, device):
                values[:, which - rows.start, :features] = self._values(members, explained, which, features)
            yield Piece(rows, spread_evenly(fmap, values, rows))

    def _values(
        self, members: Sequence[LimeGroups], explained: Explained, which: Int[Tensor, " b"], features: int
    ) -> Float[Tensor, "k b {features}"]:
        """Coefficients of some inputs with equally many features."""
        if not features:
            return torch.zeros(len(members), len(which), 0, dtype=torch.float64, device=which.device)
        samples = max(one.samples for one in members)
        keys = explained.keys(which, self.seed, "lime-groups")
        masks = noise.uniforms(keys, 0, samples, features) < 0.5
        scores = coalition_scores(explained, which, samples, lambda at, number: masks[at, number])
        masks = torch.cat((torch.ones_like(masks[:, :1]), masks), dim=1)  # the unperturbed input comes first
        scores = torch.cat((explained.clean[which, None], scores), dim=1).double()
        fits = {one: (one.samples + 1, one.kernel_width, one.alpha) for one in members}
        found = {fit: _coefficients(masks[:, : fit[0]], scores[:, : fit[0]], *fit[1:]) for fit in {*fits.values()}}
        return torch.stack([found[fits[one]] for one in members])


def _coefficients(
    masks: Bool[Tensor, "b n features"], scores: Float[Tensor, "b n"], width: float, alpha: float
) -> Float[Tensor, "b features"]:
    """One fit for each input."""
    design = masks.double()
    distance = 1 - design.mean(2).sqrt()  # the cosine of a mask with m of d ones to all ones is sqrt(m / d)
    weights = torch.exp(-(distance**2) / (2 * width**2))[:, None]
    if design.shape[2] <= design.shape[1]:
        return weighted_ridge(design, scores, weights, [alpha])[:, 0, 0]
    # the solution lies in the span of the rows; in a basis of it the problem is no larger than its samples
    basis, rows = torch.linalg.qr(design.mT)
    found = weighted_ridge(rows.mT, scores, weights, [alpha])[:, 0, 0]
    return torch.einsum("bdn,bn->bd", basis, found)
