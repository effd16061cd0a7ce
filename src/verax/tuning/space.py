"""What can be chosen: the configurations of the paper's grid, or one's own, and the questions that single out one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from verax.attribution import Attribution, Given, Place, Rows, families, grid
from verax.attribution.base import Modality

REFERENCES = ("Random", "Edges")  # know nothing of the model; tried only where they are asked for


@dataclass(frozen=True)
class Question:
    """A choice on the way to a configuration.

    Attributes:
        name: Its name in Optuna, the same wherever there is the same to choose from.
        setting: ``"method"``, or the field of the configuration.
        answers: What follows from each value: another question, or the configuration.
    """

    name: str
    setting: str
    answers: dict[Any, "Question | Attribution"]

    @property
    def values(self) -> list[Any]:
        """What there is to choose from."""
        return list(self.answers)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike: those of numbers are."""
        return _are_numbers(self.answers)


def questions(configurations: Sequence[Attribution]) -> Question | Attribution:
    """The choices that lead to each configuration: the method, then every setting in which those that are left differ.

    Example:
        >>> from verax.attribution import grid
        >>> first = questions(grid("tabular"))
        >>> then = first.answers["LimeTabular"]
        >>> first.name, len(first.values), then.name, then.values[:2]
        ('method', 8, 'LimeTabular.alpha', [5.5e-05, 0.0001])
    """
    by_method = {
        name: [one for one in configurations if type(one).__name__ == name] for name in _methods(configurations)
    }
    answers = {name: _about(members, members, 0) for name, members in by_method.items()}
    return Question("method", "method", answers) if len(answers) > 1 else next(iter(answers.values()))


def _about(left: list[Attribution], every: list[Attribution], at: int) -> Question | Attribution:
    """The question about the first setting, from a place on, in which configurations of one method differ."""
    if len(left) == 1:
        return left[0]
    setting = fields(left[0])[at].name  # type: ignore[arg-type]  # configurations are dataclasses
    values = _values(left, setting)
    if len(values) == 1:
        return _about(left, every, at + 1)
    answers = {
        value: _about([one for one in left if getattr(one, setting) == value], every, at + 1) for value in values
    }
    name = f"{type(left[0]).__name__}.{setting}"
    # not every combination of settings may be there; Optuna wants one name for one set of values
    return Question(name if values == _values(every, setting) else f"{name} of {values}", setting, answers)


def setting_of(configuration: Attribution, setting: str) -> Any:
    """A field of a configuration, or the name of its method."""
    return type(configuration).__name__ if setting == "method" else getattr(configuration, setting)


def _methods(configurations: Iterable[Attribution]) -> list[str]:
    return list(dict.fromkeys(type(one).__name__ for one in configurations))


def _values(configurations: Iterable[Attribution], setting: str) -> list[Any]:
    found = dict.fromkeys(getattr(one, setting) for one in configurations)
    return sorted(found) if _are_numbers(found) else list(found)


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)


@dataclass(frozen=True)
class Space:
    """What a search may choose from.

    Attributes:
        configurations: All of them, each once.
        left_out: Methods that were not asked for by name and cannot be used, with the reason.
    """

    configurations: tuple[Attribution, ...]
    left_out: dict[str, str]


def space_of(methods: Any, modality: Modality, given: Given, gradients: bool) -> Space:
    """Read the argument ``methods``, and check that the data and the model can serve.

    Args:
        methods: None for every method that can be used; or names of methods and configurations.
        modality: The kind of data.
        given: The data.
        gradients: Whether gradients can be taken through the model.
    """
    wanted = _wanted(methods, modality)
    left_out: dict[str, str] = {}
    for name in _methods(wanted):
        members = [one for one in wanted if type(one).__name__ == name]
        usable, reason = _usable(members, given, gradients)
        if methods is not None and len(usable) < len(members):
            if not gradients and members[0].needs_gradients:
                raise TypeError(f"methods: {name} {reason}; those that need none work: {_gradient_free(modality)}.")
            raise ValueError(f"methods: {name} cannot be used. {reason}")
        if reason:
            left_out[name] = reason
            wanted = [one for one in wanted if one not in members or one in usable]
    return Space(tuple(wanted), left_out)


