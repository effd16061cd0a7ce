"""Occlusion: how far the score falls without a feature, or rises with it alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.coalitions import by_count, coalition_scores, spread_evenly
from verax.attribution.family import Family, Piece, Place
from verax.core import palette
from verax.core.arguments import checked_choice
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float, Int
from verax.problem.problem import Problem
from verax.scoring.meter import Rows

Kind = Literal["leave_one_out", "keep_one_in"]


@dataclass(frozen=True)
class Occlusion(Attribution):
    """The effect of a single feature on the logit, over any features (Zeiler and Fergus 2014).

    Leave one out: ``a_i = v(all) - v(all but i)``. Keep one in: ``a_i = v(i) - v({})``. ``v(S)`` is the score with the
    features in ``S`` kept and all others at their baselines. The one does not see what other features can stand in for,
    the other not what takes several; Shapley values lie between.

    Args:
        kind: ``"leave_one_out"``, one model row per feature, or ``"keep_one_in"``, one more for the baseline.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
        >>> problem = verax.Problem(model, x, target=1, explained="logit")
        >>> both = [Occlusion(kind)(problem) for kind in ("leave_one_out", "keep_one_in")]
        >>> bool(torch.allclose(both[0], model.weight[1])), bool(torch.allclose(both[1], model.weight[1]))
        (True, True)
    """

    kind: Kind = "leave_one_out"

    local: ClassVar[bool] = False
    colour: ClassVar[str | None] = palette.WINE
    citation: ClassVar[str] = "Zeiler, Fergus: Visualizing and understanding convolutional networks, ECCV 2014"

    def __post_init__(self) -> None:
        checked_choice("kind", self.kind, ("leave_one_out", "keep_one_in"))

    @property
    def family(self) -> "OcclusionFamily":
        return OcclusionFamily()


@dataclass(frozen=True)
class OcclusionFamily(Family):
    """One feature after the other."""

    def rows(self, members: Sequence[Occlusion], problem: Problem, place: Place) -> Rows:
        counts = problem.features.counts(slice(0, len(problem.inputs)))
        each = counts.expand(len(problem.inputs)).sum()
        return Rows(sum(int(each) + len(problem.inputs) * (member.kind == "keep_one_in") for member in members))

    def pieces(self, members: Sequence[Occlusion], problem: Problem) -> Iterator[Piece]:
        fmap, device, shape = problem.features, problem.open_session.device, problem.inputs.shape[1:]
        per_input = 64 * (fmap.most + 1) + 16 * shape.numel()
        for rows in pieces(len(problem.inputs), max(1, block_bytes(device) // per_input)):
            count = rows.stop - rows.start
            values = torch.zeros(len(members), count, fmap.most, dtype=torch.float64, device=device)
            for features, which in by_count(fmap, rows, device):
                effects = [_effects(member.kind, problem, which, features) for member in members]
                values[:, which - rows.start, :features] = torch.stack(effects)
            yield Piece(rows, spread_evenly(fmap, values, rows))


def _effects(kind: Kind, problem: Problem, which: Int[Tensor, " b"], features: int) -> Float[Tensor, "b {features}"]:
    every = torch.arange(features, device=which.device)
    if kind == "leave_one_out":
        without = coalition_scores(problem, which, features, lambda _, number: number[:, None] != every)
        return problem.scores()[which, None].double() - without.double()
    # after the last feature comes one that is not there: the baseline
    alone = coalition_scores(problem, which, features + 1, lambda _, number: number[:, None] == every).double()
    return alone[:, :-1] - alone[:, -1:]
