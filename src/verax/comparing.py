"""Which attribution is the most faithful to a model, and is it told apart from the next one? Paired over inputs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verax.display.table import LABELS, Table, counted, metric_label
from verax.engine import Evaluation
from verax.evaluation import Metrics, evaluate
from verax.metrics.intervals import Estimate
from verax.metrics.result import Result
from verax.outputs import Output
from verax.shapes import Float

__all__ = ["LABELS", "NOT_TOLD_APART", "Comparison", "Difference", "Ranked", "compare"]

NOT_TOLD_APART = "not told apart"
_ROUNDING = 1e-6  # of a score; models compute in single precision


@dataclass(frozen=True)
class Difference:
    """Two attributions under one metric, on the same inputs.

    Attributes:
        first: Name of the first attribution.
        second: Name of the second.
        metric: What was compared.
        mean: Mean over inputs of first minus second.
        standard_error: Standard error of that mean over inputs.
        low: Lower end of its interval.
        high: Upper end.
        higher_is_better: The direction of the metric.
    """

    first: str
    second: str
    metric: str
    mean: float
    standard_error: float
    low: float
    high: float
    higher_is_better: bool

    @property
    def word(self) -> str:
        """The first one is ``"better"`` or ``"worse"``; ``"not told apart"`` where the interval contains 0."""
        if not (self.low > 0 or self.high < 0):
            return NOT_TOLD_APART
        return "better" if (self.mean > 0) == self.higher_is_better else "worse"

    def __str__(self) -> str:
        if self.word == NOT_TOLD_APART:
            return f"{self.first} and {self.second} are {NOT_TOLD_APART}: {_amount(self.mean, self.low, self.high)}"
        size = (self.mean, self.low, self.high) if self.mean > 0 else (-self.mean, -self.high, -self.low)
        return f"{self.first} is {self.word} than {self.second} by {_amount(*size)}"


@dataclass(frozen=True)
class Ranked:
    """One line of a ranking.

    Attributes:
        place: 1 for the best.
        name: The attribution.
        mean: Its mean over inputs.
        low: Lower end of the interval of this mean.
        high: Upper end.
        standard_error: Standard error of this mean over inputs.
        against_next: The paired difference to the next in the ranking; None for the last.
    """

    place: int
    name: str
    mean: float
    low: float
    high: float
    standard_error: float
    against_next: Difference | None


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Attributions of one model compared on the same inputs; shown as a table.

    Attributes:
        evaluation: All results of the one pass that served every attribution and metric.
        level: Coverage of each interval.
    """

    evaluation: Evaluation
    level: float

    @property
    def names(self) -> tuple[str, ...]:
        """The attributions, as they were given."""
        first: Result = next(iter(self.evaluation.values()))
        return first.context.layout.names

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(self.evaluation)

    @property
    def inputs(self) -> int:
        """How many inputs were compared."""
        first: Result = next(iter(self.evaluation.values()))
        return first.scores.shape[1]

    def ranking(self, metric: str) -> list[Ranked]:
        """Attributions from best to worst mean, each with the paired difference to the next."""
        means = self._means(metric)
        sign = -1 if self._result(metric).metric.higher_is_better else 1
        order = sorted(self.names, key=lambda name: sign * means[name].mean)
        ranked = []
        for place, name in enumerate(order):
            one = means[name]
            after = self.pair(name, order[place + 1], metric) if place + 1 < len(order) else None
            ranked.append(Ranked(place + 1, name, one.mean, one.low, one.high, one.standard_error, after))
        return ranked

    def pair(self, first: str, second: str, metric: str) -> Difference:
        """Difference of two attributions, first minus second, with its paired t interval over inputs.

        Scores that differ by no more than rounding (a millionth) count as equal. One input shows no spread, so that
        its interval is not a number.
        """
        result = self._result(metric)
        a, b = (result.scores[self._place(name)].double().cpu() for name in (first, second))
        mean, error = mean_and_error(beyond_rounding(a, b))
        reach = t_quantile((1 + self.level) / 2, len(a) - 1) * error
        higher = bool(result.metric.higher_is_better)
        return Difference(first, second, metric, mean, error, mean - reach, mean + reach, higher)

    def best(self, metric: str) -> list[str]:
        """The best attribution and all that are not told apart from it, in the order of the ranking."""
        first, *rest = (one.name for one in self.ranking(metric))
        return [first, *(name for name in rest if self.pair(first, name, metric).word == NOT_TOLD_APART)]

    def sentences(self, metric: str) -> list[str]:
        """The ranking in words: each attribution against the next."""
        pairs = (one.against_next for one in self.ranking(metric))
        return [f"{LABELS.get(metric, metric)}: {pair}" for pair in pairs if pair is not None]

    def cells(self) -> list[list[str]]:
        """The table as text, head first; a star marks what is not told apart from the best of its column."""
        heads = (metric_label(name, one.metric.higher_is_better) for name, one in self.evaluation.items())
        head = ["attribution", *heads]
        best = {metric: self.best(metric) if len(self.names) > 1 else [] for metric in self.metrics}
        means = {metric: self._means(metric) for metric in self.metrics}
        return [head] + [
            [name, *(f"{means[metric][name]}{' *' if name in best[metric] else ''}" for metric in self.metrics)]
            for name in self.names
        ]

    def caption(self) -> str:
        """What the table shows."""
        star = "; *: not told apart from the best, paired" if len(self.names) > 1 else ""
        return f"Means over {counted(self.inputs, 'input')} with {100 * self.level:.4g} % intervals{star}"

    def plot(self) -> Any:
        """Draw the ranking under each metric with intervals, best on top, up to 40 attributions.

        Returns:
            A matplotlib figure, which a notebook shows and ``savefig`` saves.
        """
        from verax.display.plots import rankings  # noqa: PLC0415  # to keep ``import verax`` light

        return rankings(self)

    def _table(self) -> Table:
        head, *rows = (tuple(row) for row in self.cells())
        words = tuple(line for metric in self.metrics for line in self.sentences(metric))
        return Table(head, tuple(rows), self.caption(), words)

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _means(self, metric: str) -> dict[str, Estimate]:
        found: Any = self._result(metric).mean(level=self.level)
        by_name: dict[str, Estimate] = found  # as the attributions, which compare takes as nothing but a dict
        return by_name

    def _result(self, metric: str) -> Result:
        if metric not in self.evaluation:
            raise ValueError(f"metric: expected one of {', '.join(map(repr, self.metrics))}, found {metric!r}.")
        result: Result = self.evaluation[metric]
        return result

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f"attribution: expected one of {', '.join(map(repr, self.names))}, found {name!r}.")
        return self.names.index(name)


