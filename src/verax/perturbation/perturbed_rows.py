"""Perturbed rows: inputs with features removed, in the precision and layout in which the model runs."""

import torch
from torch import Tensor

from verax.core.image_rows import can_write, rows_by_rank
from verax.core.shapes import Bool, Int, Shaped
from verax.perturbation.block import Block
from verax.problem.attributed import Task
from verax.problem.baselines import differs, must_choose, replaced
from verax.problem.features import Grid
from verax.scoring.session import Session

Cuts = tuple[Int[Tensor, " m"], Int[Tensor, " m"], Bool[Tensor, " m"]]


class PerturbedRows:
    """Makes rows of a block's inputs from the features that go.

    Args:
        session: The model.
        task: What removed features become.
        block: The inputs.
    """

    def __init__(self, session: Session, task: Task, block: Block) -> None:
        self.task, self.block = task, block
        dtype, self.layout = session.runner.dtype, session.runner.layout
        self.inputs = block.inputs.to(dtype, memory_format=self.layout)
        self.alike = block.baselines.stride(0) == 0  # the same for all inputs: nothing to look up
        baselines = block.baselines[:1] if self.alike else block.baselines
        self.baselines = baselines.to(dtype, memory_format=self.layout)
        self.chosen = must_choose(self.inputs, self.baselines)
        self.context = task.context(block.rows, session.device) if task.moves.setwise else None
        self.at_once = writes_at_once(session, task)

    def cut(
        self, ranks: Int[Tensor, "lines features"], cuts: Cuts, at: Int[Tensor, " m"]
    ) -> Shaped[Tensor, "m *shape"]:
        """Rows whose features before a cut of a ranking are gone, or those behind it.

        Args:
            ranks: The place of each feature in some rankings.
            cuts: For each row its line in ``ranks``, the rank where it is cut, and whether the features before stay.
            at: The place of each row's input in the block.
        """
        if self.at_once:
            inputs, baselines = (one.contiguous(memory_format=self.layout) for one in (self.inputs, self.baselines))
            return rows_by_rank(inputs, baselines, at, ranks, cuts)
        line, bound, least = cuts
        return self((ranks[line] < bound[:, None]) != least[:, None], at)

    def __call__(self, removed: Shaped[Tensor, "m features"], at: Int[Tensor, " m"]) -> Shaped[Tensor, "m *shape"]:
        """Rows of their own, which a model may overwrite.

        Args:
            removed: Which features go, as truth values or as ones and zeros.
            at: The place of each row's input in the block.
        """
        mask = self.task.problem.features.expand(removed, at + self.block.rows.start)
        if self.context is not None:
            return self._filled(mask.bool(), at)
        # advanced indexing keeps channels last; without them index_select is the faster one
        images = self.layout is torch.channels_last
        rows = self.inputs[at] if images else self.inputs.index_select(0, at)
        own = self.baselines if self.alike else self.baselines[at] if images else self.baselines.index_select(0, at)
        return replaced(rows, own, mask, chosen=self.chosen).to(memory_format=self.layout)

    def _filled(self, mask: Bool[Tensor, "m *#shape"], at: Int[Tensor, " m"]) -> Shaped[Tensor, "m *shape"]:
        """Rows whose removed elements depend on which others go."""
        rows = self.context.at(at)  # type: ignore[union-attr]
        mask = self.task.removable(mask.expand(rows.values.shape), at + self.block.rows.start)
        found = self.task.moves.fill(rows, mask)
        return torch.where(mask, found, rows.values).to(self.inputs.dtype).to(memory_format=self.layout)


def writes_at_once(session: Session, task: Task) -> bool:
    """Whether a kernel writes rows straight from ranks: pixels of images go, each to a baseline of its own."""
    features = task.problem.features
    pixelwise = isinstance(features, Grid) and features.most == task.problem.inputs[0, 0].numel()
    return pixelwise and not task.moves.setwise and can_write(session.device, session.runner.layout)


def features_that_matter(
    task: Task, rows: slice, inputs: Shaped[Tensor, "b *shape"], baselines: Shaped[Tensor, "b *shape"]
) -> Bool[Tensor, "b features"]:
    """Which features of some inputs differ from what they become: removing the others changes nothing."""
    features = task.problem.features
    if task.moves.setwise:  # what one becomes depends on the others
        counts = features.counts(rows).to(inputs.device)[:, None]
        return (torch.arange(features.most, device=inputs.device) < counts).expand(len(inputs), -1)
    return features.reduce(differs(inputs, baselines, task.problem.given.missing).double(), rows) > 0
