"""Attributions that sum to ``f(x) - c``: where ``c`` is not the score of the call's baseline, the result says so."""

import numpy as np
import pytest

import calls
import verax

WEIGHTS = np.array([1.0, -2.0, 0.5, 3.0])
X = np.random.default_rng(0).normal(size=(40, 4))
LINEAR = verax.Scorer(lambda x: x @ WEIGHTS + 0.25, returns="values", takes="numpy")
LOGISTIC = verax.Scorer(lambda x: 1 / (1 + np.exp(-(x @ WEIGHTS + 0.25))), returns="probabilities", takes="numpy")
OTHER = np.array([1.0, 1.0, 1.0, 1.0])  # scores 2.75


def test_a_value_against_another_reference() -> None:
    contributions = {"zero": X * WEIGHTS, "other": (X - OTHER) * WEIGHTS}
    found = calls.evaluate(LINEAR, X, contributions, ["pc"])
    (note,) = found.notes
    assert note.startswith("other: its values sum to f(x) - 2.75 (value), but the baseline of this call scores 0.25;")
    for shown in (repr(found), found._repr_html_(), repr(calls.compare(LINEAR, X, contributions, ["pc"]))):
        assert "sum to f(x) - 2.75" in shown
    there = calls.evaluate(LINEAR, X, contributions, ["pc"], baselines=OTHER)
    (note,) = there.notes
    assert note.startswith("zero: its values sum to f(x) - 0.25 (value), but the baseline of this call scores 2.75;")


@pytest.mark.parametrize("target", [0, 1])
def test_log_odds_against_another_reference(target: int) -> None:
    sign = 2 * target - 1
    found = calls.evaluate(LOGISTIC, X, {"other": sign * (X - OTHER) * WEIGHTS}, ["pc"], target=target)
    (note,) = found.notes
    words = f"other: its values sum to f(x) {'-' if target else '+'} 2.75 (logit of class {target}), but"
    assert note.startswith(words)
    assert f"scores {sign * 0.25:.3g};" in note
    assert calls.evaluate(LOGISTIC, X, sign * X * WEIGHTS, ["pc"], target=target).notes == ()


def test_nothing_is_said_of_what_is_not_additive_or_not_removed() -> None:
    noise = np.random.default_rng(1).normal(size=X.shape)
    assert calls.evaluate(LINEAR, X, {"noise": noise, "half": X * WEIGHTS / 2}, ["pc"]).notes == ()
    assert calls.evaluate(LINEAR, X, (X - OTHER) * WEIGHTS, ["infidelity"]).notes == ()
    assert calls.evaluate(LINEAR, X[:5], (X[:5] - OTHER) * WEIGHTS, ["pc"]).notes == ()
