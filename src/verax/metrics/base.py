"""The contract of metrics: a frozen value that names an experiment and reduces what it measured to one score per input.

Derive from ``GuidedMetric`` to read the curves of the guided experiment (features removed in the order of their
attributions), from ``SampledMetric`` to read random perturbations, or from ``AttributionMetric`` to read nothing but
the attributions. Defining the class is all: its ``name`` is known from then on wherever metrics are named. Metrics that
name the same experiment share its model rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from torch import Tensor

from verax.core.registry import Registry, code_of, file_name
from verax.core.shapes import Float
from verax.metrics.result import Context, GuidedResult, Result
from verax.perturbation.guided import GuidedScores
from verax.perturbation.removed_sets import Experiment
from verax.perturbation.sampled import Draws, Effects, Gathered
from verax.problem.attributed import Attributed
from verax.problem.problem import Problem
from verax.statistics.anytime import ScoreRange

Kind = Literal["local", "baseline"]
METRICS: "Registry[Metric]" = Registry("metric")
CONTRACTS = (
    "verax.metrics.GuidedMetric (reads curves), verax.metrics.SampledMetric (reads random perturbations), "
    "verax.metrics.AttributionMetric (reads attributions alone), or a metric that does so, such as "
    "verax.metrics.PredictionChange"
)


@dataclass(frozen=True)
class Metric(ABC):
    """What is measured, with which settings: what the three kinds of metrics share.

    Derive a frozen dataclass whose fields are its settings from ``GuidedMetric``, ``SampledMetric`` or
    ``AttributionMetric``, not from this class.

    Class attributes:
        name: What it is called in calls, files and columns; that of the class in small letters where it is left out.
        label: What people read; the name where it is left out.
        higher_is_better: The direction.
        kind: What it rates: ``"local"`` attributions (how the score moves near the input) or ``"baseline"`` ones (how
            it came about on the way from the baseline).
        asks: The question that it answers, a sentence for pages; may be left out.
        deterministic: Whether it does without random draws.
        chance: What attributions that know nothing get on average; None where no number is known.
        score_range: The least and the greatest score, for ``verax.stream(..., until=...)``; may be left out.
        decides: Whether verdicts may rest on it, which the audit must have shown (docs/which-metric.md).
        known_limitations: What it is blind to, a sentence that stands beside its scores; may be left out.
        citation: Where it was published.
        version: To be raised when the same settings give other scores than before, so that stored ones are computed
            anew.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    higher_is_better: ClassVar[bool]
    asks: ClassVar[str] = ""
    deterministic: ClassVar[bool] = True
    citation: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ == __name__:  # the three contracts themselves
            return
        if not issubclass(cls, GuidedMetric | SampledMetric | AttributionMetric):
            raise TypeError(
                f"{cls.__name__}: a metric must say which experiment it reads, which Metric alone cannot; derive "
                f"from {CONTRACTS}. docs/how-to/add-a-metric.md shows how."
            )
        if not hasattr(cls, "name") and hasattr(cls, "higher_is_better") and not _abstract_members(cls):
            cls.name = file_name(cls)
        if "name" in cls.__dict__:
            METRICS.add(cls.name, cls)
            cls.label = cls.__dict__.get("label", cls.name)

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What it rates."""

    @property
    def chance(self) -> float | None:
        """What attributions that know nothing get on average."""
        return None

    def score_range(self, largest_change: float) -> ScoreRange:
        """The least and the greatest score there can be; where it is left out, nothing is known of them.

        Args:
            largest_change: The furthest that the tracked score can move: 1 for a probability, infinity for a logit
                or a value.
        """
        return ScoreRange()

    @property
    def decides(self) -> bool:
        """Whether verdicts may rest on it: in the audit it knew the truth, against every false explanation."""
        return False

    @property
    def known_limitations(self) -> str:
        """What it is blind to, a sentence."""
        return ""

    def label_as(self, column: str) -> str:
        """What people read for a column of its scores: the label, or the name that a call gave it."""
        return self.label if column == self.name else column

    @property
    def version(self) -> int:
        """Raised when the same settings give other scores than before, so that stored ones are computed anew."""
        return 1

    @classmethod
    def named(cls, settings: Mapping[str, Any], fewest: int) -> "Metric":
        """The metric as a call by name means it.

        Args:
            settings: What the call says; settings that the metric does not have are another metric's.
            fewest: Features of the input that has fewest.
        """
        allowed = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in allowed})

    def unsupported_reason(self, problem: Attributed) -> str:
        """Why the metric cannot answer a call, a sentence; empty where it can."""
        return ""

    def check(self, problem: Attributed) -> None:
        """Raise for a call that the metric cannot answer, or warn of what it will not see; before the model runs."""
        if words := self.unsupported_reason(problem):
            raise ValueError(words)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to be warned of before its scores are read; each is a sentence that says what to do."""
        return ()

    def __call__(self, problem: Problem, attributions: Any) -> Any:
        """Measure attributions of a problem by this metric alone; they may be arrays or methods, as in ``evaluate``.

        Example:
            >>> import torch, verax
            >>> x = torch.randn(3, 4)
            >>> verax.metrics.PredictionChange()(verax.Problem(torch.nn.Linear(4, 2), x), x).value.shape
            torch.Size([3])
        """
        from verax.evaluation.evaluate import by_one_metric  # noqa: PLC0415  # what runs it, a layer above

        return by_one_metric(problem, attributions, self)

    @property
    def short_form(self) -> str:
        """The name with every setting that is not the default.

        Example:
            >>> from verax.metrics import DirectedPredictionChange
            >>> DirectedPredictionChange(order="magnitude").short_form
            "dpc(order='magnitude')"
        """
        settings = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        changed = [f"{name}={value!r}" for name, value, default in settings if value != default]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    @property
    def code(self) -> str:
        """The import line and the constructor call, to be pasted.

        Example:
            >>> import verax
            >>> print(verax.metrics.PredictionChange(steps=5).code.splitlines()[0])
            from verax.metrics import PredictionChange
        """
        return code_of(self)


