"""Baselines, what removed features are replaced by: numbers, arrays, or statistics of the background."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Int, Shaped

STATISTICS = ("mean", "median", "mode", "zero")


def typical_row(
    statistic: str, inputs: Shaped[Tensor, "n *shape"], background: Any, codes: Bool[Tensor, "*shape"] | None = None
) -> Shaped[Tensor, "*shape"]:
    """One row that stands for the background, by element, missing values left out; of codes the most frequent one."""
    if statistic not in STATISTICS:
        listed = ", ".join(f'"{known}"' for known in STATISTICS)
        raise ValueError(f"baselines: expected a number, an array or one of {listed}, got {statistic!r}.")
    if statistic == "zero":
        return torch.zeros(inputs.shape[1:], dtype=inputs.dtype, device=inputs.device)
    if background is None:
        raise ValueError(f'baselines: "{statistic}" is one of the training data; pass background=train_inputs as well.')
    rows = _rows_like(inputs, background).to(inputs.device)
    if statistic == "mode" or (codes is not None and bool(codes.all())):
        return _modes(rows).to(inputs.dtype)
    amounts = rows.double()
    medians = (amounts.nanmedian(0).values - (-amounts).nanmedian(0).values) / 2  # of both in the middle
    row = amounts.nanmean(0) if statistic == "mean" else medians
    return (row if codes is None else torch.where(codes, _modes(rows).double(), row)).to(inputs.dtype)


def _rows_like(inputs: Shaped[Tensor, "n *shape"], background: Any) -> Shaped[Tensor, "m *shape"]:
    rows = as_tensor("background", background)
    if rows.shape[1:] != inputs.shape[1:] or len(rows) == 0:
        raise ValueError(
            f"background: expected rows like the inputs', shape (M, {str(tuple(inputs.shape[1:]))[1:]}, "
            f"got shape {tuple(rows.shape)}."
        )
    return rows


def spreads(background: Shaped[Tensor, "m *shape"]) -> Shaped[Tensor, "*shape"]:
    """Standard deviation of each element over the background, missing values left out."""
    rows = background.double()
    centred = rows - rows.nanmean(0)
    return centred.square().nanmean(0).sqrt()


def _modes(rows: Shaped[Tensor, "m *shape"]) -> Shaped[Tensor, "*shape"]:
    """The most frequent value of each element, the smallest of several; torch's own fails where NaN is about."""
    modes = []
    for column in rows.reshape(len(rows), -1).unbind(1):
        present = column[~column.isnan()] if column.is_floating_point() else column
        values, counts = torch.unique(present, return_counts=True)
        modes.append(values[counts.argmax()] if len(values) else column[0])
    return torch.stack(modes).reshape(rows.shape[1:])


def baseline_tensor(
    baselines: object,
    inputs: Tensor,
    *,
    missing: bool = False,
    background: Any = None,
    codes: Bool[Tensor, "*shape"] | None = None,
) -> Tensor:
    """Read the ``baselines`` argument, in the inputs' precision; a view where possible, so a number costs no memory."""
    if isinstance(baselines, bool) or callable(baselines):
        raise TypeError(f"baselines: expected a number or an array, got {baselines!r}.")
    if baselines is None:
        if not inputs.is_floating_point():
            raise ValueError(
                "baselines: categories have no usual one (0 may be one like any other); pass baselines=..."
            )
        baselines = 0.0
    if isinstance(baselines, str):
        baselines = typical_row(baselines, inputs, background, codes)
    tensor = as_tensor("baselines", _exact(baselines) if isinstance(baselines, int | float) else baselines)
    if tensor.is_complex():
        raise TypeError(f"baselines: expected real numbers, got {tensor.dtype}.")
    if not (torch.isfinite(tensor) | (tensor.isnan() & missing)).all():
        hint = "; if the model takes missing values: verax.Scorer(model, takes_missing=True)" * (not missing)
        raise ValueError(f"baselines: expected finite numbers, got NaN or infinity{hint}.")
    kept = tensor.to(inputs.device, inputs.dtype)
    if not inputs.is_floating_point() and not torch.equal(kept.double(), tensor.to(inputs.device).double()):
        raise TypeError("baselines: the inputs are whole numbers, got others; pass a code.")
    if torch.isinf(kept).any():
        largest = float(tensor.double().abs().max())
        raise ValueError(
            f"baselines: {largest:g} is too large for inputs of {inputs.dtype}; pass inputs of torch.float64, or a "
            f"baseline of at most {torch.finfo(inputs.dtype).max:.3g}."
        )
    try:
        return kept.expand(inputs.shape)
    except RuntimeError:
        raise ValueError(
            f"baselines: shape {tuple(tensor.shape)} does not broadcast to the inputs' shape {tuple(inputs.shape)}."
        ) from None


