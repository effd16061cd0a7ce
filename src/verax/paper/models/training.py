"""Training: the loop that follows a recipe, on a CPU or a GPU, and goes on after a kill."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from verax.core.blocks import one_thread_on_cpu
from verax.core.shapes import Float
from verax.data.base import PARTS, Dataset, Part
from verax.paper.models import checkpoints
from verax.paper.models.augmentation import Augmentation, Rows, TabularNoise, generator, key, moved, seeded
from verax.paper.models.checkpoints import Epoch
from verax.paper.models.image_augmentation import ImageAugmentation
from verax.paper.models.objectives import Values, objective_of
from verax.paper.models.recipes import Recipe, rate
from verax.paper.models.steps import Learner, copied, lay_out
from verax.scoring.inference import is_out_of_memory
from verax.scoring.model_files.saved import Architecture
from verax.scoring.scorer import automatic_batch_size, checked_device

Metrics = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Trained:
    """A trained network, in evaluation mode on the CPU, and how it came about."""

    module: nn.Module
    history: tuple[Epoch, ...]
    metrics: Metrics  # "auroc" and "accuracy", or "r2" and "rmse", on the "train", "validation" and "test" rows
    recipe: Recipe
    seconds: float  # wall clock of all epochs together, before and after an interruption


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
    """Train a network: with one logit for two classes, one per class for several, or one value for a regression.

    A regression is learnt on standardised labels; the network that comes back returns the labels' own unit.

    Global random state is left alone. On a CPU the same arguments give the same weights, whatever the number of cores,
    because one thread computes; another kind of processor or another version of torch rounds differently, and so does
    every run on a GPU.

    Args:
        dataset: Training rows are learnt from, validation rows choose the epoch, test rows only measure.
        device: Where; None for a CUDA device where there is one, the CPU otherwise.
        checkpoint: A file written after each epoch. If it is there, the run goes on from it, and ends as if it had
            never stopped; one of another architecture, recipe, data set or ``init`` raises.
        init: A file with initial weights instead of random ones.
    """
    objective_of(dataset)  # raises for labels that cannot be learnt
    place = checked_device(device) or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with one_thread_on_cpu(place):
        identity = checkpoints.identity(architecture, dataset, recipe, init)
        run = _Run(architecture, dataset, recipe, place, init)
        if checkpoint is not None and (saved := checkpoints.read_run(checkpoint, identity, run.learner)):
            run.best, run.history = saved
        while not run.finished():
            epoch = run.epoch()
            if checkpoint is not None:
                checkpoints.write_run(checkpoint, identity, run.learner, run.best, run.history)
            if progress is not None:
                progress(epoch)
        return run.result()


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
        self.objective = objective_of(dataset, recipe.label_smoothing)
        weight = torch.ones(max(2, len(dataset.class_names)), device=device)
        if recipe.class_weight and not isinstance(self.objective, Values):
            weight = len(rows) / (float(len(weight)) * torch.bincount(rows.labels, minlength=len(weight)))
        self.learner = Learner(module.to(device), recipe, weight, self.steps, self.objective)
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
        figures = self.objective.figures(self._outputs("validation"), self.parts["validation"].labels)
        score = figures.get("auroc", figures.get("r2", -math.inf))
        best = score > max((epoch.score for epoch in self.history), default=-math.inf)
        if best or self.recipe.keep == "last":
            self.best = copied(self.learner.result)
        seconds = time.perf_counter() - began
        epoch = Epoch(number, loss, accuracy, figures.get("auroc"), learning_rate, seconds, best, figures.get("r2"))
        self.history.append(epoch)
        return epoch

    def result(self) -> Trained:
        self.learner.release()
        module = self.learner.result
        module.load_state_dict(self.best)
        metrics: Metrics = {
            part: self.objective.figures(self._outputs(part), self.parts[part].labels) for part in PARTS
        }
        module = lay_out(module.to("cpu"), torch.contiguous_format).eval()
        self.objective.finish(module)
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

    @torch.inference_mode()
    def _outputs(self, part: Part) -> Float[Tensor, "n outputs"]:
        """Outputs for all rows, fewer at once when memory runs out; in mixed precision some would tie."""
        rows, module = self.parts[part], self.learner.result.eval()
        size = min(1024, automatic_batch_size(math.prod(rows.dataset.inputs.shape[1:]), self.device))
        while True:
            batches = torch.split(torch.arange(len(rows)), size)
            inputs = (rows.inputs(index).contiguous(memory_format=self.learner.layout) for index in batches)
            try:
                return torch.cat([module(batch) for batch in inputs])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or size == 1:
                    raise
            size //= 2
