"""Scorer: the one place that runs a model. Batches, device, mode, precision and the count of rows live here."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from verax.core.arguments import checked_choice, checked_count
from verax.core.arrays import ArrayKind, as_tensor
from verax.core.blocks import chunk_size
from verax.core.shapes import Shaped
from verax.scoring import adapters
from verax.scoring.adapters import Adapter, Returns
from verax.scoring.adapters.base import RowArguments, Shortens
from verax.scoring.adapters.function import PlainCallable
from verax.scoring.adapters.onnx import OnnxModel
from verax.scoring.adapters.torch_module import TorchModule, numbers_of
from verax.scoring.class_scores import Scale, Target, numbers_of_target
from verax.scoring.inference import (
    DTYPES,
    Inference,
    Precision,
    Runner,
    gradients_off,
    one_thread_at_a_time,
    ready,
    single_precision,
)
from verax.scoring.meter import Counts
from verax.scoring.output_checks import OutputKindCheck
from verax.scoring.session import Session

# Rows per batch are chosen from the size of a row alone, never from a clock or from free memory: the same call
# then runs the same batches and returns the same bits. On a CPU 1,024 to 2,048 rows of tables and 64 images of
# 3 x 64 x 64 are the best batches of benchmarks/guided.py. On a GPU a batch is a power of two, which fills its tiles
# and fits LIME's samples: 1,024 images of 3 x 224 x 224.
_CPU_ELEMENTS, _CPU_ROWS = 3 << 18, (8, 2048)
_GPU_ELEMENTS, _GPU_ROWS = 1 << 28, (32, 65536)


class Scorer:
    """A model with what is needed to score rows with it; every metric accepts one as ``model``.

    Args:
        model: A ``torch.nn.Module``, a fitted scikit-learn classifier or regressor, an object that satisfies
            ``verax.adapters.Adapter``, or a callable from a batch to scores with one row per input: ``(B,)`` or
            ``(B, 1)`` for a binary model with one output or a single value, ``(B, classes)`` otherwise.
        returns: ``"logits"``, ``"probabilities"``, or ``"values"`` for numbers that are no class scores, such as a
            regressor's: they are followed as they are, in their own unit. A torch module is taken to return logits (one
            with a single output should say what it is), a scikit-learn classifier probabilities, a regressor values; an
            ONNX model is judged by its values for the first rows; a plain callable must say. Logits of probabilities
            are log-odds, with 0 and 1 moved by the resolution of their number format, so that models that are sure can
            be explained.
        score: A function from what the model returns, whatever that is, to one number per row, ``(B,)``, or several,
            ``(B, outputs)``: a margin, an overlap, one component of a vector. It must be differentiable for methods
            that need gradients. What it gives is taken for values unless ``returns`` says otherwise.
        takes: ``"torch"`` or ``"numpy"``, for a plain callable that wants one kind of array whatever the inputs are.
        batch_size: Rows per model call; found automatically when left out, halved when memory runs out.
        device: Where to run. A module is moved there for the call and moved back afterwards.
        precision: In what precision a torch module runs on a GPU: ``"float32"`` (exact), ``"tf32"``, ``"bfloat16"`` or
            ``"float16"`` (the faster, the less exact; of the two last, float16 is the more exact). None leaves torch's
            settings alone. Scores are computed from the outputs in single precision at least, and a class that half
            precision leaves undecided is predicted in exact single precision, by a few rows that are not counted.
        compile: Whether to use ``torch.compile``. It costs seconds at the first call and gains most on a GPU; partial
            batches are filled up, so that it happens once. Keep the Scorer: another one compiles again.
        trust: Whether a ``.pt2`` file may be opened: torch runs code that such a file holds. Say True only of files
            whose maker you trust; ``.onnx`` files run nothing and need no trust.
        feature_names: Names of the columns in the model's order, where it does not know them itself. Data frames are
            put in this order by name.
        takes_missing: Whether the model takes NaN, where it does not know itself; trees that do are known.
        labels: Names of the classes, or of the values, in the order of the outputs, where the model does not know them
            itself; ``target`` takes them as text.

    Threads may share a Scorer, or a torch module in Scorers of their own: their calls take turns, and ``rows`` of a
    result are those of its own call (``docs/how-to/add-a-model.md`` says what else threads may share).

    A torch module scores two rows more than are counted, the first time: the first input again, to see that neither
    chance nor the rows beside it change its score.

    With a precision or ``compile``, plain forward passes run on a copy of the module, made anew for every call, whose
    batch norms are folded into the convolutions and linear layers before them; on a CPU that alone is what
    ``"float32"`` does. The copy is compared with the module on the first eight rows, and not folded where it differs.
    Gradients are always taken through the module itself.

    Example:
        >>> import torch, verax
        >>> scorer = verax.Scorer(lambda x: torch.sigmoid(x.sum(1)), returns="probabilities")
        >>> x = torch.randn(5, 20, generator=torch.Generator().manual_seed(0))
        >>> result = verax.metrics.PredictionChange()(verax.Problem(scorer, x), x)
        >>> scorer.rows == result.rows == 5 * 40
        True
    """

    def __init__(
        self,
        model: object,
        *,
        returns: Returns | None = None,
        score: Callable[[Any], Any] | None = None,
        takes: ArrayKind | None = None,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        precision: Precision | None = None,
        compile: bool = False,  # noqa: A002  # torch's own name for it
        trust: bool = False,
        feature_names: Sequence[str] | None = None,
        labels: Sequence[Any] | None = None,
        takes_missing: bool | None = None,
    ) -> None:
        if isinstance(model, Scorer):
            raise TypeError("model: already a verax.Scorer; pass it on as it is.")
        if precision is not None:
            checked_choice("precision", precision, tuple(DTYPES))
        self.adapter: Adapter = adapters.adapt(model, returns, takes, trust, score)
        self.inference = Inference(self.adapter, precision, compile)
        self.output_kind_check = OutputKindCheck(self.adapter, stated=returns is not None or score is not None)
        self.labels = None if labels is None else tuple(labels)
        self._takes_missing = takes_missing
        self._feature_names = None if feature_names is None else tuple(feature_names)
        self.batch_size = checked_batch_size(batch_size)
        self.device = checked_device(device)
        self.reopened: functools.partial[Scorer] | None = None  # opens a scorer of a file again, in another process
        self._counts: dict[int, Counts] = {}  # by thread

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A scorer of a file is opened anew where it is unpickled; what the first rows have decided goes with it."""
        if self.reopened is None:
            return super().__reduce_ex__(protocol)
        decided = {"returns": self.adapter.returns} if getattr(self.adapter, "decided", True) else {}
        return functools.partial(self.reopened, **decided), ()

    @property
    def counts(self) -> Counts:
        """What the calling thread has done so far, so that the cost of a call is that of this call alone."""
        return self._counts.setdefault(threading.get_ident(), Counts())

    def _all(self, count: str) -> Any:
        return sum(getattr(counts, count) for counts in list(self._counts.values()))

    @property
    def rows(self) -> int:
        """Model rows evaluated so far, over all calls."""
        return int(self._all("rows"))

    @property
    def rows_backward(self) -> int:
        """Rows through which gradients were taken so far."""
        return int(self._all("rows_backward"))

    @property
    def rows_spared(self) -> int:
        """Rows asked for that were not evaluated, because an identical one was."""
        return int(self._all("rows_spared"))

    @property
    def model_seconds(self) -> float:
        """Wall clock inside the model so far; only on a CPU, where calls return when they are done."""
        return float(self._all("model_seconds"))

    @property
    def differentiable(self) -> bool:
        """Whether gradients can be taken through the model: it is a torch module."""
        return self.adapter.module is not None

    def check_target(self, target: Target) -> None:
        """Raise for what is known to be no class or value of the model before it runs."""
        labels = adapters.labels_of(self.adapter) if self.labels is None else self.labels
        if labels is not None or not isinstance(self.adapter, OnnxModel):  # which may tell them as it runs
            numbers_of_target(target, labels)

    @property
    def takes_missing(self) -> bool:
        """Whether the model is known to take NaN."""
        known = bool(getattr(self.adapter, "takes_missing", False))
        return known if self._takes_missing is None else self._takes_missing

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns in the model's order, if they are known."""
        return self._feature_names or adapters.feature_names_of(self.adapter)

    def __repr__(self) -> str:
        return f"Scorer({type(self.adapter).__name__}, returns={self.adapter.returns!r}, rows={self.rows})"

    def rows_per_call(
        self, inputs: Shaped[Tensor, "n *shape"], batch_size: int | None, device: str | torch.device | None
    ) -> int:
        """Rows of a model call in a session with such inputs: as the call says, or this Scorer, or automatic."""
        place = checked_device(device) or self.device or adapters.home(self.adapter, fallback=inputs.device)
        elements = inputs[0].numel()
        if not inputs.is_floating_point():  # ids, which a model turns into many numbers each
            elements = numbers_of(self.adapter.module, elements)
        return checked_batch_size(batch_size) or self.batch_size or automatic_batch_size(elements, place)

    def chunk_size(self, inputs: Any, batch_size: int | None, device: str | torch.device | None) -> int:
        """Inputs after which a session with such inputs cuts its work anew (``verax.core.blocks.chunk_size``)."""
        row = as_tensor("inputs", inputs[:1])
        row = row if row.is_floating_point() else row.long()
        return chunk_size(self.rows_per_call(row, batch_size, device), row.nbytes)

    @contextlib.contextmanager
    def session(
        self,
        inputs: Tensor,
        kind: ArrayKind,
        output: Scale,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        gradients: bool = False,
        row_arguments: RowArguments | None = None,
    ) -> Iterator[Session]:
        """Hold the model ready on its device; with ``gradients`` these are merely off until somebody takes some."""
        module = self.adapter.module
        if row_arguments is not None and not isinstance(self.adapter, TorchModule | PlainCallable):
            named = ", ".join(row_arguments.model_kwargs) or row_arguments.key or "collate"
            raise TypeError(
                f"model_kwargs: a model behind {type(self.adapter).__name__} takes rows alone, got {named}; "
                "wrap it into a function: verax.Scorer(lambda values, ...: ..., returns=...)."
            )
        if row_arguments is not None and isinstance(row_arguments.collate, Shortens):
            row_arguments.collate.check_model(module, inputs, row_arguments.model_kwargs)
        with contextlib.ExitStack() as held:
            held.enter_context(one_thread_at_a_time(module, self))  # before its state is looked at
            home = adapters.home(self.adapter, fallback=inputs.device)
            place = checked_device(device) or self.device or home
            dtype, layout = inputs.dtype, best_layout(inputs, place)
            if dtype.is_floating_point:  # whole numbers, such as ids of tokens, are taken as they are
                dtype = adapters.floating_dtype(self.adapter, fallback=dtype)
            size = self.rows_per_call(inputs, batch_size, device)
            held.enter_context(ready(module, home, place, layout))
            beside = None if row_arguments is None else row_arguments.on(place)
            plain = Runner(self.adapter, dtype, layout)
            runner = self.inference.runner(plain, inputs, place, beside)
            held.enter_context(single_precision(self.inference.precision))
            held.enter_context(gradients_off() if gradients else torch.inference_mode())
            looks = (self.output_kind_check, self.labels, beside)
            session = Session(self.counts, kind, output, place, dtype, size, runner, plain, *looks)
            yield session
            session.settle()


