"""Clean outputs: what a model returned for unperturbed rows, kept so that they are scored once."""

from dataclasses import dataclass

from torch import Tensor

from verax.core.shapes import Float, Int


@dataclass(frozen=True)
class CleanOutputs:
    """What a model returned for rows that nothing was done to.

    Attributes:
        outputs: Its raw outputs.
        predicted: The class that they mean.
    """

    outputs: Float[Tensor, "n outputs"]
    predicted: Int[Tensor, " n"]

    def at(self, rows: Int[Tensor, " m"]) -> "CleanOutputs":
        """Those of some of the rows."""
        chosen = rows.to(self.outputs.device)
        return CleanOutputs(self.outputs[chosen], self.predicted[chosen])
