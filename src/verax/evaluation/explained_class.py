"""Which class a ``shap.Explanation`` explains: its values and base values sum to that class's score."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.metrics.about import About, class_name
from verax.metrics.base import SampledMetric, all_draws
from verax.metrics.effect_correlation import EffectCorrelation
from verax.metrics.prediction_change import DirectedPredictionChange, PredictionChange
from verax.metrics.result import GuidedResult, Result
from verax.problem.attributed import Task
from verax.problem.given_attributions import explanations_of
from verax.problem.problem import Problem
from verax.problem.replacement import Baseline
from verax.scoring.session import Session
from verax.scoring.targets import Columns, resolve_target
from verax.statistics.intervals import Estimate, estimates

_TOLERANCE = 0.01  # of a probability: explainers that approximate, such as DeepExplainer, allow themselves as much


class Known(NamedTuple):
    """What a call is about, once the classes of explanations are known.

    Attributes:
        attributions: As they were given; of an explanation with one value per class, those of the followed class.
        problem: With the class to follow.
        remarks: What to tell of it, a sentence each.
    """

    attributions: Any
    problem: Problem
    remarks: tuple[str, ...] = ()


def with_known_class(attributions: Any, problem: Problem, per_row: bool = False) -> Known:
    """Follow the class that explanations explain, or raise where a problem says another one or none can be known.

    Args:
        attributions: As the user gave them.
        problem: Where its target is left out, the class that is explained is followed.
        per_row: Whether predicted classes are told for each row, for parts of a stream that are joined later.
    """
    explanations = explanations_of(attributions)
    if not explanations:
        return Known(attributions, problem)
    by_class = {label: one for label, one in explanations.items() if _has_classes(one, problem.inputs.ndim)}
    single = {label: one for label, one in explanations.items() if label not in by_class}
    remarks: tuple[str, ...] = ()
    if single and problem.scorer.adapter.returns != "values":
        target, remarks = _followed(single, problem, per_row)
        problem = problem if target is None else problem.with_target(target)
    if not by_class:
        return Known(attributions, problem, remarks)
    classes, count = problem.classes.cpu(), problem.class_scores("probability").shape[1]
    picked = {label: _of_class(label, one, classes, count) for label, one in by_class.items()}
    if not isinstance(attributions, Mapping):
        return Known(next(iter(picked.values())), problem, remarks)
    return Known({name: picked.get(name, one) for name, one in attributions.items()}, problem, remarks)


def _followed(explanations: Mapping[Any, Any], problem: Problem, per_row: bool) -> tuple[Any, tuple[str, ...]]:
    """The class to follow, None where the problem says it, and what to tell of it."""
    chances, count = problem.class_scores("probability"), len(problem)
    if problem.scorer.adapter.returns == "values":  # which some models tell as they run
        return None, ()
    predicted, labels = chances.argmax(1), problem.labels
    known = {label: _class_of(_sums(one, count), chances) for label, one in explanations.items()}
    if problem.scorer.adapter.returns == "logits" and any(classes is None for classes in known.values()):
        raw = problem.class_scores("logit")
        known |= {
            label: _class_of_logits(_sums(explanations[label], count), raw, predicted)
            for label, classes in known.items()
            if classes is None
        }
    if problem.target is not None:
        wanted = resolve_target(problem.target, predicted, chances.shape[1], labels)
        _check_agreement(known, wanted, labels)
        return None, ()
    classes = _common_class(known, labels)
    if (classes == classes[0]).all():
        number = int(classes[0])
        named = ", ".join(_name(label) for label in known)
        remark = f"{named}: the explanation is of {class_name(number, labels)}, which is followed for all inputs."
        return _as_target(number, labels), (remark,)
    return [_as_target(int(one), labels) for one in classes] if per_row else None, ()


def _has_classes(explanation: Any, axes: int) -> bool:
    """Whether the values of a row have an axis for classes behind those of the inputs, of so many axes."""
    return len(explanation.values) > 0 and np.ndim(explanation.values[0]) == axes


def _sums(explanation: Any, count: int) -> Float[Tensor, " n"] | None:
    """Values and base values of each row added up; None where they do not add up to one number per row."""
    values, base = explanation.values, explanation.base_values
    if base is None or np.size(base) not in (1, count) or len(values) != count:
        return None
    if _ragged(values):
        sums = np.asarray([np.sum(row, dtype=np.float64) for row in values])
    else:
        sums = np.asarray(values, dtype=np.float64).reshape(count, -1).sum(1)
    return torch.from_numpy(sums + np.asarray(base, dtype=np.float64).reshape(-1))


def _ragged(values: Any) -> bool:
    """Whether each row is an array of its own, as of texts of unlike lengths."""
    return isinstance(values, list | tuple) or np.asarray(values).dtype == object


def _class_of(sums: Float[Tensor, " n"] | None, chances: Float[Tensor, "n classes"]) -> Int[Tensor, " n"] | None:
    """The class of each row whose probability, or log-odds, is explained: one for all, or the predicted ones."""
    if sums is None:
        return None
    scores = torch.stack((sums, torch.sigmoid(sums)))  # log-odds are compared as probabilities, which do not saturate
    return _only([one for one in _candidates(chances) if _near(scores, chances, one)])


def _class_of_logits(
    sums: Float[Tensor, " n"] | None, logits: Float[Tensor, "n classes"], predicted: Int[Tensor, " n"]
) -> Int[Tensor, " n"] | None:
    """The same for one of a network's outputs."""
    if sums is None:
        return None
    scale = max(1.0, float(logits.abs().max()))
    candidates = [*_candidates(logits)[: logits.shape[1]], predicted]
    return _only([one for one in candidates if _near(sums[None] / scale, logits / scale, one)])


