"""Which class of a model is followed for each input, and its score: targets by number, label or as predicted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import as_tensor
from verax.core.shapes import Float, Int
from verax.scoring.adapters import Returns

Output = Literal["probability", "logit"]
Scale = Literal["probability", "logit", "log_odds"]


def checked_outputs(raw: object, rows: int, device: torch.device, returns: Returns) -> Float[Tensor, "batch outputs"]:
    """Bring what a model returned to ``(batch, outputs)``, or say what is wrong with it."""
    values = returns == "values"
    what = "values" if values else "class scores"
    if not isinstance(raw, Tensor | np.ndarray | list):
        raise TypeError(f"model: expected it to return an array of {what}, it returned {type(raw).__name__}.")
    try:
        outputs = torch.as_tensor(raw, device=device)
    except (TypeError, ValueError) as error:
        raise TypeError(f"model: expected it to return an array of {what}, it returned a list ({error}).") from None
    if outputs.ndim not in (1, 2) or outputs.shape[0] != rows or outputs.numel() == 0:
        many, single = ("outputs", "one value") if values else ("classes", "one binary output")
        raise ValueError(
            f"model: for a batch of {rows} rows it returned shape {tuple(outputs.shape)}; expected ({rows}, {many}), "
            f"or ({rows},) for {single}."
        )
    if values and not outputs.is_floating_point() and outputs.dtype != torch.bool and not outputs.is_complex():
        outputs = outputs.double()  # counts are values, too
    if not outputs.is_floating_point():
        raise TypeError(f"model: expected floating-point {what}, it returned {outputs.dtype}; labels do not do.")
    if outputs.dtype in (torch.float16, torch.bfloat16):
        outputs = outputs.float()
    return outputs if outputs.ndim == 2 else outputs[:, None]


def class_scores(raw: Float[Tensor, "n outputs"], returns: Returns, output: Scale) -> Float[Tensor, "n classes"]:
    """Turn raw outputs into one score per class; one output is a binary model (sigmoid(z), sigmoid(-z)).

    Values are scores as they are, whatever ``output`` says. The logit of a probability is its log-odds, with 0 and 1
    moved by the resolution of their number format, since both are infinite.
    """
    if returns == "values":
        return raw
    binary = raw.shape[1] == 1
    if binary:
        raw = torch.cat((-raw if returns == "logits" else 1 - raw, raw), dim=1)
        if returns == "logits" and output == "probability":
            return torch.sigmoid(raw)
    if returns == "logits":
        if output == "log_odds" and not binary:
            return _log_odds(raw)
        return torch.softmax(raw, dim=1) if output == "probability" else raw
    return raw if output == "probability" else torch.logit(raw, eps=torch.finfo(raw.dtype).eps)


def _log_odds(logits: Float[Tensor, "n classes"]) -> Float[Tensor, "n classes"]:
    """Each logit less the logsumexp of the others, exact for a class that is nearly certain as well."""
    top = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True)
    every = logits.logsumexp(1, keepdim=True)
    share = (logits - every).exp().scatter(1, top, 0.0)  # at most a half: the largest is computed apart
    rest = every + torch.log1p(-share)
    return logits - torch.where(torch.arange(logits.shape[1], device=logits.device) == top, others, rest)


def target_scores(
    raw: Float[Tensor, "n outputs"], target: Int[Tensor, " n"], returns: Returns, output: Scale
) -> Float[Tensor, " n"]:
    return class_scores(raw, returns, output).gather(1, target[:, None])[:, 0]


def predicted_classes(raw: Float[Tensor, "n outputs"], returns: Returns) -> Int[Tensor, " n"]:
    """The class of each row by what the model returns, so that no conversion can make or break a tie; of values, 0."""
    if returns == "values":
        return torch.zeros(len(raw), dtype=torch.int64, device=raw.device)
    return class_scores(raw, returns, "logit" if returns == "logits" else "probability").argmax(1)


def not_finite(scores: Tensor, row: int, what: str) -> str:
    return f"model: expected finite scores, it returned {scores.tolist()} for {what} {row}."


@dataclass(frozen=True)
class CleanOutputs:
    """What a model returned for rows that nothing was done to."""

    outputs: Float[Tensor, "n outputs"]  # its raw outputs
    predicted: Int[Tensor, " n"]  # the class that they mean

    def at(self, rows: Int[Tensor, " m"]) -> "CleanOutputs":
        chosen = rows.to(self.outputs.device)
        return CleanOutputs(self.outputs[chosen], self.predicted[chosen])


_SHOWN = 10  # labels of a message


@dataclass(frozen=True, eq=False)
class ClassNumbers:
    """Column numbers, one for all rows or one per row: never read as labels."""

    numbers: Int[Tensor, "..."]


Target = int | str | Tensor | tuple[str, ...] | ClassNumbers | None


def resolve_target(
    target: Target,
    predicted: Int[Tensor, " n"],
    classes: int,
    labels: Sequence[Any] | None = None,
    values: bool = False,
) -> Int[Tensor, " n"]:
    """Choose the column of each input: the predicted class unless given, a model's only value."""
    columns = numbers_of_target(target, labels)
    if columns is None:
        if values and classes > 1:
            named = f" ({_listed(labels)})" if labels is not None else ""
            raise ValueError(
                f"target: the model returns {classes} values for each row{named}; say which one to track, by its "
                f"number, 0 to {classes - 1}, or its name (verax.Scorer(model, labels=[...]) gives them names)."
            )
        return predicted
    followed = columns.numbers.to(predicted.device).expand(len(predicted))
    outside = ((followed < 0) | (followed >= classes)).nonzero()
    if len(outside):
        row = int(outside[0, 0])
        where = f" in row {row}" if columns.numbers.ndim else ""
        word, many = ("output", "outputs") if values else ("class", "classes")
        numbers = f"{classes} {many}, 0 to {classes - 1}" if classes > 1 else f"one {word}, number 0"
        raise ValueError(f"target: {word} {int(followed[row])}{where} does not exist; the model has {numbers}.")
    return followed.contiguous()


