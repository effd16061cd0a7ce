"""Intervals: pieces of curves between points whose scores are known, and what they add to a weighted sum of changes.

An interval of several kinds of features is parted when the kinds have gone one after the other, once in this and once
in the opposite order: the mean of both is what each kind changes, and half the difference shows how much the kinds
depend on each other. An interval of one kind is parted by itself.
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from verax.core.shapes import Bool, Float, Int
from verax.perturbation.curve_lines import CurveLines, Sets

LEAST = 8  # features of several kinds that are worth parting; fewer go one by one
_GONE = (0b001, 0b011, 0b100, 0b110)  # kinds gone at the points within: two one way, two the other way
_SIGNS = (1.0, -1.0, 0.0)


@dataclass(frozen=True)
class Intervals:
    """Pieces of lines.

    Attributes:
        line: Whose.
        low: Features gone at its beginning.
        high: Features gone at its end.
        start: Score at its beginning.
        stop: Score at its end.
        parted: Whether it is known what each kind changes.
        change: Signed changes of its features, summed up.
        value: The same, weighted.
        conflict: How far the value is from what it would be if the kinds went in one of the two orders.
        squares: Squared changes of its features, summed up, as if they were alike within each kind.
    """

    line: Int[Tensor, " m"]
    low: Int[Tensor, " m"]
    high: Int[Tensor, " m"]
    start: Float[Tensor, " m"]
    stop: Float[Tensor, " m"]
    parted: Bool[Tensor, " m"]
    change: Float[Tensor, " m"]
    value: Float[Tensor, " m"]
    conflict: Float[Tensor, " m"]
    squares: Float[Tensor, " m"]

    @property
    def length(self) -> Int[Tensor, " m"]:
        """How many features each has."""
        return self.high - self.low

    def pick(self, which: Tensor) -> "Intervals":
        """Some of them, or all in another order."""
        return Intervals(*(getattr(self, field.name)[which] for field in fields(self)))

    def joined(self, other: "Intervals") -> "Intervals":
        """These and others, line by line from the first feature to the last."""
        both = Intervals(*(torch.cat((getattr(self, one.name), getattr(other, one.name))) for one in fields(self)))
        by_place = both.low.argsort(stable=True)
        return both.pick(by_place[both.line[by_place].argsort(stable=True)])


def first_intervals(lines: CurveLines, pieces: int) -> Intervals:
    """Cut every line into equal pieces, or into single features where there are fewer."""
    line = torch.arange(len(lines.counts), device=lines.counts.device).repeat_interleave(pieces)
    nth, count = torch.arange(pieces, device=line.device).repeat(len(lines.counts)), lines.counts[line]
    low, high = nth * count // pieces, (nth + 1) * count // pieces
    line, low, high = (one[high > low] for one in (line, low, high))
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
    forth, back = (torch.where(parted[:, None], one, even) for one in (forth, back))
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
    sets = Sets(line.repeat(len(points)), *(torch.cat(one) for one in zip(*points, strict=True)))
    start, stop, first, second, last, later = lines.score(sets).double().reshape(len(points), -1)
    forth = torch.stack((first - start, second - first, stop - second), dim=1)
    back = torch.stack((stop - later, later - last, last - start), dim=1)
    return start, stop, forth, back
