"""A network's own features: what reaches the linear layer that it calls last."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.blocks import pieces
from verax.core.shapes import Float, Shaped
from verax.scoring.session import Session


def last_linear(session: Session, row: Shaped[Tensor, "1 *shape"]) -> nn.Linear | None:
    """The linear layer that a module calls last.

    None where the model is no torch module, is called with companions, calls no linear layer, or gives the row itself
    to its only one, so that its features are the inputs.
    """
    if session.module is None or session.companions is not None:
        return None
    layers = [part for part in session.module.modules() if isinstance(part, nn.Linear)]
    with _watched(layers) as seen:
        session.outputs(row)
    session.counts.rows += 1
    if not seen:
        return None
    layer, taken = seen[-1]
    itself = taken.numel() == row.numel() and torch.equal(taken.flatten().cpu().double(), row.flatten().cpu().double())
    return None if itself else layer


def features(session: Session, layer: nn.Linear, rows: Shaped[Tensor, "n *shape"]) -> Float[Tensor, "n features"]:
    """What reaches a layer, in float64 on the CPU; means over whatever lies between rows and features, as tokens do."""
    found = []
    for part in pieces(len(rows), session.batch_size):
        batch = rows[part]
        with _watched([layer]) as seen:
            session.outputs(batch.to(session.device))
        session.counts.rows += len(batch)
        found.append(seen[-1][1].reshape(len(batch), -1, layer.in_features).double().mean(1).cpu())
    return torch.cat(found)


@contextlib.contextmanager
def _watched(layers: list[nn.Linear]) -> Iterator[list[tuple[nn.Linear, Tensor]]]:
    """Note what each layer is called with, in the order of the calls."""
    seen: list[tuple[nn.Linear, Tensor]] = []

    def note(layer: Any, taken: tuple[Tensor, ...]) -> None:
        seen.append((layer, taken[0]))

    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(note).remove)
        yield seen
