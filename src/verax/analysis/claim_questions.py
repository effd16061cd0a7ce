"""A claim of the paper as a question to a study; each rule stands beside the question that it decides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from verax.analysis.evidence import Answer
from verax.analysis.paper import PaperModel

MEDIAN = "A method counts with the median over its configurations of their means over inputs. "
INTERVAL = "the 95 % bootstrap interval over inputs"

Rule = Callable[..., Answer]


@dataclass(frozen=True)
class Question:
    """A claim about models, about all of them together, or about runtime tables.

    Attributes:
        number: The claim's number; 0 for the table of models.
        ask: Decides it, from the evidence of a model, from that of all models, or from a runtime table.
        paper: The paper's value, or how to get it for one of its models.
        only: The models that it is about, where the paper names them.
        about: Whether it is asked of each model, of all models of all studies at once, or of each runtime table.
        reads: The metrics that it is about; none where the answer does not depend on how they are read.
    """

    number: int
    claim: str
    rule: str
    ask: Rule
    paper: str | Callable[[PaperModel], str] = "figure"
    linear_only: bool = False
    only: tuple[str, ...] = ()
    about: Literal["models", "all models", "runtimes"] = "models"
    reads: tuple[str, ...] = ()

    def concerns(self, name: str, *, linear: bool) -> bool:
        """Whether it is about a model of this name and kind."""
        return (not self.only or name in self.only) and (linear or not self.linear_only)

    def paper_value(self, model: PaperModel) -> str:
        """What the paper reports for one of its models."""
        return self.paper if isinstance(self.paper, str) else self.paper(model)


class Questions(list[Question]):
    """Questions in the order in which their rules are written down."""

    def decided_by(self, number: int, claim: str, rule: str, **details: Any) -> Callable[[Rule], Rule]:
        """Add the question that the decorated function decides; the arguments are those of ``Question``."""

        def added(ask: Rule) -> Rule:
            self.append(Question(number, claim, rule, ask, **details))
            return ask

        return added
