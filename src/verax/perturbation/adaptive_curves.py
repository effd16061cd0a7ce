"""The curves of adaptive steps: sums along each curve, and its intervals between points whose scores are known.

An interval of several kinds of features is parted when the kinds have gone one after the other, once in this and once
in the opposite order: the mean of both is what each kind changes, and half the difference shows how much the kinds
depend on each other. An interval of one kind is parted by itself.
"""

import sys
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from verax.core.arrays import send
from verax.core.shapes import Bool, Float, Int
from verax.perturbation.block import Block, PerturbedRows, ranks, removal_order
from verax.perturbation.removed_sets import Experiment, sums_before
from verax.perturbation.set_scores import SetScoreCache

LEAST = 8  # features of several kinds that are worth parting; fewer go one by one
_GONE = (0b001, 0b011, 0b100, 0b110)  # kinds gone at the points within: two one way, two the other way
_SIGNS = (1.0, -1.0, 0.0)
Signing = Literal["none", "magnitude", "signed", "literal"]
Form = Literal["cumulative", "increments"]
ONE_EACH = sys.maxsize  # as many steps as there are features
_KINDS = 3


@dataclass(frozen=True)
class AdaptiveExperiment(Experiment):
    """A guided experiment whose steps are chosen as it runs, to estimate a score at one feature per step."""

    signing: Signing = "none"  # the sign put on the change of each feature: none, or that of DPC by its order
    form: Form = "cumulative"  # whether changes are summed up along a curve
    tolerance: float = 0.01  # the error of a score that is small enough


@dataclass(frozen=True)
class Sets:
    """Removed sets: the first features of a line, and of those that follow some kinds."""

    line: Int[Tensor, " m"]  # which line
    low: Int[Tensor, " m"]  # features that are gone altogether
    high: Int[Tensor, " m"]  # features among which some are gone
    gone: Int[Tensor, " m"]  # which kinds of these are, a bit for each


class CurveLines:
    """The lines of one experiment on one block, numbered by attribution, input and curve."""

    def __init__(self, block: Block, known: SetScoreCache, experiment: AdaptiveExperiment) -> None:
        self.block, self.known = block, known
        self.curves = experiment.curves  # of an attribution of an input; MoRF is the first
        device = block.attributions.device
        k, b, features = block.attributions.shape
        counts = send(block.counts, device)
        ragged = int(block.counts.min()) < features
        sequence = removal_order(block.attributions, experiment.order, counts if ragged else None)
        place = torch.arange(features, device=device)  # features that an input does not have stay behind
        back = torch.where(place < counts[:, None], counts[:, None] - 1 - place, place).expand(sequence.shape)
        self.sequence = torch.stack((sequence, sequence.gather(-1, back))[: self.curves], dim=2).flatten(0, 2)
        self.places = ranks(self.sequence)
        self.rows = torch.arange(b, device=device)[None, :, None].expand(k, b, self.curves).flatten()  # in the block
        self.counts = counts.expand(b)[self.rows]  # features of each line
        signs = _feature_signs(block, experiment).expand(sequence.shape).flatten(0, 1)
        self.kinds = torch.where(signs > 0, 0, torch.where(signs < 0, 1, 2))
        of_line = self.kinds.repeat_interleave(self.curves, dim=0).gather(-1, self.sequence)
        kinds = of_line[:, None] == torch.arange(_KINDS, device=device)[:, None]
        weights = change_weights(counts, features, experiment.form).expand(b, -1)[self.rows]
        words = known.words.expand(b, -1)[self.rows].gather(-1, self.sequence)
        # of the first features of a line, kind by kind: their number, and what they count in a weighted area
        self.numbers = sums_before(kinds.to(torch.int32))
        self.weights = sums_before(kinds * weights[:, None])
        self.squares = sums_before(kinds * weights[:, None] ** 2)
        self.digests = sums_before(kinds * words[:, None])

    def within(self, sums: Tensor, line: Tensor, low: Tensor, high: Tensor) -> Float[Tensor, "m kinds"]:
        """Sums over the features of intervals, of each kind."""
        return (sums[line, :, high] - sums[line, :, low]).double()

    def score(self, sets: Sets) -> Float[Tensor, " m"]:
        """Scores of removed sets; the model is run on those that are not known."""
        before, up_to = (self.digests[sets.line, :, at] for at in (sets.low, sets.high))
        digests = before.sum(1) + ((up_to - before) * _bits(sets.gone)).sum(1)
        salted = digests + self.known.salt[self.rows[sets.line], 0]
        return self.known.find(salted, lambda jobs: self._run(Sets(*(part[jobs] for part in vars(sets).values()))))

    def _run(self, sets: Sets) -> Float[Tensor, " m"]:
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


def _bits(gone: Int[Tensor, " m"]) -> Int[Tensor, "m kinds"]:
    return (gone[:, None] >> torch.arange(_KINDS, device=gone.device)) & 1


