"""Spaces in which rows lie near or far from the data: the inputs themselves, and the features of a network."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from verax.core.shapes import Float, Shaped
from verax.problem.attributed import Attributed
from verax.scoring.penultimate import features, last_linear
from verax.scoring.session import Session
from verax.statistics.mahalanobis import Reference

_MOST = 1024  # numbers of a row whose covariance is estimated


@dataclass(frozen=True)
class Space:
    """A way to see rows as points, with the background among them.

    Attributes:
        name: ``"inputs"`` or ``"features"``.
        points: What a row is in this space.
        reference: The background in it.
    """

    name: str
    points: Callable[[Tensor], Tensor]
    reference: Reference

    def distances(self, rows: Shaped[Tensor, "n *shape"]) -> Float[Tensor, " n"]:
        """How far rows lie from the background."""
        return self.reference.distances(self.points(rows))


def spaces(session: Session, problem: Attributed) -> list[Space]:
    """The inputs, where they are amounts and not too many, and a network's features, where it has some."""
    found: list[tuple[str, Callable[[Tensor], Tensor]]] = []
    codes = problem.given.codes
    amounts = None if codes is None else (~codes).flatten().nonzero()[:, 0]
    many = problem.inputs[0].numel() if amounts is None else len(amounts)
    if problem.inputs.is_floating_point() and 0 < many <= _MOST:
        found.append(("inputs", lambda rows: _amounts(rows, amounts)))
    layer = last_linear(session, problem.inputs[:1].to(session.device))
    if layer is not None:
        found.append(("features", lambda rows: features(session, layer, rows)))
    if not found or problem.background is None:
        raise ValueError(
            f"distance: rows of shape {tuple(problem.inputs.shape[1:])} have none here: wanted are at most {_MOST} "
            "amounts, or a torch module with a linear layer at its end that takes rows alone."
        )
    return [Space(name, points, Reference(points(problem.background))) for name, points in found]


def _amounts(rows: Shaped[Tensor, "n *shape"], which: Tensor | None) -> Float[Tensor, "n p"]:
    flat = rows.flatten(1)
    return (flat if which is None else flat[:, which.to(flat.device)]).double()
