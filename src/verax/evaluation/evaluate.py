"""Several metrics in one pass, on attributions that are given or computed on the way."""

from typing import Any

from verax.evaluation.call import prepared
from verax.evaluation.engine import check_call, run
from verax.evaluation.result import Evaluation
from verax.metrics.choose import Metrics
from verax.problem.problem import Problem


def evaluate(problem: Problem, attributions: Any, metrics: Metrics | None = None) -> Evaluation:
    """Measure several metrics in one pass; model evaluations that they share are done once.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1; for groups there may be one value each, ``(N, groups)``.
            In a dict, a method such as ``verax.attribution.SmoothGrad()`` is computed first.
        metrics: Names, which stand for a metric with its defaults, metric objects from ``verax.metrics``, or a dict
            that names them. ``"paper"`` stands for PC, DPC and Infidelity (for tokens and other categories PC and
            Infidelity under removal), ``"all"`` for every registered metric that fits the problem. By default the
            metrics that decide, ``effect_correlation`` and ``effect_correlation_baseline``, and the paper's.

    Returns:
        A dict of results. A metric object is found under its name; where several share one, under its short form,
        such as ``"dpc(order='signed')"``.

    Example:
        >>> import torch, verax
        >>> from verax.metrics import DirectedPredictionChange
        >>> x = torch.randn(3, 20)
        >>> problem = verax.Problem(torch.nn.Linear(20, 2), x)
        >>> evaluation = verax.evaluate(problem, x, metrics=("pc", DirectedPredictionChange(order="signed")))
        >>> sorted(evaluation), evaluation.rows  # one experiment serves both
        (['dpc', 'pc'], 120)
        >>> list(verax.evaluate(problem, {"gradient": verax.attribution.Gradient()}, ["dpc"])["dpc"].value)
        ['gradient']
    """
    return run(prepared(problem, attributions, metrics, check_call))
