"""Training: the loop that follows a recipe, on a CPU or a GPU, and goes on after a kill."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from verax.datasets.base import PARTS, Dataset, Part
from verax.models import checkpoints
from verax.models.architecture import Architecture
from verax.models.augmentation import Augmentation, Rows, TabularNoise, generator, key, seeded
from verax.models.checkpoints import Epoch
from verax.models.image_augmentation import ImageAugmentation
from verax.models.recipes import Recipe, rate
from verax.scoring import automatic_batch_size, checked_device
from verax.shapes import Float, Int

Metrics = dict[str, dict[str, float]]
_AUXILIARY = 0.3  # weight of the auxiliary heads' losses, as in the paper of GoogLeNet


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
        module = architecture.build(recipe.seed)
        if init is not None:
            checkpoints.start_from(init, module)
        image = self.parts["train"].image
        self.layout = torch.channels_last if image and device.type == "cuda" else torch.contiguous_format
        self.module = _laid_out(module.to(device), self.layout)
        self.optimizer = _optimizer(self.module, recipe)
        self.best = _copied(self.module)
        self.history: list[Epoch] = []
        self.change: Augmentation | None = TabularNoise(recipe.noise) if recipe.noise and not image else None
        if recipe.augment and image:
            self.change = ImageAugmentation().scaled(recipe.augment_share)
        labels = self.parts["train"].labels
        counts = torch.bincount(labels, minlength=2)
        self.weight = len(labels) / (2.0 * counts) if recipe.class_weight else torch.ones(2, device=device)

    def finished(self) -> bool:
        """Whether all epochs are done, or none has been better for too long."""
        done = len(self.history)
        last = max((epoch.number for epoch in self.history if epoch.best), default=0)
        return done >= self.recipe.epochs or (self.recipe.patience is not None and done - last >= self.recipe.patience)

    def epoch(self) -> Epoch:
        """Learn from every training row once, then look at the validation rows."""
        began, number = time.perf_counter(), len(self.history) + 1
        with seeded(key(self.recipe.seed, number, "dropout"), self.device):
            loss, accuracy, learning_rate = self._steps(number)
        if not math.isfinite(loss):
            raise FloatingPointError(f"recipe: the loss was {loss} in epoch {number}; try a lower learning_rate.")
        found = auroc(self._logits("validation"), self.parts["validation"].labels)
        best = found > max((epoch.auroc for epoch in self.history), default=-1.0)
        if best or self.recipe.keep == "last":
            self.best = _copied(self.module)
        epoch = Epoch(number, loss, accuracy, found, learning_rate, time.perf_counter() - began, best)
        self.history.append(epoch)
        return epoch

    def save(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Write what is needed to go on."""
        checkpoints.write_run(path, self.module, self.best, self.optimizer, self.history, identity)

    def resume(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, if there is one."""
        found = checkpoints.read_run(path, identity, self.module, self.optimizer)
        if found is not None:
            self.best, self.history = found

    def result(self) -> Trained:
        """The chosen weights, measured."""
        self.module.load_state_dict(self.best)
        metrics = {str(part): self._metrics(part) for part in PARTS}
        module = _laid_out(self.module.to("cpu"), torch.contiguous_format).eval()
        return Trained(module, tuple(self.history), metrics, self.recipe, sum(epoch.seconds for epoch in self.history))

    def _steps(self, number: int) -> tuple[float, float, float]:
        rows, recipe = self.parts["train"], self.recipe
        order = torch.randperm(len(rows), generator=generator(key(recipe.seed, number, "order")))
        draws = generator(key(recipe.seed, number, "augmentation"), self.device)
        batches = order.tensor_split(math.ceil(len(rows) / recipe.batch_size))
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        learning_rate = recipe.learning_rate
        self.module.train()
        for step, index in enumerate(batches, (number - 1) * len(batches)):
            learning_rate = rate(recipe, step, len(batches))
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate
            total += self._step(rows.inputs(index, self.change, draws), rows.labels[index.to(self.device)])
        loss, right = (total / len(rows)).tolist()
        return loss, right, learning_rate

    def _step(self, inputs: Tensor, labels: Int[Tensor, " b"]) -> Float[Tensor, "2"]:
        """Learn from one batch; the sums of the rows' losses and of the rows that were right."""
        mixed = self.recipe.precision == "bfloat16" or (self.recipe.precision == "auto" and self.device.type == "cuda")
        inputs = inputs.contiguous(memory_format=self.layout)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            outputs = self.module(inputs)
        heads = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        logits = [head.float().reshape(len(labels)) for head in heads]
        smooth = labels.float() * (1 - self.recipe.label_smoothing) + self.recipe.label_smoothing / 2
        losses = [F.binary_cross_entropy_with_logits(head, smooth, self.weight[labels]) for head in logits]
        loss = losses[0] + sum((_AUXILIARY * other for other in losses[1:]), torch.zeros_like(losses[0]))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip)
        self.optimizer.step()
        right = ((logits[0] > 0) == (labels == 1)).sum()
        return torch.stack([losses[0].detach() * len(labels), right.float()])

    @torch.inference_mode()
    def _logits(self, part: Part) -> Float[Tensor, " n"]:
        """In single precision: with eight bits, mixed precision would tie rows and blur their order."""
        rows = self.parts[part]
        size = automatic_batch_size(int(np.prod(rows.dataset.inputs.shape[1:])), self.device)
        self.module.eval()
        parts = [
            self.module(rows.inputs(index).contiguous(memory_format=self.layout)).reshape(-1)
            for index in torch.split(torch.arange(len(rows)), min(size, 1024))
        ]
        return torch.cat(parts)

    def _metrics(self, part: Part) -> dict[str, float]:
        logits, labels = self._logits(part), self.parts[part].labels
        right = ((logits > 0) == (labels == 1)).double().mean()
        return {"auroc": auroc(logits, labels), "accuracy": float(right)}


def _optimizer(module: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    maps = [weight for weight in module.parameters() if weight.ndim > 1]
    others = [weight for weight in module.parameters() if weight.ndim <= 1]
    groups = [{"params": maps, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, amsgrad=True)


def _laid_out(module: nn.Module, layout: torch.memory_format) -> nn.Module:
    for tensor in module.parameters():
        if tensor.ndim == 4:
            tensor.data = tensor.data.contiguous(memory_format=layout)
    return module


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _check_classes(dataset: Dataset) -> None:
    for part in PARTS:
        found = np.unique(dataset.labels[dataset.split.rows(part)]).tolist()
        if found != [0, 1]:
            raise ValueError(f"dataset: expected both classes, 0 and 1, among the {part} rows; found {found}.")