def _abstract_members(kind: type[Metric]) -> list[str]:
    """What a class that is just being defined leaves to those that derive from it."""
    members = {name for base in kind.__mro__ for name in vars(base)}
    return [name for name in members if getattr(getattr(kind, name, None), "__isabstractmethod__", False)]


class GuidedMetric(Metric):
    """A metric of the guided experiment.

    Example: the drop after the first fifth of the features, the most relevant first.
        >>> from dataclasses import dataclass
        >>> import torch, verax
        >>> from verax.metrics import Experiment, GuidedMetric
        >>> @dataclass(frozen=True)
        ... class FirstFifth(GuidedMetric):
        ...     name, higher_is_better, kind = "first_fifth", True, "baseline"
        ...     experiment = Experiment("signed", steps=5)
        ...     def reduce(self, scores):
        ...         return scores.curves[:, :, 0, 0] - scores.curves[:, :, 0, 1]
        >>> x = torch.randn(3, 10)
        >>> FirstFifth()(verax.Problem(torch.nn.Linear(10, 2), x), x).value.shape
        torch.Size([3])
    """

    @property
    @abstractmethod
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""

    @abstractmethod
    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """One score per attribution and input, from the experiment's curves."""

    def weights(self, points: int) -> Float[Tensor, "curves points"] | None:
        """What each point of the curves counts, where the score is their weighted sum; None where it is none.

        ``verax.limits`` are known of metrics that say it. A class that derives from one and overrides ``reduce`` has to
        say it again: weights that it inherits are not those of its own reduction, and do not count.

        Args:
            points: How many points a curve has, the unperturbed one included.
        """
        return None

    def result(self, scores: GuidedScores, context: Context) -> Result:
        """The result of all inputs; override it to give more than a score and its curves."""
        return GuidedResult(self, context, self.reduce(scores), scores)


class SampledMetric(Metric):
    """A metric of random perturbations. ``draws`` is one set of them, or a tuple of several."""

    deterministic: ClassVar[bool] = False

    @property
    @abstractmethod
    def draws(self) -> Draws | tuple[Draws, ...]:
        """The random perturbations that this metric reads."""

    @abstractmethod
    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """One score per attribution and input, from the predicted and actual effects of some inputs' draws."""

    def collect(self, effects: Effects, gathered: Gathered) -> None:
        """Put what the result needs of some inputs together; override it to keep more than the score."""
        gathered.put(effects.rows, {"value": self.reduce(effects)})

    def result(self, gathered: Sequence[Gathered], context: Context) -> Result:
        """The result of all inputs, from what was collected for each set of draws."""
        return Result(self, context, gathered[0]["value"].clone())


class AttributionMetric(Metric):
    """A metric of the attributions themselves; it costs no model row.

    Example: how many features hold half of the attribution.
        >>> from dataclasses import dataclass
        >>> import torch, verax
        >>> @dataclass(frozen=True)
        ... class Half(verax.metrics.AttributionMetric):
        ...     name, higher_is_better, kind = "half", False, "baseline"
        ...     def reduce(self, attributions, problem):
        ...         shares = attributions.abs().sort(dim=-1, descending=True).values.cumsum(-1)
        ...         return (shares < shares[..., -1:] / 2).sum(-1) + 1.0
        >>> x = torch.zeros(2, 4)
        >>> result = Half()(verax.Problem(torch.nn.Linear(4, 2), x), torch.tensor([[1.0, 1, 1, 1], [9, 1, 0, 0]]))
        >>> result.value.tolist(), result.rows
        ([2.0, 1.0], 0)
    """

    @abstractmethod
    def reduce(self, attributions: Float[Tensor, "k n features"], problem: Problem) -> Float[Tensor, "k n"]:
        """One score per attribution and input.

        Args:
            attributions: One number per feature, summed over its elements, in double precision.
            problem: What they explain.
        """

    def result(self, scores: Float[Tensor, "k n"], context: Context) -> Result:
        """The result of all inputs; override it to give more than a score."""
        return Result(self, context, scores)


def all_draws(metric: SampledMetric) -> tuple[Draws, ...]:
    """The sets of draws of a metric, one or several."""
    draws = metric.draws
    return (draws,) if isinstance(draws, Draws) else draws
