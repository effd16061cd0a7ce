"""Replacements in words: what was registered can be said, and what cannot is refused with what can."""

from dataclasses import dataclass, fields

import pytest

from verax.core.registry import from_dict, to_dict
from verax.metrics import PredictionChange
from verax.problem.replacement import REPLACEMENTS
from verax.problem.replacement.base import needs_background, replacement_from, sayable
from verax.replacement import Marginal, NoisyLinear, Nudge, Replacement


@pytest.mark.parametrize("name", sorted(set(REPLACEMENTS) - {"own"}))
def test_every_replacement_is_said_by_its_name_in_words_and_in_files(name):
    message = replacement_from(sayable()[name].replace("NUMBER", "0.5"))
    assert type(message) is REPLACEMENTS.get(name)
    written = to_dict(PredictionChange(replacement=message))["replacement"]
    assert written["name"] == name
    assert from_dict(PredictionChange, {"replacement": written}).replacement.short_form == message.short_form


def test_settings_are_read_by_their_types():
    assert replacement_from("nudge:epsilon=0.1") == Nudge(0.1)
    assert replacement_from("nudge(epsilon=0.1)") == replacement_from("Nudge(epsilon=0.1)") == Nudge(0.1)
    assert replacement_from("NoisyLinear()") == replacement_from("noisy_linear") == NoisyLinear()
    assert replacement_from("noisy_linear(noise=0, seed=3)") == NoisyLinear(noise=0.0, seed=3)
    assert replacement_from("noisy_linear:noise=0, seed=3") == NoisyLinear(noise=0.0, seed=3)
    drawn = replacement_from("marginal:draws=8,seed=2")
    assert (drawn.draws, drawn.seed, drawn.background) == (8, 2, None)
    assert replacement_from("marginal:draws=every").draws == "every"
    assert needs_background(drawn)
    assert not needs_background(Nudge(0.1))
    assert not needs_background(Marginal([[0.0]]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nudje:epsilon=1", "got 'nudje'; did you mean 'nudge'?"),
        ("own", "expected baseline, toward, nudge, conditional, marginal, blur"),
        ("nudge", "nudge needs epsilon; say nudge:epsilon=NUMBER."),
        ("nudge:0.1", "nudge: expected SETTING=VALUE, got 0.1."),
        ("nudge(0.1)", "nudge: expected SETTING=VALUE, got 0.1."),
        ("nudge(epsilon=0.1", "got nudge(epsilon=0.1."),
        ("nudge:epsilon=far", "epsilon: expected NUMBER, got 'far'"),
        ("marginal:draws=2.5", "draws: expected COUNT|every, got 2.5"),
        ("marginal:background=train", "marginal has no setting background; it has draws, seed."),
        ("baseline:epsilon=1", "baseline has no setting epsilon; it has none."),
        ("toward:epsilon=2", "--replacement: toward: epsilon: expected a part of the way"),
    ],
)
def test_what_cannot_be_said_is_refused_with_what_can(words, message):
    with pytest.raises(ValueError, match=r"^--replacement: ") as result:
        replacement_from(words, "--replacement")
    assert message in str(result.value)


def test_one_of_ones_own_is_said_like_ours():
    @dataclass(frozen=True)
    class HalfWay(Replacement):
        strong: bool = False
        word: str = "x"

        def fill(self, rows, removed=None):
            return rows.values / 2

    result = replacement_from("half_way:strong=true,word=y")
    assert [getattr(result, field.name) for field in fields(result)] == [True, "y"]
    with pytest.raises(ValueError, match=r"expected true\|false, got 'yes'"):
        replacement_from("half_way:strong=yes")
