"""A light import, ``verax.interop`` that loads what is used, and public names that are there and described."""

import inspect
import json
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import verax
import verax.metrics
from verax.cli.common import module_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = {Requirement(line).name for line in PROJECT["dependencies"]}
EXTRAS = {Requirement(line).name for lines in PROJECT["optional-dependencies"].values() for line in lines} - {"verax"}


HEAVY = EXTRAS | {"scikit-learn", "scipy", "matplotlib", "polars", "pydantic", "jinja2"}
IMPORTS = {  # in this order in one process, so that each may load what those before it may not
    "verax": REQUIRED | EXTRAS,
    "verax.models": {"safetensors"},
    "verax.datasets": HEAVY,
    "verax.cli": HEAVY,
}
PROGRAM = """
import importlib, json, sys
found = {}
for module, names in json.loads(sys.argv[1]).items():
    importlib.import_module(module)
    found[module] = [name for name in names if name in sys.modules]
    found.setdefault("interop", [name for name in sys.modules if name.startswith("verax.interop.")])
import verax
assert dir(verax.interop) == ["captum", "quantus", "shap"]
verax.interop.captum.infidelity, verax.interop.shap.from_explanation
found["used interop"] = [name for name in ("captum", "quantus") if name in sys.modules]
print(json.dumps(found))
"""


def test_import_loads_nothing_heavy():
    names = {
        module: sorted(module_name(package) for package in unwanted - {"torch", "numpy"})
        for module, unwanted in IMPORTS.items()
    }
    program = [sys.executable, "-c", PROGRAM, json.dumps(names)]
    other = subprocess.run(program, capture_output=True, text=True, check=True)
    assert json.loads(other.stdout) == {key: [] for key in (*IMPORTS, "interop", "used interop")}


def public():
    for module in (verax, verax.metrics):
        yield from (pytest.param(module, name, id=f"{module.__name__}.{name}") for name in module.__all__)


@pytest.mark.parametrize(("module", "name"), list(public()))
def test_public_names_exist_and_are_described(module, name):
    assert hasattr(module, name)
    if not name.startswith("__") and typing.get_origin(getattr(module, name)) is None:  # a type's other name has no doc
        assert len(inspect.getdoc(getattr(module, name))) > 20


def described(function):
    lines = [line.strip() for line in inspect.getdoc(function).splitlines()]
    return {
        name for name in inspect.signature(function).parameters if any(line.startswith(f"{name}: ") for line in lines)
    }


def test_every_argument_is_described_in_its_function_or_in_the_problem_that_it_refers_to():
    problem = described(verax.Problem)
    assert problem == set(inspect.signature(verax.Problem).parameters)
    verbs = (verax.evaluate, verax.compare, verax.explain, verax.limits, verax.stream, verax.tune, verax.audit)
    for function in (verax.Scorer, *verbs):
        assert described(function) == set(inspect.signature(function).parameters), function
    for door in (verax.tables.problem, verax.text.classification, verax.text.generation, verax.text.embedded):
        assert set(inspect.signature(door).parameters) <= described(door) | problem, door


def test_version_is_that_of_the_package():
    major, minor, patch = (int(part) for part in verax.__version__.split("."))
    assert (major, minor, patch) >= (0, 1, 0)


def test_there_are_few_names_at_the_top():
    assert dir(verax) == sorted(verax.__all__)
    assert len(dir(verax)) <= 22
