"""Verax measures how faithful feature attributions are to the model they explain."""

import importlib
import sys
from typing import TYPE_CHECKING, Any

import verax.core.room  # noqa: F401  # first: says in a line that there is no room for what follows
from verax import attribution, metrics
from verax.attribution.base import explain
from verax.core.version import __version__
from verax.evaluation.compare import compare
from verax.evaluation.evaluate import evaluate
from verax.evaluation.limits import limits
from verax.problem import groups, replacement, tables
from verax.problem.problem import Problem
from verax.scoring import adapters
from verax.scoring.scorer import Scorer

if TYPE_CHECKING:
    from verax import auditing, datasets, interop, lakes, models, monitoring, text
    from verax.auditing.audit import audit
    from verax.evaluation.stream import stream
    from verax.problem_files import open_problem
    from verax.study.live import run_study
    from verax.tuning import tune

# They live in the folders of their layers; imports by these names work all the same.
sys.modules.update(
    {
        "verax.adapters": adapters,
        "verax.groups": groups,
        "verax.replacement": replacement,
        "verax.tables": tables,
    }
)

_LAZY = {
    "audit": "auditing",
    "auditing": "",
    "datasets": "",
    "interop": "",
    "lakes": "",
    "models": "",
    "monitoring": "",
    "open_problem": "problem_files",
    "run_study": "study.live",
    "stream": "evaluation.stream",
    "text": "",
    "tune": "tuning",
}  # large: imported when they are first used

__all__ = [
    "Problem",
    "Scorer",
    "__version__",
    "attribution",
    "audit",
    "auditing",
    "compare",
    "datasets",
    "evaluate",
    "explain",
    "interop",
    "lakes",
    "limits",
    "metrics",
    "models",
    "monitoring",
    "open_problem",
    "replacement",
    "run_study",
    "stream",
    "tables",
    "text",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import what is large when it is first used, to keep ``import verax`` light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'verax' has no attribute {name!r}")
    module = importlib.import_module(f"verax.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)
