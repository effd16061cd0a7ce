"""Warnings point to the user's line, and come once per call."""

import warnings

import numpy as np
import pytest
import torch

import verax
from verax.attribution import Gradient, LimeTabular
from verax.core.warn import kind_of, once_per_call, warn
from verax.metrics import Infidelity


def warnings_of(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return caught


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


@pytest.fixture
def rows():
    """Columns of many spreads, far from 0, so that baselines and sigma are doubted."""
    return torch.randn(60, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.01, 1, 1, 0.5]) + 5


def verbs(model, rows):
    problem = verax.Problem(model, rows)
    methods = {"gradient": Gradient(), "lime": LimeTabular(samples=16)}
    metrics = ("pc", "infidelity")
    return {
        "evaluate": lambda: verax.evaluate(problem, {"a": rows}, metrics),
        "compare": lambda: verax.compare(problem, {"a": rows, "b": -rows}, metrics),
        "tune": lambda: verax.tune(problem, list(methods.values()), metric=metrics),
        "audit": lambda: verax.audit(problem, methods, metrics=list(metrics), trials=["tells_apart"]),
        "limits": lambda: verax.limits(problem, ["pc"]),
    }


@pytest.mark.parametrize("name", ["evaluate", "compare", "tune", "audit", "limits"])
def test_each_warning_comes_once_and_from_the_line_of_the_user(model, rows, name):
    if name == "tune":
        pytest.importorskip("optuna", reason="needs the extra tune")
    caught = warnings_of(verbs(model, rows)[name])
    kinds = [kind_of(str(warning.message)) for warning in caught]
    assert sorted(kinds) == sorted(set(kinds))
    assert {warning.filename for warning in caught} <= {__file__}
    assert kinds or name == "limits"


def test_an_audit_takes_the_sigma_that_it_advises(model, rows):
    problem = verax.Problem(model, rows, background=rows, baselines="mean")
    unused, followed = (
        warnings_of(lambda: verax.audit(problem, {"a": Gradient()}, metrics=[metric], trials=["tells_apart"]))  # noqa: B023
        for metric in ("infidelity", Infidelity(sigma="std"))
    )
    assert any('the metric sigma="std", and the problem background' in str(warning.message) for warning in unused)
    assert not any("sigma" in str(warning.message) for warning in followed)


def test_kinds_do_not_depend_on_numbers_and_names():
    with_numbers = (f"baselines: outside in {name} ({size})" for name, size in zip("abc", np.arange(3), strict=True))
    with once_per_call():
        caught = warnings_of(lambda: [warn(warning) for warning in with_numbers])
    assert len(caught) == 1
