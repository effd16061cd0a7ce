"""Which features an experiment has removed at each point of its curves, for every attribution of a block.

With coherent steps, features go first within a step whose removal is predicted to lower the score, then those that are
predicted to raise it, then those of which nothing is predicted. The three parts of all steps of a curve are numbered in
the order in which they go: a set is what lies in the parts up to one of them, and within a part nothing is ordered.
"""

import copy
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.perturbation.block import Block, FeatureSums, Order, cut_points, ranks, removal_order, signs, size_times_sign
from verax.problem.replacement import Replacement

MOST_FEATURES = 64  # of sets that are one integer each
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
        sums: Whether scores also hold what each step's attributions and ``x - baseline`` sum to, beside their signs.
            A metric that does without lets attributions that rank alike share their work.
    """

    order: Order
    steps: int
    rule: Rule = "sum"
    area: Area = "between"
    replacement: Replacement | None = None
    sums: bool = field(default=True, kw_only=True)

    @property
    def curves(self) -> int:
        """How many curves there are."""
        return 2 if self.area == "between" else 1

    @property
    def points(self) -> int:
        """Points of a curve for each step: its end, and for coherent steps two within."""
        return 3 if self.rule == "coherent" else 1


def set_type(features: int) -> torch.dtype:
    """The shorter number that has a bit for each feature; half as long is twice as fast."""
    return torch.int32 if features < 32 else torch.int64


def sums_before(values: Shaped[Tensor, "... features"]) -> Shaped[Tensor, "... points"]:
    """Sums of the first 0, 1, ... values; whole numbers wrap around."""
    sums = values.cumsum(-1, dtype=values.dtype)
    return torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)


class RemovedSets:
    """The removed sets of one experiment on one block, in the fixed layout (input, attribution, curve, inner point)."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        device, features = block.attributions.device, block.attributions.shape[-1]
        cuts = cut_points(block.counts, experiment.steps, features)
        self.block, self.experiment = block, experiment
        self.longest = int(cuts.diff().max())
        self.cuts = send(cuts, device)
        self.counts = send(block.counts, device)[:, None]
        ragged = int(block.counts.min()) < features
        self.one_each = not ragged and self.inner == features - 1  # every step removes one feature of each input
        self.sequence = removal_order(block.attributions, experiment.order, self.counts[:, 0] if ragged else None)

    def only(self, block: Block, chosen: Int[Tensor, "kinds b"]) -> "RemovedSets":
        """The same for some attributions of each input, which a block holds alone."""
        part = copy.copy(self)
        part.block = block
        part.sequence = self.sequence.take_along_dim(chosen[..., None], dim=0)
        return part

    @property
    def inner(self) -> int:
        """Points between the two shared ends."""
        return self.cuts.shape[1] - 2

    @property
    def jobs(self) -> int:
        """Rows of each input."""
        return len(self.block.attributions) * self.experiment.curves * self.inner

    def digests(self, words: Int[Tensor, "b features"]) -> Int[Tensor, "b jobs"]:
        """Write every removed set as the sum of its features' words; sums wrap around."""
        sums, inner = sums_before(self._in_order(words)), self.cuts[:, 1:-1]
        k, b, _ = self.sequence.shape
        digests = sums.new_empty(b, k, self.experiment.curves, self.inner)
        digests[:, :, 0] = along(sums, inner).transpose(0, 1)
        if self.experiment.curves > 1:
            whole, kept = words.sum(1, dtype=words.dtype), along(sums, self.counts - inner)
            torch.sub(whole[:, None, None], kept.transpose(0, 1), out=digests[:, :, 1])
        return digests.flatten(1)

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
        line, bound, least = (part.expand(b, k, curves, self.inner).flatten(1) for part in (line, bound, least))
        return line, bound, least

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

    def sums(self, summed: FeatureSums) -> Float[Tensor, "k b curves steps"]:
        """The sum of what each step removes."""
        return self._step_sums(self._in_order(summed.values.double()))

    def mixed_steps(self) -> Int[Tensor, "k b"]:
        """How many steps hold features whose removal is predicted to lower the score, and others that raise it."""
        if self.longest == 1:
            return torch.zeros(self.sequence.shape[:2], dtype=torch.int32, device=self.sequence.device)
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
        """Sums over what each step removes, each step by itself: 0 stays exactly 0."""
        place = self.cuts[:, :-1, None] + torch.arange(self.longest, device=self.cuts.device)
        inside = place < self.cuts[:, 1:, None]
        sums = []
        for at in (place, self.counts[..., None] - 1 - place)[: self.experiment.curves]:
            values = along(ordered, at.clamp(0, ordered.shape[-1] - 1).flatten(1))
            sums.append((values.reshape(*ordered.shape[:-1], *place.shape[1:]) * inside).sum(-1, dtype=ordered.dtype))
        return torch.stack(sums, dim=2)


