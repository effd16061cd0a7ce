"""Which inputs limits are found for, and how, with so many model rows to spend."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core import noise
from verax.core.shapes import Float, Int
from verax.metrics.limit_beam import beam_rows
from verax.metrics.limit_reading import ChainReading
from verax.problem.attributed import Attributed

_FEWEST = 8  # inputs: the exact limits of fewer say less than bounds for all
_WIDEST = 32  # chains that a search follows: more hardly find better ones


@dataclass(frozen=True)
class Plan:
    """For which inputs limits are found, and how.

    Attributes:
        which: Numbers of the inputs.
        width: Of the beam search; 0 where all sets are scored.
    """

    which: Int[Tensor, " m"]
    width: int


def planned(problem: Attributed, readings: Sequence[ChainReading], rows: int) -> Plan:
    """Exact limits of all inputs where the rows allow it, then of some, then bounds for all, then for some.

    Some are drawn at random, by their values alone.
    """
    count = len(problem)
    features = problem.features.counts(slice(None)).cpu().expand(count)
    lots = noise.input_keys(problem.inputs.cpu(), 0, "limits").argsort(stable=True)
    sets = 2.0 ** features.double()
    searched = torch.tensor([sum(beam_rows(d, one) for one in readings) for d in features.tolist()]).double()
    exact, search = _fitting(sets, lots, rows), _fitting(searched, lots, rows)
    if len(exact) >= max(1, min(_FEWEST, count, len(search))):
        return Plan(exact, 0)
    if len(search) == 0:
        least = int(torch.minimum(sets, searched).min())
        raise ValueError(
            f"features: limits of an input with {int(features.min()):,} features take {least:,} model rows or more, "
            f"and {rows:,} can be spent on them; group the features (superpixels, columns that belong together), or "
            "raise rows."
        )
    return Plan(search, max(1, min(_WIDEST, int(rows / searched.sum()))))


def _fitting(each: Float[Tensor, " n"], lots: Int[Tensor, " n"], rows: int) -> Int[Tensor, " m"]:
    """As many inputs as fit into the rows, in the order of their lots; listed in their own."""
    return lots[each[lots].cumsum(0) <= rows].sort().values
