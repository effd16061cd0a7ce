"""What a network is trained for: two classes, several classes or values; its loss, and how good it is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from verax.core.shapes import Float, Shaped
from verax.data.base import PARTS, Dataset
from verax.statistics.prediction_quality import Figures, auroc, class_figures, value_figures


class Objective(ABC):
    """How outputs are compared with labels."""

    @abstractmethod
    def loss(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"], weight: Tensor) -> Tensor:
        """The mean loss of a batch; ``weight`` is that of each class."""

    @abstractmethod
    def right(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Tensor:
        """How many rows are right; 0 where there is no such thing."""

    @abstractmethod
    def figures(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Figures:
        """How good the outputs are; the first figure chooses between epochs, the higher the better."""

    def finish(self, module: nn.Module) -> None:  # noqa: B027  # most have nothing to do
        """Bring a trained network to the labels' own unit."""


@dataclass(frozen=True)
class TwoClasses(Objective):
    """One logit: the logistic loss; AUROC and accuracy."""

    smoothing: float = 0.0

    def loss(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"], weight: Tensor) -> Tensor:
        smooth = labels.float() * (1 - self.smoothing) + self.smoothing / 2
        return F.binary_cross_entropy_with_logits(outputs.reshape(len(labels)), smooth, weight[labels])

    def right(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Tensor:
        return ((outputs.reshape(len(labels)) > 0) == (labels == 1)).sum()

    def figures(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Figures:
        right = ((outputs.reshape(-1) > 0) == (labels == 1)).double().mean()
        return {"auroc": auroc(outputs.reshape(-1), labels), "accuracy": float(right)}


@dataclass(frozen=True)
class SeveralClasses(Objective):
    """One logit per class: cross-entropy; the mean AUROC of each class against all others, and accuracy."""

    smoothing: float = 0.0

    def loss(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"], weight: Tensor) -> Tensor:
        """The weights of the rows are not divided out, as for two classes."""
        each = F.cross_entropy(outputs, labels, reduction="none", label_smoothing=self.smoothing)
        return (each * weight[labels]).mean()

    def right(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Tensor:
        return (outputs.argmax(1) == labels).sum()

    def figures(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Figures:
        return class_figures(outputs.softmax(1), labels)


@dataclass(frozen=True)
class Values(Objective):
    """One value: the squared error of standardised labels; R^2 and the root of the mean squared error."""

    mean: float  # of the training labels
    std: float  # their standard deviation

    def loss(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"], weight: Tensor) -> Tensor:
        return F.mse_loss(outputs.reshape(len(labels)), ((labels - self.mean) / self.std).to(outputs))

    def right(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Tensor:
        return torch.zeros((), device=outputs.device)

    def figures(self, outputs: Float[Tensor, "n outputs"], labels: Shaped[Tensor, " n"]) -> Figures:
        """R^2 is 1 less the squared error over that of the mean of these labels; the other is in their unit."""
        return value_figures(outputs.reshape(-1).double() * self.std + self.mean, labels)

    @torch.no_grad()
    def finish(self, module: nn.Module) -> None:
        last = module.get_submodule("fc")
        for numbers in (last.weight, last.bias):
            numbers.mul_(self.std)  # type: ignore[operator]
        last.bias.add_(self.mean)  # type: ignore[operator]


def objective_of(dataset: Dataset, smoothing: float = 0.0) -> Objective:
    """What a network is trained for on a data set; raises for labels that its split cannot serve."""
    if dataset.task == "regression":
        train = dataset.labels[dataset.split.train]
        if not len(train) or train.min() == train.max():
            raise ValueError("dataset: expected training rows with different labels, got none or all alike.")
        return Values(float(train.mean()), float(train.std()))
    count = max(2, len(dataset.class_names))
    for part in PARTS:
        classes = np.unique(dataset.labels[dataset.split.rows(part)]).tolist()
        if count == 2 and classes != [0, 1]:
            raise ValueError(f"dataset: expected both classes, 0 and 1, among the {part} rows; got {classes}.")
        if part == "train" and (
            absent := [dataset.class_names[label] for label in range(count) if label not in classes]
        ):
            raise ValueError(
                f"dataset: expected all {count} classes among the train rows; {absent[0]!r} is not: leave its few rows "
                "out, join it with another class, or use another seed of the split."
            )
        if len(classes) < 2:
            raise ValueError(f"dataset: expected several classes among the {part} rows, got {len(classes)}.")
    return TwoClasses(smoothing) if count == 2 else SeveralClasses(smoothing)


def outputs_for(dataset: Dataset) -> int:
    """How many numbers a network returns: one for two classes or a value, otherwise one per class."""
    return len(dataset.class_names) if dataset.task == "classification" and len(dataset.class_names) > 2 else 1
