"""Typical rows: statistics of the background of which removed features can be replaced."""

from typing import Any

import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Bool, Shaped

STATISTICS = ("mean", "median", "mode", "zero")


def typical_row(
    statistic: str, inputs: Shaped[Tensor, "n *shape"], background: Any, codes: Bool[Tensor, "*shape"] | None = None
) -> Shaped[Tensor, "*shape"]:
    """One row that stands for the background, element by element; missing values are left out.

    Codes have no mean: theirs is the most frequent one.

    Args:
        statistic: ``"mean"``, ``"median"`` (of two middle values, their mean), ``"mode"`` (of equally frequent values,
            the smallest) or ``"zero"``.
        inputs: The rows of the call.
        background: Rows of training data.
        codes: Which elements are codes.

    Example:
        >>> rows = torch.tensor([[1.0, 3.0], [2.0, 3.0], [6.0, torch.nan]])
        >>> typical_row("mean", rows, rows), typical_row("mode", rows, rows)
        (tensor([3., 3.]), tensor([1., 3.]))
    """
    if statistic == "zero":
        return torch.zeros(inputs.shape[1:], dtype=inputs.dtype, device=inputs.device)
    if background is None:
        raise ValueError(f'baselines: "{statistic}" is one of the training data; pass background=train_inputs as well.')
    rows = as_tensor("background", background)
    if rows.shape[1:] != inputs.shape[1:] or len(rows) == 0:
        raise ValueError(
            f"background: expected rows like the inputs', of shape {tuple(inputs.shape[1:])}, got shape "
            f"{tuple(rows.shape)}."
        )
    rows = rows.to(inputs.device)
    if statistic == "mode" or (codes is not None and bool(codes.all())):
        return _modes(rows).to(inputs.dtype)
    amounts = rows.double()
    found = amounts.nanmean(0) if statistic == "mean" else _medians(amounts)
    if codes is not None:
        found = torch.where(codes, _modes(rows).double(), found)
    return found.to(inputs.dtype)


def spreads(background: Shaped[Tensor, "m *shape"]) -> Shaped[Tensor, "*shape"]:
    """Standard deviation of each element over the background, missing values left out."""
    rows = background.double()
    centred = rows - rows.nanmean(0)
    return centred.square().nanmean(0).sqrt()


def _medians(rows: Shaped[Tensor, "m *shape"]) -> Shaped[Tensor, "*shape"]:
    return (rows.nanmedian(0).values - (-rows).nanmedian(0).values) / 2


def _modes(rows: Shaped[Tensor, "m *shape"]) -> Shaped[Tensor, "*shape"]:
    """The most frequent value of each element; torch's own may choose a rarer one where NaN is about."""
    flat = rows.reshape(len(rows), -1)
    found = [_mode(flat[:, place]) for place in range(flat.shape[1])]
    return torch.stack(found).reshape(rows.shape[1:])


def _mode(column: Shaped[Tensor, " m"]) -> Shaped[Tensor, ""]:
    present = column[~column.isnan()] if column.is_floating_point() else column
    if len(present) == 0:
        return column[0]
    ordered = present.sort().values
    last = torch.cat(
        ((ordered[1:] != ordered[:-1]).nonzero()[:, 0], torch.tensor([len(ordered) - 1], device=ordered.device))
    )
    counts = torch.diff(last, prepend=last.new_tensor([-1]))
    return ordered[last[counts.argmax()]]
