"""What can be chosen: configurations, by the name of their method or as objects, and the choices that lead to each."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from verax.attribution import METHODS, Attribution, LimeTabular, Place, families, grid
from verax.attribution.base import Modality
from verax.attribution.family import check_family
from verax.attribution.grid import removals
from verax.core.packages import optional_package
from verax.core.registry import unknown
from verax.problem.problem import Problem

_MANY = 1024  # features that are not worth being removed one by one


@dataclass(frozen=True)
class Choice:
    """A choice on the way to a configuration."""

    name: str  # in Optuna, the same wherever there is the same to choose from
    setting: str  # "method", or the field of the configuration
    options: dict[Any, "Choice | Attribution"]  # what follows from each value

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike: those of numbers are."""
        return _are_numbers(self.options)

    @property
    def words(self) -> list[str]:
        return [*map(repr, self.options)]


def choices(left: Sequence[Attribution], every: Sequence[Attribution] = (), at: int = 0) -> Choice | Attribution:
    """The choices that lead to each configuration: the method, then every setting in which what is left differs."""
    if len(left) == 1:
        return left[0]
    setting = fields(left[0])[at - 1].name if at else "method"
    members = _by_value(left, setting)
    if len(members) == 1:
        return choices(left, every if at else left, at + 1)
    name = f"{type(left[0]).__name__}.{setting}" if at else setting
    # not every combination of settings may exist; Optuna wants one name for one set of values
    if at and list(members) != list(_by_value(every, setting)):
        name = f"{name} of {list(members)}"
    options = {value: choices(several, every if at else several, at + 1) for value, several in members.items()}
    return Choice(name, setting, options)


def _value(configuration: Attribution, setting: str) -> Any:
    return type(configuration).__name__ if setting == "method" else getattr(configuration, setting)


def _by_value(configurations: Iterable[Attribution], setting: str) -> dict[Any, list[Attribution]]:
    """Configurations by the value of a setting, numbers in order."""
    members: dict[Any, list[Attribution]] = {}
    for configuration in configurations:
        members.setdefault(_value(configuration, setting), []).append(configuration)
    return {value: members[value] for value in sorted(members)} if _are_numbers(members) else members


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


@dataclass(frozen=True)
class Space:
    """What a search may choose from: configurations, each once, and why methods that were not named are left out."""

    configurations: tuple[Attribution, ...]
    left_out: dict[str, str]


def space_of(methods: Any, modality: Modality, problem: Problem, std: bool = False) -> Space:
    """Read the argument ``methods``, and check that the data and the model can serve.

    With ``std``, LIME by name is also tried with noise of each column's standard deviation.
    """
    chosen = _wanted(methods, modality, std)
    unusable: set[Attribution] = set()
    left_out: dict[str, str] = {}
    for name, members in _by_value(chosen, "method").items():
        usable, reason = _usable(members, problem)
        if methods is None and usable and (words := _not_by_default(members[0], modality, problem)):
            usable, reason = [], words
        if methods is not None and len(usable) < len(members):
            if not problem.scorer.differentiable and members[0].needs_gradients:
                others = _by_value([method for method in offered(modality) if not method.needs_gradients], "method")
                raise TypeError(f"methods: {name} {reason}; those that need none work: {', '.join(others)}.")
            raise ValueError(f"methods: {name} cannot be used. {reason}")
        if reason:
            left_out[name] = reason
            unusable |= {*members} - {*usable}
    return Space(tuple(configuration for configuration in chosen if configuration not in unusable), left_out)


def _not_by_default(method: Attribution, modality: Modality, problem: Problem) -> str:
    """Why a method is tried only where it is named."""
    if method.known_limitation:
        return f"{method.known_limitation}; name it in methods to try it"
    if problem.features.most > _MANY and method in removals(modality):
        return f"removes features, and there are {problem.features.most:,} features; pass groups of them as features"
    return ""


def offered(modality: Modality, std: bool = False) -> list[Attribution]:
    """All configurations that can be had by the name of their method: the paper's, and those that remove features.

    With ``std``, also LIME with noise of each column's standard deviation: with every other setting of the paper's.
    """
    paper = grid(modality)
    lime = [method for method in paper if isinstance(method, LimeTabular)] if std else []
    own_units = dict.fromkeys(replace(method, sigma="std", scale_kernel=True) for method in lime)
    return [*paper, *own_units, *removals(modality)]


def _wanted(methods: Any, modality: Modality, std: bool) -> list[Attribution]:
    if methods is None:
        return [configuration for configuration in offered(modality, std) if not configuration.reference]
    if isinstance(methods, str | Attribution):
        methods = (methods,)
    if not isinstance(methods, Iterable):
        raise TypeError(f"methods: expected names of methods or configurations, got {methods!r}.")
    attributions: list[Attribution] = []
    for method in methods:
        attributions += [method] if isinstance(method, Attribution) else _named(method, modality, std)
    if not attributions:
        raise ValueError(f"methods: expected at least one, got none; there are {', '.join(_names(modality))}.")
    for configuration in attributions:
        if modality not in configuration.modalities:
            name = type(configuration).__name__
            raise ValueError(f"methods: {name} is not for {modality} data, which the inputs are.")
    return list(dict.fromkeys(attributions))


def _named(name: Any, modality: Modality, std: bool) -> list[Attribution]:
    """The configurations of a method, or of all that share a label; case, hyphens and underscores do not matter."""
    kinds = methods_named(str(name))
    if not kinds:
        raise ValueError(f"methods: {unknown(name, [*_names(modality), 'a configuration'])}")
    fitting = [kind for kind in kinds if modality in kind.modalities] or kinds
    members = _by_value(offered(modality, std), "method")
    return [method for kind in fitting for method in members.get(kind.__name__) or [_default(kind)]]


