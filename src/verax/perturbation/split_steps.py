"""Split steps: features with unlike predictions go one after the other, so that a step does not mix directions.

Within a step, features go first whose removal is predicted to lower the score, then those that are predicted to raise
it, then those of which nothing is predicted. The three parts of all steps of a curve are numbered in the order in which
they go: a set is what lies in the parts up to one of them, and within a part nothing has to be ordered.
"""

import copy

import torch
from torch import Tensor

from verax.core.shapes import Bool, Int
from verax.perturbation import bit_masks
from verax.perturbation.block import Block
from verax.perturbation.removed_sets import Experiment, RemovedSets, along

_PARTS = 3  # of a step: predicted to fall, to rise, and nothing predicted


class SplitSets(RemovedSets):
    """The removed sets of an experiment whose steps are split: three points for each step, the last one its end."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        super().__init__(block, experiment)
        signs = self._in_order(self.predicted().signs())
        self.kinds = torch.where(signs > 0, 0, torch.where(signs < 0, 1, 2)).to(torch.int8)

    def only(self, block: Block, chosen: Int[Tensor, "kinds b"]) -> "SplitSets":
        """The same for some attributions of each input, which a block holds alone."""
        found = copy.copy(self)
        found.block, found.sequence = block, super().only(block, chosen).sequence
        found.kinds = self.kinds.take_along_dim(chosen[..., None], dim=0)
        return found

    @property
    def inner(self) -> int:
        """Points between the two shared ends."""
        return _PARTS * (self.cuts.shape[1] - 1) - 1

    def write_bit_masks(self, out: Int[Tensor, "b jobs"], everything: Int[Tensor, "#b 1"]) -> None:
        """Write every removed set as the bits of one integer."""
        numbers = self.sequence.to(bit_masks.set_type(self.sequence.shape[-1]))
        out.copy_(self._sums(torch.ones_like(numbers) << numbers))

    def digests(self, words: Int[Tensor, "b features"]) -> Int[Tensor, "b jobs"]:
        """Write every removed set as the sum of its features' words; sums wrap around."""
        return self._sums(self._in_order(words))

    def _sums(self, values: Int[Tensor, "k b features"]) -> Int[Tensor, "b jobs"]:
        """Sums of what is gone at each point but the last, of values in the order in which features go."""
        gone = _from_nothing(values)
        of_kind = [_from_nothing(values * (self.kinds == kind)) for kind in (0, 1)]
        found = []
        for ends in (self.cuts, self.counts - self.cuts)[: self.experiment.curves]:
            whole, fallen, risen = (along(sums, ends) for sums in (gone, *of_kind))
            # of LeRF, what is gone lies behind the end, so that sums fall from the sum of all
            whole = (whole - whole[..., :1]).mul_(1 if ends is self.cuts else -1)
            parts = [one.diff(dim=-1).mul_(1 if ends is self.cuts else -1) for one in (fallen, risen)]
            first = whole[..., :-1] + parts[0]
            found.append(torch.stack((first, first + parts[1], whole[..., 1:]), dim=-1).flatten(-2)[..., :-1])
        return torch.stack(found, dim=2).transpose(0, 1).reshape(values.shape[1], self.jobs)

    def ranks(self) -> Int[Tensor, "lines features"]:
        """The part in which each feature goes, attribution by attribution, curve by curve."""
        place = torch.arange(self.sequence.shape[-1], device=self.sequence.device)
        bounds = self.cuts[:, 1:].contiguous()
        found = []
        for places in (place, self.counts - 1 - place)[: self.experiment.curves]:
            step = torch.searchsorted(bounds, places.expand(len(bounds), -1).contiguous(), right=True)
            part = (step * _PARTS).int() + self.kinds
            found.append(torch.empty_like(part).scatter_(-1, self.sequence, part))
        return torch.stack(found, dim=2).flatten(0, 2)

    def lines(self) -> tuple[Int[Tensor, "b jobs"], Int[Tensor, "b jobs"], Bool[Tensor, "b jobs"]]:
        """For every job: its line in ``ranks``, and the first part that is left; what comes before is always gone."""
        k, b, _ = self.sequence.shape
        device, curves = self.sequence.device, self.experiment.curves
        line = torch.arange(k * b * curves, device=device).reshape(k, b, curves, 1).transpose(0, 1)
        bound = torch.arange(1, self.inner + 1, device=device)
        found = [part.expand(b, k, curves, self.inner).reshape(b, -1) for part in (line, bound)]
        return found[0], found[1], torch.zeros_like(found[0], dtype=torch.bool)


def _from_nothing(values: Int[Tensor, "k b features"]) -> Int[Tensor, "k b points"]:
    """Sums of the first 0, 1, ... values."""
    sums = values.cumsum(-1, dtype=values.dtype)
    return torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)
