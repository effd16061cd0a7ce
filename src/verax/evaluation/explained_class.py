"""Which class a ``shap.Explanation`` explains: its values and base values sum to that class's score."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float, Int
from verax.metrics.about import class_name
from verax.problem.attributed import explanations_of
from verax.problem.problem import Problem
from verax.scoring.class_scores import resolve_target
from verax.scoring.meter import Cost, Meter

_TOLERANCE = 0.01  # of a probability: explainers that approximate, such as DeepExplainer, allow themselves as much


class Known(NamedTuple):
    """What a call is about, once the classes of explanations are known."""

    attributions: Any  # as they were given; of an explanation with one value per class, those of the tracked class
    problem: Problem  # with the class to follow
    remarks: tuple[str, ...] = ()  # notes on it, a sentence each
    of_tracked: frozenset[str] = frozenset()  # names of those known to explain the class to follow
    spent: Cost = Cost()  # what it took to know them


def with_known_class(attributions: Any, problem: Problem, per_row: bool = False) -> Known:
    """Follow the class that explanations explain, or raise where a problem says another one or none can be known."""
    explanations = explanations_of(attributions)
    if not explanations or any(len(explanation.values) != len(problem) for explanation in explanations.values()):
        return Known(attributions, problem)  # of explanations of other rows, the check of shapes raises
    meter = Meter(problem.scorer.counts)
    by_class = {  # those whose values of a row have an axis for classes behind those of the inputs
        label: explanation
        for label, explanation in explanations.items()
        if len(explanation.values) > 0 and np.ndim(explanation.values[0]) == problem.inputs.ndim
    }
    single = {label: explanation for label, explanation in explanations.items() if label not in by_class}
    remarks: tuple[str, ...] = ()
    of_tracked = {_name(label) for label in by_class}
    if single and problem.scorer.adapter.returns != "values":
        target, remarks, known = _followed(single, problem, per_row)
        of_tracked |= known
        problem = problem if target is None else problem.with_target(target)
    if by_class:
        classes, count = problem.classes.cpu(), problem.class_scores("probability").shape[1]
        picked = {label: _of_class(label, explanation, classes, count) for label, explanation in by_class.items()}
        attributions = {**attributions, **picked} if isinstance(attributions, Mapping) else next(iter(picked.values()))
    return Known(attributions, problem, remarks, frozenset(of_tracked), meter.total())


def _followed(
    explanations: Mapping[Any, Any], problem: Problem, per_row: bool
) -> tuple[Any, tuple[str, ...], set[str]]:
    """The class to follow, None where the problem says it, notes on it, and names of what surely explains it."""
    chances, count = problem.class_scores("probability"), len(problem)
    if problem.scorer.adapter.returns == "values":  # which some models show as they run
        return None, (), set()
    predicted, labels = chances.argmax(1), problem.labels
    known: dict[Any, Tensor | None] = dict.fromkeys(explanations)
    for label, explanation in explanations.items():
        if (sums := _sums(explanation, count)) is None:
            continue
        # log-odds are compared as probabilities, which do not saturate
        known[label] = _class_of(torch.stack((sums, torch.sigmoid(sums))), chances, predicted)
        if known[label] is None and problem.scorer.adapter.returns == "logits":  # one of a network's outputs
            logits = problem.class_scores("logit")
            scale = max(1.0, float(logits.abs().max()))
            known[label] = _class_of(sums[None] / scale, logits / scale, predicted)
    if problem.target is not None:
        followed = resolve_target(problem.target, predicted, chances.shape[1], labels)
        for label, explained in known.items():
            if difference := _difference(explained, followed, labels):
                row, explained_name, name = difference
                raise ValueError(
                    f"target: expected the class that {_argument(label)} explains, {explained_name} in row {row} (its "
                    f"values and base values sum to that class's score), got {name}; leave target out to follow what "
                    "is explained."
                )
        return None, (), {_name(label) for label, explained in known.items() if explained is not None}
    classes, names = _common_class(known, labels), {_name(label) for label in known}
    # as a user would pass them: by their labels, where numbers may be taken for other labels
    targets = [number if labels is None else str(labels[number]) for number in classes.tolist()]
    if (classes == classes[0]).all():
        tracked = f"the explanation is of {class_name(int(classes[0]), labels)}, which is tracked for all inputs"
        return targets[0], (f"{', '.join(map(_name, known))}: {tracked}.",), names
    return targets if per_row else None, (), names


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


def _class_of(
    sums: Float[Tensor, "s n"], scores: Float[Tensor, "n classes"], predicted: Int[Tensor, " n"]
) -> Int[Tensor, " n"] | None:
    """The class of each row that one of the sums is near to: one for all, or the predicted ones; None if in doubt."""
    fitting = []
    for classes in (*(torch.full_like(predicted, number) for number in range(scores.shape[1])), predicted):
        tracked = scores.gather(1, classes[:, None])[:, 0]
        if ((sums - tracked).abs().amax(1) <= _TOLERANCE).any():
            fitting.append(classes)
    return fitting[0] if fitting and all(torch.equal(classes, fitting[0]) for classes in fitting) else None


def _common_class(known: Mapping[Any, Int[Tensor, " n"] | None], labels: Sequence[Any] | None) -> Int[Tensor, " n"]:
    """The class that all explanations explain, or what to pass where it is not known."""
    first = next(iter(known))
    for label, explained in known.items():
        if explained is None:
            raise ValueError(
                f"{_argument(label)}: which class the shap.Explanation explains is not known, because its values and "
                "base values do not sum to the model's probability or logit of any class. Pass that class, for "
                "instance target=1, which tree and linear explainers of a binary classifier explain."
            )
        if difference := _difference(known[first], explained, labels):
            row, *names = difference
            raise ValueError(
                f"attributions: {_name(first)} explains {names[0]} and {_name(label)} {names[1]} in row {row}; compare "
                "explanations of the same class, or evaluate them one by one."
            )
    return known[first]  # type: ignore[return-value]  # of an unknown one the loop raises


def _difference(
    first: Int[Tensor, " n"] | None, second: Int[Tensor, " n"], labels: Sequence[Any] | None
) -> tuple[int, str, str] | None:
    """The first row of which two explanations explain different classes, and what these are called."""
    if first is None or torch.equal(first, second):
        return None
    row = int((first != second).nonzero()[0, 0])
    return row, class_name(int(first[row]), labels), class_name(int(second[row]), labels)


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


def _argument(label: Any) -> str:
    return "attributions" if label is None else f"attributions[{label!r}]"


def _name(label: Any) -> str:
    return "attribution" if label is None else str(label)