def _wanted(methods: Any, modality: Modality) -> list[Attribution]:
    every = grid(modality)
    if methods is None:
        return [one for one in every if type(one).__name__ not in REFERENCES]
    if isinstance(methods, str | Attribution):
        methods = (methods,)
    if not isinstance(methods, Iterable):
        raise TypeError(f"methods: expected names of methods or configurations, found {methods!r}.")
    found: list[Attribution] = []
    for method in methods:
        found += [method] if isinstance(method, Attribution) else _named(method, every)
    if not found:
        raise ValueError(f"methods: expected at least one, found none; there are {', '.join(names(modality))}.")
    for one in found:
        if modality not in one.modalities:
            raise ValueError(f"methods: {type(one).__name__} is not for {modality} data, which the inputs are.")
    return list(dict.fromkeys(found))


def names(modality: Modality) -> list[str]:
    """Methods that can be asked for by name.

    Example:
        >>> names("tabular")[-2:]
        ['LimeTabular', 'Random']
    """
    return _methods(grid(modality))


def _named(name: Any, every: Sequence[Attribution]) -> list[Attribution]:
    """The grid's configurations of a method; upper and lower case, hyphens and underscores do not matter."""
    plain = "".join(letter for letter in str(name).lower() if letter not in "-_ ")
    found = [one for one in every if type(one).__name__.lower() == plain]
    if plain == "lime":
        found = [one for one in every if type(one).__name__.startswith("Lime")]
    if not found:
        raise ValueError(f"methods: expected lime, {', '.join(_methods(every))} or configurations, found {name!r}.")
    return found


def _usable(members: list[Attribution], given: Given, gradients: bool) -> tuple[list[Attribution], str]:
    """Those of a method's configurations that can be computed, and why the others cannot."""
    if members[0].needs_gradients and not gradients:
        return [], "needs gradients, which cannot be taken through this model"
    usable, reason = [], ""
    for one in members:
        try:
            one.family.check([one], given)
        except ValueError as error:  # what families raise when the data cannot serve them
            reason = reason or str(error)
        else:
            usable.append(one)
    return usable, reason


def _gradient_free(modality: Modality) -> str:
    return ", ".join(dict.fromkeys(type(one).__name__ for one in grid(modality) if not one.needs_gradients))


def groups(configurations: Sequence[Attribution], given: Given, place: Place) -> list[list[Attribution]]:
    """Configurations that are cheaper computed together: each joins one beside which it costs at most half.

    The dearest of a group comes first; it is what the others are computed beside.

    Example:
        >>> import torch
        >>> lime = [one for one in grid("tabular") if type(one).__name__ == "LimeTabular"]
        >>> place = Place(torch.device("cpu"), 2048)
        >>> [len(group) for group in groups(lime, Given(torch.zeros(1, 20), None, None), place)]  # one per sigma
        [243, 243, 243]
    """
    found: list[list[Attribution]] = []
    for family, members in families(configurations).items():
        alone = {one: _total(family.rows([one], given, place)) for one in members}
        own: list[list[Attribution]] = []
        for one in sorted(members, key=lambda one: -(alone[one] or 0)):
            for group in own if alone[one] is not None else []:
                together = _total(family.rows([group[0], one], given, place)) or 0
                if 2 * (together - (alone[group[0]] or 0)) <= (alone[one] or 0):
                    group.append(one)
                    break
            else:
                own.append([one])
        found += own
    return found


def _total(rows: Rows | None) -> int | None:
    return None if rows is None else rows.forward + rows.backward


def cost_of(configuration: Attribution, given: Given, place: Place) -> float | None:
    """Model rows per explained input of a configuration alone, backward passes counted; None where it is not known."""
    rows = _total(configuration.family.rows([configuration], given, place))
    return None if rows is None else 1 + rows / len(given.inputs)  # 1: the input itself
