"""Plans: which features an experiment has removed at each point of its curves, for every attribution of a block."""

import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.shapes import Bool, Int, Shaped
from verax.perturbation import bit_masks
from verax.perturbation.block import Block
from verax.perturbation.feature_sums import FeatureSums, signs, size_times_sign
from verax.perturbation.order import Order, cut_points, ranks, removal_order
from verax.problem.replacement import Replacement

Rule = Literal["sum", "dot", "coherent"]
Area = Literal["between", "morf"]


@dataclass(frozen=True)
class Experiment:
    """One guided perturbation experiment: how features are ordered, in how many steps they go, and what they become.

    Attributes:
        order: By attribution, or by its size.
        steps: From the input to everything removed.
        rule: How a step of many features is directed. ``"sum"`` needs the signs of two sums, ``"dot"`` that of the
            change that the attribution predicts; ``"coherent"`` takes features with unlike predictions one after the
            other.
        area: ``"between"`` runs the MoRF and the LeRF curve, ``"morf"`` the first alone.
        replacement: What removed features become; None for what the call says.
    """

    order: Order
    steps: int
    rule: Rule = "sum"
    area: Area = "between"
    replacement: Replacement | None = None

    @property
    def curves(self) -> int:
        """How many curves there are."""
        return 2 if self.area == "between" else 1

    @property
    def points(self) -> int:
        """Points of a curve for each step: its end, and for split steps two within."""
        return 3 if self.rule == "coherent" else 1


