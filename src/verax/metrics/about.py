"""What a result is about, for tables and reports: model, class or value, baseline, date, and the first texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.problem.attributed import Attributed

IDENTITY = ("model", "tracked", "removed features", "date")  # the facts of a call, in this order
_CLASSES = 6  # that are named before the rest is counted


@dataclass(frozen=True)
class About:
    """What tables and reports say of the call that they come from.

    Attributes:
        model: What the model is called.
        score: Which score of it is tracked: ``"probability"``, ``"logit"`` or ``"value"``.
        labels: The model's names of its classes or values.
        predicted: Whether the predicted class of each input is followed.
        baseline: What removed features become.
        date: The day of the call.
        notes: What else a reader must know, a sentence each.

    Example:
        >>> about = About("Forest", "probability", ("malignant", "benign"), True, "0")
        >>> about.line({0: 2, 1: 5})
        'Model: Forest; tracked: probability of the predicted class: malignant (2), benign (5); removed features: 0'
        >>> About("Forest", "probability", ("malignant", "benign")).followed({1: 7})
        'probability of class 1 (benign)'
    """

    model: str = ""
    score: str = "class score"
    labels: tuple[str, ...] | None = None
    predicted: bool = False
    baseline: str = ""
    date: str = ""
    notes: tuple[str, ...] = ()

    def followed(self, counts: Mapping[int, int]) -> str:
        """The class or value that is followed, by its label.

        Args:
            counts: Inputs by the number of their class; none where they were not counted.
        """
        which = "the predicted class" if self.predicted else "the class given for each input"
        if not counts:
            return self.score if self.score == "value" else f"{self.score} of {which}"
        if self.score == "value":
            named = [self.labels[number] if self.labels else f"output {number}" for number in counts]
            return "value" if list(counts) == [0] and not self.labels else f"value of {', '.join(named)}"
        if not self.predicted and len(counts) == 1:
            return f"{self.score} of {class_name(next(iter(counts)), self.labels)}"
        named = [f"{self.labels[number] if self.labels else number} ({many:,})" for number, many in counts.items()]
        rest = [f"{len(named) - _CLASSES} other classes"] if len(named) > _CLASSES else []
        return f"{self.score} of {which}: {', '.join([*named[:_CLASSES], *rest])}"

    def facts(self, counts: Mapping[int, int]) -> dict[str, str]:
        """The same by name, without what is not known."""
        held = (self.model, self.followed(counts) if self.model else "", self.baseline, self.date)
        return {name: words for name, words in zip(IDENTITY, held, strict=True) if words}

    def line(self, counts: Mapping[int, int]) -> str:
        """The same in a line; empty where nothing is known."""
        return fact_line(self.facts(counts))


NOTHING_KNOWN = About()


def fact_line(facts: Mapping[str, str]) -> str:
    """Facts in a line."""
    line = "; ".join(f"{name}: {words}" for name, words in facts.items())
    return f"{line[:1].upper()}{line[1:]}"


def class_counts(classes: Int[Tensor, " n"]) -> dict[int, int]:
    """Inputs by the class or output that is followed."""
    numbers, counts = torch.unique(classes, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def class_name(number: int, labels: Sequence[Any] | None) -> str:
    """A class by its number, and by its label where that is another.

    Example:
        >>> class_name(1, ["no", "yes"]), class_name(1, [0, 1])
        ('class 1 (yes)', 'class 1')
    """
    named = "" if labels is None or str(labels[number]) == str(number) else f" ({labels[number]})"
    return f"class {number}{named}"


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
    few = torch.stack([attribution[: len(words)].detach().cpu() for attribution in problem.attributions])
    per_place = few.reshape(*few.shape[:2], len(words[0]), -1).sum(-1)  # of vectors, their sum
    return TextExamples(words, per_place)