def scorer_of(model: Any) -> Scorer:
    """The model itself, if it is a Scorer; otherwise one with default settings."""
    return model if isinstance(model, Scorer) else Scorer(model)


def best_layout(inputs: Shaped[Tensor, "n *shape"], device: torch.device) -> torch.memory_format:
    return torch.channels_last if inputs.ndim == 4 and device.type == "cuda" else torch.preserve_format


def automatic_batch_size(row_elements: int, device: torch.device) -> int:
    """Rows per model call: large enough to keep the hardware busy, small enough for the caches or the memory."""
    if device.type == "cpu":
        return min(max(_CPU_ELEMENTS // row_elements, _CPU_ROWS[0]), _CPU_ROWS[1])
    fitting = min(max(_GPU_ELEMENTS // row_elements, _GPU_ROWS[0]), _GPU_ROWS[1])
    return 1 << (fitting.bit_length() - 1)


def checked_device(device: str | torch.device | None, name: str = "device") -> torch.device | None:
    """Read a device, or say that torch does not know it, or finds none here."""
    if device is None:
        return None
    try:
        place = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'{name}: expected a torch device such as "cpu" or "cuda", got {device!r}.') from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place.type == "cuda" and (place.index or 0) >= count:
        available = f"only {count}, from cuda:0" if count else "no CUDA device; use cpu"
        raise ValueError(f"{name}: expected a device of this machine, got {device}; torch finds {available}.")
    if place.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError(f"{name}: expected a device of this machine, got {device}; use cpu.")
    return place


def checked_batch_size(batch_size: int | None) -> int | None:
    return None if batch_size is None else checked_count("batch_size", batch_size)
