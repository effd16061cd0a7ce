"""A beginning that all rows of a batch share, such as instructions, is read by a causal model once and not by row."""

import copy
import inspect
from typing import Any

import torch
from torch import Tensor

from verax.core.shapes import Bool, Int, Shaped

_FEWEST = 256  # tokens spared by a batch: below, a second call of a small model costs as much
_PLAIN = ("DynamicLayer", "DynamicSlidingWindowLayer")  # caches that hold keys and values, and nothing else
_GIVEN = {"input_ids", "attention_mask"}


class SharedPrefix:
    """Runs a causal model of ``transformers`` on rows that begin alike: the beginning once, what follows for each row.

    In a causal model the keys and values of a token depend on it and on what stands before it alone, so those of a
    common beginning serve every row: ``f(prefix + rest) = f(rest | cache(prefix))`` but for rounding. They serve the
    batches that follow, too, until weights change in place or ``forget`` is called. The first batch that could gain is
    run both ways for two rows; a model that answers otherwise is run the plain way from then on, as are models without
    such a cache.

    Args:
        model: A causal model.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        takes = inspect.signature(model.forward).parameters
        self.usable = {"past_key_values", "use_cache", *_GIVEN} <= set(takes)
        self.some = "logits_to_keep" in takes
        self._tried = False
        self._held: tuple[int, list[int], Any] = (0, [], None)  # version of the weights; a beginning; its cache

    def forget(self) -> None:
        """Read the beginning anew the next time."""
        self._held = (0, [], None)

    def logits(self, given: dict[str, Tensor], last: int) -> Shaped[Tensor, "n last words"]:
        """Of the last places of each row.

        Args:
            given: What the model takes: ids or vectors, and the attention mask; rows begin at the left.
            last: How many places.
        """
        shared = self._shared(given, last)
        if shared and not self._tried:
            self._tried = True
            few = {name: value[:2] for name, value in given.items()}
            self.usable = _alike(self._continued(few, last, shared), self._plain(few, last))
        found = self._continued(given, last, shared) if shared and self.usable else None
        return self._plain(given, last) if found is None else found

    def _shared(self, given: dict[str, Tensor], last: int) -> int:
        """How many tokens all rows begin with; 0 where that is not worth a call, or the model takes no cache."""
        plain = torch.is_grad_enabled() or torch.compiler.is_compiling()
        if not self.usable or plain or set(given) != _GIVEN:
            return 0
        rows, length = given["input_ids"].shape
        found = beginning(given["input_ids"], given["attention_mask"].bool(), length - last)
        return found if found * (rows - 1) >= _FEWEST and 4 * found >= length else 0

    def _plain(self, given: dict[str, Tensor], last: int) -> Shaped[Tensor, "n last words"]:
        logits: Tensor = self.model(use_cache=False, **given, **self._kept(last)).logits
        return logits[:, -last:]

    def _continued(self, given: dict[str, Tensor], last: int, shared: int) -> Shaped[Tensor, "n last words"] | None:
        """The same by way of the cache; None where the model gives none."""
        ids = given["input_ids"]
        known, cache = self._read(ids[:1, :shared])
        if cache is None:
            return None
        own = copy.deepcopy(cache)  # the model adds to it
        own.batch_repeat_interleave(len(ids))
        rest = {"input_ids": ids[:, known:], "attention_mask": given["attention_mask"], "past_key_values": own}
        logits: Tensor = self.model(use_cache=True, **rest, **self._kept(last)).logits
        return logits[:, -last:]

    def _read(self, ids: Int[Tensor, "1 shared"]) -> tuple[int, Any]:
        """Keys and values of a beginning, or of most of it where they are held, and of how many tokens they are."""
        wanted: list[int] = ids[0].tolist()
        version = sum(one._version for one in self.model.parameters() if not one.is_inference())
        then, known, _ = self._held
        if then != version or 2 * len(known) < len(wanted) or known != wanted[: len(known)]:
            found = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=True, **self._kept(1))
            cache = getattr(found, "past_key_values", None)
            plain = all(type(layer).__name__ in _PLAIN for layer in getattr(cache, "layers", (None,)))
            self._held = (version, wanted, cache if plain else None)
        return len(self._held[1]), self._held[2]

    def _kept(self, last: int) -> dict[str, int]:
        """Ask for the logits of the last places alone, where the model can be asked."""
        return {"logits_to_keep": last} if self.some else {}


def beginning(ids: Int[Tensor, "n length"], there: Bool[Tensor, "n length"], most: int) -> int:
    """How many tokens all rows begin with, at most so many.

    Example:
        >>> beginning(torch.tensor([[5, 6, 7, 8], [5, 6, 9, 8]]), torch.ones(2, 4, dtype=torch.bool), most=4)
        2
    """
    same = ((ids == ids[:1]) & there).all(0)[:most]
    return int(same.long().cumprod(0).sum())


def _alike(found: Tensor | None, wanted: Tensor) -> bool:
    """Whether two ways gave the same but for rounding."""
    if found is None:
        return False
    slack = torch.finfo(wanted.dtype).eps ** 0.5 * float(wanted.abs().max())
    return bool((found - wanted).abs().max() <= slack)
