"""Explanations of texts with a value per class: that of each text's tracked class is rated, in calls and streams."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import verax
from verax.problem.text.example import small_classifier, small_tokenizer

pytest.importorskip("transformers")

TEXTS = ["a good film", "the plot was bad and the cast was bad", "good", "the film was good"]


@pytest.fixture(scope="module")
def problem() -> verax.Problem:
    tokenizer = small_tokenizer(*TEXTS)
    return verax.text.classification(small_classifier(tokenizer), tokenizer, TEXTS)


def explanation(problem: verax.Problem, seed: int = 0) -> Any:
    """One array per text, of unlike lengths, with an axis for classes."""
    draws, rows = np.random.default_rng(seed), np.empty(len(problem), dtype=object)
    for row, there in enumerate(problem.rows.present):  # type: ignore[attr-defined]
        rows[row] = draws.normal(size=(int(there.sum()), 2))
    return SimpleNamespace(values=rows, base_values=np.zeros((len(problem), 2)))


def picked(problem: verax.Problem, given: Any) -> list[np.ndarray]:
    return [row[:, number] for row, number in zip(given.values, problem.classes.tolist(), strict=True)]


@pytest.mark.parametrize("target", [None, 0, 1])
def test_the_value_of_the_followed_class_is_taken(problem: verax.Problem, target: int | None) -> None:
    asked = problem if target is None else problem.with_target(target)
    given = explanation(asked)
    result = verax.evaluate(asked, {"it": given}, ["pc"])["pc"].value["it"]
    assert torch.equal(result, verax.evaluate(asked, {"it": picked(asked, given)}, ["pc"])["pc"].value["it"])
    totals = verax.stream(asked, None, {"it": given}, ["pc"]).totals()
    assert totals["pc"].mean()["it"].mean == pytest.approx(float(result.mean()), abs=1e-6)


def test_texts_of_one_length_come_as_one_array(problem: verax.Problem) -> None:
    tokenizer = small_tokenizer(*TEXTS)
    asked = verax.text.classification(problem.scorer, tokenizer, ["a good film", "the bad plot"])
    values = np.random.default_rng(0).normal(size=(*asked.inputs.shape, 2))
    given = SimpleNamespace(values=values, base_values=np.zeros((2, 2)))
    chosen = np.stack([row[:, number] for row, number in zip(values, asked.classes.tolist(), strict=True)])
    result, expected = (verax.evaluate(asked, one, ["pc"])["pc"].value for one in (given, chosen))
    assert torch.equal(result, expected)


def test_other_classes_than_the_models_are_told(problem: verax.Problem) -> None:
    given = explanation(problem)
    given.values[:] = [np.zeros((len(row), 3)) for row in given.values]
    with pytest.raises(ValueError, match=r"attributions\['it'\]: expected values of 2 classes or outputs, .* got 3"):
        verax.evaluate(problem, {"it": given}, ["pc"])


def test_interaction_values_are_no_classes() -> None:
    x = torch.randn(9, 2)
    given = SimpleNamespace(values=np.zeros((9, 2, 2)), base_values=np.zeros(9))
    with pytest.raises(ValueError, match=r"base value for each of 2 classes.*interaction values.*values\.sum\(-1\)"):
        verax.evaluate(verax.Problem(torch.nn.Linear(2, 2), x), given, ["pc"])
