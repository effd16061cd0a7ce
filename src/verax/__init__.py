"""Verax measures how faithful feature attributions are to the model they explain."""

import importlib
from typing import TYPE_CHECKING, Any

from verax.core.packages import __version__  # first: ends the command where there is too little memory for the rest

if TYPE_CHECKING:
    from verax import (  # noqa: F401  # some are not in __all__
        attribution,
        auditing,
        datasets,
        interop,
        lakes,
        metrics,
        models,
        monitoring,
        replacement,
        results,
        tables,
        text,
    )
    from verax.attribution.base import explain
    from verax.auditing.audit import audit
    from verax.checking import check, reasons
    from verax.evaluation.evaluate import compare, evaluate
    from verax.evaluation.limits import limits
    from verax.evaluation.stream import stream
    from verax.problem.files import open_problem
    from verax.problem.problem import Problem
    from verax.scoring.scorer import Scorer
    from verax.study.in_memory import run_study
    from verax.tuning import tune

# All of it is imported when it is first used: torch alone takes seconds, and `verax --help` needs none of it.
_HOMES = {
    "Problem": "problem.problem",
    "Scorer": "scoring.scorer",
    "audit": "auditing.audit",
    "check": "checking.check",
    "compare": "evaluation.evaluate",
    "evaluate": "evaluation.evaluate",
    "explain": "attribution.base",
    "limits": "evaluation.limits",
    "open_problem": "problem.files",
    "reasons": "checking.reasons",
    "run_study": "study.in_memory",
    "stream": "evaluation.stream",
    "tune": "tuning",
}
_FOLDERS = (
    "adapters",
    "attribution",
    "auditing",
    "checking",
    "datasets",
    "groups",
    "interop",
    "lakes",
    "metrics",
    "models",
    "monitoring",
    "replacement",
    "results",
    "tables",
    "text",
)

__all__ = [
    "Problem",
    "Scorer",
    "__version__",
    "attribution",
    "audit",
    "check",
    "compare",
    "datasets",
    "evaluate",
    "explain",
    "interop",
    "limits",
    "metrics",
    "models",
    "open_problem",
    "reasons",
    "replacement",
    "run_study",
    "stream",
    "tables",
    "text",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import what is used, when it is first used."""
    if name in _FOLDERS:
        return importlib.import_module(f"verax.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'verax' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"verax.{_HOMES[name]}"), name)
    globals()[name] = value  # the next look-up finds it at once
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
