"""Evaluations cut and joined along their rows: the results of some inputs from those of others."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from verax.evaluation.result import Evaluation
from verax.metrics.base import Metric
from verax.metrics.result import Context, Result
from verax.scoring.meter import Cost, Rows


def part_of(evaluation: Evaluation, rows: slice) -> Evaluation:
    """The results of some inputs; of what the call cost, their share.

    Example:
        >>> import verax
        >>> x = torch.randn(5, 3)
        >>> part = part_of(verax.evaluate(verax.Problem(torch.nn.Linear(3, 2), x), x, ["pc"]), slice(1, 4))
        >>> part["pc"].value.shape, part["pc"].morf.shape, part.rows
        (torch.Size([3]), torch.Size([3, 4]), 18)
    """
    whole = evaluation.inputs
    start, stop = int(rows.start), int(rows.stop)
    if start == 0 and stop == whole:
        return evaluation

    def share(cost: int) -> int:  # rounded so that the shares of all parts add up
        return cost * stop // whole - cost * start // whole

    def cut(tensors: list[Tensor]) -> Tensor:
        (one,) = tensors
        return one[rows] if one.ndim == 1 else one[:, rows]

    part = (stop - start) / whole
    results = {
        name: _rebuilt([result], cut, share(result.rows), part * result.seconds) for name, result in evaluation.items()
    }
    rows_spent = Rows(share(evaluation.rows), share(evaluation.rows_backward))
    return Evaluation(results, Cost(rows_spent, part * evaluation.seconds))


def joined(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The results of several calls with the same metrics as those of one, in their order."""
    if len(evaluations) == 1:
        return evaluations[0]

    def joint(tensors: list[Tensor]) -> Tensor:
        return torch.cat(tensors, dim=0 if tensors[0].ndim == 1 else 1)

    results = {}
    for name in evaluations[0]:
        parts = [one[name] for one in evaluations]
        rows, seconds = sum(one.rows for one in parts), sum(one.seconds for one in parts)
        results[name] = _rebuilt(parts, joint, rows, seconds)
    forward, backward = sum(one.rows for one in evaluations), sum(one.rows_backward for one in evaluations)
    return Evaluation(results, Cost(Rows(forward, backward), sum(one.seconds for one in evaluations)))


def _rebuilt(results: list[Any], change: Callable[[list[Tensor]], Tensor], rows: int, seconds: float) -> Any:
    found = _changed(results, change, f"results of {results[0].metric.name}", results[0].scores.shape[1])
    return replace(found, context=replace(found.context, rows=rows, seconds=seconds))


def _changed(parts: list[Any], change: Callable[[list[Tensor]], Tensor], where: str, count: int) -> Any:
    """Change all that is held per input, by the rule of results: ``(n,)``, or ``(k, n, ...)``."""
    first = parts[0]
    if isinstance(first, Tensor):
        if first.shape[first.ndim > 1] != count:
            raise TypeError(
                f"{where}: expected tensors of shape (inputs,) or (attributions, inputs, ...) in a result that is cut "
                f"into parts, got {tuple(first.shape)}."
            )
        return change(parts)
    if isinstance(first, Metric) or not (isinstance(first, Result | Context) or _holds_tensors(first)):
        return first
    held = {
        field.name: _changed([getattr(part, field.name) for part in parts], change, f"{where}, {field.name}", count)
        for field in fields(first)
        if field.init
    }
    return replace(first, **held)


def _holds_tensors(value: Any) -> bool:
    """Whether something is a record of tensors, such as the curves of an experiment."""
    if isinstance(value, type) or not is_dataclass(value):
        return False
    return any(isinstance(getattr(value, field.name), Tensor) for field in fields(value))
