"""Outputs: from what a model returns to one score per class or value. One output or many."""

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.scoring.adapters import Returns

Output = Literal["probability", "logit"]
Scale = Literal["probability", "logit", "log_odds"]


def checked_output(output: str) -> None:
    """Refuse an unknown kind of score."""
    if output not in get_args(Output):
        raise ValueError(f'output: expected "probability" or "logit", got {output!r}.')


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


def class_scores(raw: Float[Tensor, "n outputs"], returns: Returns, output: Scale) -> Float[Tensor, "n classes"]:
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
