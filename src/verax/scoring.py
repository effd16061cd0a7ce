"""Scorer: the one place that runs a model. Batches, device, mode, precision and the count of rows live here."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from verax import adapters
from verax.adapters import Adapter, ArrayKind, Returns
from verax.finite import FiniteCheck
from verax.holding import evaluation_mode, gradients_off, laid_out, moved
from verax.inference import Inference, Runner
from verax.outputs import Output, check_scale, checked_outputs, class_scores, not_finite, target_scores
from verax.precision import Precision, checked_precision, single_precision
from verax.shapes import Float, Int

BuildRows = Callable[[int, int], Tensor]
NOT_DIFFERENTIABLE = (
    "model: {what}, so gradients cannot be taken through it. Methods that need none work: "
    "verax.attribution.LimeTabular, LimeImage, Random, Edges."
)

# Rows per batch are chosen from the size of a row alone, never from a clock or from free memory: the same call
# then runs the same batches and returns the same bits. On a CPU 1,024 to 2,048 rows of tables and 64 images of
# 3 x 64 x 64 are the best batches of benchmarks/guided.py. On a GPU a batch is a power of two, which fills its tiles
# and fits LIME's samples: 1,024 images of 3 x 224 x 224.
_CPU_ELEMENTS, _CPU_ROWS = 3 << 18, (8, 2048)
_GPU_ELEMENTS, _GPU_ROWS = 1 << 28, (32, 65536)
_JOINED = 1 << 15  # outputs


class Scorer:
    """A model with what is needed to score rows with it; every metric accepts one as ``model``.

    Args:
        model: A ``torch.nn.Module``, a fitted scikit-learn classifier, or a callable from a batch to scores with one
            row per input: ``(B,)`` or ``(B, 1)`` for a binary model with one output, ``(B, classes)`` otherwise.
        returns: ``"logits"`` or ``"probabilities"``. A torch module is taken to return logits, a scikit-learn
            classifier probabilities; a plain callable must say. Logits of probabilities are log-odds, with 0 and 1
            moved by the resolution of their number format, so that models that are sure can be explained.
        takes: ``"torch"`` or ``"numpy"``, for a plain callable that wants one kind of array whatever the inputs are.
        batch_size: Rows per model call; found automatically when left out, halved when memory runs out.
        device: Where to run. A module is moved there for the call and moved back afterwards.
        precision: In what precision a torch module runs on a GPU: ``"float32"`` (exact), ``"tf32"``, ``"bfloat16"`` or
            ``"float16"`` (the faster, the less exact; of the two last, float16 is the more exact). None leaves torch's
            settings alone. Scores are computed from the outputs in single precision at least.
        compile: Whether to use ``torch.compile``. It costs seconds at the first call and gains most on a GPU; partial
            batches are filled up, so that it happens once. Keep the Scorer: another one compiles again.

    With a precision or ``compile``, plain forward passes run on a copy of the module, made anew for every call, whose
    batch norms are folded into the convolutions and linear layers before them; on a CPU that alone is what
    ``"float32"`` does. Gradients are always taken through the module itself.

    Attributes:
        rows: Model rows evaluated so far, over all calls.
        rows_backward: Rows through which gradients were taken so far.
        rows_spared: Rows asked for that were not evaluated, because an identical one was.
        model_seconds: Wall clock inside the model so far; only on a CPU, where calls return when they are done.

    Example:
        >>> import torch, verax
        >>> scorer = verax.Scorer(lambda x: torch.sigmoid(x.sum(1)), returns="probabilities")
        >>> x = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
        >>> result = verax.prediction_change(scorer, x, attributions=x)
        >>> scorer.rows == result.rows == 5 * 40
        True
    """

    def __init__(
        self,
        model: object,
        *,
        returns: Returns | None = None,
        takes: ArrayKind | None = None,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        compile: bool = False,  # noqa: A002  # torch's own name for it
    ) -> None:
        if isinstance(model, Scorer):
            raise TypeError("model: already a verax.Scorer; pass it on as it is.")
        checked_precision(precision)
        self.adapter: Adapter = adapters.adapt(model, returns, takes)
        self.inference = Inference(self.adapter, precision, compile)
        self.returns_was_said = returns is not None
        self.batch_size = checked_batch_size(batch_size)
        self.device = checked_device(device)
        self.rows = 0
        self.rows_backward = 0
        self.rows_spared = 0
        self.model_seconds = 0.0

    def __repr__(self) -> str:
        return f"Scorer({type(self.adapter).__name__}, returns={self.adapter.returns!r}, rows={self.rows})"

    @contextlib.contextmanager
    def session(
        self,
        inputs: Tensor,
        kind: ArrayKind,
        output: Output,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        gradients: bool = False,
    ) -> Iterator["Session"]:
        """Hold the model in evaluation and inference mode on its device, and put back whatever was changed.

        With ``gradients``, gradients are merely off until ``Session.target_gradients`` asks for them.
        """
        module = self.adapter.module
        home = adapters.home(self.adapter, fallback=inputs.device)
        place = checked_device(device) or self.device or home
        dtype = adapters.floating_dtype(self.adapter, fallback=inputs.dtype)
        layout = best_layout(inputs, place)
        size = checked_batch_size(batch_size) or self.batch_size or automatic_batch_size(inputs[0].numel(), place)
        with evaluation_mode(module), moved(module, home, place), laid_out(module, layout):
            plain = Runner(self.adapter, dtype, layout)
            runner = self.inference.runner(plain)
            mode = gradients_off() if gradients else torch.inference_mode()
            with single_precision(self.inference.precision), mode:
                session = Session(self, kind, output, place, dtype, size, runner, plain)
                yield session
                session.finite.settle()


@dataclass
class Session:
    """A model held ready for one call. Experiments see models only through this.

    Plain forward passes go through ``runner``, maybe a fast copy; gradients through ``plain``, the module itself.
    """

    scorer: Scorer
    kind: ArrayKind
    output: Output
    device: torch.device
    dtype: torch.dtype
    batch_size: int
    runner: Runner
    plain: Runner
    classes: int = 0  # known after the first call

    def __post_init__(self) -> None:
        self.finite = FiniteCheck(lambda score, row: not_finite(score, row, "a perturbed copy of the input"))

    def class_scores(self, inputs: Float[Tensor, "n *shape"]) -> Float[Tensor, "n classes"]:
        """Score every class of unperturbed inputs; this is the first model call and checks what comes back."""
        parts = [
            class_scores(raw, self.scorer.adapter.returns, self.output)
            for raw in self._batches(lambda start, stop: inputs[start:stop].to(self.device), len(inputs), self._forward)
        ]
        scores = torch.cat(parts)
        bad = (~torch.isfinite(scores).all(1)).nonzero()
        if len(bad):
            raise ValueError(not_finite(scores[bad[0, 0]], int(bad[0, 0]), "the unperturbed input"))
        self.classes = scores.shape[1]
        return scores

    def target_scores(
        self, build: BuildRows, owner: Int[Tensor, " rows"], target: Int[Tensor, " n"], streamed: bool = False
    ) -> Float[Tensor, " rows"]:
        """Score many perturbed rows in bounded memory.

        Args:
            build: Makes rows ``start`` to ``stop`` on this session's device when they are needed.
            owner: Which input each row came from.
            target: The class of each input.
            streamed: For callers that make all rows before they read a score: ``build`` gives rows of its own in the
                runner's precision and layout, which the model may overwrite, and scores that are not finite may be
                found by the next call or by ``finite.settle``, so that a GPU need not wait for the host.
        """
        wanted = target.index_select(0, owner)
        parts: list[Tensor] = []
        done = 0
        run = self._run_fast if streamed else self._forward
        for raw in _joined(self._batches(build, len(owner), run)):
            returns = self.scorer.adapter.returns
            parts.append(target_scores(raw, wanted[done : done + len(raw)], returns, self.output))
            done += len(raw)
        scores = (
            torch.cat(parts)
            if parts
            else torch.empty(0, device=self.device, dtype=torch.promote_types(self.dtype, torch.float32))
        )
        (self.finite.later if streamed else self.finite.now)(scores, owner)
        return scores

    def target_gradients(
        self, build: BuildRows, owner: Int[Tensor, " rows"], target: Int[Tensor, " n"]
    ) -> Float[Tensor, "rows *shape"]:
        """Gradient of each row's target score with respect to the row; arguments as in ``target_scores``."""
        wanted = target[owner]
        done = 0

        def gradient(batch: Tensor) -> Tensor:
            leaf = batch.to(self.dtype, copy=True).requires_grad_()
            with torch.enable_grad():
                # a copy again: a model that begins in place may not change a leaf
                raw = self._run(leaf.to(self.dtype, copy=True, memory_format=self.plain.layout), self.plain)
                picked = wanted[done : done + len(raw)]
                scores = target_scores(raw, picked, self.scorer.adapter.returns, self.output)
                if scores.grad_fn is None:
                    raise TypeError(NOT_DIFFERENTIABLE.format(what="the model's output does not depend on its input"))
                with self.clocked():
                    (found,) = torch.autograd.grad(scores.sum(), leaf)
            return found.contiguous()

        parts: list[Tensor] = []
        for part in self._batches(build, len(owner), gradient, fixed=False):
            done += len(part)
            self.scorer.rows_backward += len(part)
            parts.append(part)
        return torch.cat(parts)

    @contextlib.contextmanager
    def clocked(self) -> Iterator[None]:
        """Count the time inside as the model's."""
        start = time.perf_counter()
        yield
        if self.device.type == "cpu":
            self.scorer.model_seconds += time.perf_counter() - start

    def wait(self) -> None:
        """Let work queued on an accelerator finish, so that a clock can be read."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _batches(
        self, build: BuildRows, count: int, run: Callable[[Tensor], Tensor], fixed: bool | None = None
    ) -> Iterator[Tensor]:
        """Run the model over rows 0 to count, halving the batch when memory runs out."""
        fixed = self.runner.fixed if fixed is None else fixed
        start = 0
        while start < count:
            stop = min(start + self.batch_size, count)
            try:
                found = run(build(start, stop))
            except (RuntimeError, MemoryError) as error:
                rows = self.batch_size if fixed else stop - start
                if not is_out_of_memory(error) or rows == 1:
                    raise
                self.batch_size = rows // 2
                continue
            self.scorer.rows += stop - start
            start = stop
            yield found

    def _forward(self, batch: Tensor) -> Float[Tensor, "batch outputs"]:
        # a copy: a model that begins in place must not overwrite the user's inputs
        return self._run_fast(batch.to(self.runner.dtype, copy=True, memory_format=self.runner.layout))

    def _run_fast(self, batch: Tensor) -> Float[Tensor, "batch outputs"]:
        """Run a plain forward pass on rows that the model may overwrite."""
        count = len(batch)
        if self.runner.fixed and count < self.batch_size:
            batch = self.runner.filled(batch, self.batch_size)
        if self.runner is self.plain or torch.is_inference_mode_enabled():
            return self._run(batch, self.runner)[:count]
        with torch.inference_mode():  # as in sessions without gradients, so that nothing is compiled twice
            found = self._run(batch, self.runner)[:count]
        return found.clone()  # an ordinary tensor, which gradients may meet

    def _run(self, batch: Tensor, runner: Runner) -> Float[Tensor, "batch outputs"]:
        with self.clocked():
            raw = runner.adapter(batch, self.kind)
        outputs = checked_outputs(raw, len(batch), self.device)
        if self.classes == 0:
            check_scale(outputs, self.scorer.adapter.returns, self.scorer.returns_was_said)
        return outputs


def _joined(batches: Iterator[Tensor]) -> Iterator[Float[Tensor, "rows outputs"]]:
    """Join the outputs of some batches: to make scores of few is to pay for many small operations."""
    held: list[Tensor] = []
    for batch in batches:
        held.append(batch)
        if sum(one.numel() for one in held) >= _JOINED:
            yield torch.cat(held)
            held = []
    if held:
        yield torch.cat(held)


def best_layout(inputs: Float[Tensor, "n *shape"], device: torch.device) -> torch.memory_format:
    """Channels last for images on a GPU, where convolutions are made for it."""
    return torch.channels_last if inputs.ndim == 4 and device.type == "cuda" else torch.preserve_format


def automatic_batch_size(row_elements: int, device: torch.device) -> int:
    """Rows per model call: large enough to keep the hardware busy, small enough for the caches or the memory."""
    if device.type == "cpu":
        return min(max(_CPU_ELEMENTS // row_elements, _CPU_ROWS[0]), _CPU_ROWS[1])
    fitting = min(max(_GPU_ELEMENTS // row_elements, _GPU_ROWS[0]), _GPU_ROWS[1])
    return 1 << (fitting.bit_length() - 1)


def checked_device(device: str | torch.device | None) -> torch.device | None:
    """Read a device, or say that torch does not know it."""
    try:
        return None if device is None else torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'device: expected a torch device such as "cpu" or "cuda", found {device!r}.') from None


def checked_batch_size(batch_size: int | None) -> int | None:
    """Refuse a batch size that is not a positive whole number."""
    if batch_size is None:
        return None
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size: expected a whole number of at least 1 or None, found {batch_size!r}.")
    return int(batch_size)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell an exhausted memory, of the device or of the machine, from any other failure."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("allocate memory" in text or "out of memory" in text)
