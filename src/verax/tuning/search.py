"""What to try next: Optuna's tree-structured Parzen estimator, asked anew from the whole history for every batch.

Nothing is kept between batches but the trials themselves, so that a search that was stopped goes on as if it had not
been.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from verax.adapters.base import optional_package
from verax.attribution import Attribution
from verax.tuning.space import Question, questions, setting_of

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
    """Configurations to try next, none of them tried before; fewer than asked for where no more are left.

    Args:
        configurations: What there is to choose from.
        known: Configurations with their values, one for each direction.
        tried: What not to propose.
        directions: ``"maximize"`` or ``"minimize"``, for each value.
        count: How many.
        key: Same key and history, same proposals.
    """
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "little")
    first = questions(configurations)
    found: dict[Attribution, None] = {}
    with _quiet() as library:
        study = library.create_study(sampler=library.samplers.TPESampler(seed=seed), directions=list(directions))
        study.add_trials([_told(first, one, values) for one, values in known])
        for _ in range(_DRAWS * count):
            if len(found) == count:
                break
            trial = study.ask()
            one = _drawn(first, trial)
            if one in tried or one in found:
                study.tell(trial, state=library.trial.TrialState.FAIL)  # so that the sampler does not count with it
            else:
                found[one] = None
    left = [one for one in configurations if one not in tried and one not in found]
    random.Random(seed).shuffle(left)  # noqa: S311  # no secret
    return [*found, *left][:count]


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


def _drawn(asked: Question | Attribution, trial: Any) -> Attribution:
    """The configuration that a trial's answers lead to."""
    while isinstance(asked, Question):
        values = asked.values
        if asked.ordered:  # a place in the list: steps of the grid are what is alike, also where they grow
            value = values[trial.suggest_int(asked.name, 0, len(values) - 1)]
        else:
            words = [repr(one) for one in values]
            value = values[words.index(trial.suggest_categorical(asked.name, words))]
        asked = asked.answers[value]
    return asked


def _told(asked: Question | Attribution, one: Attribution, values: Sequence[float]) -> Any:
    """A finished trial, as Optuna would have it."""
    library = optuna()
    params: dict[str, Any] = {}
    distributions: dict[str, Any] = {}
    while isinstance(asked, Question):
        value, own = setting_of(one, asked.setting), asked.values
        if asked.ordered:
            params[asked.name] = own.index(value)
            distributions[asked.name] = library.distributions.IntDistribution(0, len(own) - 1)
        else:
            params[asked.name] = repr(value)
            distributions[asked.name] = library.distributions.CategoricalDistribution([repr(one) for one in own])
        asked = asked.answers[value]
    return library.trial.create_trial(values=list(values), params=params, distributions=distributions)