def _candidates(scores: Float[Tensor, "n classes"]) -> list[Int[Tensor, " n"]]:
    count, classes = scores.shape
    return [*(torch.full((count,), number) for number in range(classes)), scores.argmax(1)]


def _near(sums: Float[Tensor, "s n"], scores: Float[Tensor, "n classes"], classes: Int[Tensor, " n"]) -> bool:
    wanted = scores.gather(1, classes[:, None])[:, 0]
    return bool(((sums - wanted).abs().amax(1) <= _TOLERANCE).any())


def _only(candidates: Sequence[Int[Tensor, " n"]]) -> Int[Tensor, " n"] | None:
    """The candidate that all others are equal to; None where they differ, or there is none."""
    same = candidates and all(torch.equal(one, candidates[0]) for one in candidates)
    return candidates[0] if same else None


def _common_class(known: Mapping[Any, Int[Tensor, " n"] | None], labels: Sequence[Any] | None) -> Int[Tensor, " n"]:
    """The class that all explanations explain, or what to pass where it is not known."""
    classes: Tensor | None = None
    first = next(iter(known))
    for label, explained in known.items():
        if explained is None:
            raise ValueError(
                f"{_argument(label)}: which class the shap.Explanation explains is not known, because its values and "
                "base values do not sum to the model's probability or logit of any class. Pass that class, for "
                "instance target=1, which tree and linear explainers of a binary classifier explain."
            )
        if classes is not None and not torch.equal(explained, classes):
            row = int((explained != classes).nonzero()[0, 0])
            one, other = (class_name(int(held[row]), labels) for held in (classes, explained))
            raise ValueError(
                f"attributions: {_name(first)} explains {one} and {_name(label)} {other} in row {row}; compare "
                "explanations of the same class, or evaluate them one by one."
            )
        classes = explained
    assert classes is not None  # noqa: S101  # there is at least one
    return classes


def _check_agreement(
    known: Mapping[Any, Int[Tensor, " n"] | None], wanted: Int[Tensor, " n"], labels: Sequence[Any] | None
) -> None:
    for label, explained in known.items():
        if explained is None or torch.equal(explained, wanted):
            continue
        row = int((explained != wanted).nonzero()[0, 0])
        one, other = (class_name(int(held[row]), labels) for held in (explained, wanted))
        raise ValueError(
            f"target: expected the class that {_argument(label)} explains, {one} in row {row} (its values and base "
            f"values sum to that class's score), got {other}; leave target out to follow what is explained."
        )


def _of_class(label: Any, explanation: Any, classes: Int[Tensor, " n"], count: int) -> Any:
    """The values of each row's class."""
    values, base, chosen = explanation.values, explanation.base_values, classes.cpu().numpy()
    held = np.shape(values[0])[-1]
    if held != count:
        raise ValueError(
            f"{_argument(label)}: expected values of {count} classes or outputs, as the model has, got {held}; take "
            "those of one, explanation[..., 1], and pass target=1."
        )
    if base is not None and np.shape(base)[-1:] != (count,):
        raise ValueError(
            f"{_argument(label)}: expected a base value for each of {count} classes, as the values have, got base "
            f"values of shape {np.shape(base)}. Of interaction values pass the sums, explanation.values.sum(-1), with "
            "the class that they explain as target."
        )
    if _ragged(values):
        return [np.asarray(row)[..., number] for row, number in zip(values, chosen, strict=True)]
    array = np.asarray(values)
    return np.take_along_axis(array, chosen.reshape(len(array), *[1] * (array.ndim - 1)), axis=-1)[..., 0]


def _as_target(number: int, labels: Sequence[Any] | None) -> int | str:
    """A class as a user would pass it: by its label, where numbers may be taken for other labels."""
    return number if labels is None else str(labels[number])


def _argument(label: Any) -> str:
    return "attributions" if label is None else f"attributions[{label!r}]"


