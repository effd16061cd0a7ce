"""What makes scores mean little although nothing is wrong with the arguments: warnings and notes, once per call."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from verax.attribution.tree_shap import made_of_trees
from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.metrics.about import About, class_name
from verax.metrics.base import GuidedMetric, Metric, SampledMetric, all_draws
from verax.metrics.effect_correlation import EffectCorrelation
from verax.metrics.prediction_change import DirectedPredictionChange, PredictionChange
from verax.metrics.result import GuidedResult, Result
from verax.problem.attributed import Attributed, Task
from verax.problem.baselines import spreads as typical_spreads
from verax.problem.replacement import Baseline, Toward
from verax.scoring.class_scores import ClassNumbers
from verax.scoring.session import Session
from verax.statistics.intervals import Estimate, estimates

_FEWEST = 20  # rows, below which their range says little about the data
_ORDERS = 100.0  # the largest spread over the smallest, from which one sigma does not fit all
_SEVERAL = 5  # inputs that are not all the same by chance
_SATURATED = 1e-6  # of a probability, to 0 or 1
_NEARLY_SURE = 1e-3  # the same, from which few draws move a probability more than all others together
_SHOWN = 5  # names of a message
_FEWEST_INPUTS = 8  # inputs of a class that say something about it
_CHANCE = 0.02  # of a warning that is wrong, over all that is looked at
_CONSTANT = 0.01  # spread of f(x) minus the sum of attributions, as a share of the spread of the sums
_OTHER = 0.05  # distance of that constant from the baseline's score, as a share of the same
_SURE = 1e-4  # probabilities nearer to 0 or 1 have logits that are known too badly


def warn_of_scales(problem: Attributed, metrics: Mapping[str, Metric]) -> None:
    """Warn of baselines that no row of a table has, and of noise of one size for columns of many."""
    if problem.inputs.ndim != 2 or not problem.inputs.is_floating_point():
        return
    sampled = [draws for metric in metrics.values() if isinstance(metric, SampledMetric) for draws in all_draws(metric)]
    replaces = any(draws.perturbation == "baseline" for draws in sampled)
    guided = [metric.experiment.replacement for metric in metrics.values() if isinstance(metric, GuidedMetric)]
    become = [moves or problem.replacement for moves in (*guided, *([None] if replaces else []))]
    if any(isinstance(moves, Baseline | Toward) for moves in become):
        _warn_of_baselines(problem)
    noisy = any(draws.perturbation == "gaussian" and isinstance(draws.sigma, float) for draws in sampled)
    local = [metric.label for metric in metrics.values() if isinstance(metric, GuidedMetric) and metric.kind == "local"]
    spreads = _unlike_spreads(problem) if noisy or local else ""
    if spreads and noisy:
        warn(
            f"sigma: one number for columns whose spreads go from {spreads}: noise that drowns one column does not "
            'touch another. Give the metric sigma="std", and the problem background=train_inputs.',
        )
    if spreads and local:
        warn(
            f"{local[0]} ranks features by the size of their attributions, and the spreads of the columns go from "
            f"{spreads}: slopes per unit are not alike. Give slopes per standard deviation (times the column's "
            "spread), or standardise the columns.",
        )


def warn_of_saturation(task: Task, session: Session) -> None:
    """Warn where the model is so sure of all inputs that its probabilities hardly move."""
    if _certainty(task, session, _SATURATED) == 1 and len(task.clean) >= _SEVERAL:
        warn(
            "All scores are saturated: the model gives every input a probability within 1e-6 of 0 or 1, so that "
            'removing a feature hardly shows. Follow the logit: output="logit".',
        )


def sure_share(task: Task, session: Session) -> float:
    """The share of inputs whose tracked probability is within 0.001 of 0 or 1; 0 for trees, where it jumps anyway."""
    trees = session.module is None and made_of_trees(session.plain.adapter)
    return 0.0 if trees else _certainty(task, session, _NEARLY_SURE)


def _certainty(task: Task, session: Session, distance: float) -> float:
    """The share of inputs whose tracked probability is this near to 0 or 1; 0 where no probability is tracked."""
    if session.output != "probability" or session.returns == "values":
        return 0.0
    return float((torch.minimum(task.clean, 1 - task.clean) < distance).double().mean())


def _warn_of_baselines(problem: Attributed) -> None:
    rows = problem.inputs if problem.background is None else problem.background
    if len(rows) < _FEWEST:
        return
    rows = rows.to(problem.inputs.device)
    gaps = rows.isnan()
    low, high = rows.masked_fill(gaps, torch.inf).amin(0), rows.masked_fill(gaps, -torch.inf).amax(0)
    baselines = problem.baselines[:1] if problem.baselines.stride(0) == 0 else problem.baselines
    outside = ((baselines < low) | (baselines > high)) & (problem.inputs != baselines).any(0)
    if problem.given.codes is not None:
        outside &= ~problem.given.codes
    columns = outside.any(0).nonzero()[:, 0].tolist()
    if not columns:
        return
    first, names = columns[0], problem.given.names
    row = int(outside[:, first].nonzero()[0])
    numbers = f"{float(low[first]):.3g} to {float(high[first]):.3g}, the baseline is {float(baselines[row, first]):.3g}"
    named = names if names is not None and len(names) == problem.inputs.shape[1] else None
    listed = ", ".join(f"column {column}" if named is None else named[column] for column in columns[:_SHOWN])
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    warn(
        f"baselines: outside what the data hold in {listed}{more} (the first holds {numbers}), so perturbed rows are "
        'unlike any that the model has seen. Pass baselines="mean" with background=train_inputs, or standardise.',
    )


def _unlike_spreads(problem: Attributed) -> str:
    """The smallest and the largest spread of columns that hold amounts, where they differ by orders of magnitude."""
    if problem.spread is None and len(problem.inputs) < _FEWEST:
        return ""
    spread = typical_spreads(problem.inputs) if problem.spread is None else problem.spread
    moving = spread if problem.given.codes is None else spread[~problem.given.codes]
    moving = moving[moving > 0]
    if len(moving) < 2 or float(moving.max() / moving.min()) < _ORDERS:
        return ""
    return f"{float(moving.min()):.2g} to {float(moving.max()):.2g}"


def other_references(task: Task, session: Session, results: Mapping[str, Result]) -> tuple[str, ...]:
    """Say which attributions sum to ``f(x) - c`` with another ``c`` than the score of the call's baseline."""
    removal = _removal(task, results)
    if removal is None:
        return ()
    words = []
    for place, label in enumerate(removal.labels):
        sums = task.problem.attributions[place].flatten(1).sum(1, dtype=torch.float64).cpu()
        for constant in _constants(task, removal.context.about, sums):
            scores = _at_baselines(task, session, removal, place, constant.rows)
            scores = torch.logit(scores, _SURE) if constant.logit else scores
            if len(scores) > 1 and float(scores.std()) > _CONSTANT * constant.spread:
                continue
            c, b = constant.mean, float(scores.mean())
            if abs(c - b) > _OTHER * constant.spread:
                words.append(
                    f"{label}: its values sum to f(x) {'-' if c >= 0 else '+'} {abs(c):.3g} ({constant.words}), but "
                    f"the baseline of this call scores {b:.3g}; a difference in {removal.metric.label} may come from "
                    "this alone. Pass what it was explained against as baselines=, or explain it against this baseline."
                )
            break
    return tuple(words)


