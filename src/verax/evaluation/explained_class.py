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

_TOLERANCE = 0.01  # of a probability: explainers that approximate, such as DeepExplainer, allow themselves as much


class Known(NamedTuple):
    """What a call is about, once the classes of explanations are known."""

    attributions: Any  # as they were given; of an explanation with one value per class, those of the tracked class
    problem: Problem  # with the class to follow
    remarks: tuple[str, ...] = ()  # what to tell of it, a sentence each
    of_tracked: frozenset[str] = frozenset()  # names of those known to explain the class to follow


def with_known_class(attributions: Any, problem: Problem, per_row: bool = False) -> Known:
    """Follow the class that explanations explain, or raise where a problem says another one or none can be known."""
    explanations = explanations_of(attributions)
    if not explanations or any(len(explanation.values) != len(problem) for explanation in explanations.values()):
        return Known(attributions, problem)  # of explanations of other rows, the check of shapes tells
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
    if not by_class:
        return Known(attributions, problem, remarks, frozenset(of_tracked))
    classes, count = problem.classes.cpu(), problem.class_scores("probability").shape[1]
    picked = {label: _of_class(label, explanation, classes, count) for label, explanation in by_class.items()}
    if not isinstance(attributions, Mapping):
        return Known(next(iter(picked.values())), problem, remarks, frozenset(of_tracked))
    chosen = {name: picked.get(name, explanation) for name, explanation in attributions.items()}
    return Known(chosen, problem, remarks, frozenset(of_tracked))


def _followed(
    explanations: Mapping[Any, Any], problem: Problem, per_row: bool
) -> tuple[Any, tuple[str, ...], set[str]]:
    """The class to follow, None where the problem says it, what to tell of it, and names of what surely explains it."""
    chances, count = problem.class_scores("probability"), len(problem)
    if problem.scorer.adapter.returns == "values":  # which some models tell as they run
        return None, (), set()
    predicted, labels = chances.argmax(1), problem.labels
    known: dict[Any, Tensor | None] = {}
    for label, explanation in explanations.items():
        if (sums := _sums(explanation, count)) is None:
            known[label] = None
            continue
        # log-odds are compared as probabilities, which do not saturate
        known[label] = _class_of(torch.stack((sums, torch.sigmoid(sums))), chances, predicted)
        if known[label] is None and problem.scorer.adapter.returns == "logits":  # one of a network's outputs
            logits = problem.class_scores("logit")
            scale = max(1.0, float(logits.abs().max()))
            known[label] = _class_of(sums[None] / scale, logits / scale, predicted)
    if problem.target is not None:
        followed = resolve_target(problem.target, predicted, chances.shape[1], labels)
        _check_agreement(known, followed, labels)
        return None, (), {_name(label) for label, explained in known.items() if explained is not None}
    classes, names = _common_class(known, labels), {_name(label) for label in known}
    if (classes == classes[0]).all():
        number = int(classes[0])
        whose = f"the explanation is of {class_name(number, labels)}, which is tracked for all inputs"
        remark = f"{', '.join(map(_name, known))}: {whose}."
        return _as_target(number, labels), (remark,), names
    return [_as_target(int(explanation), labels) for explanation in classes] if per_row else None, (), names


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
            first_name, other = (class_name(int(held[row]), labels) for held in (classes, explained))
            raise ValueError(
                f"attributions: {_name(first)} explains {first_name} and {_name(label)} {other} in row {row}; compare "
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
        first, other = (class_name(int(held[row]), labels) for held in (explained, wanted))
        raise ValueError(
            f"target: expected the class that {_argument(label)} explains, {first} in row {row} (its values and base "
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
