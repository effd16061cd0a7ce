"""How good could a score be? The best and the worst that any attribution of an input can get."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from verax.attribution.coalitions import spread_evenly
from verax.core.arguments import checked_count
from verax.core.warn import warn
from verax.evaluation.drawn import check_repeats
from verax.evaluation.limit_elements import shared_out
from verax.evaluation.limit_search import Found, caution, found_limits
from verax.metrics.base import Metric
from verax.metrics.choose import Metrics, chosen
from verax.metrics.limits_result import Limits, LimitsByMetric
from verax.metrics.result import Context
from verax.metrics.weighted_area import WeightedArea
from verax.perturbation.order import removal_order
from verax.problem.inputs import inputs_of
from verax.problem.problem import Task, problem
from verax.problem.replacement import ReplacementLike
from verax.scoring.class_scores import Output, checked_output
from verax.scoring.frames import column_order
from verax.scoring.meter import Meter
from verax.scoring.scorer import checked_batch_size, scorer_of
from verax.scoring.session import Session

ROWS = 2**21


def limits(
    model: Any,
    inputs: Any,
    *,
    metrics: Metrics = ("pc", "dpc"),
    target: Any = None,
    baselines: Any = 0.0,
    features: Any = "auto",
    replacement: ReplacementLike = None,
    background: Any = None,
    steps: int | None = None,
    rows: int = ROWS,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> LimitsByMetric:
    """Find the best and the worst score that any attribution of each input could get, and one that gets the best.

    A score alone does not say whether it is good: models and inputs differ in how far it can go. With one feature per
    step, PC and DPC follow a chain of removed sets, and the best one is a longest path through all ``2^d`` of them
    (exact, one model row per set). Chance is 0 for the area between the curves, so that ``value / best`` can be
    compared between models, inputs and data sets.

    Where the sets are too many for ``rows``, a beam search finds a good chain. Its score is attained by an attribution,
    so the limit is at least that: ``exact`` is False. The same holds where a step of the metric holds several features
    (``steps`` below their number): the attribution that is best one feature per step is scored in the metric's own
    steps, with its own rule. Where rows are too many for all inputs, some are drawn at random, and the others are NaN.

    An attribution here is any that ``evaluate`` takes, zeros allowed. The one given back has a value for each feature,
    shared out evenly among its elements; for ``lpc`` and the rules ``dot`` and ``coherent``, which sum up what the
    elements of a feature predict, among those of them that move the same way.

    Args:
        model: A torch module (returns logits), a scikit-learn classifier, a ``verax.Scorer``: what ``evaluate`` takes.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch, or a ``verax.Inputs``, which brings its features and
            baselines.
        metrics: ``"pc"``, ``"dpc"``, ``"lpc"``, or metric objects such as
            ``verax.metrics.DirectedPredictionChange(area="morf")``, or a dict that names them.
        target: The class whose score is followed: predicted (``None``), a column number, a label as text, or one of
            them per row.
        baselines: What removed features become: a number, anything that broadcasts to the inputs, or a statistic of the
            background.
        features: What one feature is: ``"element"``, ``"pixel"``, an array of group numbers, or ``"auto"``. Groups,
            such as superpixels, make their number small.
        replacement: What removed features become, one of ``verax.replacement``; their baselines by default.
        background: Rows of training data, for baselines and replacements that are measured by them.
        steps: Steps from the input to the baseline; 20 by default. At least as many as features for exact limits.
        rows: Model rows to spend in all.
        output: The score that is followed, ``"probability"`` or ``"logit"``; a regressor's value is followed as it is.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Returns:
        A dict of ``Limits`` by metric, named as in ``evaluate``.

    Example: contributions of a linear model attain the limit of PC (Theorem 1 of the paper).
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(6, 2).double(), torch.randn(3, 6).double()
        >>> contributions = x * (model.weight[1] - model.weight[0])
        >>> found = verax.limits(model, x, target=1)
        >>> pc = verax.prediction_change(model, x, contributions, target=1)
        >>> torch.allclose(pc.value, found["pc"].best), found["pc"].exact, found["pc"].rows
        (True, True, 192)
    """
    checked_count("rows", rows)
    checked_output(output)
    checked_batch_size(batch_size)
    scorer = scorer_of(model)
    asked = inputs_of(inputs, features, baselines)
    order = column_order(scorer.feature_names, asked.values)
    checked = problem(
        asked.ordered(order),
        {"none": np.zeros(np.shape(asked.values))},
        target=target,
        background=order("background", background),
        takes_missing=scorer.takes_missing,
        replacement=replacement,
    )
    named = with_limits(chosen(metrics, {"steps": steps}, int(checked.features.counts(slice(None)).min())))
    check_repeats(named, checked, limits=True)
    for metric in named.values():
        metric.check(checked)
    if words := caution(checked, named, rows):
        warn(words)
    scorer.check_target(checked.target)
    meter = Meter(scorer.counts)
    with scorer.session(
        checked.inputs, checked.layout.kind, output, batch_size, device, companions=checked.given.companions
    ) as session:
        task = Task(checked, *session.begin(checked.inputs, checked.target), session.score_name)
        return limits_of(session, task, named, rows, meter)


def with_limits(metrics: Mapping[str, Metric]) -> dict[str, WeightedArea]:
    """Refuse metrics whose limits are not known."""
    for metric in metrics.values():
        if not isinstance(metric, WeightedArea):
            raise ValueError(f"metrics: limits are known of pc, dpc and lpc, found {metric.name!r}.")
    return {name: metric for name, metric in metrics.items() if isinstance(metric, WeightedArea)}


def limits_of(
    session: Session, task: Task, metrics: Mapping[str, WeightedArea], rows: int, meter: Meter
) -> LimitsByMetric:
    """Limits of several metrics, with a model that is held ready.

    Args:
        session: The model.
        task: Inputs, baselines, features, classes.
        metrics: What is measured, by name.
        rows: Model rows to spend in all.
        meter: Reads what they cost.
    """
    found = found_limits(session, task, metrics, rows)
    cost = meter.read(session.device)
    with torch.inference_mode(False):  # plain tensors, fit for whatever the user does next
        layout = replace(task.problem.layout, form="one", names=())
        context = Context(layout, task.target.clone(), cost.rows.forward, cost.seconds, task.score)
        return LimitsByMetric({name: _packed(task, metrics[name], one, context) for name, one in found.items()})


def _packed(task: Task, metric: WeightedArea, found: Found, context: Context) -> Limits:
    problem, extremes = task.problem, found.extremes
    features, everything = problem.features, slice(0, len(problem))
    counts = features.counts(everything).to(extremes.best.device).expand(len(problem))
    values = extremes.attribution
    order = removal_order(values.nan_to_num(), metric.experiment.order, counts)
    beyond = torch.arange(features.most, device=order.device) >= counts[:, None]
    order = order.masked_fill(beyond | extremes.best.isnan()[:, None], -1)
    absent = beyond & ~extremes.best.isnan()[:, None]
    (attribution,) = shared_out(task, metric, values.masked_fill(absent, 0)[None])
    shapley = None
    if found.shapley is not None:
        (shapley,) = spread_evenly(features, found.shapley.masked_fill(absent, 0)[None], everything)
    return Limits(
        metric=metric,
        context=context,
        exact=found.exact,
        method=found.method,
        highest=extremes.best.clone(),
        lowest=extremes.worst.clone(),
        random=extremes.chance.clone(),
        attaining=attribution,
        sequence=order,
        exact_shapley=shapley,
    )
