"""How good predictions are: AUROC and accuracy of classes, R^2 and root mean squared error of values."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from verax.core.shapes import Float, Int, Shaped

Figures = dict[str, float]


def auroc(scores: Float[Tensor, " n"], labels: Int[Tensor, " n"]) -> float:
    """Area under the ROC curve: how likely a row of class 1 scores above one of class 0; ties count half."""
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    rank = counts.cumsum(0).double() - (counts.double() - 1) / 2
    positive = labels == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise ValueError(f"labels: expected both classes, got {ones} of class 1 and {zeros} of class 0.")
    return (float(rank[place[positive]].sum()) - ones * (ones + 1) / 2) / (ones * zeros)


def class_figures(chances: Float[Tensor, "n classes"], labels: Int[Tensor, " n"]) -> Figures:
    """The mean AUROC of each class that is there against all others, and accuracy.

    Example:
        >>> class_figures(torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), torch.tensor([0, 1, 1]))["auroc"]
        1.0
    """
    areas = [auroc(chances[:, number], (labels == number).long()) for number in sorted(set(labels.tolist()))]
    return {"auroc": sum(areas) / len(areas), "accuracy": float((chances.argmax(1) == labels).double().mean())}


def value_figures(values: Float[Tensor, " n"], labels: Shaped[Tensor, " n"]) -> Figures:
    """R^2 and root mean squared error of predicted values.

    Example:
        >>> value_figures(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))["r2"]
        0.5
    """
    expected = labels.double()
    error = (values.double() - expected).square().mean()
    spread = (expected - expected.mean()).square().mean()
    return {"r2": float(1 - error / spread.clamp(min=torch.finfo(torch.float64).tiny)), "rmse": float(error.sqrt())}


def in_words(figures: Figures, names: Sequence[str] = ("auroc", "accuracy", "r2", "rmse")) -> str:
    """Figures in words.

    Example:
        >>> in_words({"auroc": 0.75, "accuracy": 0.5})
        'AUROC 0.7500, accuracy 0.5000'
    """
    words: dict[str, Any] = {"auroc": "AUROC", "r2": "R^2", "rmse": "root mean squared error"}
    return ", ".join(f"{words.get(name, name)} {figures[name]:.4f}" for name in names if name in figures)