def _exact(number: int | float) -> Tensor:
    """A Python number in its own precision; torch would round it to its default type."""
    try:
        return torch.tensor(float(number), dtype=torch.float64)
    except OverflowError:
        raise ValueError("baselines: expected a number that float64 can hold, got a larger one.") from None


def differs(
    inputs: Shaped[Tensor, "*#shape"], baselines: Shaped[Tensor, "*#shape"], missing: bool
) -> Bool[Tensor, "*shape"]:
    """Where a value is not its baseline; ``missing`` says whether some are NaN, which equals itself here."""
    different = inputs != baselines
    return different & ~(inputs.isnan() & baselines.isnan()) if missing else different


def replaced(
    inputs: Shaped[Tensor, "*#shape"],
    baselines: Shaped[Tensor, "*#shape"],
    mask: Shaped[Tensor, "*#shape"],
    *,
    chosen: bool,
) -> Shaped[Tensor, "*shape"]:
    """Take the baseline where the mask, of truth values or of ones and zeros, says so, exactly."""
    if chosen:
        return torch.where(mask.bool(), baselines, inputs)
    # with weights 0 and 1 one of the ends, unless their difference overflows, and on a CPU much faster than ``where``,
    # whose branches it cannot predict
    return torch.lerp(inputs, baselines, mask.to(inputs.dtype))


def must_choose(inputs: Shaped[Tensor, "..."], baselines: Shaped[Tensor, "..."]) -> bool:
    """Whether some difference might overflow, is of NaN or of whole numbers; on a GPU always: to know is to wait."""
    if inputs.device.type != "cpu" or not inputs.is_floating_point():
        return True
    ends = torch.stack((*inputs.aminmax(), *baselines.aminmax())).abs()
    return not bool((ends <= torch.finfo(inputs.dtype).max / 4).all())


def baseline_words(baselines: object) -> str:
    """What removed features become, as people read it."""
    if baselines is None or (isinstance(baselines, str) and baselines == "zero"):
        return "0"
    if isinstance(baselines, str):
        return f"{baselines} of the background"
    return f"{baselines:g}" if isinstance(baselines, int | float) else "given values"


def checked_background(
    background: Any, labels: Any, inputs: Shaped[Tensor, "n *shape"], missing: bool = False
) -> tuple[Shaped[Tensor, "m *shape"] | None, Int[Tensor, " m"] | None]:
    """Read background rows and their classes, or say what is wrong with them; ``missing`` allows NaN."""
    if background is None:
        if labels is not None:
            raise ValueError("background_labels: given without background; pass background=train_inputs as well.")
        return None, None
    rows = _rows_like(inputs, background)
    if inputs.is_floating_point() and not rows.is_floating_point():
        raise TypeError(f"background: expected floating-point numbers, got {rows.dtype}.")
    if not (torch.isfinite(rows) | (rows.isnan() & missing)).all():
        raise ValueError("background: expected finite numbers, got NaN or infinity.")
    if labels is None:
        return rows, None
    classes = as_tensor("background_labels", labels)
    if classes.is_floating_point() or tuple(classes.shape) != (len(rows),):
        raise ValueError(
            f"background_labels: expected one whole number per background row, shape ({len(rows)},), "
            f"got {classes.dtype} of shape {tuple(classes.shape)}."
        )
    return rows, classes.to(torch.int64)
