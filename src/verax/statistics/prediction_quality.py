"""How good predictions are: AUROC and accuracy of classes, R^2 and root mean squared error of values."""

import torch
from torch import Tensor

from verax.core.shapes import Float, Int, Shaped

Figures = dict[str, float]


def auroc(scores: Float[Tensor, " n"], labels: Int[Tensor, " n"]) -> float:
    """Area under the ROC curve: how likely a row of class 1 scores above one of class 0; ties count half."""
    from scipy.stats import rankdata  # noqa: PLC0415  # to keep ``import verax`` light

    positive = labels == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise ValueError(f"labels: expected both classes, got {ones} of class 1 and {zeros} of class 0.")
    return (float(rankdata(scores.cpu().numpy())[positive.cpu().numpy()].sum()) - ones * (ones + 1) / 2) / (
        ones * zeros
    )


def class_figures(chances: Float[Tensor, "n classes"], labels: Int[Tensor, " n"]) -> Figures:
    """The mean AUROC of each class that is there against all others, and accuracy."""
    areas = [auroc(chances[:, number], (labels == number).long()) for number in sorted(set(labels.tolist()))]
    return {"auroc": sum(areas) / len(areas), "accuracy": float((chances.argmax(1) == labels).double().mean())}


def value_figures(values: Float[Tensor, " n"], labels: Shaped[Tensor, " n"]) -> Figures:
    """R^2 and root mean squared error of predicted values."""
    expected = labels.double()
    error = (values.double() - expected).square().mean()
    spread = (expected - expected.mean()).square().mean()
    return {"r2": float(1 - error / spread.clamp(min=torch.finfo(torch.float64).tiny)), "rmse": float(error.sqrt())}


def in_words(figures: Figures) -> str:
    """Figures in words."""
    words = {"auroc": "AUROC", "accuracy": "accuracy", "r2": "R^2", "rmse": "root mean squared error"}
    return ", ".join(f"{word} {figures[name]:.4f}" for name, word in words.items() if name in figures)