def _name(label: Any) -> str:
    return "attribution" if label is None else str(label)


_FEWEST_INPUTS = 8  # inputs of a class that say something about it
_CHANCE = 0.02  # of a warning that is wrong, over all that is looked at
_CONSTANT = 0.01  # spread of f(x) minus the sum of attributions, as a share of the spread of the sums
_OTHER = 0.05  # distance of that constant from the baseline's score, as a share of the same
_SURE = 1e-4  # probabilities nearer to 0 or 1 have logits that are known too badly


def other_references(task: Task, session: Session, results: Mapping[str, Result]) -> tuple[str, ...]:
    """Say which attributions sum to ``f(x) - c`` with another ``c`` than the score of the call's baseline.

    Only where some metric removes features towards that baseline. Curves end at the baseline's score; where there are
    none, a few baselines are scored, as soon as some attribution sums to ``f(x) - c`` at all.
    """
    removal = _removal(task, results)
    if removal is None:
        return ()
    words = []
    for place, label in enumerate(removal.labels):
        sums = task.problem.attributions[place].double().cpu().flatten(1).sum(1)
        for constant in _constants(task, removal.context.about, sums):
            if (baseline := constant.of_baseline(_at_baselines(task, session, removal, place, constant.rows))) is None:
                continue
            c, b = constant.mean, baseline
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
            own = result.metric.experiment.replacement
            return usual if own is None else isinstance(own, Baseline)
        sampled = usual and isinstance(result.metric, SampledMetric)
        return sampled and any(draws.perturbation == "baseline" for draws in all_draws(result.metric))

    first = sorted(results.values(), key=lambda result: not isinstance(result, GuidedResult))
    return next(filter(removes, first), None)


class _Constant(NamedTuple):
    """Attributions of one class that sum to the score, on some scale, minus a constant.

    Attributes:
        words: The scale, to be read.
        rows: The inputs of that class.
        mean: The constant.
        spread: Of the sums.
        logit: Whether the scale is the logit of a probability.
    """

    words: str
    rows: Int[Tensor, " m"]
    mean: float
    spread: float
    logit: bool

    def of_baseline(self, scores: Float[Tensor, " k"]) -> float | None:
        """The mean of scores of baselines on this scale; None where they differ."""
        held = torch.logit(scores, _SURE) if self.logit else scores
        alike = len(held) < 2 or float(held.std()) <= _CONSTANT * self.spread
        return float(held.mean()) if alike else None


def _constants(task: Task, about: About, sums: Float[Tensor, " n"]) -> Iterator[_Constant]:
    """On each scale on which attributions are additive: what they leave of the score."""
    clean, target = task.clean.double().cpu(), task.target.cpu()
    own = target == target.mode().values  # of a class, because what is 0.3 for one is 0.7 for the other
    scales = [(False, clean, own)]
    if about.score == "probability":
        scales.append((True, torch.logit(clean, _SURE), own & (clean > _SURE) & (clean < 1 - _SURE)))
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
    """Scores of inputs without their features: where curves end, or those of a few that the model is asked for."""
    if isinstance(removal, GuidedResult):
        return removal.guided.curves[place, rows, 0, -1].double().cpu()
    given = task.problem.given
    fixed = given.fixed(slice(None))
    alike = given.baselines.stride(0) == 0 and fixed is None
    asked = rows[: 1 if alike else _FEWEST_INPUTS]
    removed = given.baselines[asked]
    if fixed is not None:
        held = fixed[asked] if len(fixed) > 1 else fixed
        removed = torch.where(held.to(removed.device), given.values[asked], removed)
    return session.scores_of(removed, asked, task.target).double().cpu()


def warn_of_other_class(task: Task, session: Session, results: Mapping[str, Result]) -> None:
    """Warn of attributions of a binary classifier that seem to explain one class for all inputs, or the other one.

    Under metrics that negate their score when attributions are negated, what negation would give is known.
    """
    if session.classes != 2 or session.returns == "values" or isinstance(task.problem.problem.target, Columns):
        return  # columns come from calls of Verax itself, which computed the attributions for them
    predicted = _predicted(task, session)
    if predicted is None or min(int((predicted == one).sum()) for one in (0, 1)) < _FEWEST_INPUTS:
        return
    odd = {name: result for name, result in results.items() if _negates(result)}
    level = 1 - _CHANCE / max(1, sum(2 * len(result.labels) for result in odd.values()))
    # explanations of what is followed: those that the call computed, and those that are alike in both classes elsewhere
    sound = task.problem.computed.union(*(_alike(result, predicted, level) for result in odd.values()))
    for result in odd.values():
        wrong = [one for one in _reversed(result, predicted, level) if one[0] not in sound]
        if wrong:
            warn(_warning(result, wrong, predicted, task))
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


def _warning(
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
