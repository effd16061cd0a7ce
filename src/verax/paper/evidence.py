"""What a study has measured about one model, in the form in which claims are decided."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from verax.attribution.names import is_reference
from verax.paper.published import PAPER_INFIDELITY, PaperModel
from verax.statistics.intervals import Estimate
from verax.study.tables import Floats, Matrix, MetricInfo, ModelInfo, Places, Tables, common, estimate, redrawn

Verdict = Literal["reproduced", "not reproduced", "cannot be told", "not measured"]
MEDIAN = "A method counts with the median over its configurations of their means over inputs. "
INTERVAL = "the 95 % bootstrap interval over inputs"
BASELINE_ORIENTED = ("IntegratedGradients", "DeepLiftSHAP")  # when they multiply by the inputs


class NotMeasuredError(Exception):
    """The study lacks what a claim is about; the message says what."""


@dataclass(frozen=True)
class Answer:
    """What a rule found: our figures, in short, the verdict, and what a reader should know besides, or nothing."""

    ours: str
    verdict: Verdict
    note: str = ""


def judged(holds: bool, fails: bool) -> Verdict:
    """A claim that was measured holds, or does not, or our interval leaves both open.

    Example:
        >>> judged(True, False), judged(False, True), judged(False, False)
        ('reproduced', 'not reproduced', 'cannot be told')
    """
    return "reproduced" if holds else "not reproduced" if fails else "cannot be told"


def decided(holds: bool) -> Verdict:
    """The same for what has no interval."""
    return judged(holds, not holds)


def above(figure: Estimate, bound: float = 0.0) -> Verdict:
    """Whether a figure is above a bound, with all of its interval."""
    return judged(figure.low > bound, figure.high <= bound)


def below(figure: Estimate, bound: float = 0.0) -> Verdict:
    """Whether a figure is below a bound, with all of its interval."""
    return judged(figure.high < bound, figure.low >= bound)


def all_hold(verdicts: Iterable[Verdict]) -> Verdict:
    """A claim that asks several things fails with one of them."""
    verdicts = set(verdicts)
    return judged(verdicts <= {"reproduced"}, "not reproduced" in verdicts)


@dataclass(frozen=True)
class Sample:
    """One metric of one model: means over inputs, as measured and for each draw of inputs.

    Attributes:
        methods, local: The method of each configuration, and whether it explains local behaviour.
        resampled: ``(R, C)`` means over drawn inputs; those of Random also over its configurations, drawn in the same
            way: they are a sample of what chance gets, and two say less of it than a hundred.
    """

    matrix: Matrix
    methods: npt.NDArray[Any]  # text of any width
    local: npt.NDArray[np.bool_]
    resampled: Floats

    @cached_property
    def means(self) -> Floats:
        """``(C,)``, over all inputs."""
        means: Floats = self.matrix.values.mean(1)
        return means

    def group(self, method: str, *, local: bool | None = None) -> Places:
        """The configurations of a method, or of its local or baseline-oriented part."""
        places = np.flatnonzero((self.methods == method) & ((self.local == local) if local is not None else True))
        if not len(places):
            raise NotMeasuredError(f"The study has no {method} configuration of this kind.")
        return places

    @property
    def chance(self) -> str:
        """How many random attributions a comparison with Random rests on, in words."""
        count = len(self.group("Random"))
        return f"Random is {count} attribution{'' if count == 1 else 's'}."

    def boxes(self, *, references: bool = False) -> dict[str, Places]:
        """The boxes of the paper's figures: each method, baseline-oriented ones only with input multiplication."""
        boxes: dict[str, Places] = {}
        for method in dict.fromkeys(self.methods.tolist()):
            if references or not is_reference(method):
                shown = (self.methods == method) & (~self.local if method in BASELINE_ORIENTED else True)
                if shown.any():
                    boxes[method] = np.flatnonzero(shown)
        return boxes

    def gap(self, first: Places, second: Places) -> Estimate:
        """How far the median of one group of configurations is above that of another."""
        return self.estimate(lambda means: median_gap(means, first, second))

    def estimate(self, statistic: Callable[[Floats], Any]) -> Estimate:
        """A figure made from the configurations' means, with its interval over inputs."""
        return estimate(statistic, (self.means, self.resampled))


