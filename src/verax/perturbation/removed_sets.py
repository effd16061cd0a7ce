"""Plans: which features an experiment has removed at each point of its curves, for every attribution of a block."""

from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.shapes import Int, Shaped
from verax.core.transfer import send
from verax.perturbation import bit_masks
from verax.perturbation.block import Block
from verax.perturbation.feature_sums import FeatureSums, signs
from verax.perturbation.order import Order, cut_points, ranks, removal_order


@dataclass(frozen=True)
class Experiment:
    """One guided perturbation experiment: how features are ordered and in how many steps they go."""

    order: Order
    steps: int


class RemovedSets:
    """The removed sets of one experiment on one block, in the fixed layout (input, attribution, curve, inner point)."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        device = block.attributions.device
        cuts = cut_points(block.counts, experiment.steps, block.attributions.shape[-1])
        self.block = block
        self.longest = int(cuts.diff().max())
        self.cuts = send(cuts, device)
        self.counts = send(block.counts, device)[:, None]
        features = block.attributions.shape[-1]
        ragged = int(block.counts.min()) < features
        self.one_each = not ragged and self.inner == features - 1  # every step removes one feature of each input
        self.sequence = removal_order(block.attributions, experiment.order, self.counts[:, 0] if ragged else None)

    @property
    def inner(self) -> int:
        """Points between the two shared ends."""
        return self.cuts.shape[1] - 2

    @property
    def jobs(self) -> int:
        """Rows of each input."""
        return len(self.block.attributions) * 2 * self.inner

    def write_bit_masks(self, out: Int[Tensor, "b jobs"], everything: Int[Tensor, "#b 1"]) -> None:
        """Write every removed set as the bits of one integer, given the set of all features of an input."""
        prefixes = bit_masks.prefix_bits(self.sequence)
        inner = self.cuts[:, 1:-1]
        table = out.view(len(out), len(self.sequence), 2, self.inner).transpose(0, 1)
        table[:, :, 0] = _along(prefixes, inner)
        torch.bitwise_xor(everything, _along(prefixes, self.counts - inner), out=table[:, :, 1])

    def digests(self, words: Int[Tensor, "b features"]) -> Int[Tensor, "b jobs"]:
        """Write every removed set as the sum of its features' words; sums wrap around."""
        sums = torch.take_along_dim(words.expand(self.sequence.shape), self.sequence, dim=-1).cumsum(-1)
        sums = torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)
        inner = self.cuts[:, 1:-1]
        first, last = _along(sums, inner), words.sum(1)[:, None] - _along(sums, self.counts - inner)
        return torch.stack((first, last), dim=2).transpose(0, 1).reshape(len(words), self.jobs)

    def ranks(self) -> Int[Tensor, "pairs features"]:
        """The place of each feature in its sequence, attribution by attribution."""
        return ranks(self.sequence).flatten(0, 1)

    def signs(self, summed: FeatureSums) -> Int[Tensor, "k b 2 steps"]:
        """Sign of the sum of what each step removes; 0 for a sum that is 0, or would be but for rounding."""
        if self.longest == 1:  # the sign of a sum of one is that of the number, and eight times shorter
            ordered = self._in_order(summed.signs().to(torch.int8))
            if self.one_each:
                return torch.stack((ordered, ordered.flip(-1)), dim=2)
            return self._step_sums(ordered)
        parts = (summed.values.double(), summed.size.double(), summed.rounding)
        return signs(*(self._step_sums(self._in_order(part)) for part in parts)).to(torch.int8)

    def _in_order(self, values: Shaped[Tensor, "... b features"]) -> Shaped[Tensor, "k b features"]:
        """Values of the features, the first to go first."""
        return torch.take_along_dim(values.expand(self.sequence.shape), self.sequence, dim=-1)

    def _step_sums(self, ordered: Shaped[Tensor, "k b features"]) -> Shaped[Tensor, "k b 2 steps"]:
        """Sums over what each step removes, each step on its own: 0 stays exactly 0."""
        place = self.cuts[:, :-1, None] + torch.arange(self.longest, device=self.cuts.device)
        inside = place < self.cuts[:, 1:, None]
        last = self.counts[..., None] - 1
        shape = (*ordered.shape[:-1], *place.shape[1:])
        sums = [
            (_along(ordered, at.clamp(0, ordered.shape[-1] - 1).flatten(1)).reshape(shape) * inside).sum(
                -1, dtype=ordered.dtype
            )
            for at in (place, last - place)
        ]
        return torch.stack(sums, dim=2)


def _along(values: Tensor, index: Int[Tensor, "c m"]) -> Tensor:
    """Pick entries of the last axis, with one index for all inputs or one each."""
    if len(index) == 1:
        return values.index_select(-1, index[0])
    return torch.take_along_dim(values, index.expand(*values.shape[:-1], -1), dim=-1)
