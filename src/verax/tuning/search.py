"""What to try next: Optuna's TPE, told the whole history for every batch, so that a stopped search goes on the same."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from verax.attribution import Attribution
from verax.core.packages import optional_package
from verax.tuning.space import Choice, choices

_DRAWS = 4  # for each wanted proposal; what was tried already is drawn again


def optuna() -> Any:
    """Optuna, or how to install it."""
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
    first = choices(configurations)
    proposals: dict[Attribution, None] = {}
    with _quiet() as library:
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
    taken = {*tried, *proposals}
    left = [configuration for configuration in configurations if configuration not in taken]
    random.Random(seed).shuffle(left)  # noqa: S311  # no secret
    return [*proposals, *left][:count]


@contextmanager
def _quiet() -> Iterator[Any]:
    """Optuna, which does not announce its studies as long as the block runs."""
    library = optuna()
    before = library.logging.get_verbosity()
    library.logging.set_verbosity(library.logging.WARNING)
    try:
        yield library
    finally:
        library.logging.set_verbosity(before)


def _drawn(choice: Choice | Attribution, trial: Any) -> Attribution:
    """The configuration that a trial's draws lead to."""
    while isinstance(choice, Choice):
        values = choice.values
        if choice.ordered:  # a place in the list: steps of the grid are what is alike, also where they grow
            value = values[trial.suggest_int(choice.name, 0, len(values) - 1)]
        else:
            words = [*map(repr, values)]
            value = values[words.index(trial.suggest_categorical(choice.name, words))]
        choice = choice.options[value]
    return choice


def _finished(choice: Choice | Attribution, configuration: Attribution, scores: Sequence[float]) -> Any:
    """A finished trial, as Optuna would have it."""
    library = optuna()
    params: dict[str, Any] = {}
    distributions: dict[str, Any] = {}
    while isinstance(choice, Choice):
        value, values = choice.value_of(configuration), choice.values
        places = library.distributions.IntDistribution(0, len(values) - 1)
        words = library.distributions.CategoricalDistribution([*map(repr, values)])
        params[choice.name] = values.index(value) if choice.ordered else repr(value)
        distributions[choice.name] = places if choice.ordered else words
        choice = choice.options[value]
    return library.trial.create_trial(values=list(scores), params=params, distributions=distributions)
