"""A claim of the paper as a question to a study; each rule stands beside the question that it decides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from verax.analysis.evidence import Answer
from verax.analysis.paper import PaperModel

MEDIAN = "A method counts with the median over its configurations of their means over inputs. "
INTERVAL = "the 95 % bootstrap interval over inputs"

Rule = Callable[..., Answer]


@dataclass(frozen=True)
class Question:
    """A claim about models, or about a study as a whole.

    Attributes:
        number: The claim's number; 0 for the table of models.
        ask: Decides it, from the evidence of a model, or from the tables and the evidence of all models.
        paper: The paper's value, or how to get it for one of its models.
        only: The models that it is about, where the paper names them.
        whole_study: Whether it is about all models together.
        reads: The metrics that it is about: first the one that may be read otherwise, then what that is compared with.
            None where the answer does not depend on how they are read.
    """

    number: int
    claim: str
    rule: str
    ask: Rule
    paper: str | Callable[[PaperModel], str] = "figure"
    linear_only: bool = False
    only: tuple[str, ...] = ()
    whole_study: bool = False
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
