"""Steps of training: loss, gradients, optimizer, average of the weights; in pieces where memory is short."""

import copy
import warnings

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from verax.core.shapes import Float, Shaped
from verax.paper.models.augmentation import seeded
from verax.paper.models.objectives import Objective, TwoClasses
from verax.paper.models.recipes import Recipe
from verax.scoring.inference import is_out_of_memory

_AUXILIARY = 0.3  # weight of the auxiliary heads' losses, as in the paper of GoogLeNet
# Recording uses another stream and another thread than this one, and torch wonders whether that is meant.
_NEEDLESS = "The AccumulateGrad node's stream|Attempting to run cuBLAS"


class Learner:
    """A network that learns batch by batch as a recipe says.

    A batch that does not fit the device's memory is learnt from in pieces, from then on. The step is the same but for
    batch norm and dropout: each piece is normalised by its own mean and variance, and draws its own numbers.
    """

    def __init__(
        self,
        module: nn.Module,
        recipe: Recipe,
        class_weight: Float[Tensor, " classes"],
        steps_per_epoch: int,
        objective: Objective | None = None,
    ) -> None:
        self.module, self.recipe, self.class_weight = module, recipe, class_weight
        self.objective = objective or TwoClasses(recipe.label_smoothing)
        self.device = class_weight.device
        self.layout = torch.contiguous_format
        if self.device.type == "cuda" and any(weight.ndim == 4 for weight in module.parameters()):
            self.layout = torch.channels_last
        lay_out(module, self.layout)
        self.optimizer = _optimizer(module, recipe, self.device)
        self.average = copy.deepcopy(module) if recipe.average else None
        decay = 1 - 1 / max(1.0, recipe.average * steps_per_epoch)
        self._blend = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self._blended = _numbers(self.result), _numbers(module)
        self.mixed = recipe.precision == "bfloat16" or (recipe.precision == "auto" and self.device.type == "cuda")
        self.pieces = 1
        self._recorded = False

    @property
    def result(self) -> nn.Module:
        """The network to look at: the average, or else the one that learns."""
        return self.module if self.average is None else self.average

    def modules(self) -> dict[str, nn.Module]:
        """All networks with a state that a run must keep, by name."""
        return {"model": self.module} if self.average is None else {"model": self.module, "average": self.average}

    def learn(self, inputs: Tensor, labels: Shaped[Tensor, " b"], learning_rate: float) -> Float[Tensor, "2"]:
        """Take one step; the sums of the rows' losses and of the rows that were right."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        gradients = self._gradients(inputs.contiguous(memory_format=self.layout), labels)
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip)
        self.optimizer.step()
        if self.average is not None:
            self._blend(*self._blended, None)
        return gradients

    def release(self) -> None:
        """Forget the recorded kernels; the network runs as it did before."""
        vars(self.module).pop("forward", None)
        self._recorded = False

    def _gradients(self, inputs: Tensor, labels: Tensor) -> Tensor:
        while True:
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=_NEEDLESS)
                    return self._accumulated(inputs, labels)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(labels) < 4 * self.pieces:  # batch norm needs two rows in each piece
                    lack = f"the memory of {self.device} is too small to learn from {len(labels) // self.pieces} rows"
                    raise MemoryError(f"device: {lack} at once; free some of it, or use smaller inputs.") from error
            self.release()
            self.pieces *= 2

    def _accumulated(self, inputs: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        if self.device.type == "cuda" and self.pieces == 1 and not self._recorded:
            self._record(inputs)
        total = torch.zeros(2, device=self.device)
        for some, part_labels in zip(inputs.tensor_split(self.pieces), labels.tensor_split(self.pieces), strict=True):
            with self._autocast():
                outputs = self.module(some)
            heads = [outputs] if isinstance(outputs, Tensor) else list(outputs)
            logits = [head.float().reshape(len(part_labels), -1) for head in heads]
            losses = [self.objective.loss(head, part_labels, self.class_weight) for head in logits]
            loss = losses[0] + sum((_AUXILIARY * other for other in losses[1:]), torch.zeros_like(losses[0]))
            (loss * (len(part_labels) / len(labels))).backward()  # type: ignore[no-untyped-call]
            right = self.objective.right(logits[0].detach(), part_labels)
            total += torch.stack([losses[0].detach() * len(part_labels), right.float()])
        return total

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed, cache_enabled=False)

    def _record(self, inputs: Tensor) -> None:
        """Record the kernels of network and gradients, to start them all at once; one by one a GPU waits for them."""
        before = copied(self.module)
        with seeded(0, self.device), self._autocast():
            torch.cuda.make_graphed_callables(self.module, (inputs.clone(),))
        self.module.load_state_dict(before)  # recording has moved the statistics of batch norms
        self._recorded = True


def _numbers(module: nn.Module) -> list[Tensor]:
    """Weights and statistics; a count of batches is no number to average."""
    return [tensor for tensor in module.state_dict().values() if tensor.is_floating_point()]


def copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def lay_out(module: nn.Module, layout: torch.memory_format) -> nn.Module:
    """Bring the kernels of convolutions into a memory layout."""
    for tensor in module.parameters():
        if tensor.ndim == 4:
            tensor.data = tensor.data.contiguous(memory_format=layout)
    return module


def _optimizer(module: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    maps = [weight for weight in module.parameters() if weight.ndim > 1]
    others = [weight for weight in module.parameters() if weight.ndim <= 1]
    groups = [{"params": maps, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    # On a CPU all weights are stepped by one call for each operation, which gives the bits of one call for each weight.
    cuda = device.type == "cuda"
    return torch.optim.AdamW(
        groups, lr=recipe.learning_rate, amsgrad=True, fused=cuda or None, foreach=None if cuda else True
    )