def _names(modality: Modality) -> list[str]:
    """The names of methods: those of their classes, and labels that differ from them."""
    kinds = [kind for kind in METHODS.values() if modality in kind.modalities]
    labels = [kind.label.lower() for kind in kinds if kind.label != kind.__name__]
    return [*dict.fromkeys(labels), *(kind.__name__ for kind in kinds)]


def methods_named(name: str) -> list[type[Attribution]]:
    """The methods whose class or label has a name; case, hyphens and underscores do not matter."""

    def plain(name: str) -> str:
        return "".join(letter for letter in name.lower() if letter not in "-_ ")

    return [kind for kind in METHODS.values() if plain(name) in (plain(kind.__name__), plain(kind.label))]


def _default(kind: type[Attribution]) -> Attribution:
    if lacking := [field.name for field in fields(kind) if field.default is field.default_factory is MISSING]:
        lacks = f"{kind.__name__} has no default for {lacking[0]}"
        raise ValueError(f"methods: {lacks}; give a configuration of it, not its name.")
    return kind()


def _usable(members: list[Attribution], problem: Problem) -> tuple[list[Attribution], str]:
    """Those of a method's configurations that can be computed, and why the others cannot."""
    if members[0].needs_gradients and not problem.scorer.differentiable:
        return [], "needs gradients, which cannot be taken through this model"
    usable, reason = [], ""
    for configuration in members:
        try:
            check_family(configuration.family, [configuration], problem)
        except (ImportError, TypeError, ValueError) as error:  # what families raise where data or model cannot serve
            reason = reason or str(error)
        else:
            usable.append(configuration)
    return usable, reason


def groups(configurations: Sequence[Attribution], problem: Problem, place: Place) -> list[list[Attribution]]:
    """Configurations that are cheaper together: each joins the first of a group if it then costs at most half."""
    every: list[list[Attribution]] = []
    for members in families(configurations).values():
        alone = {member: _rows((member,), problem, place) for member in members}
        of_family: list[list[Attribution]] = []
        for member in sorted(members, key=lambda member: -(alone[member] or 0)):
            for group in of_family if alone[member] is not None else []:
                together = _rows((group[0], member), problem, place) or 0
                if 2 * (together - (alone[group[0]] or 0)) <= (alone[member] or 0):
                    group.append(member)
                    break
            else:
                of_family.append([member])
        every += of_family
    return every


def cost_of(configuration: Attribution, problem: Problem, place: Place) -> float | None:
    """Model rows per explained input of a configuration alone, backward passes counted; None where it is not known."""
    rows = _rows((configuration,), problem, place)
    return None if rows is None else 1 + rows / len(problem)  # 1: the input itself


def _rows(members: Sequence[Attribution], problem: Problem, place: Place) -> int | None:
    """Model rows of configurations of one family together, backward passes counted; None where it is not known."""
    rows = members[0].family.rows(members, problem, place)
    return None if rows is None else rows.total


_DRAWS = 4  # for each wanted proposal; what was tried already is drawn again


def optuna() -> Any:
    return optional_package("optuna", "verax[tune]", "verax.tune")


def propose(
    configurations: Sequence[Attribution],
    known: Sequence[tuple[Attribution, Sequence[float]]],
    tried: set[Attribution],
    directions: Sequence[str],
    count: int,
    key: str,
) -> list[Attribution]:
    """Configurations to try next, none of them ``tried``, at most ``count``; same key and history, same proposals."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "little")
    first, library = choices(configurations), optuna()
    proposals: dict[Attribution, None] = {}
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity(library.logging.WARNING)
    try:
        study = library.create_study(sampler=library.samplers.TPESampler(seed=seed), directions=list(directions))
        study.add_trials([_finished(first, configuration, values) for configuration, values in known])
        for _ in range(_DRAWS * count):
            if len(proposals) == count:
                break
            trial = study.ask()
            configuration = _drawn(first, trial)
            if configuration in tried or configuration in proposals:
                study.tell(trial, state=library.trial.TrialState.FAIL)  # so that the sampler does not count with it
            else:
                proposals[configuration] = None
    finally:
        library.logging.set_verbosity(verbosity)
    taken = {*tried, *proposals}
    left = [configuration for configuration in configurations if configuration not in taken]
    random.Random(seed).shuffle(left)  # noqa: S311  # no secret
    return [*proposals, *left][:count]


def _drawn(choice: Choice | Attribution, trial: Any) -> Attribution:
    while isinstance(choice, Choice):
        if choice.ordered:  # a place in the list: steps of the grid are what is alike, also where they grow
            at = trial.suggest_int(choice.name, 0, len(choice.options) - 1)
        else:
            at = choice.words.index(trial.suggest_categorical(choice.name, choice.words))
        choice = list(choice.options.values())[at]
    return choice


def _finished(choice: Choice | Attribution, configuration: Attribution, scores: Sequence[float]) -> Any:
    library = optuna()
    params: dict[str, Any] = {}
    distributions: dict[str, Any] = {}
    while isinstance(choice, Choice):
        value = _value(configuration, choice.setting)
        at = list(choice.options).index(value)
        params[choice.name] = at if choice.ordered else choice.words[at]
        places = library.distributions.IntDistribution(0, len(choice.options) - 1)
        distributions[choice.name] = (
            places if choice.ordered else library.distributions.CategoricalDistribution(choice.words)
        )
        choice = choice.options[value]
    return library.trial.create_trial(values=list(scores), params=params, distributions=distributions)
