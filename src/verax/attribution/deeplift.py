"""DeepLIFT's rescale rule: multipliers that turn the difference of an input to a reference into that of their scores.

While the model runs, calls of nonlinear functions are replaced, however they are made: as modules (in place or reused),
as functions, as methods. Inputs run once, each as often as references go with it at a time; what comes after is the
same graph for all of them. References run, what the nonlinear functions saw is kept, and in the way back through the
graph each activation gets the slope of its chord, ``(f(x) - f(r)) / (x - r)``, in place of its derivative. Max pooling
gives the difference of each window to the element that has the larger maximum. Anything else keeps its derivative,
which is exact where it is linear; ``deeplift_shap`` checks what is left. The last step, from the model's outputs to
log-odds or a probability, gets its mean derivative on the straight way between the two outputs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from verax.attribution.deeplift_multipliers import Call, CaughtCalls, Multipliers, Recording
from verax.core.blocks import deterministic_convolutions, pieces
from verax.core.shapes import Float, Int
from verax.scoring.class_scores import class_scores, target_scores
from verax.scoring.meter import Rows
from verax.scoring.session import NOT_DIFFERENTIABLE, Session

_POINTS = 16  # of the way between two outputs
_INDEPENDENT = NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input")


@dataclass(frozen=True)
class Tile:
    """Multipliers of some inputs against some references."""

    rows: slice  # which inputs
    columns: slice  # which references
    multipliers: Float[Tensor, "b r *shape"]  # one for every element of every pair
    reference_scores: Float[Tensor, "r classes"]  # scores of all classes for these references


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
    columns, cost = slice(0, references), Rows(0)
    for rows in _parts(slice(0, inputs), batch_size):
        count, width = rows.stop - rows.start, _width(rows, columns, batch_size)
        runs = len(_parts(columns, width))
        cost += Rows((count + runs) * width, count * runs * width)
    return cost


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
    """Some inputs, each several times, on their way through the model, which references are held against."""

    def __init__(
        self, session: Session, inputs: Float[Tensor, "b *shape"], target: Int[Tensor, " b"], width: int
    ) -> None:
        self.session, self.inputs, self.target, self.width = session, inputs, target, width
        self.slopes = Multipliers(len(inputs), width)
        self.ends: tuple[Tensor, Tensor] | None = None  # pairs and the model's outputs, once they have run

    def multipliers(
        self, references: Float[Tensor, "r *shape"]
    ) -> tuple[Float[Tensor, "b r *shape"], Float[Tensor, "r classes"]]:
        """Multipliers of every pair, and the scores of the references, which may be fewer than the graph is wide."""
        session, count = self.session, len(references)
        rows = torch.cat((references, references[-1:].expand(self.width - count, *references.shape[1:])))
        recording = Recording()
        with CaughtCalls(recording.call):
            reference_outputs = session.outputs(rows)
        reference_scores = class_scores(reference_outputs, session.returns, session.output)
        session.counts.rows += self.width
        pairs, outputs = self.ends = self.ends or self._run(recording.calls)
        self.slopes.meet(recording.calls)
        arriving = self._last_step(outputs.detach(), reference_outputs.detach().repeat(len(self.inputs), 1))
        with session.clocked(), deterministic_convolutions():
            (gradient,) = torch.autograd.grad(outputs, pairs, arriving, True, allow_unused=True)
        if gradient is None:
            raise TypeError(_INDEPENDENT)
        session.counts.rows_backward += len(pairs)
        return gradient.reshape(len(self.inputs), *rows.shape)[:, :count], reference_scores[:count]

    def _run(self, calls: Sequence[Call]) -> tuple[Tensor, Tensor]:
        """Run the inputs, where references have been before."""
        session = self.session
        pairs = self.inputs.repeat_interleave(self.width, 0).requires_grad_()
        self.slopes.waiting = iter(calls)
        with torch.enable_grad(), CaughtCalls(self.slopes.call):
            outputs = session.outputs(pairs)
        self.slopes.end()
        if not outputs.requires_grad:
            raise TypeError(_INDEPENDENT)
        session.counts.rows += len(pairs)
        return pairs, outputs

    def _last_step(
        self, outputs: Float[Tensor, "pairs outputs"], references: Float[Tensor, "pairs outputs"]
    ) -> Float[Tensor, "pairs outputs"]:
        """Multipliers from the model's outputs to the scores: what they make of differences adds up to the scores'.

        The mean gradient of the score between the two outputs, by Gauss and Legendre's rule; what it misses of the
        difference goes to the outputs that count. Where the score is an output itself it is the gradient.
        """
        session, classes = self.session, self.target.repeat_interleave(self.width)

        def score(at: Float[Tensor, "pairs outputs"]) -> Float[Tensor, " pairs"]:
            return target_scores(at, classes, session.returns, session.output)

        def gradient(at: Float[Tensor, "pairs outputs"]) -> Float[Tensor, "pairs outputs"]:
            with torch.enable_grad():
                leaf = at.requires_grad_()
                (grad,) = torch.autograd.grad(score(leaf).sum(), leaf)
            return grad

        if session.returns == "values" or (session.returns == "logits" and session.output == "logit"):
            return gradient(outputs.clone())
        way = outputs - references
        places, weights = ((1 + part) / 2 if at == 0 else part / 2 for at, part in enumerate(leggauss(_POINTS)))
        mean = torch.zeros_like(outputs)
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            mean += weight * gradient(references + place * way)
        missed = score(outputs) - score(references) - (mean * way).sum(1)
        counts = mean.square() * way
        total = (counts * way).sum(1)
        return mean + (missed / torch.where(total == 0, 1.0, total))[:, None] * counts