class RemovedSets:
    """The removed sets of one experiment on one block, in the fixed layout (input, attribution, curve, inner point)."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        device = block.attributions.device
        cuts = cut_points(block.counts, experiment.steps, block.attributions.shape[-1])
        self.block, self.experiment = block, experiment
        self.longest = int(cuts.diff().max())
        self.cuts = send(cuts, device)
        self.counts = send(block.counts, device)[:, None]
        features = block.attributions.shape[-1]
        ragged = int(block.counts.min()) < features
        self.one_each = not ragged and self.inner == features - 1  # every step removes one feature of each input
        self.sequence = removal_order(block.attributions, experiment.order, self.counts[:, 0] if ragged else None)

    def only(self, block: Block, chosen: Int[Tensor, "kinds b"]) -> "RemovedSets":
        """The same for some attributions of each input, which a block holds alone."""
        found = copy.copy(self)
        found.block = block
        found.sequence = self.sequence.take_along_dim(chosen[..., None], dim=0)
        return found

    @property
    def inner(self) -> int:
        """Points between the two shared ends."""
        return self.cuts.shape[1] - 2

    @property
    def jobs(self) -> int:
        """Rows of each input."""
        return len(self.block.attributions) * self.experiment.curves * self.inner

    def write_bit_masks(self, out: Int[Tensor, "b jobs"], everything: Int[Tensor, "#b 1"]) -> None:
        """Write every removed set as the bits of one integer, given the set of all features of an input."""
        prefixes = bit_masks.prefix_bits(self.sequence)
        inner = self.cuts[:, 1:-1]
        table = out.view(len(out), len(self.sequence), self.experiment.curves, self.inner).transpose(0, 1)
        table[:, :, 0] = along(prefixes, inner)
        if self.experiment.curves > 1:
            torch.bitwise_xor(everything, along(prefixes, self.counts - inner), out=table[:, :, 1])

    def digests(self, words: Int[Tensor, "b features"]) -> Int[Tensor, "b jobs"]:
        """Write every removed set as the sum of its features' words; sums wrap around."""
        sums = torch.take_along_dim(words.expand(self.sequence.shape), self.sequence, dim=-1).cumsum(-1)
        sums = torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)
        inner = self.cuts[:, 1:-1]
        found = [along(sums, inner)]
        if self.experiment.curves > 1:
            found.append(words.sum(1)[:, None] - along(sums, self.counts - inner))
        return torch.stack(found, dim=2).transpose(0, 1).reshape(len(words), self.jobs)

    def ranks(self) -> Int[Tensor, "lines features"]:
        """The place of each feature in its sequence, attribution by attribution."""
        return ranks(self.sequence).flatten(0, 1)

    def lines(self) -> tuple[Int[Tensor, "b jobs"], Int[Tensor, "b jobs"], Bool[Tensor, "b jobs"]]:
        """For every job: its line in ``ranks``, the rank where it is cut, and whether the features before stay.

        The first c features are gone where ranks are below c; the last c where they are not below the count less c.
        """
        k, b, _ = self.sequence.shape
        device, curves = self.cuts.device, self.experiment.curves
        line = torch.arange(k * b, device=device).reshape(k, b).T[:, :, None, None]
        inner = self.cuts[:, 1:-1]
        bound = torch.stack((inner, self.counts - inner)[:curves], dim=1)[:, None]
        least = torch.arange(curves, device=device)[:, None] > 0
        shape = (b, k, curves, self.inner)
        found = tuple(part.expand(shape).reshape(b, -1) for part in (line, bound, least))
        return found[0], found[1], found[2]

    def signs(self, summed: FeatureSums) -> Int[Tensor, "k b curves steps"]:
        """Sign of the sum of what each step removes; 0 for a sum that is 0, or would be but for rounding."""
        if self.longest == 1:  # the sign of a sum of one is that of the number, and eight times shorter
            ordered = self._in_order(summed.signs().to(torch.int8))
            if self.one_each:
                return torch.stack((ordered, ordered.flip(-1))[: self.experiment.curves], dim=2)
            return self._step_sums(ordered)
        sums, sizes = (self._step_sums(self._in_order(part.double())) for part in (summed.values, summed.size))
        # spacings are powers of two, so that a multiple of a sum is the sum of multiples
        rounded = sizes if summed.rounded is None else self._step_sums(self._in_order(summed.rounded.double()))
        return signs(sums, sizes, rounded * summed.spacing).to(torch.int8)

    def mixed_steps(self) -> Int[Tensor, "k b"]:
        """How many steps hold features whose removal is predicted to lower the score, and others that raise it."""
        attribution = self.block.attribution.signs()
        signs = (attribution.abs() if self.experiment.order == "signed" else attribution) * self.block.direction.signs()
        fall, rise = (self._step_sums(self._in_order(part.to(torch.int32))) for part in (signs > 0, signs < 0))
        return ((fall > 0) & (rise > 0)).sum((-2, -1), dtype=torch.int32)

    def predicted(self) -> FeatureSums:
        """The drop that attributions predict for each feature; where signs are in the order already, without them."""
        block = self.block
        if self.experiment.order == "signed":
            return size_times_sign(block.attribution, block.direction, block.attribution.signs().abs())
        if block.predicted is None:
            raise ValueError("the block was loaded without predicted changes")
        return block.predicted

    def _in_order(self, values: Shaped[Tensor, "... b features"]) -> Shaped[Tensor, "k b features"]:
        """Values of the features, the first to go first."""
        return torch.take_along_dim(values.expand(self.sequence.shape), self.sequence, dim=-1)

    def _step_sums(self, ordered: Shaped[Tensor, "k b features"]) -> Shaped[Tensor, "k b curves steps"]:
        """Sums over what each step removes, each step on its own: 0 stays exactly 0."""
        place = self.cuts[:, :-1, None] + torch.arange(self.longest, device=self.cuts.device)
        inside = place < self.cuts[:, 1:, None]
        last = self.counts[..., None] - 1
        shape = (*ordered.shape[:-1], *place.shape[1:])
        sums = [
            (along(ordered, at.clamp(0, ordered.shape[-1] - 1).flatten(1)).reshape(shape) * inside).sum(
                -1, dtype=ordered.dtype
            )
            for at in (place, last - place)[: self.experiment.curves]
        ]
        return torch.stack(sums, dim=2)


def along(values: Tensor, index: Int[Tensor, "c m"]) -> Tensor:
    """Pick entries of the last axis, with one index for all inputs or one each."""
    if len(index) == 1:
        return values.index_select(-1, index[0])
    return torch.take_along_dim(values, index.expand(*values.shape[:-1], -1), dim=-1)
