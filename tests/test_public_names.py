"""Public names, their parameters and defaults are those of the list: what changes there is a decision."""

import importlib.util
import inspect
from pathlib import Path

import pytest

import verax

SPEC = importlib.util.spec_from_file_location("public_api", Path(__file__).parents[1] / "scripts" / "public_api.py")
public_api = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(public_api)


def test_public_names_and_parameters_are_those_of_the_list():
    listed = public_api.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    assert list(public_api.lines()) == listed, "where the change is meant: python scripts/public_api.py"


VERBS = ("explain", "evaluate", "compare", "limits", "tune", "audit", "check", "reasons", "stream")


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_has_more_than_eight_parameters(verb):
    parameters = inspect.signature(getattr(verax, verb)).parameters.values()
    assert len(parameters) <= 8
    assert not [parameter for parameter in parameters if parameter.kind.name.startswith("VAR_")]
    settings = {"steps", "sigma", "samples", "normalize", "perturbation", "effect"}  # which belong to metrics
    assert not settings & {parameter.name for parameter in parameters}
