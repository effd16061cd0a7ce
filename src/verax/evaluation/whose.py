"""Whose class and whose baseline an attribution explains, as the results of a call show it; no model row is needed."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.metrics.about import class_name
from verax.metrics.effect_correlation import EffectCorrelation
from verax.metrics.prediction_change import DirectedPredictionChange, PredictionChange
from verax.metrics.result import GuidedResult, Result
from verax.problem.attributed import Task
from verax.problem.replacement import Baseline
from verax.scoring.session import Session
from verax.scoring.targets import Columns
from verax.statistics.intervals import Estimate, estimates

_FEWEST = 8  # inputs of a class that say something about it
_CHANCE = 0.02  # of a warning that is wrong, over all that is looked at
_CONSTANT = 0.01  # spread of f(x) minus the sum of attributions, as a share of the spread of the sums
_OTHER = 0.05  # distance of that constant from the baseline's score, as a share of the same
_SURE = 1e-4  # probabilities nearer to 0 or 1 have logits that are known too badly


def other_references(task: Task, results: Mapping[str, Result]) -> tuple[str, ...]:
    """Say which attributions sum to ``f(x) - c`` with another ``c`` than the score of the call's baseline.

    Only where some metric removes features towards that baseline: the end of its curves is the baseline's score.
    """
    guided = (one for one in results.values() if isinstance(one, GuidedResult))
    removal = next((one for one in guided if _removes(one, task)), None)
    if removal is None:
        return ()
    found = []
    for place, label in enumerate(removal.labels):
        sums = task.problem.attributions[place].double().cpu().flatten(1).sum(1)
        ends = removal.guided.curves[place, :, 0, -1].double().cpu()
        if (reference := _reference(task, removal, sums, ends)) is not None:
            scale, c, b = reference
            found.append(
                f"{label}: its values sum to f(x) {'-' if c >= 0 else '+'} {abs(c):.3g} ({scale}), but the baseline of "
                f"this call scores {b:.3g}; a difference in {removal.metric.label} may come from this alone. Pass what "
                "it was explained against as baselines=, or explain it against this baseline."
            )
    return tuple(found)


def _removes(result: GuidedResult, task: Task) -> bool:
    """Whether the curves of a result end at the baselines of the call."""
    moves = result.metric.experiment.replacement or task.problem.replacement
    return isinstance(moves, Baseline)


def _reference(
    task: Task, result: GuidedResult, sums: Float[Tensor, " n"], ends: Float[Tensor, " n"]
) -> tuple[str, float, float] | None:
    """The scale in which attributions are additive, their reference and the baseline's score, where they differ."""
    about, clean, target = result.context.about, task.clean.double().cpu(), task.target.cpu()
    own = target == target.mode().values  # of a class, because what is 0.3 for one is 0.7 for the other
    scales = [(about.score, clean, ends, own)]
    if about.score == "probability":
        unsure = own & (clean > _SURE) & (clean < 1 - _SURE)
        scales.append(("logit", torch.logit(clean, _SURE), torch.logit(ends, _SURE), unsure))
    for scale, scores, reached, rows in scales:
        if int(rows.sum()) < _FEWEST:
            continue
        differences, spread = (scores - sums)[rows], float(sums[rows].std())
        if spread == 0 or max(float(differences.std()), float(reached[rows].std())) > _CONSTANT * spread:
            continue
        c, b = float(differences.mean()), float(reached[rows].mean())
        if abs(c - b) <= _OTHER * spread:
            return None
        words = scale if scale == "value" else f"{scale} of {class_name(int(target[rows][0]), about.labels)}"
        return words, c, b
    return None


def warn_of_other_class(task: Task, session: Session, results: Mapping[str, Result]) -> None:
    """Warn of attributions of a binary classifier that seem to explain one class for all inputs, or the other one.

    Under metrics that negate their score when attributions are negated, what negation would give is known.
    """
    if session.classes != 2 or session.returns == "values" or isinstance(task.problem.problem.target, Columns):
        return  # columns come from calls of Verax itself, which computed the attributions for them
    predicted = _predicted(task, session)
    if predicted is None or min(int((predicted == one).sum()) for one in (0, 1)) < _FEWEST:
        return
    odd = {name: result for name, result in results.items() if _negates(result)}
    level = 1 - _CHANCE / max(1, sum(2 * len(result.labels) for result in odd.values()))
    # explanations of what is followed: those that the call computed, and those that are alike in both classes elsewhere
    sound = task.problem.computed.union(*(_alike(result, predicted, level) for result in odd.values()))
    for result in odd.values():
        wrong = [one for one in _reversed(result, predicted, level) if one[0] not in sound]
        if wrong:
            warn(_words(result, wrong, predicted, task))
            return


def _predicted(task: Task, session: Session) -> Int[Tensor, " n"] | None:
    """The class that is predicted for each input; None where the followed score does not say it."""
    if task.problem.problem.target is None:
        return task.target.cpu()
    if session.output == "logit" and session.returns == "logits":  # of two logits one says nothing
        return None
    sure = task.clean >= (0.5 if session.output == "probability" else 0.0)
    return torch.where(sure, task.target, 1 - task.target).cpu()


def _negates(result: Result) -> bool:
    """Whether attributions that are negated have their score negated, exactly."""
    metric = result.metric
    if isinstance(metric, PredictionChange | DirectedPredictionChange):
        return metric.order == "signed" and metric.area == "between"
    return isinstance(metric, EffectCorrelation)


def _reversed(
    result: Result, predicted: Int[Tensor, " n"], level: float
) -> Iterator[tuple[str, int, Estimate, Estimate]]:
    """Attributions that are surely below 0 for one class and above 0 for the other: name, class, both means."""
    scores = result.scores.double().cpu()
    means = [estimates(scores[:, predicted == one], level=level) for one in (0, 1)]
    for place, label in enumerate(result.labels):
        for low in (0, 1):
            below, above = means[low][place], means[1 - low][place]
            if below.high < 0 < above.low:
                yield label, low, below, above


def _alike(result: Result, predicted: Int[Tensor, " n"], level: float) -> set[str]:
    """Attributions that are surely above 0 for both classes, or below it for both."""
    scores = result.scores.double().cpu()
    means = [estimates(scores[:, predicted == one], level=level) for one in (0, 1)]
    pairs = zip(result.labels, *means, strict=True)
    return {label for label, one, other in pairs if min(one.low, other.low) > 0 or max(one.high, other.high) < 0}


def _words(
    result: Result, wrong: list[tuple[str, int, Estimate, Estimate]], predicted: Int[Tensor, " n"], task: Task
) -> str:
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
