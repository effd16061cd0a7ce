"""Session: a model held ready for one call. Batches, counts of rows, and what is checked of a model's answers."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from verax.core.arrays import ArrayKind
from verax.core.blocks import chunk_size, deterministic_convolutions
from verax.core.shapes import Float, Int, Shaped
from verax.scoring.adapters import Returns, labels_of
from verax.scoring.adapters.base import RowArguments, Shortens
from verax.scoring.class_scores import (
    CleanOutputs,
    Scale,
    Target,
    check_labels,
    checked_outputs,
    class_scores,
    not_finite,
    predicted_classes,
    resolve_target,
    target_scores,
)
from verax.scoring.inference import Runner, failure, is_out_of_memory, single_precision
from verax.scoring.meter import Counts
from verax.scoring.output_checks import FiniteCheck, OutputKindCheck, ProbabilityCheck, resolution

BuildRows = Callable[[int, int], Tensor]
Value = TypeVar("Value")
NOT_DIFFERENTIABLE = (
    "model: {what}, so gradients cannot be taken through it. Methods that need none work, LIME among them."
)
_JOINED = 1 << 15  # outputs
_UNDECIDED = 32  # spacings of half precision: a logit that went through many layers is no better known
_SORTED, _SORTED_BYTES = 64, 1 << 26  # batches, and their size, of which rows are sorted by length


@dataclass
class Session:
    """A model held ready for one call. Experiments see models only through this."""

    counts: Counts
    kind: ArrayKind
    output: Scale
    device: torch.device
    dtype: torch.dtype
    batch_size: int
    runner: Runner  # of plain forward passes, maybe a fast copy
    plain: Runner  # of gradients: the module itself
    output_kind_check: OutputKindCheck
    labels: tuple[Any, ...] | None = None  # what the user calls the classes
    row_arguments: RowArguments | None = None  # what the model is called with beside each input
    classes: int = 0  # known after the first call

    def __post_init__(self) -> None:
        self.probable = ProbabilityCheck()
        self.finite = FiniteCheck(lambda score, row: not_finite(score, row, "a perturbed copy of the input"))

    @property
    def returns(self) -> Returns:
        return self.plain.adapter.returns

    @property
    def score_name(self) -> str:
        """What a score is called where people read it."""
        return "value" if self.returns == "values" else "class score"

    @property
    def largest_change(self) -> float:
        """The furthest that a score can move; a logit and a value know no end."""
        return 1.0 if self.output == "probability" and self.returns != "values" else math.inf

    def chunk_size(self, inputs: Shaped[Tensor, "n *shape"]) -> int:
        """Inputs after which work is cut anew (``verax.core.blocks.chunk_size``)."""
        return chunk_size(self.batch_size, inputs[0].nbytes)

    @property
    def module(self) -> nn.Module | None:
        return self.plain.adapter.module

    def clean_outputs(self, inputs: Shaped[Tensor, "n *shape"], *, decide: bool = False) -> CleanOutputs:
        """Run the model on unperturbed rows, its first call; ``decide`` what half precision leaves undecided."""
        outputs = torch.cat(list(self._batches(*self._in_memory(inputs, None, len(inputs)), self._forward)))
        scores = class_scores(outputs, self.returns, self.output)
        bad = (~torch.isfinite(scores).all(1)).nonzero()
        if len(bad):
            raise ValueError(not_finite(scores[bad[0, 0]], int(bad[0, 0]), "the unperturbed input"))
        self.probable.settle()
        predicted = predicted_classes(outputs, self.returns)
        if decide and self.returns != "values":
            predicted = self._decided(inputs, scores, predicted)
        with torch.inference_mode(False):  # plain tensors, which gradients may meet
            return CleanOutputs(outputs.clone(), predicted.clone())

    def tracked(self, clean: CleanOutputs, target: Target) -> tuple[Int[Tensor, " n"], Float[Tensor, " n"]]:
        """The class of each row, predicted unless it is given, and that class's score."""
        scores = class_scores(clean.outputs.to(self.device), self.returns, self.output)
        self.classes = scores.shape[1]
        labels = labels_of(self.plain.adapter) if self.labels is None else self.labels  # some tell as they run
        values = self.returns == "values"
        check_labels(labels, self.classes, values)
        classes = resolve_target(target, clean.predicted.to(self.device), self.classes, labels, values)
        return classes, scores.gather(1, classes[:, None])[:, 0]

    def class_scores(self, inputs: Shaped[Tensor, "n *shape"]) -> Float[Tensor, "n classes"]:
        """Score every class, or value, of rows; where the model takes more, row by row those of the inputs."""
        return class_scores(self.clean_outputs(inputs).outputs, self.returns, self.output)

    def _decided(
        self, inputs: Shaped[Tensor, "n *shape"], scores: Float[Tensor, "n classes"], predicted: Int[Tensor, " n"]
    ) -> Int[Tensor, " n"]:
        """Predict in single precision what half precision leaves undecided, by the module itself; counts no rows."""
        if self.runner.dtype.itemsize >= self.plain.dtype.itemsize or scores.shape[1] < 2:
            return predicted
        first, second = scores.topk(2, dim=1).values.unbind(1)
        slack = _UNDECIDED * torch.finfo(self.runner.dtype).eps * first.abs().clamp(min=1)
        rows = (first - second <= slack).nonzero()[:, 0]

        def build(start: int, stop: int) -> Tensor:
            return inputs[rows[start:stop].to(inputs.device)].to(self.device)

        def exactly(batch: Tensor, owner: Tensor) -> Tensor:
            return self._run(batch.to(self.plain.dtype, memory_format=self.plain.layout), self.plain, owner)

        with single_precision("float32"):
            classes = [predicted_classes(raw, self.returns) for raw in self._batches(build, rows, exactly, fixed=False)]
        self.counts.rows -= len(rows)
        return predicted.index_copy(0, rows, torch.cat(classes)) if classes else predicted

    def target_scores(
        self, build: BuildRows, owner: Int[Tensor, " rows"], target: Int[Tensor, " n"], streamed: bool = False
    ) -> Float[Tensor, " rows"]:
        """Score many perturbed rows in bounded memory, as ``scores_on`` does on the session's scale."""
        return self.scores_on((self.output,), build, owner, target, streamed)[0]

    def scores_on(
        self,
        scales: Sequence[Scale],
        build: BuildRows,
        owner: Int[Tensor, " rows"],
        target: Int[Tensor, " n"],
        streamed: bool = False,
    ) -> tuple[Float[Tensor, " rows"], ...]:
        """Score many perturbed rows in bounded memory, on several scales from one run of the model.

        Args:
            scales: Of the scores; the first one's are checked.
            build: Makes rows ``start`` to ``stop`` on this session's device when they are needed.
            owner: Which input each row came from.
            target: The class of each input.
            streamed: For callers that make all rows before they read a score: ``build`` gives rows of its own in the
                runner's precision and layout, which the model may overwrite, and scores that are not finite may be
                found by the next call or by ``finite.settle``, so that a GPU need not wait for the host.
        """
        followed = target.index_select(0, owner)
        parts: list[list[Tensor]] = [[] for _ in scales]
        done = 0
        run = self._run_fast if streamed else self._forward
        for raw in _joined(self._alike_together(build, owner, run)):
            picked = followed[done : done + len(raw)]
            for scale, part in zip(scales, parts, strict=True):
                part.append(target_scores(raw, picked, self.returns, scale))
            done += len(raw)
        none = torch.empty(0, device=self.device, dtype=torch.promote_types(self.dtype, torch.float32))
        scores = tuple(torch.cat(part) if part else none for part in parts)
        if streamed:
            self.finite.later(scores[0], owner)
        else:
            self.finite.now(scores[0], owner)
            self.probable.settle()
        return scores

    def target_gradients(
        self, build: BuildRows, owner: Int[Tensor, " rows"], target: Int[Tensor, " n"]
    ) -> Float[Tensor, "rows *shape"]:
        """Gradient of each row's target score with respect to the row; arguments as in ``target_scores``."""
        followed = target[owner]
        done = 0

        def gradient(batch: Tensor, inputs: Tensor) -> Tensor:
            leaf = batch.to(self.dtype, copy=True).requires_grad_()
            with torch.enable_grad():
                # a copy again: a model that begins in place may not change a leaf
                raw = self._run(leaf.to(self.dtype, copy=True, memory_format=self.plain.layout), self.plain, inputs)
                picked = followed[done : done + len(raw)]
                scores = target_scores(raw, picked, self.returns, self.output)
                if scores.grad_fn is None:
                    raise TypeError(NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input"))
                with self.clocked(), deterministic_convolutions():
                    (grad,) = torch.autograd.grad(scores.sum(), leaf)
            return grad.contiguous()

        parts: list[Tensor] = []
        for part in self._batches(build, owner, gradient, fixed=False):
            done += len(part)
            self.counts.rows_backward += len(part)
            parts.append(part)
        return torch.cat(parts)

    def scores_of(
        self, rows: Shaped[Tensor, "m *shape"], owner: Int[Tensor, " m"] | None, target: Int[Tensor, " n"]
    ) -> Float[Tensor, " m"]:
        """Score rows in memory; ``owner`` says which input each came from, one after the other without it."""
        return self.target_scores(*self._in_memory(rows, owner, len(target)), target)

    def gradients_of(
        self, rows: Shaped[Tensor, "m *shape"], owner: Int[Tensor, " m"] | None, target: Int[Tensor, " n"]
    ) -> Float[Tensor, "m *shape"]:
        """Gradients at rows in memory; arguments as in ``scores_of``."""
        return self.target_gradients(*self._in_memory(rows, owner, len(target)), target)

    def _in_memory(self, rows: Tensor, owner: Tensor | None, inputs: int) -> tuple[BuildRows, Int[Tensor, " m"]]:
        if owner is None and len(rows) != inputs:
            raise ValueError(
                f"owner: {len(rows)} rows for {inputs} inputs; pass the number of the input that each row came from."
            )
        owner = torch.arange(inputs) if owner is None else owner
        if owner.shape != rows.shape[:1] or (len(owner) and not 0 <= int(owner.min()) <= int(owner.max()) < inputs):
            raise ValueError(
                f"owner: expected the number of an input, 0 to {inputs - 1}, for each of {len(rows)} rows, got shape "
                f"{tuple(owner.shape)}."
            )
        return lambda start, stop: rows[start:stop].to(self.device), owner.to(self.device)

    def outputs(self, batch: Float[Tensor, "n *shape"]) -> Float[Tensor, "n outputs"]:
        """Run the module itself on rows that belong to no input; they are counted by the caller."""
        if self.row_arguments is not None:
            raise ValueError(
                "inputs: this method runs rows of its own, which have no model_kwargs and are no texts; build them "
                "into the model, or take another method."
            )
        return self._run(batch.to(self.dtype, copy=True, memory_format=self.plain.layout), self.plain, None)

    def halving(self, work: Callable[[], Value], rows: int) -> Value | None:
        """Do some work on so many rows; None where memory ran out, and the batch size is now half of them."""
        try:
            return work()
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise failure(error, rows) from error
            if rows == 1:
                raise
        self.batch_size = rows // 2
        return None

    @contextlib.contextmanager
    def clocked(self) -> Iterator[None]:
        """Count the time inside as the model's."""
        start = time.perf_counter()
        yield
        if self.device.type == "cpu":
            self.counts.model_seconds += time.perf_counter() - start

    def _batches(
        self,
        build: BuildRows,
        owner: Int[Tensor, " rows"],
        run: Callable[[Tensor, Tensor], Tensor],
        fixed: bool | None = None,
    ) -> Iterator[Tensor]:
        """Run the model over as many rows as have owners, halving the batch when memory runs out."""
        count = len(owner)
        fixed = self.runner.fixed if fixed is None else fixed
        start = 0
        while start < count:
            stop = min(start + self.batch_size, count)
            outputs = self.halving(
                lambda: run(build(start, stop), owner[start:stop]),  # noqa: B023
                self.batch_size if fixed else stop - start,
            )
            if outputs is not None:
                self.counts.rows += stop - start
                if self.counts.after_batch is not None:
                    self.counts.after_batch()
                start = stop
                yield outputs

    def _alike_together(
        self, build: BuildRows, owner: Int[Tensor, " rows"], run: Callable[[Tensor, Tensor], Tensor]
    ) -> Iterator[Tensor]:
        """Run the model over rows, those of like length together where that spares padding; in the old order."""
        collate = None if self.row_arguments is None else self.row_arguments.collate
        if self.row_arguments is None or not isinstance(collate, Shortens):
            yield from self._batches(build, owner, run)
            return
        start = 0
        while start < len(owner):
            rows = build(start, min(start + self.batch_size, len(owner)))
            many = min(_SORTED * self.batch_size, max(self.batch_size, _SORTED_BYTES // rows[0].nbytes))
            stop = min(start + many, len(owner))
            rows = torch.cat((rows, build(start + len(rows), stop))) if start + len(rows) < stop else rows
            owners = owner[start:stop]
            order = collate.lengths(rows, self.row_arguments.at(owners).model_kwargs).argsort(stable=True)
            rows, owners = rows[order], owners[order]
            scores = torch.cat(list(self._batches(lambda first, last: rows[first:last], owners, run)))  # noqa: B023
            yield torch.empty_like(scores).index_copy_(0, order, scores)
            start = stop

    def _forward(self, batch: Tensor, owner: Tensor) -> Float[Tensor, "batch outputs"]:
        # a copy: a model that begins in place must not overwrite the user's inputs
        return self._run_fast(batch.to(self.runner.dtype, copy=True, memory_format=self.runner.layout), owner)

    def _run_fast(self, batch: Tensor, owner: Tensor) -> Float[Tensor, "batch outputs"]:
        """Run a plain forward pass on rows that the model may overwrite."""
        count = len(batch)
        if self.runner.fixed and count < self.batch_size:
            batch = self.runner.filled(batch, self.batch_size)
            owner = torch.cat((owner, owner[:1].expand(self.batch_size - count)))
        if self.runner is self.plain or torch.is_inference_mode_enabled():
            return self._run(batch, self.runner, owner)[:count]
        with torch.inference_mode():  # as in sessions without gradients, so that nothing is compiled twice
            outputs = self._run(batch, self.runner, owner)[:count]
        return outputs.clone()  # an ordinary tensor, which gradients may meet

    def _run(self, batch: Tensor, runner: Runner, owner: Tensor | None) -> Float[Tensor, "batch outputs"]:
        with self.clocked():
            if self.row_arguments is None or owner is None:
                raw = runner.adapter(batch, self.kind)
            else:
                raw = runner.adapter(batch, self.kind, self.row_arguments.at(owner))  # type: ignore[call-arg]
        outputs = checked_outputs(raw, len(batch), self.device, self.returns)
        with torch._C.DisableTorchFunction():  # who watches the model's functions must not see these
            outputs = outputs.clone()  # outputs are kept: a model may return memory that its next call overwrites
            precision = torch.finfo(runner.dtype).eps if runner.dtype.is_floating_point else 0.0
            rounding = max(resolution(raw), precision)
            self.output_kind_check.judge(outputs.detach(), rounding)
            if self.returns == "probabilities":
                self.probable.look(outputs.detach(), rounding)
        return outputs

    def settle(self) -> None:
        self.finite.settle()
        self.probable.settle()


def _joined(batches: Iterator[Tensor]) -> Iterator[Float[Tensor, "rows outputs"]]:
    """Join the outputs of some batches: to make scores of few is to pay for many small operations."""
    held: list[Tensor] = []
    for batch in batches:
        held.append(batch)
        if sum(part.numel() for part in held) >= _JOINED:
            yield batch if len(held) == 1 else torch.cat(held)
            held = []
    if held:
        yield torch.cat(held)