def along(values: Tensor, index: Int[Tensor, "c m"]) -> Tensor:
    """Pick entries of the last axis, with one index for all inputs or one each."""
    if len(index) == 1:
        return values.index_select(-1, index[0])
    return torch.take_along_dim(values, index.expand(*values.shape[:-1], -1), dim=-1)


_PARTS = 3  # of a step: predicted to fall, to rise, and nothing predicted


class CoherentSets(RemovedSets):
    """The removed sets of coherent steps: three points for each step, the last one its end."""

    def __init__(self, block: Block, experiment: Experiment) -> None:
        super().__init__(block, experiment)
        signs = self._in_order(self.predicted().signs())
        self.kinds = torch.where(signs > 0, 0, torch.where(signs < 0, 1, 2)).to(torch.int8)

    def only(self, block: Block, chosen: Int[Tensor, "kinds b"]) -> "CoherentSets":
        part = copy.copy(self)
        part.block, part.sequence = block, super().only(block, chosen).sequence
        part.kinds = self.kinds.take_along_dim(chosen[..., None], dim=0)
        return part

    @property
    def inner(self) -> int:
        return _PARTS * (self.cuts.shape[1] - 1) - 1

    def digests(self, words: Int[Tensor, "b features"]) -> Int[Tensor, "b jobs"]:
        values = self._in_order(words)
        gone = sums_before(values)
        of_kind = [sums_before(values * (self.kinds == kind)) for kind in (0, 1)]
        parts_of_sum = []
        for ends, sense in ((self.cuts, 1), (self.counts - self.cuts, -1))[: self.experiment.curves]:
            # of LeRF, what is gone lies behind the end, so that sums fall from the sum of all
            whole, fallen, risen = (along(sums, ends) * sense for sums in (gone, *of_kind))
            whole = whole - whole[..., :1]
            first = whole[..., :-1] + fallen.diff(dim=-1)
            parts = (first, first + risen.diff(dim=-1), whole[..., 1:])
            parts_of_sum.append(torch.stack(parts, dim=-1).flatten(-2)[..., :-1])
        return torch.stack(parts_of_sum, dim=2).transpose(0, 1).flatten(1)

    def ranks(self) -> Int[Tensor, "lines features"]:
        """The part in which each feature goes, attribution by attribution, curve by curve."""
        place = torch.arange(self.sequence.shape[-1], device=self.sequence.device)
        bounds = self.cuts[:, 1:].contiguous()
        ranks = []
        for places in (place, self.counts - 1 - place)[: self.experiment.curves]:
            step = torch.searchsorted(bounds, places.expand(len(bounds), -1).contiguous(), right=True)
            part = (step * _PARTS).int() + self.kinds
            ranks.append(torch.empty_like(part).scatter_(-1, self.sequence, part))
        return torch.stack(ranks, dim=2).flatten(0, 2)

    def lines(self) -> tuple[Int[Tensor, "b jobs"], Int[Tensor, "b jobs"], Bool[Tensor, "b jobs"]]:
        """For every job: its line in ``ranks``, and the first part that is left; what comes before is always gone."""
        k, b, _ = self.sequence.shape
        device, curves = self.sequence.device, self.experiment.curves
        line = torch.arange(k * b * curves, device=device).reshape(k, b, curves, 1).transpose(0, 1)
        bound = torch.arange(1, self.inner + 1, device=device)
        line, bound = (part.expand(b, k, curves, self.inner).flatten(1) for part in (line, bound))
        return line, bound, torch.zeros_like(line, dtype=torch.bool)