def _removal(task: Task, results: Mapping[str, Result]) -> Result | None:
    """A result of features that become the baselines of the call, curves first; None where there is none."""
    usual = isinstance(task.problem.replacement, Baseline)

    def removes(result: Result) -> bool:
        if isinstance(result, GuidedResult):
            replacement = result.metric.experiment.replacement
            return usual if replacement is None else isinstance(replacement, Baseline)
        sampled = usual and isinstance(result.metric, SampledMetric)
        return sampled and any(draws.perturbation == "baseline" for draws in all_draws(result.metric))

    first = sorted(results.values(), key=lambda result: not isinstance(result, GuidedResult))
    return next(filter(removes, first), None)


class _Constant(NamedTuple):
    """Attributions of one class that sum to the score, on some scale, minus a constant."""

    words: str  # the scale, to be read
    rows: Int[Tensor, " m"]  # the inputs of that class
    mean: float  # the constant
    spread: float  # of the sums
    logit: bool  # whether the scale is the logit of a probability


def _constants(task: Task, about: About, sums: Float[Tensor, " n"]) -> Iterator[_Constant]:
    """On each scale on which attributions are additive: what they leave of the score."""
    clean, target = task.clean.double().cpu(), task.target.cpu()
    of_class = target == target.mode().values  # of a class, because what is 0.3 for one is 0.7 for the other
    scales = [(False, clean, of_class)]
    if about.score == "probability":
        scales.append((True, torch.logit(clean, _SURE), of_class & (clean > _SURE) & (clean < 1 - _SURE)))
    for logit, scores, held in scales:
        rows = held.nonzero()[:, 0]
        if len(rows) < _FEWEST_INPUTS:
            continue
        left, spread = (scores - sums)[rows], float(sums[rows].std())
        if spread > 0 and float(left.std()) <= _CONSTANT * spread:
            name = "logit" if logit else about.score
            words = name if name == "value" else f"{name} of {class_name(int(target[rows][0]), about.labels)}"
            yield _Constant(words, rows, float(left.mean()), spread, logit)


