"""Names in help texts and completions are those that are registered, and nothing large is loaded to say them."""

import subprocess
import sys

from verax.attribution import METHODS
from verax.cli import complete
from verax.data.catalogue import names, source_of
from verax.metrics import METRICS
from verax.paper.models.recipes import RECIPES
from verax.problem.replacement.base import sayable
from verax.study.spec import shipped

LARGE = ("torch", "numpy", "scipy", "polars", "sklearn", "matplotlib")
SHOWN = (["--help"], ["--version"], ["evaluate", "--help"], ["study", "run", "--help"])


def builtin(registry):
    """Without classes that other tests define."""
    return tuple(name for name in registry if registry.get(name).__module__.startswith("verax."))


def test_names_are_those_that_are_registered():
    assert builtin(METRICS) == complete.METRICS
    assert tuple(sorted(builtin(METHODS))) == complete.METHODS
    assert set(sayable().values()) >= set(complete.REPLACEMENTS)
    assert set(names()) >= set(complete.DATASETS)
    assert tuple(dict.fromkeys(model for _, model in RECIPES)) == complete.ARCHITECTURES
    assert tuple(shipped()) == complete.SPECS
    takers = [source for source in map(source_of, complete.DATASETS) if source.takes_path]
    assert "; ".join(f"{source.name}: {source.path}" for source in takers) + "." == complete.DATA_HELP


def test_help_and_version_load_nothing_large():
    program = f"""
import sys
from verax.cli import app
for words in {SHOWN!r}:
    try:
        app(words)
    except SystemExit:
        pass
print([name for name in {LARGE!r} if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"


def test_completion_loads_nothing_large():
    program = f"""
import sys
from verax.cli import complete
assert complete.metrics("eff") == ["effect_correlation"]
assert complete.methods("Kernel") == ["KernelShap"]
assert "paper-heloc" in complete.specs("")
assert complete.datasets("br") == ["breast-cancer"] and complete.architectures("m") == ["mlp"]
assert complete.replacing("nu") == ["nudge:epsilon"]
print([name for name in {LARGE!r} if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
