"""DeepLIFT's rescale rule: multipliers that turn the difference of an input to a reference into that of their scores.

While the model runs, calls of nonlinear functions are replaced, however they are made: as modules (in place or reused),
as functions, as methods. Inputs run once, each as often as references go with it at a time; what comes after is the
same graph for all of them. References run, what the nonlinear functions saw is kept, and in the way back through the
graph each activation gets the slope of its chord, ``(f(x) - f(r)) / (x - r)``, in place of its derivative. Max pooling
gives the difference of each window to the element that has the larger maximum. Anything else keeps its derivative,
which is exact where it is linear; ``deeplift_shap`` checks what is left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from verax.attribution.chords import Chords
from verax.attribution.nonlinear_calls import Call, CaughtCalls, Recording
from verax.core.blocks import pieces
from verax.core.repeatable import repeatable_convolutions
from verax.core.shapes import Float, Int
from verax.scoring.class_scores import class_scores, target_scores
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE, Session

_INDEPENDENT = NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input")


@dataclass(frozen=True)
class Tile:
    """Multipliers of some inputs against some references.

    Attributes:
        rows: Which inputs.
        columns: Which references.
        multipliers: One for every element of every pair.
        reference_scores: Scores of all classes for these references.
    """

    rows: slice
    columns: slice
    multipliers: Float[Tensor, "b r *shape"]
    reference_scores: Float[Tensor, "r classes"]


def tiles(
    session: Session,
    inputs: Float[Tensor, "n *shape"],
    references: Float[Tensor, "m *shape"],
    target: Int[Tensor, " n"],
) -> Iterator[Tile]:
    """Pair every input with every reference, a batch of pairs at a time, halving it when memory runs out.

    Rows are given on the session's device and in its precision. What it costs is said by ``pair_rows``.
    """
    waiting = [(slice(0, len(inputs)), slice(0, len(references)))]
    while waiting:
        rows, columns = waiting.pop()
        whole, *others = _parts(rows, session.batch_size)
        waiting.extend((part, columns) for part in reversed(others))
        graph = _Graph(session, inputs[whole], target[whole], _width(whole, columns, session.batch_size))
        for part in _parts(columns, graph.width):
            answer = session.halving(partial(graph.multipliers, references[part]), len(graph.inputs) * graph.width)
            if answer is None:
                waiting.append((whole, slice(part.start, columns.stop)))
                break
            yield Tile(whole, part, *answer)


def pair_rows(inputs: int, references: int, batch_size: int) -> Rows:
    """Model rows of ``tiles``, as long as memory does not run out.

    Each part of the inputs runs once, as often as references go with it at a time; all references run for each part.
    """
    columns, found = slice(0, references), Rows(0)
    for rows in _parts(slice(0, inputs), batch_size):
        count, width = rows.stop - rows.start, _width(rows, columns, batch_size)
        runs = len(_parts(columns, width))
        found += Rows((count + runs) * width, count * runs * width)
    return found


def _width(rows: slice, columns: slice, size: int) -> int:
    """How many references go with some inputs at a time: as many as let a batch be full, but evenly."""
    most = max(1, size // (rows.stop - rows.start))
    first = _parts(columns, most)[0]
    return int(first.stop - first.start)


def _parts(whole: slice, most: int) -> list[slice]:
    """Nearly equal parts of at most ``most``."""
    count = whole.stop - whole.start
    even = -(-count // -(-count // most))
    return [slice(whole.start + part.start, whole.start + part.stop) for part in pieces(count, even)]


class _Graph:
    """Some inputs, each several times, on their way through the model, which references are held against.

    Args:
        session: The model.
        inputs: Rows on its device, in its precision.
        target: Their classes.
        width: How often each.
    """

    def __init__(
        self, session: Session, inputs: Float[Tensor, "b *shape"], target: Int[Tensor, " b"], width: int
    ) -> None:
        self.session, self.inputs, self.target, self.width = session, inputs, target, width
        self.chords = Chords(len(inputs), width)
        self.ends: tuple[Tensor, Tensor] | None = None  # pairs and their scores, once they have run

    def multipliers(
        self, references: Float[Tensor, "r *shape"]
    ) -> tuple[Float[Tensor, "b r *shape"], Float[Tensor, "r classes"]]:
        """Multipliers of every pair, and the scores of the references, which may be fewer than the graph is wide."""
        session, count = self.session, len(references)
        rows = torch.cat((references, references[-1:].expand(self.width - count, *references.shape[1:])))
        recording = Recording()
        with CaughtCalls(recording.call):
            reference_scores = class_scores(session.outputs(rows), session.returns, session.output)
        session.counts.rows += self.width
        pairs, scores = self.ends = self.ends or self._run(recording.calls)
        self.chords.meet(recording.calls)
        with session.clocked(), repeatable_convolutions():
            (gradient,) = torch.autograd.grad(scores, pairs, torch.ones_like(scores), True, allow_unused=True)
        if gradient is None:
            raise TypeError(_INDEPENDENT)
        session.counts.rows_backward += len(pairs)
        return gradient.reshape(len(self.inputs), *rows.shape)[:, :count], reference_scores[:count]

    def _run(self, calls: Sequence[Call]) -> tuple[Tensor, Tensor]:
        """Run the inputs, where references have been before."""
        session = self.session
        pairs = self.inputs.repeat_interleave(self.width, 0).requires_grad_()
        self.chords.waiting = iter(calls)
        with torch.enable_grad(), CaughtCalls(self.chords.call):
            classes = self.target.repeat_interleave(self.width)
            scores = target_scores(session.outputs(pairs), classes, session.returns, session.output)
        self.chords.end()
        if not scores.requires_grad:
            raise TypeError(_INDEPENDENT)
        session.counts.rows += len(pairs)
        return pairs, scores
