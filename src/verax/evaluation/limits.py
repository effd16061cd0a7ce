"""How good could a score be? The best and the worst that any attribution of an input can get."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from verax.attribution.coalitions import spread_evenly
from verax.core.arguments import checked_count
from verax.core.warn import warn
from verax.evaluation.engine import Call, about_problem, check_repeats
from verax.evaluation.limit_search import InputLimits, limits_of, planned, shared_out
from verax.evaluation.result import Evaluation
from verax.metrics.base import GuidedMetric, Metric
from verax.metrics.choose import Metrics, chosen, fewest_features
from verax.metrics.limit_reading import LIMITED, has_limits
from verax.metrics.limits_result import Limits, LimitsByMetric
from verax.metrics.result import Context, GuidedResult
from verax.perturbation.block import removal_order
from verax.problem.attributed import Attributed, Task, attributed
from verax.problem.problem import Problem, checked_problem
from verax.scoring.meter import Cost, Meter

ROWS = 2**21


def limits(problem: Problem, metrics: Metrics = ("pc", "dpc"), *, rows: int = ROWS) -> LimitsByMetric:
    """Find the best and the worst score that any attribution of each input could get, and one that gets the best.

    A score alone does not say whether it is good: models and inputs differ in how far it can go. With one feature per
    step, curves follow a chain of removed sets, and the best one is a longest path through all ``2^d`` of them (exact,
    one model row per set, shared by all metrics). Chance is 0 for the area between the curves, so that
    ``value / best`` can be compared between models, inputs and data sets; ``share`` and ``normalised`` put any score on
    a scale from chance, or from the worst possible, to the best.

    They are known of metrics whose score is a weighted sum of the points of their curves (``GuidedMetric.weights``):
    PC, DPC, LPC, SRG, comprehensiveness and sufficiency with any shares, insertion and deletion.

    Where the sets are too many for ``rows``, a beam search finds a good chain. Its score is attained by an attribution,
    so the limit is at least that: ``exact`` is False. The same holds where a step of the metric holds several features
    (``steps`` below their number): the attribution that is best one feature per step is scored in the metric's own
    steps, with its own rule. Where rows are too many for all inputs, some are drawn at random, and the others are NaN.

    Where a replacement is drawn, such as ``verax.replacement.Marginal``, a set's score is the mean over its draws, each
    at the cost of a row. With ``Marginal(draws="every")`` that is the mean over the background, for limits and for
    Shapley values.

    An attribution here is any that ``evaluate`` takes, zeros allowed. The one given back has a value for each feature,
    shared out evenly among its elements; for ``lpc`` and the rules ``dot`` and ``coherent``, which sum up what the
    elements of a feature predict, among those of them that move the same way.

    Args:
        problem: The model, the rows, and the question about them. Groups, such as superpixels, make the number of
            features small.
        metrics: Names of such metrics, or objects such as ``verax.metrics.DirectedPredictionChange(area="morf")``, or
            a dict that names them. At least as many steps as features for exact limits.
        rows: Model rows to spend in all.

    Returns:
        A dict of ``Limits`` by metric, named as in ``evaluate``.

    Example: contributions of a linear model attain the limit of PC (Theorem 1 of the paper).
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(6, 2).double(), torch.randn(3, 6).double()
        >>> contributions = x * (model.weight[1] - model.weight[0])
        >>> problem = verax.Problem(model, x, target=1)
        >>> best = verax.limits(problem)["pc"]
        >>> pc = verax.metrics.PredictionChange()(problem, contributions)
        >>> torch.allclose(pc.value, best.best), best.exact, best.rows
        (True, True, 192)
        >>> round(best.share(pc).mean, 6)  # 1 is the best possible, 0 is chance
        1.0
    """
    checked_count("rows", rows)
    checked_problem(problem)
    rated = attributed(problem, {"none": torch.zeros(()).expand(problem.inputs.shape)})
    by_metric, _ = _searched(rated, _limited(chosen(metrics, fewest_features(problem))), rows)
    return by_metric


def with_limits(call: Call, evaluation: Evaluation) -> Evaluation:
    """An evaluation whose results have their limits as well."""
    results = {
        name: result
        for name, result in evaluation.items()
        if isinstance(result, GuidedResult) and has_limits(result.metric)
    }
    if not results:
        raise ValueError(f"limits: {LIMITED}, got metrics {', '.join(evaluation)}.")
    best, cost = _searched(call.rated, _limited({name: call.metrics[name] for name in results}), ROWS)
    with torch.inference_mode(False):
        raised = {name: replace(result, limits=best[name].raised_to(result.scores)) for name, result in results.items()}
    return evaluation.extended({**evaluation, **raised}, cost)


def _limited(metrics: Mapping[str, Metric]) -> dict[str, GuidedMetric]:
    """Raise for metrics whose limits are not known."""
    for metric in metrics.values():
        if not has_limits(metric):
            reason = " with a reduction of its own, which says no weights" if isinstance(metric, GuidedMetric) else ""
            raise ValueError(f"metrics: limits are {LIMITED}, got {metric.name!r}{reason}.")
    return {name: metric for name, metric in metrics.items() if has_limits(metric)}


def _searched(rated: Attributed, metrics: Mapping[str, GuidedMetric], rows: int) -> tuple[LimitsByMetric, Cost]:
    """Limits of several metrics, and what the call cost; checked before the model runs."""
    check_repeats(metrics, rated, limits=True)
    for metric in metrics.values():
        metric.check(rated)
    groups = planned(rated, metrics, rows)
    fewest = min(len(group.which) for group in groups)
    if fewest < len(rated):
        warn(
            f"limits: {rows:,} model rows allow those of {fewest:,} of {len(rated):,} inputs, drawn at random; the "
            "others are NaN. Raise rows, or pass fewer inputs."
        )
    problem = rated.problem
    meter = Meter(problem.scorer.counts)
    limits: dict[str, InputLimits] = {}
    with problem.session() as session:
        task = Task(rated, *problem.begin(session), session.score_name)
        for group in groups:
            limits |= limits_of(session, task, group)
        cost = meter.read(session.device)
        with torch.inference_mode(False):  # plain tensors, fit for whatever the user does next
            layout = replace(rated.layout, form="one", names=())
            about = about_problem(problem)
            context = Context(layout, task.target.clone(), cost.rows.forward, cost.seconds, task.score, about=about)
            packed = {name: _packed(task, metric, limits[name], context) for name, metric in metrics.items()}
    return LimitsByMetric(packed), meter.total()


def _packed(task: Task, metric: GuidedMetric, limit: InputLimits, context: Context) -> Limits:
    problem, extremes = task.problem, limit.extremes if metric.higher_is_better else limit.extremes.turned
    features, everything = problem.features, slice(0, len(problem))
    counts = features.counts(everything).to(extremes.best.device).expand(len(problem))
    values = extremes.attribution
    order = removal_order(values.nan_to_num(), metric.experiment.order, counts)
    beyond = torch.arange(features.most, device=order.device) >= counts[:, None]
    order = order.masked_fill(beyond | extremes.best.isnan()[:, None], -1)
    absent = beyond & ~extremes.best.isnan()[:, None]
    (attribution,) = shared_out(task, metric, values.masked_fill(absent, 0)[None])
    shapley = None
    if limit.shapley is not None:
        (shapley,) = spread_evenly(features, limit.shapley.masked_fill(absent, 0)[None], everything)
    return Limits(
        metric=metric,
        context=context,
        exact=limit.exact,
        method=limit.method,
        best_scores=extremes.best.clone(),
        worst_scores=extremes.worst.clone(),
        random=extremes.chance.clone(),
        attaining=attribution,
        sequence=order,
        exact_shapley=shapley,
    )
