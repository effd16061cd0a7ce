"""Texts in a report: the first ones with coloured tokens, under the most and the least faithful attribution."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verax.core.palette import BLUE, VERMILION
from verax.core.shapes import Float
from verax.evaluation.comparison import Comparison
from verax.evaluation.ranking import REFERENCE
from verax.problem.text_examples import TextExamples
from verax.report.style import number


@dataclass(frozen=True)
class Word:
    """One token of a text.

    Attributes:
        space: What stands before it.
        text: The token as it stands in the text.
        share: How much of the text's largest attribution it has, from 0 to 1.
        side: ``"for"`` where it raises the score, ``"against"`` where it lowers it, empty where it does neither.
        value: Its attribution, to read.
    """

    space: str
    text: str
    share: str
    side: str
    value: str


def shown_texts(comparison: Comparison) -> dict[str, Any] | None:
    """What the page says of the first texts; None where the inputs are no texts.

    The metric that was asked for first decides which attribution is the most and which the least faithful. The random
    one that every comparison has beside them is not shown.
    """
    metric = comparison.metrics[0]
    result = comparison.evaluation[metric]
    examples: TextExamples | None = result.context.texts
    if examples is None:
        return None
    ranking = [ranked for ranked in comparison.ranking(metric) if ranked.name != REFERENCE]
    roles = {ranking[0].name: "most faithful"}
    if len(ranking) > 1:
        roles[ranking[-1].name] = "least faithful"
    texts = []
    for row, words in enumerate(examples.words):
        columns = []
        for name, role in roles.items():
            which = comparison.names.index(name)
            shown = _words(words, examples.attributions[which, row])
            columns.append(
                {"name": name, "role": role, "score": number(float(result.scores[which, row])), "words": shown}
            )
        texts.append(columns)
    return {
        "metric": comparison.evaluation.label(metric),
        "several": len(roles) > 1,
        "texts": texts,
        "left": comparison.inputs - len(texts),
        "colours": {"for": _channels(BLUE), "against": _channels(VERMILION)},
    }


def _words(words: tuple[str, ...], values: Float[Tensor, " length"]) -> list[Word]:
    """The tokens that people see: special ones and padding have no text."""
    largest = float(values.abs().max()) or 1.0
    found = []
    for word, value in zip(words, values.to(torch.float64).tolist(), strict=True):
        if word:
            text = word.lstrip()
            share = f"{abs(value) / largest:.2f}"
            side = "" if share == "0.00" else "for" if value > 0 else "against"
            found.append(Word(word[: len(word) - len(text)], text, share, side, number(value)))
    return found


def _channels(colour: str) -> str:
    """A colour as CSS mixes it with the page's own: red, green and blue.

    Example:
        >>> _channels("#0072B2")
        '0 114 178'
    """
    return " ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