def numbers_of_target(target: Target, labels: Sequence[Any] | None) -> ClassNumbers | None:
    """The columns that a target means, or what is wrong with it; the model need not run for that."""
    if target is None or isinstance(target, ClassNumbers):
        return target
    if isinstance(target, str | tuple):
        return ClassNumbers(torch.as_tensor(_columns_by_label(target, labels)))
    _check_no_ambiguous(target, labels)
    return ClassNumbers(torch.as_tensor(target))


def check_labels(labels: Sequence[Any] | None, classes: int, values: bool = False) -> None:
    if labels is not None and len(labels) != classes:
        raise ValueError(
            f"labels: the model has {classes} {'outputs' if values else 'classes'}, got {len(labels)} labels "
            f"({_listed(labels)}); expected one for each, in the order of its outputs."
        )


def _columns_by_label(target: str | tuple[str, ...], labels: Sequence[Any] | None) -> int | Tensor:
    texts = (target,) if isinstance(target, str) else target
    if labels is None:
        raise ValueError(
            f"target: got the label {texts[0]!r}, but the model does not know its labels; pass column numbers, or "
            "say them: verax.Scorer(model, labels=[...]), in the order of its outputs."
        )
    floats = [(label, column) for column, label in enumerate(labels) if isinstance(label, float)]
    known = {str(label): column for column, label in enumerate(labels)}
    known |= {str(int(label)): column for label, column in floats if label.is_integer()}  # people write 1.0 as 1
    for row, text in enumerate(texts):
        if text not in known:
            where = "" if isinstance(target, str) else f" in row {row}"
            raise ValueError(f"target: the model has no label {text!r}{where}; its labels are {_listed(labels)}.")
    places = torch.tensor([known[text] for text in texts])
    return int(places[0]) if isinstance(target, str) else places


def _check_no_ambiguous(target: int | Tensor, labels: Sequence[Any] | None) -> None:
    """A number is a column number; where labels are other numbers, it may have been meant as a label."""
    try:
        numbers = [float(label) for label in labels or ()]
    except (TypeError, ValueError):  # some label is no number, nor spells one
        return
    if labels is None or not all(map(math.isfinite, numbers)) or numbers == list(range(len(numbers))):
        return
    mapping = ", ".join(f"label {label} is column {column}" for column, label in enumerate(labels[:_SHOWN]))
    more = ", ..." if len(labels) > _SHOWN else ""
    first = target if isinstance(target, int) else int(target.reshape(-1)[0])
    raise ValueError(
        f"target: {first} may be a label or a column number, and they differ here: {mapping}{more}. "
        f'Pass the label as text, such as target="{labels[0]}"; for one per row, [str(label) for label in labels].'
    )


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(str(label) for label in labels[:_SHOWN])
    return f"{shown}, ..." if len(labels) > _SHOWN else shown


def checked_target(target: Any, count: int) -> Target:
    """Read a target: None, a column number, a label as text, or one of them per row."""
    if target is None or isinstance(target, ClassNumbers):
        return target
    read: str | int | Tensor | tuple[str, ...] | None = _texts(target)
    if read is None:
        tensor = as_tensor("target", target)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(
                "target: expected None, a class number, a label as text, or one of them per row, "
                f"got numbers of type {tensor.dtype}."
            )
        if len(negative := (tensor.reshape(-1) < 0).nonzero()):
            row = int(negative[0, 0])
            where = f" in row {row}" if tensor.ndim else ""
            raise ValueError(f"target: class {int(tensor.reshape(-1)[row])}{where} does not exist; numbers start at 0.")
        read = tensor.to(torch.int64) if tensor.ndim else int(tensor)
    shape = tuple(read.shape) if isinstance(read, Tensor) else (len(read),) if isinstance(read, tuple) else (count,)
    if shape != (count,):
        raise ValueError(f"target: expected one class per row, shape ({count},), got shape {shape}.")
    return read


def _texts(target: Any) -> str | tuple[str, ...] | None:
    """Labels given as text, one or one per row; None where they are not text."""
    if isinstance(target, str):
        return str(target)
    if isinstance(target, int | Tensor):
        return None
    array = np.asarray(target)
    labels = array.reshape(-1).tolist()
    text = array.dtype.kind in "OUT" and all(isinstance(label, str) for label in labels)
    if array.ndim > 1 or not labels or not text:
        return None
    return str(labels[0]) if array.ndim == 0 else tuple(labels)


def target_of_rows(target: Any, rows: Any, count: int) -> Any:
    """The class of some of the rows, where there is one for each."""
    if isinstance(target, ClassNumbers):
        return ClassNumbers(target.numbers[torch.as_tensor(rows)]) if target.numbers.ndim else target
    if not hasattr(target, "__len__") or isinstance(target, str):
        return target
    if len(target) != count:
        raise ValueError(f"target: expected one class, or one for each of {count} rows, got {len(target)}.")
    if isinstance(target, Tensor):
        return target[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
    chosen = np.asarray(target)[rows]
    return tuple(chosen.tolist()) if isinstance(target, tuple) else chosen
