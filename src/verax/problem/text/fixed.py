"""Parts of texts that are never removed: what stands around every prompt, or a word in question."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from verax.core.shapes import Bool, Int
from verax.problem.text.tokens import TextInputs


def fixed_around(tokenizer: Any, inputs: TextInputs, texts: Sequence[str], prefix: str, suffix: str) -> TextInputs:
    """The same texts, of which what they begin and end with is never removed.

    Args:
        tokenizer: That made the inputs; a fast one, which knows where tokens come from.
        inputs: Of the whole texts.
        texts: The texts.
        prefix: What each begins with. A token that begins there belongs to it, but for one that brings only the space
            before its word.
        suffix: What each ends with. A token that ends there belongs to it.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError("tokenizer: prefix and suffix need a fast one, which knows where tokens come from.")
    spans = torch.tensor(tokenizer(list(texts), padding=True, return_offsets_mapping=True)["offset_mapping"])
    ends = torch.tensor([len(text) - len(suffix) for text in texts])[:, None]
    first = (spans[..., 0] < len(prefix.rstrip())) | (spans[..., 1] <= len(prefix))
    held = first | (spans[..., 1] > ends)
    features = without(inputs.features, held)
    for row in (features < 0).all(1).nonzero()[:, 0].tolist():
        inner = texts[row][len(prefix) : int(ends[row, 0])]
        raise ValueError(f"prompts: row {row} has no token between prefix and suffix: {inner!r}.")
    return dataclasses.replace(inputs, features=features)


def without(features: Int[Tensor, "n length"], held: Bool[Tensor, "n length"]) -> Int[Tensor, "n length"]:
    """Features of each row without what is held, counted from 0 and without gaps.

    Example:
        >>> without(torch.tensor([[-1, 0, 1, 1, 2]]), torch.tensor([[False, True, False, True, False]])).tolist()
        [[-1, -1, 0, -1, 1]]
    """
    found = torch.full_like(features, -1)
    for row, numbers in enumerate(features.masked_fill(held, -1)):
        free = numbers >= 0
        found[row, free] = numbers[free].unique(return_inverse=True)[1]
    return found
