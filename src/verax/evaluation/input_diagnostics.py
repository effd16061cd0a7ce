"""Doubts: what makes scores mean little although nothing is wrong with the arguments; each is said once per call."""

from collections.abc import Mapping

import torch
from torch import Tensor

from verax.attribution.tree_shap import made_of_trees
from verax.core.shapes import Float, Shaped
from verax.core.warn import warn
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.problem.attributed import Attributed, Task
from verax.problem.replacement import Baseline, Toward
from verax.problem.typical_rows import spreads as typical_spreads
from verax.scoring.session import Session

_FEWEST = 20  # rows whose range tells something about the data
_ORDERS = 100.0  # the largest spread over the smallest, from which one sigma does not fit all
_SEVERAL = 5  # inputs that are not all the same by chance
_SATURATED = 1e-6  # of a probability, to 0 or 1
_SURE = 1e-3  # the same, from which few draws move a probability more than all others together
_SHOWN = 5  # names of a message


def warn_of_scales(problem: Attributed, metrics: Mapping[str, Metric]) -> None:
    """Warn of baselines that no row of a table has, and of noise of one size for columns of many."""
    if problem.inputs.ndim != 2 or not problem.inputs.is_floating_point():
        return
    sampled = [draws for metric in metrics.values() if isinstance(metric, SampledMetric) for draws in all_draws(metric)]
    replaces = any(draws.perturbation == "baseline" for draws in sampled)
    guided = [metric.experiment.replacement for metric in metrics.values() if isinstance(metric, GuidedMetric)]
    become = [one or problem.replacement for one in (*guided, *([None] if replaces else []))]
    if any(isinstance(one, Baseline | Toward) for one in become):
        _warn_of_baselines(problem)
    noisy = any(draws.perturbation == "gaussian" and isinstance(draws.sigma, float) for draws in sampled)
    local = [metric.label for metric in metrics.values() if isinstance(metric, GuidedMetric) and metric.kind == "local"]
    if (noisy or local) and (spreads := _unlike_spreads(problem)) is not None:
        _warn_of_units(spreads, noisy, local)


def warn_of_saturation(task: Task, session: Session) -> None:
    """Warn where the model is so sure of all inputs that its probabilities hardly move."""
    if session.output != "probability" or session.returns == "values":
        return
    distance = torch.minimum(task.clean, 1 - task.clean)
    if len(distance) >= _SEVERAL and bool((distance < _SATURATED).all()):
        warn(
            "All scores are saturated: the model gives every input a probability within 1e-6 of 0 or 1, so that "
            'removing a feature hardly shows. Follow the logit: output="logit".',
        )


def sure_share(task: Task, session: Session) -> float:
    """The share of inputs whose followed probability is within 0.001 of 0 or 1.

    0 where no probability is followed, and for trees, whose probabilities jump there as they do elsewhere.
    """
    if session.output != "probability" or session.returns == "values" or made_of_trees(session.plain.adapter):
        return 0.0
    return float((torch.minimum(task.clean, 1 - task.clean) < _SURE).double().mean())


def _warn_of_baselines(problem: Attributed) -> None:
    rows = problem.inputs if problem.background is None else problem.background
    if len(rows) < _FEWEST:
        return
    low, high = _range(rows.to(problem.inputs.device))
    baselines = problem.baselines[:1] if problem.baselines.stride(0) == 0 else problem.baselines
    outside = ((baselines < low) | (baselines > high)) & (problem.inputs != baselines).any(0)
    if problem.given.codes is not None:
        outside &= ~problem.given.codes
    columns = outside.any(0).nonzero()[:, 0].tolist()
    if not columns:
        return
    first = columns[0]
    row = int(outside[:, first].nonzero()[0])
    found = f"{float(low[first]):.3g} to {float(high[first]):.3g}, the baseline is {float(baselines[row, first]):.3g}"
    warn(
        f"baselines: outside what the data hold in {_listed(columns, problem)} (the first holds {found}), so "
        "perturbed rows are unlike "
        'any that the model has seen. Pass baselines="mean" with background=train_inputs, or standardise.',
    )


def _warn_of_units(spreads: str, noisy: bool, local: list[str]) -> None:
    if noisy:
        warn(
            f"sigma: one number for columns whose spreads go from {spreads}: noise that drowns one column does not "
            'touch another. Give the metric sigma="std", and the problem background=train_inputs.',
        )
    if local:
        warn(
            f"{local[0]} ranks features by the size of their attributions, and the spreads of the columns go from "
            f"{spreads}: slopes per unit are not alike. Give slopes per standard deviation (times the column's "
            "spread), or standardise the columns.",
        )


def _unlike_spreads(problem: Attributed) -> str | None:
    """The smallest and the largest spread of columns that hold amounts, where they differ by orders of magnitude."""
    if problem.spread is not None:
        spread = problem.spread
    elif len(problem.inputs) >= _FEWEST:
        spread = typical_spreads(problem.inputs)
    else:
        return None
    if problem.given.codes is not None:
        spread = spread[~problem.given.codes]
    moving = spread[spread > 0]
    if len(moving) < 2 or float(moving.max() / moving.min()) < _ORDERS:
        return None
    return f"{float(moving.min()):.2g} to {float(moving.max()):.2g}"


def _range(rows: Shaped[Tensor, "m d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    gaps = rows.isnan()
    return rows.masked_fill(gaps, torch.inf).amin(0), rows.masked_fill(gaps, -torch.inf).amax(0)


def _listed(columns: list[int], problem: Attributed) -> str:
    names = problem.given.names
    own = names is not None and len(names) == problem.inputs.shape[1]
    shown = [str(names[one]) if own and names is not None else f"column {one}" for one in columns[:_SHOWN]]
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    return ", ".join(shown) + more
