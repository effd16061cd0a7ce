"""Outputs: from what a model returns to one score per class. Logits or probabilities, one output or many."""

import math
import warnings
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.scoring.adapters import Returns

Output = Literal["probability", "logit"]


def checked_output(output: str) -> None:
    """Refuse an unknown kind of score."""
    if output not in get_args(Output):
        raise ValueError(f'output: expected "probability" or "logit", found {output!r}.')


def checked_outputs(raw: object, rows: int, device: torch.device) -> Float[Tensor, "batch outputs"]:
    """Bring what a model returned to ``(batch, outputs)``, or say what is wrong with it."""
    if not isinstance(raw, Tensor | np.ndarray | list):
        raise TypeError(f"model: expected it to return an array of class scores, it returned {type(raw).__name__}.")
    try:
        outputs = torch.as_tensor(raw, device=device)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"model: expected it to return an array of class scores, it returned a list ({error})."
        ) from None
    wanted = f"({rows}, classes), or ({rows},) for one binary output"
    if outputs.ndim not in (1, 2) or outputs.shape[0] != rows or outputs.numel() == 0:
        raise ValueError(
            f"model: for a batch of {rows} rows it returned shape {tuple(outputs.shape)}; wanted is {wanted}."
        )
    if not outputs.is_floating_point():
        raise TypeError(f"model: expected floating-point class scores, it returned {outputs.dtype}; labels do not do.")
    if outputs.dtype in (torch.float16, torch.bfloat16):
        outputs = outputs.float()
    return outputs if outputs.ndim == 2 else outputs[:, None]


def class_scores(raw: Float[Tensor, "n outputs"], returns: Returns, output: Output) -> Float[Tensor, "n classes"]:
    """Turn raw outputs into one score per class; one output is a binary model (sigmoid(z), sigmoid(-z)).

    The logit of a probability is its log-odds. A forest that is sure says 0 or 1, whose logit is infinite, so
    probabilities are kept away from both by the resolution of their number format (float32: logits up to 15.9 in size).

    Example:
        >>> class_scores(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), "probabilities", "logit")[:, 1]
        tensor([15.9424,  0.0000])
    """
    if raw.shape[1] == 1:
        raw = torch.cat((-raw if returns == "logits" else 1 - raw, raw), dim=1)
        if returns == "logits" and output == "probability":
            return torch.sigmoid(raw)
    if returns == "logits":
        return raw if output == "logit" else torch.softmax(raw, dim=1)
    return raw if output == "probability" else torch.logit(raw, eps=torch.finfo(raw.dtype).eps)


def target_scores(
    raw: Float[Tensor, "n outputs"], target: Int[Tensor, " n"], returns: Returns, output: Output
) -> Float[Tensor, " n"]:
    """Pick the score of each row's target class."""
    return class_scores(raw, returns, output).gather(1, target[:, None])[:, 0]


def resolve_target(target: int | Tensor | None, class_scores: Float[Tensor, "n classes"]) -> Int[Tensor, " n"]:
    """Choose the class of each input: the predicted one unless given."""
    count, classes = class_scores.shape
    if target is None:
        return class_scores.argmax(1)
    wanted = torch.as_tensor(target, device=class_scores.device).expand(count)
    outside = ((wanted < 0) | (wanted >= classes)).nonzero()
    if len(outside):
        row = int(outside[0, 0])
        where = f" in row {row}" if isinstance(target, Tensor) else ""
        raise ValueError(
            f"target: class {int(wanted[row])}{where} does not exist; "
            f"the model has {classes} classes, 0 to {classes - 1}."
        )
    return wanted.contiguous()


def check_scale(outputs: Float[Tensor, "n outputs"], returns: Returns, said: bool) -> None:
    """Catch the classic mix-up of logits and probabilities at the first model call."""
    low, high = (float(bound) for bound in outputs.aminmax())
    inside = low >= -1e-6 and high <= 1 + 1e-6
    if returns == "probabilities":
        if not inside and math.isfinite(low + high):  # NaN is reported with its row
            raise ValueError(
                f"model: said to return probabilities, but returned values from {low:.4g} to {high:.4g}; "
                'if these are logits, wrap it: verax.Scorer(model, returns="logits").'
            )
    elif not said and inside and outputs.shape[1] > 1 and _rows_sum_to_one(outputs):
        warnings.warn(
            "The torch module is taken to return logits, but its outputs look like probabilities (in [0, 1], rows "
            'sum to 1). If they are, wrap it: verax.Scorer(model, returns="probabilities"); if they are logits, '
            'verax.Scorer(model, returns="logits") silences this.',
            stacklevel=2,
        )


def _rows_sum_to_one(outputs: Float[Tensor, "n outputs"]) -> bool:
    return bool(torch.all((outputs.sum(1) - 1).abs() < 1e-4))


def not_finite(scores: Tensor, row: int, what: str) -> str:
    """Say which row's score is not a finite number."""
    return f"model: expected finite class scores, it returned {scores.tolist()} for {what} {row}."
