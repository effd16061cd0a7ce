"""Baselines: what a removed feature is replaced by."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Shaped
from verax.problem.typical_rows import STATISTICS, typical_row


def baseline_tensor(
    baselines: object,
    inputs: Tensor,
    *,
    missing: bool = False,
    background: Any = None,
    codes: Bool[Tensor, "*shape"] | None = None,
) -> Tensor:
    """Read the ``baselines`` argument: a number or anything that broadcasts to the inputs, one baseline each included.

    The result is a view wherever possible, so a scalar baseline costs no memory. It has the inputs' precision: a number
    that the inputs can hold is that very number.

    Args:
        baselines: What the user said; None for 0.
        inputs: The rows.
        missing: Whether NaN is allowed.
        background: Rows of which ``"mean"``, ``"median"`` or ``"mode"`` are meant.
        codes: Which elements of a row are codes.
    """
    if isinstance(baselines, bool) or callable(baselines):
        raise TypeError(f"baselines: expected a number or an array, got {baselines!r}.")
    if baselines is None:
        if not inputs.is_floating_point():
            raise ValueError(
                "baselines: categories have no usual one (0 may be one like any other); pass baselines=..."
            )
        baselines = 0.0
    if isinstance(baselines, str):
        baselines = typical_row(_checked_statistic(baselines), inputs, background, codes)
    given = as_tensor("baselines", _exact(baselines) if isinstance(baselines, int | float) else baselines)
    if given.is_complex():
        raise TypeError(f"baselines: expected real numbers, got {given.dtype}.")
    if not (torch.isfinite(given) | (given.isnan() & missing)).all():
        hint = "; if the model takes missing values: verax.Scorer(model, takes_missing=True)" * (not missing)
        raise ValueError(f"baselines: expected finite numbers, got NaN or infinity{hint}.")
    kept = given.to(inputs.device, inputs.dtype)
    if not inputs.is_floating_point() and not torch.equal(kept.double(), given.to(inputs.device).double()):
        raise TypeError("baselines: the inputs are whole numbers, got others; pass a code.")
    if torch.isinf(kept).any():
        largest = float(given.double().abs().max())
        raise ValueError(
            f"baselines: {largest:g} is too large for inputs of {inputs.dtype}; pass inputs of torch.float64, or a "
            f"baseline of at most {torch.finfo(inputs.dtype).max:.3g}."
        )
    try:
        return kept.expand(inputs.shape)
    except RuntimeError:
        raise ValueError(
            f"baselines: shape {tuple(given.shape)} does not broadcast to the inputs' shape {tuple(inputs.shape)}."
        ) from None


def _exact(number: int | float) -> Tensor:
    """A Python number in its own precision; torch would round it to its default type."""
    try:
        return torch.tensor(float(number), dtype=torch.float64)
    except OverflowError:
        raise ValueError("baselines: expected a number that float64 can hold, got a larger one.") from None


def _checked_statistic(word: str) -> str:
    if word not in STATISTICS:
        listed = ", ".join(f'"{one}"' for one in STATISTICS)
        raise ValueError(f"baselines: expected a number, an array or one of {listed}, got {word!r}.")
    return word


def differs(
    inputs: Shaped[Tensor, "*#shape"], baselines: Shaped[Tensor, "*#shape"], missing: bool
) -> Bool[Tensor, "*shape"]:
    """Where a value is not its baseline; ``missing`` says whether some are NaN, which equals itself here."""
    found = inputs != baselines
    return found & ~(inputs.isnan() & baselines.isnan()) if missing else found


def replaced(
    inputs: Shaped[Tensor, "*#shape"],
    baselines: Shaped[Tensor, "*#shape"],
    mask: Shaped[Tensor, "*#shape"],
    *,
    chosen: bool,
) -> Shaped[Tensor, "*shape"]:
    """Take the baseline where the mask, of truth values or of ones and zeros, says so, exactly.

    With weights 0 and 1 ``lerp`` gives one of its ends, unless their difference overflows. A CPU does that much faster
    than ``where``, whose branches it cannot predict.

    Args:
        inputs: Where the mask is 0.
        baselines: Where the mask is 1.
        mask: Which of both.
        chosen: Whether to choose with ``where``; ask ``must_choose`` once for many rows of the same inputs.

    Example:
        >>> x, b = torch.tensor([[0.1, 0.2]]), torch.tensor([[0.3, 0.4]])
        >>> replaced(x, b, torch.tensor([[True, False]]), chosen=must_choose(x, b))
        tensor([[0.3000, 0.2000]])
    """
    if chosen:
        return torch.where(mask.bool(), baselines, inputs)
    return torch.lerp(inputs, baselines, mask.to(inputs.dtype))


def must_choose(inputs: Shaped[Tensor, "..."], baselines: Shaped[Tensor, "..."]) -> bool:
    """Whether some difference might overflow, is of NaN or of whole numbers; on a GPU always: to know is to wait."""
    if inputs.device.type != "cpu" or not inputs.is_floating_point():
        return True
    ends = torch.stack((*inputs.aminmax(), *baselines.aminmax())).abs()
    return not bool((ends <= torch.finfo(inputs.dtype).max / 4).all())


def baseline_words(baselines: object) -> str:
    """What removed features become, as people read it.

    Example:
        >>> baseline_words("mean"), baseline_words(0.5), baseline_words(torch.ones(3))
        ('mean of the background', '0.5', 'given values')
    """
    if baselines is None or (isinstance(baselines, str) and baselines == "zero"):
        return "0"
    if isinstance(baselines, str):
        return f"{baselines} of the background"
    return f"{baselines:g}" if isinstance(baselines, int | float) else "given values"