def compare(
    model: Any,
    inputs: Any,
    attributions: Any,
    metrics: Metrics = ("pc", "dpc", "infidelity"),
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: int = 20,
    features: Any = "auto",
    sigma: float = 0.2,
    samples: int = 640,
    seed: int = 0,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    level: float = 0.95,
) -> Comparison:
    """Rank attributions of one model by how faithful they are, and say which differences are real.

    Takes the arguments of ``evaluate``, which it calls once for all attributions and metrics, and:

    Args:
        attributions: A dict of names to arrays like the inputs.
        level: Coverage of the intervals.

    Intervals say how far a number would move with other inputs of the same kind. Means have the normal interval of
    ``Result.mean``; differences of two attributions are paired, input by input, with the interval of the paired t-test,
    which is narrower wherever two attributions find the same inputs hard. Infidelity's Monte-Carlo error is part of the
    spread over inputs; all attributions share their draws, so that most of it cancels in a difference.

    Each interval is for one pair and is not corrected for looking at many: of 20 comparisons of equally good
    attributions, expect one to tell them apart by chance. Where that matters, raise ``level`` to ``1 - 0.05 / pairs``.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(50, 8)
        >>> found = verax.compare(model, x, {"random": torch.randn(50, 8), "x times gradient": x * (
        ...     model.weight[1] - model.weight[0])}, metrics=["pc"], target=1)
        >>> [one.name for one in found.ranking("pc")], found.pair("random", "x times gradient", "pc").word
        (['x times gradient', 'random'], 'worse')
        >>> found.best("pc")
        ['x times gradient']
    """
    if not isinstance(attributions, Mapping) or not all(isinstance(name, str) for name in attributions):
        found = "a dict with other keys" if isinstance(attributions, Mapping) else type(attributions).__name__
        raise TypeError(f"attributions: expected a dict of names to arrays, found {found}.")
    if isinstance(level, bool) or not isinstance(level, float) or not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, found {level!r}.")
    evaluation = evaluate(
        model,
        inputs,
        attributions,
        metrics,
        target=target,
        baselines=baselines,
        steps=steps,
        features=features,
        sigma=sigma,
        samples=samples,
        seed=seed,
        output=output,
        batch_size=batch_size,
        device=device,
    )
    return Comparison(evaluation, level)


def beyond_rounding(a: Float[Tensor, " n"], b: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Differences, those within rounding as 0: a bias of the last digit is no difference, however regular."""
    difference = a - b
    return torch.where(difference.abs() <= _ROUNDING * torch.maximum(a.abs(), b.abs()), 0.0, difference)


def mean_and_error(values: Float[Tensor, " n"]) -> tuple[float, float]:
    """The mean and its standard error, which one value alone does not have.

    Example:
        >>> mean_and_error(torch.tensor([1.0, 3.0], dtype=torch.float64))
        (2.0, 1.0)
    """
    count = len(values)
    return float(values.mean()), float(values.std()) / count**0.5 if count > 1 else math.nan


def t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution; not a number without a degree of freedom.

    Example:
        >>> round(t_quantile(0.975, 10), 3)
        2.228
    """
    from scipy.special import stdtrit  # noqa: PLC0415  # to keep ``import verax`` light

    return float(stdtrit(degrees, probability)) if degrees > 0 else math.nan


def _amount(mean: float, low: float, high: float) -> str:
    return f"{mean:.3g} [{low:.3g}, {high:.3g}]"