@dataclass(frozen=True)
class Intervals:
    """Pieces of lines."""

    line: Int[Tensor, " m"]  # whose
    low: Int[Tensor, " m"]  # features gone at its beginning
    high: Int[Tensor, " m"]  # features gone at its end
    start: Float[Tensor, " m"]  # score at its beginning
    stop: Float[Tensor, " m"]  # score at its end
    parted: Bool[Tensor, " m"]  # whether it is known what each kind changes
    change: Float[Tensor, " m"]  # signed changes of its features, summed up
    value: Float[Tensor, " m"]  # the same, weighted
    # how far the value is from what it would be if the kinds went in one of the two orders
    conflict: Float[Tensor, " m"]
    squares: Float[Tensor, " m"]  # squared changes of its features, summed up, as if they were alike within each kind

    @property
    def length(self) -> Int[Tensor, " m"]:
        """How many features each has."""
        return self.high - self.low

    def pick(self, which: Tensor) -> "Intervals":
        """Some of them, or all in another order."""
        return Intervals(*(values[which] for values in vars(self).values()))

    def joined(self, other: "Intervals") -> "Intervals":
        """These and others, line by line from the first feature to the last."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        both = Intervals(*(torch.cat(pair) for pair in pairs))
        by_place = both.low.argsort(stable=True)
        return both.pick(by_place[both.line[by_place].argsort(stable=True)])


def first_intervals(lines: CurveLines, pieces: int) -> Intervals:
    """Cut every line into equal pieces, or into single features where there are fewer."""
    line = torch.arange(len(lines.counts), device=lines.counts.device).repeat_interleave(pieces)
    nth, count = torch.arange(pieces, device=line.device).repeat(len(lines.counts)), lines.counts[line]
    low, high = nth * count // pieces, (nth + 1) * count // pieces
    line, low, high = (bound[high > low] for bound in (line, low, high))
    return _measured(lines, line, low, high, torch.zeros_like(line, dtype=torch.bool))


def cut(lines: CurveLines, whole: Intervals, pieces: Int[Tensor, " m"]) -> Intervals:
    """Cut intervals into pieces; short ones of several kinds into single features, and long ones are parted."""
    line, low, high = _pieces(whole.line, whole.low, whole.high, pieces)
    mixed, length = several_kinds(lines, line, low, high), high - low
    line, low, high = _pieces(line, low, high, torch.where(mixed & (length < LEAST), length, 1))
    return _measured(lines, line, low, high, several_kinds(lines, line, low, high))


def several_kinds(lines: CurveLines, line: Tensor, low: Tensor, high: Tensor) -> Bool[Tensor, " m"]:
    """Whether intervals have features of several kinds."""
    return (lines.within(lines.numbers, line, low, high) > 0).sum(1) > 1


def _pieces(line: Tensor, low: Tensor, high: Tensor, pieces: Int[Tensor, " m"]) -> tuple[Tensor, Tensor, Tensor]:
    of = torch.arange(len(pieces), device=pieces.device).repeat_interleave(pieces)
    nth = torch.arange(len(of), device=pieces.device) - (pieces.cumsum(0) - pieces)[of]
    begin, length, number = low[of], (high - low)[of], pieces[of]
    return line[of], begin + nth * length // number, begin + (nth + 1) * length // number


def _measured(lines: CurveLines, line: Tensor, low: Tensor, high: Tensor, part: Bool[Tensor, " m"]) -> Intervals:
    """Score the ends of intervals, and points within those that are to be parted."""
    number, weight = (lines.within(sums, line, low, high) for sums in (lines.numbers, lines.weights))
    parted = part | ((number > 0).sum(1) == 1)
    start, stop, forth, back = _changes(lines, line, low, high, parted)
    even = number / (high - low)[:, None] * (stop - start)[:, None]  # as if every feature changed the score alike
    forth, back = (torch.where(parted[:, None], change, even) for change in (forth, back))
    signs = torch.tensor(_SIGNS, device=line.device, dtype=torch.float64)
    each = signs * weight / number.clamp(min=1)
    one_way, other_way = (each * forth).sum(1), (each * back).sum(1)
    middle = (forth + back) / 2
    value, conflict = (one_way + other_way) / 2, (one_way - other_way).abs() / 2
    squares = (middle**2 / number.clamp(min=1)).sum(1)
    return Intervals(line, low, high, start, stop, parted, (signs * middle).sum(1), value, conflict, squares)


def _changes(
    lines: CurveLines, line: Tensor, low: Tensor, high: Tensor, parted: Bool[Tensor, " m"]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The scores at both ends, and what each kind changes if they go in this and in the opposite order."""
    nothing = torch.zeros_like(line)
    end = torch.where(parted, high, low)  # of the points within: there are none where nothing is parted
    points = [(low, low, nothing), (high, high, nothing), *((low, end, nothing + gone) for gone in _GONE)]
    sets = Sets(line.repeat(len(points)), *(torch.cat(point) for point in zip(*points, strict=True)))
    start, stop, first, second, last, later = lines.score(sets).double().reshape(len(points), -1)
    forth = torch.stack((first - start, second - first, stop - second), dim=1)
    back = torch.stack((stop - later, later - last, last - start), dim=1)
    return start, stop, forth, back