class Evidence:
    """Everything about one model that claims ask for; matrices and draws are made once, when they are asked for."""

    def __init__(
        self, tables: Tables, info: ModelInfo, configurations: pl.DataFrame, resamples: int = 1000, seed: int = 0
    ) -> None:
        self.tables = tables
        self.info = info
        self.configurations = configurations.filter(pl.col("model") == info.name)
        self.resamples = resamples
        self.seed = seed
        self._reads: dict[str, tuple[str, int]] = {}  # by its name the metric that is read as another one, and the sign
        self._samples: dict[tuple[str, int], Sample] = {}

    def read_as(self, subject: str, metric: MetricInfo) -> "Evidence":
        """The same model, had the study measured another metric and called it by the subject's name.

        Rules about PC and DPC ask for high scores: where lower ones are better, they are negated.
        """
        sign = 1 if metric.higher_is_better or subject == PAPER_INFIDELITY else -1
        columns = [(sign * pl.col(metric.column)).alias(subject)]
        errors = [f"_{kind}error" for kind in ("", "mc_") if f"{metric.column}_{kind}error" in self.configurations]
        columns += [pl.col(metric.column + error).alias(subject + error) for error in errors]
        read = Evidence(self.tables, self.info, self.configurations.with_columns(columns), self.resamples, self.seed)
        read._reads = {subject: (metric.column, sign)}
        read._samples = self._samples  # those of single metrics serve all readings
        return read

    def require(self, *metrics: str) -> None:
        """Raise for a claim about metrics that the study does not list."""
        for metric in metrics:
            if metric not in self.configurations.columns:
                raise NotMeasuredError(f"The study has no values of {metric}.")

    def pair(self, dpc: str, infidelity: str) -> tuple[Matrix, Matrix]:
        """Two metrics of the model, on the configurations and inputs that have both."""
        return common(self.sample(dpc).matrix, self.sample(infidelity).matrix)

    def sample(self, metric: str) -> Sample:
        self.require(metric)
        column, sign = read = self._reads.get(metric, (metric, 1))
        if read not in self._samples:
            matrix = self.tables.matrix(self.info.name, column)
            if len(matrix.inputs) < 2:
                raise NotMeasuredError(f"The study has no values of {metric}.")
            rows = self.configurations.select("configuration", "method", "local").rows()
            variants = {name: (method, local) for name, method, local in rows}
            methods, local = zip(*(variants[name] for name in matrix.configurations), strict=True)
            means = matrix.resampled(self.resamples, self.seed)
            matrix, means = (matrix, means) if sign > 0 else (matrix.negated(), -means)
            means = redrawn(means, np.flatnonzero(np.array(methods) == "Random"), self.seed)
            self._samples[read] = Sample(matrix, np.array(methods), np.array(local, dtype=bool), means)
        return self._samples[read]

    def setting(self, name: str) -> int:
        """A setting of the metrics: one number for the study, or one by model or data set."""
        value = self.tables.settings.get(name)
        if isinstance(value, Mapping):
            value = value.get(self.info.name, value.get(self.info.dataset))
        if not isinstance(value, int):
            raise NotMeasuredError(f"The study does not say its {name}.")
        return value


def medians(means: Floats, groups: list[Places]) -> Floats:
    """The median of each group of configurations, along the last axis."""
    return np.stack([np.median(means[..., group], axis=-1) for group in groups], axis=-1)


def median_gap(means: Floats, first: Places, second: Places) -> Any:
    """How far the median of one group of configurations is above that of another, along the last axis."""
    above, below = np.moveaxis(medians(means, [first, second]), -1, 0)
    return above - below


Rule = Callable[..., Answer]


@dataclass(frozen=True)
class Question:
    """A claim about models, about all of them together, or about runtime tables."""

    number: int  # the claim's number; 0 for the table of models
    claim: str
    rule: str
    ask: Rule  # decides it, from the evidence of a model, from that of all models, or from a runtime table
    paper: str | Callable[[PaperModel], str] = "figure"  # the paper's value, or how to get it for one of its models
    linear_only: bool = False
    only: tuple[str, ...] = ()  # the models that it is about, where the paper names them
    # whether it is asked of each model, of all models of all studies at once, or of each runtime table
    about: Literal["models", "all models", "runtimes"] = "models"
    # the metrics that it is about; none where the answer does not depend on how they are read
    reads: tuple[str, ...] = ()

    def concerns(self, name: str, *, linear: bool) -> bool:
        """Whether it is about a model of this name and kind."""
        return (not self.only or name in self.only) and (linear or not self.linear_only)

    def paper_value(self, model: PaperModel) -> str:
        return self.paper if isinstance(self.paper, str) else self.paper(model)


class Questions(list[Question]):
    """Questions in the order in which their rules are written down."""

    def decided_by(self, number: int, claim: str, rule: str, **details: Any) -> Callable[[Rule], Rule]:
        """Add the question that the decorated function decides; the arguments are those of ``Question``."""

        def added(ask: Rule) -> Rule:
            self.append(Question(number, claim, rule, ask, **details))
            return ask

        return added
