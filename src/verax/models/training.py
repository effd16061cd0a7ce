"""Training: the loop that follows a recipe, on a CPU or a GPU, and goes on after a kill."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.datasets.base import PARTS, Dataset, Part
from verax.models import checkpoints
from verax.models.architecture import Architecture
from verax.models.augmentation import Augmentation, Rows, TabularNoise, generator, key, moved, seeded
from verax.models.checkpoints import Epoch
from verax.models.image_augmentation import ImageAugmentation
from verax.models.recipes import Recipe, rate
from verax.models.steps import Learner, copied, lay_out
from verax.scoring import automatic_batch_size, checked_device, is_out_of_memory
from verax.shapes import Float, Int

Metrics = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Trained:
    """A trained network, in evaluation mode on the CPU, and how it came about.

    Attributes:
        module: The network.
        history: One entry per epoch.
        metrics: ``"auroc"`` and ``"accuracy"`` on the ``"train"``, ``"validation"`` and ``"test"`` rows.
        recipe: What was followed.
        seconds: Wall clock of all epochs together, before and after an interruption.
    """

    module: nn.Module
    history: tuple[Epoch, ...]
    metrics: Metrics
    recipe: Recipe
    seconds: float


def train(
    architecture: Architecture,
    dataset: Dataset,
    recipe: Recipe,
    *,
    device: str | torch.device | None = None,
    checkpoint: Path | None = None,
    init: Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> Trained:
    """Train a network with one logit on a data set with classes 0 and 1.

    Global random state is left alone. On a CPU the same arguments and number of threads give the same weights.

    Args:
        architecture: What to train.
        dataset: Training rows are learnt from, validation rows choose the epoch, test rows only measure.
        recipe: How.
        device: Where; None for a CUDA device where there is one, the CPU otherwise.
        checkpoint: A file written after each epoch. If it is there, the run goes on from it, and ends as if it had
            never stopped; one of another architecture, recipe, data set or ``init`` is refused.
        init: A file with initial weights instead of random ones.
        progress: Called after each epoch, when its checkpoint is written.

    Example:
        >>> from verax.datasets.embedded import load_breast_cancer
        >>> from verax.models.linear import Linear
        >>> found = train(Linear(30), load_breast_cancer(), Recipe(epochs=20, batch_size=64, learning_rate=0.02))
        >>> found.metrics["test"]["auroc"] > 0.97
        True
    """
    _check_classes(dataset)
    place = checked_device(device) or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    identity = checkpoints.identity(architecture, dataset, recipe, init)
    run = _Run(architecture, dataset, recipe, place, init)
    if checkpoint is not None:
        run.resume(checkpoint, identity)
    while not run.finished():
        epoch = run.epoch()
        if checkpoint is not None:
            run.save(checkpoint, identity)
        if progress is not None:
            progress(epoch)
    return run.result()


def auroc(scores: Float[Tensor, " n"], labels: Int[Tensor, " n"]) -> float:
    """Area under the ROC curve: how likely a row of class 1 scores above one of class 0; ties count half."""
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    rank = counts.cumsum(0).double() - (counts.double() - 1) / 2
    positive = labels == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    if not ones or not zeros:
        raise ValueError(f"labels: expected both classes, found {ones} of class 1 and {zeros} of class 0.")
    return (float(rank[place[positive]].sum()) - ones * (ones + 1) / 2) / (ones * zeros)


class _Run:
    """A training run between two epochs: network, optimizer, best weights so far, history."""

    def __init__(
        self, architecture: Architecture, dataset: Dataset, recipe: Recipe, device: torch.device, init: Path | None
    ) -> None:
        self.recipe, self.device = recipe, device
        self.parts = {part: Rows(dataset, part, device) for part in PARTS}
        rows = self.parts["train"]
        self.steps = math.ceil(len(rows) / recipe.batch_size)
        module = architecture.build(recipe.seed)
        if init is not None:
            checkpoints.start_from(init, module)
        counts = torch.bincount(rows.labels, minlength=2)
        weight = len(rows) / (2.0 * counts) if recipe.class_weight else torch.ones(2, device=device)
        self.learner = Learner(module.to(device), recipe, weight, self.steps)
        self.best = copied(self.learner.result)
        self.history: list[Epoch] = []
        self.change: Augmentation | None = TabularNoise(recipe.noise) if recipe.noise and not rows.image else None
        if recipe.augment and rows.image:
            self.change = ImageAugmentation().scaled(recipe.augment_share)

    def finished(self) -> bool:
        """Whether all epochs are done, or none has been better for too long."""
        done = len(self.history)
        last = max((epoch.number for epoch in self.history if epoch.best), default=0)
        return done >= self.recipe.epochs or (self.recipe.patience is not None and done - last >= self.recipe.patience)

    def epoch(self) -> Epoch:
        """Learn from the training rows, then look at the validation rows."""
        began, number = time.perf_counter(), len(self.history) + 1
        with seeded(key(self.recipe.seed, number, "dropout"), self.device):
            loss, accuracy, learning_rate = self._steps(number)
        if not math.isfinite(loss):
            raise FloatingPointError(f"recipe: the loss was {loss} in epoch {number}; try a lower learning_rate.")
        found = auroc(self._logits("validation"), self.parts["validation"].labels)
        best = found > max((epoch.auroc for epoch in self.history), default=-1.0)
        if best or self.recipe.keep == "last":
            self.best = copied(self.learner.result)
        epoch = Epoch(number, loss, accuracy, found, learning_rate, time.perf_counter() - began, best)
        self.history.append(epoch)
        return epoch

    def save(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Write what is needed to go on."""
        checkpoints.write_run(path, self.learner.modules(), self.best, self.learner.optimizer, self.history, identity)

    def resume(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, if there is one."""
        found = checkpoints.read_run(path, identity, self.learner.modules(), self.learner.optimizer)
        if found is not None:
            self.best, self.history = found

    def result(self) -> Trained:
        """The chosen weights, measured."""
        self.learner.release()
        module = self.learner.result
        module.load_state_dict(self.best)
        metrics = {str(part): self._metrics(part) for part in PARTS}
        module = lay_out(module.to("cpu"), torch.contiguous_format).eval()
        return Trained(module, tuple(self.history), metrics, self.recipe, sum(epoch.seconds for epoch in self.history))

    def _steps(self, number: int) -> tuple[float, float, float]:
        rows, recipe = self.parts["train"], self.recipe
        order = torch.randperm(len(rows), generator=generator(key(recipe.seed, number, "order")))
        draws = generator(key(recipe.seed, number, "augmentation"))
        size = len(rows) // self.steps  # equal steps; the few rows left over sit this epoch out
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        learning_rate = recipe.learning_rate
        self.learner.module.train()
        for step, index in enumerate(torch.split(order[: size * self.steps], size), (number - 1) * self.steps):
            learning_rate = rate(recipe, step, self.steps)
            labels = rows.labels[moved(index, self.device)]
            total += self.learner.learn(rows.inputs(index, self.change, draws), labels, learning_rate)
        loss, right = (total / (size * self.steps)).tolist()
        return loss, right, learning_rate

    def _logits(self, part: Part) -> Float[Tensor, " n"]:
        """Logits of all rows, fewer at once when memory runs out."""
        size = automatic_batch_size(int(np.prod(self.parts[part].dataset.inputs.shape[1:])), self.device)
        size = min(size, 1024)
        while True:
            try:
                return self._scored(self.parts[part], size)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or size == 1:
                    raise
            size //= 2

    @torch.inference_mode()
    def _scored(self, rows: Rows, size: int) -> Float[Tensor, " n"]:
        """In single precision: with eight bits, mixed precision would tie rows and blur their order."""
        module = self.learner.result.eval()
        batches = torch.split(torch.arange(len(rows)), size)
        inputs = (rows.inputs(index).contiguous(memory_format=self.learner.layout) for index in batches)
        return torch.cat([module(batch).reshape(-1) for batch in inputs])

    def _metrics(self, part: Part) -> dict[str, float]:
        logits, labels = self._logits(part), self.parts[part].labels
        right = ((logits > 0) == (labels == 1)).double().mean()
        return {"auroc": auroc(logits, labels), "accuracy": float(right)}


def _check_classes(dataset: Dataset) -> None:
    for part in PARTS:
        found = np.unique(dataset.labels[dataset.split.rows(part)]).tolist()
        if found != [0, 1]:
            raise ValueError(f"dataset: expected both classes, 0 and 1, among the {part} rows; found {found}.")
