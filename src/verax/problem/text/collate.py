"""Batches of token rows: what was removed is squeezed out, padding is trimmed, rows begin at the left."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from verax.core.shapes import Bool, Int, Shaped

DELETED = -1  # the id of a token that is to go, without anything in its place


@dataclass(frozen=True)
class Trim:
    """Called with the rows of a batch before the model: drops padding and deleted tokens, keeps everything in step.

    Every row then begins at the left, because some models look at its first place, and no column is padding alone.
    """

    pad: int  # the id, or the number, that fills rows up
    along: tuple[str, ...] = ()  # names of the arguments with one entry for each token, beside the attention mask
    ids: bool = True  # whether the rows are ids of tokens; otherwise they are vectors, one for each token
    mask: ClassVar[str] = "attention_mask"

    def __call__(self, rows: Tensor, others: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        present = self._present(rows, others)
        length = int(present.sum(1).max())
        place = (~present).to(torch.int8).argsort(dim=1, stable=True)[:, :length]
        kept = present.gather(1, place)
        # labels are left out of a loss by -100
        moved = {name: _gathered(others[name], place, kept, -100 if name == "labels" else 0) for name in self.along}
        moved[self.mask] = kept.to(others[self.mask].dtype)
        return _gathered(rows, place, kept, self.pad), {**others, **moved}

    def lengths(self, rows: Tensor, others: Mapping[str, Tensor]) -> Int[Tensor, " n"]:
        return self._present(rows, others).sum(1)

    def _present(self, rows: Tensor, others: Mapping[str, Tensor]) -> Bool[Tensor, "n length"]:
        present = others[self.mask].bool()
        return present & (rows != DELETED) if self.ids else present

    def check_model(self, module: nn.Module | None, rows: Shaped[Tensor, "n length *rest"], others: Any) -> None:
        """Raise for ids that a model has no embedding for, and rows that are longer than it takes; before it runs."""
        find = getattr(module, "get_input_embeddings", None)
        embedding = find() if callable(find) else None
        known = embedding.num_embeddings if self.ids and isinstance(embedding, nn.Embedding) else None
        if known is not None and len(beyond := (rows >= known).nonzero()):
            row, place = beyond[0].tolist()
            raise ValueError(
                f"inputs: row {row} holds the token id {int(rows[row, place])} (place {place}), and the model has "
                f"embeddings for {known}; was the text tokenized for another model?"
            )
        longest = getattr(getattr(module, "config", None), "max_position_embeddings", None)
        lengths = others[self.mask].bool().sum(1)
        if isinstance(longest, int) and longest > 0 and int(lengths.max()) > longest:
            row = int(lengths.argmax())
            raise ValueError(
                f"inputs: row {row} has {int(lengths[row])} tokens, and the model takes {longest}; cut the texts, for "
                "instance with tokenized(..., max_length=...)."
            )


def _gathered(
    values: Shaped[Tensor, "n length *rest"], place: Int[Tensor, "n short"], kept: Bool[Tensor, "n short"], pad: int
) -> Shaped[Tensor, "n short *rest"]:
    axes = (...,) + (None,) * (values.ndim - 2)
    index = place[axes].expand(*place.shape, *values.shape[2:])
    return values.gather(1, index).masked_fill(~kept[axes], pad)
