"""Lines: the curves that adaptive steps refine, and the removed sets along them.

A line is one curve of one attribution of one input. Its features are of three kinds: their changes of the score count
as they are, count negated, or do not count.
"""

import sys
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.shapes import Float, Int
from verax.perturbation.block import Block
from verax.perturbation.digests import Known
from verax.perturbation.order import ranks, removal_order
from verax.perturbation.perturbed_rows import PerturbedRows
from verax.perturbation.removed_sets import Experiment

Signing = Literal["none", "magnitude", "signed", "literal"]
Form = Literal["cumulative", "increments"]
ONE_EACH = sys.maxsize  # as many steps as there are features
_KINDS = 3


@dataclass(frozen=True)
class AdaptiveExperiment(Experiment):
    """A guided experiment whose steps are chosen as it runs, to estimate a score at one feature per step.

    Attributes:
        signing: The sign put on the change of each feature: none, or that of DPC by its order.
        form: Whether changes are summed up along a curve.
        tolerance: The error of a score that is small enough.
    """

    signing: Signing = "none"
    form: Form = "cumulative"
    tolerance: float = 0.01


@dataclass(frozen=True)
class Sets:
    """Removed sets: the first features of a line, and of those that follow some kinds.

    Attributes:
        line: Which line.
        low: Features that are gone altogether.
        high: Features among which some are gone.
        gone: Which kinds of these are, a bit for each.
    """

    line: Int[Tensor, " m"]
    low: Int[Tensor, " m"]
    high: Int[Tensor, " m"]
    gone: Int[Tensor, " m"]


class CurveLines:
    """The lines of one experiment on one block, numbered by attribution, input and curve.

    Args:
        block: Inputs and attributions.
        known: Scores of these inputs' removed sets.
        experiment: Order, curves, signs and weights.

    Attributes:
        curves: How many an attribution of an input has; MoRF is the first.
        rows: The input of each line, within the block.
        counts: The number of its features.
        numbers: How many of its first features are of each kind, ``(lines, kinds, features + 1)``.
        weights: What they count in a weighted area, summed up.
        squares: The same, squared first.
    """

    def __init__(self, block: Block, known: Known, experiment: AdaptiveExperiment) -> None:
        self.block, self.known, self.curves = block, known, experiment.curves
        device = block.attributions.device
        k, b, features = block.attributions.shape
        counts = send(block.counts, device)
        ragged = int(block.counts.min()) < features
        sequence = removal_order(block.attributions, experiment.order, counts if ragged else None)
        back = _backwards(counts[:, None], features).expand(sequence.shape)
        self.sequence = torch.stack((sequence, sequence.gather(-1, back))[: self.curves], dim=2).flatten(0, 2)
        self.places = ranks(self.sequence)
        self.rows = torch.arange(b, device=device)[None, :, None].expand(k, b, self.curves).flatten()
        self.counts = counts.expand(b)[self.rows]
        signs = _feature_signs(block, experiment).expand(sequence.shape).flatten(0, 1)
        self.kinds = torch.where(signs > 0, 0, torch.where(signs < 0, 1, 2))
        of_line = self.kinds.repeat_interleave(self.curves, dim=0).gather(-1, self.sequence)
        own = of_line[:, None] == torch.arange(_KINDS, device=device)[:, None]
        weights = change_weights(counts, features, experiment.form).expand(b, -1)[self.rows]
        words = known.words.expand(b, -1)[self.rows].gather(-1, self.sequence)
        self.numbers = _sums_before(own.to(torch.int32))
        self.weights = _sums_before(own * weights[:, None])
        self.squares = _sums_before(own * weights[:, None] ** 2)
        self.digests = _sums_before(own * words[:, None])

    def within(self, sums: Tensor, line: Tensor, low: Tensor, high: Tensor) -> Float[Tensor, "m kinds"]:
        """Sums over the features of intervals, of each kind."""
        return (sums[line, :, high] - sums[line, :, low]).double()

    def score(self, sets: Sets) -> Float[Tensor, " m"]:
        """Scores of removed sets, asking the model for those that are not known."""
        before, up_to = (self.digests[sets.line, :, at] for at in (sets.low, sets.high))
        digests = before.sum(1) + ((up_to - before) * _bits(sets.gone)).sum(1)
        salted = digests + self.known.salt[self.rows[sets.line], 0]
        return self.known.find(salted, lambda jobs: self._ask(Sets(*(part[jobs] for part in vars(sets).values()))))

    def _ask(self, sets: Sets) -> Float[Tensor, " m"]:
        """Run the model on removed sets."""
        session, task, block = self.known.session, self.known.task, self.block
        rows = PerturbedRows(session, task, block)
        row, gone = self.rows[sets.line], _bits(sets.gone).bool()

        def build(start: int, stop: int) -> Tensor:
            chosen = slice(start, stop)
            line = sets.line[chosen]
            place, kind = self.places[line], self.kinds[line // self.curves]
            some = (place < sets.high[chosen, None]) & gone[chosen].gather(1, kind)
            return rows((place < sets.low[chosen, None]) | some, row[chosen])

        return session.target_scores(build, row + block.rows.start, task.target, streamed=True)


def change_weights(counts: Int[Tensor, " c"], features: int, form: Form) -> Float[Tensor, "c features"]:
    """How much the change of each feature counts in a weighted area at one feature per step.

    A point's weight falls with the cube of what is left; summed up along a curve, a change counts at its own point and
    at all later ones.

    Example:
        >>> change_weights(torch.tensor([2]), 2, "increments") * 9
        tensor([[8., 1.]], dtype=torch.float64)
        >>> change_weights(torch.tensor([2]), 2, "cumulative") * 9
        tensor([[9., 1.]], dtype=torch.float64)
    """
    place = torch.arange(features, device=counts.device, dtype=torch.float64)
    points = (counts[:, None] - place).clamp(min=0) ** 3
    counted = points if form == "increments" else points.flip(-1).cumsum(-1).flip(-1)
    return counted / points.sum(-1, keepdim=True)


def _feature_signs(block: Block, experiment: AdaptiveExperiment) -> Tensor:
    """The sign on the change of each feature, as the rules say it for steps of one feature."""
    if experiment.signing == "none":
        return torch.ones_like(block.attributions)
    if experiment.signing == "magnitude" and experiment.rule != "sum" and block.predicted is not None:
        return block.predicted.signs()
    attribution = block.attribution.signs()
    return (attribution.abs() if experiment.signing == "signed" else attribution) * block.direction.signs()


def _backwards(counts: Int[Tensor, "c 1"], features: int) -> Int[Tensor, "c features"]:
    """The places of a sequence from the last feature of an input to the first; those it does not have stay behind."""
    place = torch.arange(features, device=counts.device)
    return torch.where(place < counts, counts - 1 - place, place)


def _sums_before(values: Tensor) -> Tensor:
    """Sums of the first 0, 1, ... values; whole numbers wrap around."""
    sums = values.cumsum(-1, dtype=values.dtype)
    return torch.cat((torch.zeros_like(sums[..., :1]), sums), dim=-1)


def _bits(gone: Int[Tensor, " m"]) -> Int[Tensor, "m kinds"]:
    return (gone[:, None] >> torch.arange(_KINDS, device=gone.device)) & 1
