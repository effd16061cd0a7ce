"""Public names, their parameters and defaults are those of the list: what changes there is a decision."""

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("public_api", Path(__file__).parents[1] / "scripts" / "public_api.py")
public_api = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(public_api)


def test_public_names_and_parameters_are_those_of_the_list():
    listed = public_api.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    assert list(public_api.lines()) == listed, "where the change is meant: python scripts/public_api.py"
