"""Limits where a step of the metric holds several features: chains found one feature at a time, scored in its steps."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.evaluation.limit_elements import shared_out
from verax.evaluation.limit_parts import Part, part_of
from verax.metrics.areas import decay_weights
from verax.metrics.limit_reading import Extremes
from verax.metrics.weighted_area import DirectedArea, WeightedArea
from verax.perturbation.guided import GuidedScores, guided_scores
from verax.perturbation.order import cut_points, ranks, removal_order
from verax.problem.attributed import Task
from verax.scoring.session import Session


def in_own_steps(
    session: Session, task: Task, metric: WeightedArea, which: Int[Tensor, " m"], chains: Sequence[Extremes]
) -> Extremes:
    """The best and the worst of some attributions, scored as the metric does, in its own steps with its own rule.

    Args:
        session: The model.
        task: All inputs.
        metric: What is measured.
        which: Inputs whose chains were found.
        chains: As the metric reads chains and, in magnitude order, as PC does.
    """
    part = part_of(session, task, which)
    own, *others = chains
    values = [own.attribution[part.which], own.opposite[part.which]]
    for other in others:
        alike = _one_sign_per_step(part, metric, other.attribution[part.which])
        values += [alike, -alike]
    stacked = torch.stack(values)
    scores = metric.reduce(_guided(part, metric, stacked)).to(stacked)
    best, worst = scores.max(0), scores.min(0)
    rows = torch.arange(len(which), device=stacked.device)
    chance = own.chance[part.which]
    if isinstance(metric, DirectedArea) and metric.chance is None:  # steps of several features have other signs
        chance = torch.full_like(chance, torch.nan)
    return Extremes(
        best=best.values,
        worst=worst.values,
        attribution=stacked[best.indices, rows],
        opposite=stacked[worst.indices, rows],
        chance=chance,
    )


def _guided(part: Part, metric: WeightedArea, values: Float[Tensor, "k m features"]) -> GuidedScores:
    """Run the metric's experiment on attributions of one value per feature."""
    problem = part.task.problem
    spread = shared_out(part.task, metric, values.nan_to_num()).to(problem.inputs.device)
    asked = replace(
        problem,
        attributions=tuple(spread),
        precision=torch.full((len(values), 1, 1), torch.finfo(torch.float64).eps, dtype=torch.float64),
        layout=replace(problem.layout, form="stack", names=()),
    )
    (found,) = guided_scores(part.session, replace(part.task, problem=asked), [metric.experiment])
    return found


def _one_sign_per_step(
    part: Part, metric: WeightedArea, values: Float[Tensor, "m features"]
) -> Float[Tensor, "m features"]:
    """Keep the order of a positive attribution, and give all features of a MoRF step the sign for which it counts."""
    found = _guided(part, metric, values[None])
    problem = part.task.problem
    counts = problem.features.counts(slice(None)).cpu()
    order = removal_order(values.nan_to_num(), "magnitude", counts.expand(len(values)))
    cuts = cut_points(counts, metric.experiment.steps, problem.features.most)[:, 1:].to(order.device)
    place = ranks(order).long()
    step = torch.searchsorted(cuts.expand(len(order), -1).contiguous(), place, right=True)
    signs = _step_signs(metric, found).to(values)
    return values * signs.gather(1, step.clamp(max=signs.shape[1] - 1))


def _step_signs(metric: WeightedArea, found: GuidedScores) -> Float[Tensor, "m steps"]:
    """For each MoRF step, the sign of attributions for which its change, and that of the LeRF step over it, count."""
    curves, direction = found.curves[0].double(), found.direction_sign[0, :, 0]
    weights = decay_weights(curves[:, 0], found.points)[:, 1:]
    if metric.form == "cumulative":
        weights = weights.flip(1).cumsum(1).flip(1)
    change = weights[:, None] * curves.diff(dim=-1)
    gain = -change[:, 0]
    if curves.shape[1] > 1:
        step = torch.arange(weights.shape[1], device=weights.device)
        gain = gain + change[:, 1].gather(1, (found.points[:, None] - 2 - step).clamp(min=0))
    return torch.where(gain * direction < 0, -1.0, 1.0)
