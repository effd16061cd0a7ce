"""Code to paste: two lines that make every method, metric and replacement again."""

import pytest

import verax
from verax.attribution import METHODS, LimeImage, Quickshift
from verax.metrics import METRICS, DirectedPredictionChange, EffectCorrelation, LocalPredictionChange


def made_again(code):
    *imports, call = code.splitlines()
    names = {}
    exec("\n".join(imports), names)  # noqa: S102  # code that was just written
    return eval(call, names)  # noqa: S307


def ours(kinds):
    return [kind for kind in kinds.values() if kind.__module__.startswith("verax.")]


@pytest.mark.parametrize("kind", ours(METHODS), ids=lambda kind: kind.__name__)
def test_every_method_is_made_again(kind):
    assert made_again(kind().code) == kind()
    assert kind().code.splitlines()[0] == f"from verax.attribution import {kind.__name__}"


@pytest.mark.parametrize("kind", ours(METRICS), ids=lambda kind: kind.__name__)
def test_every_metric_is_made_again(kind):
    assert made_again(kind().code) == kind()
    assert f"from verax.metrics import {kind.__name__}" in kind().code.splitlines()


@pytest.mark.parametrize(
    "value",
    [
        EffectCorrelation(sigma="std", samples=7, perturbation="baseline", effect="dot"),
        EffectCorrelation(sigma=(0.1, 0.25)),
        LocalPredictionChange(epsilon=0.5),
        DirectedPredictionChange(replacement=verax.replacement.Toward(0.25), area="morf"),
        LimeImage(segmenter=Quickshift(5.0, 4.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_come_along_also_those_that_are_objects(value):
    assert made_again(value.code) == value


def test_a_replacement_is_imported_from_where_people_find_it():
    code = DirectedPredictionChange(replacement=verax.replacement.Toward(0.25)).code
    assert "from verax.replacement import Toward" in code.splitlines()
