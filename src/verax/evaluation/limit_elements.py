"""Limits of features with several elements: whose signs are free, and how attributions of elements have them."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from verax.attribution.coalitions import removable, spread_evenly, spread_over
from verax.core.shapes import Float
from verax.metrics.weighted_area import WeightedArea
from verax.perturbation.feature_sums import direction_sums
from verax.problem.attributed import Task
from verax.problem.checked_inputs import undirected
from verax.problem.features import FeatureMap


def by_element(metric: WeightedArea, features: FeatureMap) -> bool:
    """Whether a feature has the sign of what is predicted for its elements, ``sum_i a_i (x_i - b_i)``.

    It is free where any of them moves, even if ``x - baseline`` sums to 0. In signed order ``x - baseline`` is summed
    alone, whatever the rule is.
    """
    several = int(features.counts(slice(None)).min()) < math.prod(features.shape)
    return several and metric.signing == "magnitude" and metric.experiment.rule != "sum"


def shared_out(task: Task, metric: WeightedArea, values: Float[Tensor, "k n features"]) -> Float[Tensor, "k n *shape"]:
    """Give attributions of one value per feature to its elements, so that the metric finds the signs of the limits.

    Where predictions of elements are summed, a feature's value goes to those that move as the feature does, or up where
    they cancel out: then no prediction is against another, and the sum has a sign.

    Args:
        task: The inputs.
        metric: What is measured, with what removed features become.
        values: In the order and with the signs that limits were found for.
    """
    problem = task.problem
    features, rows = problem.features, slice(0, len(problem))
    if not by_element(metric, features):
        return spread_evenly(features, values, rows)
    inputs = problem.inputs.to(values.device)
    baselines = replace(task, replacement=metric.experiment.replacement).replaced(rows, values.device)
    without = undirected(problem.given, inputs, baselines)
    ways = direction_sums(features, inputs, baselines, rows, without).free_signs().to(values)
    moves = (inputs.double() - baselines.double()).sign()
    if without is not None:
        moves = moves.masked_fill(without, 0)
    every = removable(features, rows, values)
    way = features.expand(ways, torch.arange(len(problem), device=values.device))
    return spread_over(features, values, rows, torch.where(way == 0, every, (moves == way).to(every)))
