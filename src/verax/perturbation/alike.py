"""Rankings that attributions share: where each feature goes in a step of its own, they and signs are all that counts.

Configurations of one method often rank features alike. Their curves and signs are then the same, so that the work is
done for one of them. Rankings are told apart by digests, as sets are (``digests``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Int, Shaped
from verax.perturbation.block import Block
from verax.perturbation.feature_sums import FeatureSums
from verax.perturbation.removed_sets import RemovedSets

_FEWEST = 8  # attributions among which to search
_WORTH = 0.75  # of them that may be left: to find fewer pays for the search


@dataclass(frozen=True)
class Alike:
    """Which attributions of an input stand for all.

    Attributes:
        chosen: One of each kind; inputs that have fewer kinds repeat their first.
        kind: The kind of each attribution, as a place among the chosen.
    """

    chosen: Int[Tensor, "kinds b"]
    kind: Int[Tensor, "k b"]

    def only(self, block: Block) -> Block:
        """A block of the chosen ones."""
        predicted = None if block.predicted is None else self._only(block.predicted)
        return replace(block, attribution=self._only(block.attribution), predicted=predicted)

    def _only(self, sums: FeatureSums) -> FeatureSums:
        exact = torch.zeros(len(self.chosen), 1, 1, device=self.chosen.device)  # as signs of single numbers are
        return FeatureSums(_along(sums.values, self.chosen), None, None, exact)

    def to_all(self, found: Shaped[Tensor, "kinds b *rest"]) -> Shaped[Tensor, "k b *rest"]:
        """What was found for the chosen ones, for all."""
        return _along(found, self.kind)


def alike(block: Block, removals: Sequence[RemovedSets]) -> Alike | None:
    """Find attributions that rank their features alike, with the same signs; None where too few do."""
    if len(block.attributions) < _FEWEST:
        return None
    if block.attribution.sizes is not None or any(removal.longest > 1 for removal in removals):
        return None  # sums of several numbers count, too
    digests = _digests(block, removals)
    ordered, position = digests.T.contiguous().sort(dim=1, stable=True)
    fresh = torch.ones_like(ordered, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    place = fresh.cumsum(1) - 1
    kinds = int(place[:, -1].max()) + 1
    if kinds > _WORTH * len(digests):
        return None
    chosen = position[:, :1].repeat(1, kinds)
    (row, at) = fresh.nonzero(as_tuple=True)
    chosen[row, place[row, at]] = position[row, at]
    kind = torch.empty_like(position).scatter_(1, position, place)
    return Alike(chosen.T, kind.T)


def _digests(block: Block, removals: Sequence[RemovedSets]) -> Int[Tensor, "k b"]:
    """Sums of random words: for the place of each feature in each ranking, and for its signs."""
    features, device = block.attributions.shape[-1], block.attributions.device
    orders = {removal.experiment.order: removal.sequence for removal in removals}
    streams = torch.arange(len(orders) + 1, device=device) << 32  # far apart
    of_signs, *of_places = noise.words(streams, 0, features * features)
    found: Tensor = (block.attribution.signs().long() * of_signs[:features]).sum(-1)
    first = torch.arange(0, features * features, features, device=device)
    for words, sequence in zip(of_places, orders.values(), strict=True):
        found += words.take(first + sequence).sum(-1)
    return found


def _along(values: Shaped[Tensor, "k b *rest"], which: Int[Tensor, "m b"]) -> Shaped[Tensor, "m b *rest"]:
    """Pick one of the first axis for each input."""
    count = values.shape[1]
    line = which * count + torch.arange(count, device=which.device)
    return values.flatten(0, 1).index_select(0, line.flatten()).reshape(*which.shape, *values.shape[2:])
