"""Outputs: from what a model returns to one score per class or value. One output or many."""

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


def checked_outputs(raw: object, rows: int, device: torch.device, returns: Returns) -> Float[Tensor, "batch outputs"]:
    """Bring what a model returned to ``(batch, outputs)``, or say what is wrong with it."""
    if not isinstance(raw, Tensor | np.ndarray | list):
        raise TypeError(f"model: expected it to return an array of {_what(returns)}, it returned {type(raw).__name__}.")
    try:
        outputs = torch.as_tensor(raw, device=device)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"model: expected it to return an array of {_what(returns)}, it returned a list ({error})."
        ) from None
    single = "one value" if returns == "values" else "one binary output"
    wanted = f"({rows}, {'outputs' if returns == 'values' else 'classes'}), or ({rows},) for {single}"
    if outputs.ndim not in (1, 2) or outputs.shape[0] != rows or outputs.numel() == 0:
        raise ValueError(
            f"model: for a batch of {rows} rows it returned shape {tuple(outputs.shape)}; wanted is {wanted}."
        )
    if returns == "values" and outputs.dtype != torch.bool and not outputs.is_complex():
        outputs = outputs if outputs.is_floating_point() else outputs.double()  # counts are values, too
    if not outputs.is_floating_point():
        raise TypeError(
            f"model: expected floating-point {_what(returns)}, it returned {outputs.dtype}; labels do not do."
        )
    if outputs.dtype in (torch.float16, torch.bfloat16):
        outputs = outputs.float()
    return outputs if outputs.ndim == 2 else outputs[:, None]


def class_scores(raw: Float[Tensor, "n outputs"], returns: Returns, output: Output) -> Float[Tensor, "n classes"]:
    """Turn raw outputs into one score per class; one output is a binary model (sigmoid(z), sigmoid(-z)).

    Values are scores as they are: no sigmoid, no second class, whatever ``output`` says.

    The logit of a probability is its log-odds. A forest that is sure says 0 or 1, whose logit is infinite, so
    probabilities are kept away from both by the resolution of their number format (float32: logits up to 15.9 in size).

    Example:
        >>> class_scores(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), "probabilities", "logit")[:, 1]
        tensor([15.9424,  0.0000])
    """
    if returns == "values":
        return raw
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


def predicted_classes(raw: Float[Tensor, "n outputs"], returns: Returns) -> Int[Tensor, " n"]:
    """The class of each row by what the model returns, so that no conversion can make or break a tie; of values, 0."""
    if returns == "values":
        return torch.zeros(len(raw), dtype=torch.int64, device=raw.device)
    return class_scores(raw, returns, "logit" if returns == "logits" else "probability").argmax(1)


def not_finite(scores: Tensor, row: int, what: str) -> str:
    """Say which row's score is not a finite number."""
    return f"model: expected finite scores, it returned {scores.tolist()} for {what} {row}."


def _what(returns: Returns) -> str:
    return "values" if returns == "values" else "class scores"
