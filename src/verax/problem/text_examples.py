"""The first texts of a call with their attributions: what a report shows of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from verax.core.shapes import Float
from verax.problem.attributed import Attributed


@dataclass(frozen=True)
class TextExamples:
    """A few texts, token by token.

    Attributes:
        words: What people read at each place of a row; joined, the text.
        attributions: One number per attribution, text and place.
    """

    words: tuple[tuple[str, ...], ...]
    attributions: Float[Tensor, "k few length"]


def text_examples(problem: Attributed) -> TextExamples | None:
    """The first texts of a problem; None where its inputs are no texts."""
    words = problem.given.words
    if not words:
        return None
    few = torch.stack([one[: len(words)].detach().cpu() for one in problem.attributions])
    per_place = few.reshape(*few.shape[:2], len(words[0]), -1).sum(-1)  # of vectors, their sum
    return TextExamples(words, per_place)