def _at_baselines(
    task: Task, session: Session, removal: Result, place: int, rows: Int[Tensor, " m"]
) -> Float[Tensor, " k"]:
    """Scores of inputs without their features: where curves end, or the scores of a few baselines."""
    if isinstance(removal, GuidedResult):
        return removal.guided.curves[place, rows, 0, -1].double().cpu()
    checked = task.problem.given
    fixed = checked.fixed(slice(None))
    alike = checked.baselines.stride(0) == 0 and fixed is None
    scored = rows[: 1 if alike else _FEWEST_INPUTS]
    removed = checked.baselines[scored]
    if fixed is not None:
        held = fixed[scored] if len(fixed) > 1 else fixed
        removed = torch.where(held.to(removed.device), checked.values[scored], removed)
    return session.scores_of(removed, scored, task.target).double().cpu()


def warn_of_other_class(task: Task, session: Session, results: Mapping[str, Result]) -> None:
    """Warn of attributions of a binary classifier that seem to explain one class for all inputs, or the other one."""
    if session.classes != 2 or session.returns == "values" or isinstance(task.problem.problem.target, ClassNumbers):
        return  # columns come from calls of Verax itself, which computed the attributions for them
    if task.problem.problem.target is None:
        predicted = task.target.cpu()
    elif session.output == "logit" and session.returns == "logits":
        return  # of two logits one does not say which class is predicted
    else:
        sure = task.clean >= (0.5 if session.output == "probability" else 0.0)
        predicted = torch.where(sure, task.target, 1 - task.target).cpu()
    if min(int((predicted == label).sum()) for label in (0, 1)) < _FEWEST_INPUTS:
        return
    odd = [result for result in results.values() if _negates(result.metric)]  # whose score negation would negate
    level = 1 - _CHANCE / max(1, sum(2 * len(result.labels) for result in odd))
    mixed = []
    sound = set(task.problem.of_tracked)  # and what is above or below 0 in both classes
    for result in odd:
        scores = result.scores.double().cpu()
        by_class = (estimates(scores[:, predicted == number], level=level) for number in (0, 1))
        for label, *means in zip(result.labels, *by_class, strict=True):
            if min(mean.low for mean in means) > 0 or max(mean.high for mean in means) < 0:
                sound.add(label)
            mixed += [(result, label, low, means[low], means[1 - low]) for low in (0, 1)]
    wrong = [case for case in mixed if case[3].high < 0 < case[4].low and case[1] not in sound]
    if wrong:
        warn(_warning(wrong[0][0], [case[1:] for case in wrong if case[0] is wrong[0][0]], predicted, task))


def _negates(metric: Metric) -> bool:
    """Whether attributions that are negated have their score negated, exactly."""
    if isinstance(metric, PredictionChange | DirectedPredictionChange):
        return metric.order == "signed" and metric.area == "between"
    return isinstance(metric, EffectCorrelation)


def _warning(
    result: Result, wrong: list[tuple[str, int, Estimate, Estimate]], predicted: Int[Tensor, " n"], task: Task
) -> str:
    """Of attributions that are surely below 0 for one class and above 0 for the other: name, class, both means."""
    label, low, below, above = wrong[0]
    labels, metric = result.context.about.labels, result.metric.label
    named = ", ".join(dict.fromkeys(name for name, *_ in wrong))
    scores = result.scores[result.labels.index(label)].double().cpu()
    better = float(torch.where(predicted == low, -scores, scores).mean())
    says = (
        f"{named} score below 0 for inputs predicted as {class_name(low, labels)} ({metric} {below.mean:.3g}) and "
        f"above 0 for the others ({above.mean:.3g}); negated there, {label} would score {better:.3g} instead of "
        f"{float(scores.mean()):.3g}"
    )
    if task.problem.problem.target is None:
        other = f'"{labels[1 - low]}"' if labels is not None else str(1 - low)
        return f"target: {says}. If they explain {class_name(1 - low, labels)} for all inputs, pass target={other}."
    return f"target: {says}. If they explain the predicted class of each input, leave target out."
