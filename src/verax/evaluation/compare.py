"""Which attribution is the most faithful to a model, and is it told apart from the next one? Paired over inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from verax.core.text_tables import Table, counted
from verax.evaluation.evaluate import evaluate
from verax.evaluation.result import Evaluation
from verax.metrics.choose import Metrics
from verax.metrics.result import Result
from verax.perturbation.sampled import Effect, Perturbation
from verax.scoring.class_scores import Output
from verax.statistics.intervals import Estimate
from verax.statistics.paired import paired_difference

NOT_TOLD_APART = "not told apart"


@dataclass(frozen=True)
class Difference(Estimate):
    """Two attributions under one metric, on the same inputs: the mean over inputs of first minus second.

    Attributes:
        first: Name of the first attribution.
        second: Name of the second.
        metric: What was compared.
        higher_is_better: The direction of the metric.
    """

    first: str
    second: str
    metric: str
    higher_is_better: bool

    @property
    def word(self) -> str:
        """The first one is ``"better"`` or ``"worse"``; ``"not told apart"`` where the interval contains 0."""
        if not (self.low > 0 or self.high < 0):
            return NOT_TOLD_APART
        return "better" if (self.mean > 0) == self.higher_is_better else "worse"

    def __str__(self) -> str:
        if self.word == NOT_TOLD_APART:
            return f"{self.first} and {self.second} are {NOT_TOLD_APART}: {self:.3g}"
        size = self if self.mean > 0 else Estimate(-self.mean, self.standard_error, -self.high, -self.low)
        return f"{self.first} is {self.word} than {self.second} by {size:.3g}"


@dataclass(frozen=True)
class Ranked(Estimate):
    """One line of a ranking: the mean of an attribution over inputs.

    Attributes:
        place: 1 for the best.
        name: The attribution.
        against_next: The paired difference to the next in the ranking; None for the last.
    """

    place: int
    name: str
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
            after = self.pair(name, order[place + 1], metric) if place + 1 < len(order) else None
            ranked.append(Ranked(**vars(means[name]), place=place + 1, name=name, against_next=after))
        return ranked

    def pair(self, first: str, second: str, metric: str) -> Difference:
        """Difference of two attributions, first minus second, with its paired t interval over inputs.

        Scores that differ by no more than rounding (a millionth) count as equal. One input shows no spread, so that
        its interval is not a number.
        """
        result = self._result(metric)
        scores = [result.scores[self._place(name)] for name in (first, second)]
        found = paired_difference(scores[0], scores[1], self.level)
        higher = bool(result.metric.higher_is_better)
        return Difference(**vars(found), first=first, second=second, metric=metric, higher_is_better=higher)

    def best(self, metric: str) -> list[str]:
        """The best attribution and all that are not told apart from it, in the order of the ranking."""
        first, *rest = (one.name for one in self.ranking(metric))
        return [first, *(name for name in rest if self.pair(first, name, metric).word == NOT_TOLD_APART)]

    def sentences(self, metric: str) -> list[str]:
        """The ranking in words: each attribution against the next."""
        pairs = (one.against_next for one in self.ranking(metric))
        return [f"{self.evaluation.label(metric)}: {pair}" for pair in pairs if pair is not None]

    def cells(self) -> list[list[str]]:
        """The table as text, head first; a star marks what is not told apart from the best of its column."""
        head = ["attribution", *self.evaluation.heads()]
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
        found: dict[str, Estimate] = self._result(metric).mean(level=self.level)  # type: ignore[assignment]  # as given
        return found

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
    features: Any = "auto",
    steps: int | None = None,
    sigma: float | None = None,
    subset: int | None = None,
    samples: int | None = None,
    normalize: bool | None = None,
    perturbation: Perturbation | None = None,
    effect: Effect | None = None,
    seed: int | None = None,
    background: Any = None,
    background_labels: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    level: float = 0.95,
) -> Comparison:
    """Rank attributions of one model by how faithful they are, and say which differences are real.

    Args:
        model: A torch module (returns logits), a scikit-learn classifier, a path of an ONNX file, a ``verax.Scorer``.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch.
        attributions: A dict of names to arrays like the inputs, or to methods such as
            ``verax.attribution.SmoothGrad()``, which are computed first.
        metrics: Names of metrics, metric objects from ``verax.metrics``, or a dict that names them. Names take the
            settings of this call, objects bring their own.
        target: The class whose score is followed: predicted (``None``), one number, or one number per row.
        baselines: What removed features become: a number or anything that broadcasts to the inputs.
        features: What one feature is: ``"element"``, ``"pixel"``, an array of group numbers, or ``"auto"``.
        steps: PC and DPC: steps from the input to the baseline; 20 by default.
        sigma: Infidelity: standard deviation of the Gaussian perturbation; 0.2 by default.
        subset: Infidelity: features perturbed in each draw; all by default.
        samples: Draws per input, shared by all attributions; by default 640 for Infidelity, 64 for Sensitivity-N.
        normalize: Infidelity: fit the scale of each attribution first, which is the default.
        perturbation: Infidelity: ``"gaussian"`` (local, the default) or ``"baseline"`` (replaces a random subset).
        effect: Infidelity: ``"dot"`` takes attributions for slopes, ``"sum"`` for contributions; by default slopes
            where noise is added, contributions where features are replaced.
        seed: Same seed, same draws; 0 by default.
        background: Rows of training data, for methods among the attributions that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        output: The score that is followed, ``"probability"`` or ``"logit"``.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.
        level: Coverage of the intervals.

    Intervals say how far a number would move with other inputs of the same kind. Means have the interval of Student's
    t; differences of two attributions are paired, input by input, with the interval of the paired t-test,
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
        features=features,
        steps=steps,
        sigma=sigma,
        subset=subset,
        samples=samples,
        normalize=normalize,
        perturbation=perturbation,
        effect=effect,
        seed=seed,
        background=background,
        background_labels=background_labels,
        output=output,
        batch_size=batch_size,
        device=device,
    )
    return Comparison(evaluation, level)
