"""Batches that follow one another as one: what differs between them is told by the number of the batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verax.core.arguments import kind_in_words
from verax.core.arrays import joined_rows
from verax.evaluation.stream_batches import Batch, is_list, is_stack
from verax.scoring.meter import Cost


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """The rows of several batches as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    for other in batches[1:]:
        _check_alike(first, other)
    inputs = replace(first.inputs, values=joined_rows([one.inputs.values for one in batches]))
    segments = None if first.segments is None else [label for one in batches for label in one.segments]
    spent = sum((one.spent for one in batches), Cost())
    return Batch(inputs, _joined_attributions(batches), _joined_targets(batches), segments, first.number, spent)


def _joined_attributions(batches: Sequence[Batch]) -> Any:
    first = batches[0].attributions
    if isinstance(first, Mapping):
        return {
            name: joined_rows([one.attributions[name] for one in batches]) if hasattr(held, "shape") else held
            for name, held in first.items()
        }
    stacked = is_stack(first, tuple(batches[0].inputs.values.shape))
    return joined_rows([one.attributions for one in batches], axis=int(stacked))


def _joined_targets(batches: Sequence[Batch]) -> Any:
    """One class for all where every batch says the same one, else one for each row."""
    targets = [one.target for one in batches]
    if not any(map(is_list, targets)) and all(one == targets[0] for one in targets):
        return targets[0]
    each = [one.target if is_list(one.target) else [one.target] * len(one) for one in batches]
    return [one for part in each for one in part]


def _check_alike(first: Batch, other: Batch) -> None:
    """Refuse what cannot be evaluated together with the rows before it."""

    def refuse_unlike(what: str, wanted: Any, found: Any) -> None:
        said = f"expected {what} as in batches[{first.number}], {_words(wanted)}, got {_words(found)}"
        raise ValueError(f"batches[{other.number}]: {said}.")

    mine, theirs = first.inputs.values, other.inputs.values
    if mine.shape[1:] != theirs.shape[1:]:
        refuse_unlike("inputs", mine, theirs)
    for what, one, another in (("target", first.target, other.target), ("by", first.segments, other.segments)):
        if (one is None) != (another is None):
            refuse_unlike(what, one, another)
    held, given = (one if isinstance(one, Mapping) else {"": one} for one in (first.attributions, other.attributions))
    if list(held) != list(given):
        refuse_unlike("the same attributions", first.attributions, other.attributions)
    for name, one in held.items():
        if _form(one, first) != _form(given[name], other):
            refuse_unlike(f"attributions[{name!r}]" if name else "attributions", one, given[name])


def _form(attribution: Any, batch: Batch) -> Any:
    """What attributions of several batches must share to become one: all of the shape but the number of rows."""
    if not hasattr(attribution, "shape"):
        return attribution  # a method
    shape = tuple(attribution.shape)
    stacked = is_stack(attribution, tuple(batch.inputs.values.shape))
    return (shape[0], *shape[2:], "stack") if stacked else shape[1:]


def _words(value: Any) -> str:
    return "none" if value is None else kind_in_words(value)
