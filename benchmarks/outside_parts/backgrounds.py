"""Backgrounds (shap, shapiq): Shapley values over all rows of a background, and what a mean row leaves out.

A network of six features and twenty background rows; nonlinear sums of correlated Gaussian features after xai-bench.
"""

import importlib.metadata
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
import outside
import torch

import verax
from verax.attribution import KernelShap, PermutationShap
from verax.attribution.shapley import exact_shapley
from verax.replacement import Conditional, Marginal

FEATURES, ROWS, INPUTS = 6, 20, 4
COLUMNS, SAMPLES, NODES = 4, 400, 40
CORRELATIONS = (0.0, 0.25, 0.5, 0.75)
DRAWS = 256
FUNCTIONS = (np.sin, np.abs, np.square, lambda x: np.exp(-x))  # xai-bench's nonlinear additive function


def measure(data: Path) -> dict[str, Any]:
    """Compare with exact values of shap and shapiq; and mean rows and draws with expected scores."""
    return {
        "same": _same(),
        "conditional": [_conditional(rho) for rho in CORRELATIONS],
        "peers": {name: importlib.metadata.version(name) for name in ("shap", "shapiq")},
    }


def _same() -> dict[str, float]:
    """The largest difference from their exact values."""
    import shap  # noqa: PLC0415  # the page's tables are made without them
    from shapiq import ExactComputer  # noqa: PLC0415
    from shapiq.imputer import MarginalImputer  # noqa: PLC0415

    module = common.paper_mlp(FEATURES).double()
    rows, background = (
        common.normal_inputs(count, FEATURES, seed).double() for count, seed in ((INPUTS, 1), (ROWS, 2))
    )

    def model(batch: Any) -> Any:
        with torch.inference_mode():
            return module(torch.as_tensor(np.asarray(batch)))[:, 0].numpy()

    problem = verax.Problem(verax.Scorer(model, returns="values"), rows.numpy(), background=background.numpy())
    exact, every = shap.ExactExplainer(model, shap.maskers.Independent(background.numpy(), max_samples=ROWS)), []
    for row in rows.numpy():
        with warnings.catch_warnings(action="ignore"):
            imputer = MarginalImputer(model, background.numpy(), x=row, sample_size=ROWS, random_state=0)
        every.append(ExactComputer(imputer, FEATURES)("SV").get_n_order_values(1))
    theirs = {"shap": exact(rows.numpy(), silent=True).values, "shapiq": np.stack(every)}
    ours = {
        "KernelShap": np.asarray(KernelShap(2**FEATURES, over="background")(problem)),
        "PermutationShap": np.asarray(PermutationShap(2**FEATURES, over="background")(problem)),
        "limits": np.asarray(verax.limits(problem.with_replacement(Marginal(draws="every")), ["pc"])["pc"].shapley),
    }
    return {
        f"{name}, {peer}": float(np.abs(own - other).max())
        for name, own in ours.items()
        for peer, other in theirs.items()
    }


def _conditional(rho: float) -> dict[str, float]:
    """How far Shapley values of mean rows, and of drawn rows, are from those of expected scores, relative to these."""
    covariance = rho * np.ones((COLUMNS, COLUMNS)) + (1 - rho) * np.eye(COLUMNS)
    rows = np.random.default_rng(1).multivariate_normal(
        np.zeros(COLUMNS),
        covariance,
        INPUTS * 5,
        method="cholesky",  # the others differ from machine to machine
    )
    background = _with_moments(covariance)

    def model(batch: Any) -> Any:
        return sum(one(np.asarray(batch)[:, at]) for at, one in enumerate(FUNCTIONS))

    problem = verax.Problem(verax.Scorer(model, returns="values"), rows, background=background)
    exact = np.stack([_expected(row, covariance) for row in rows])
    found = {"correlation": rho}
    for name, draws in (("mean row", 0), ("drawn", DRAWS)):
        moved = problem.with_replacement(Conditional(background, ridge=0.0, draws=draws))
        ours = np.asarray(verax.limits(moved, ["pc"])["pc"].shapley)
        found[name] = float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))
    return found


def _expected(row: Any, covariance: Any) -> Any:
    """Shapley values of ``E[f(x) | x_K]``, by quadrature: a feature is normal given others."""
    places, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    sets = (np.arange(2**COLUMNS)[:, None] >> np.arange(COLUMNS)) & 1 == 1
    scores = np.zeros(len(sets))
    for number, known in enumerate(sets):
        for feature, function in enumerate(FUNCTIONS):
            if known[feature]:
                scores[number] += function(row[feature])
                continue
            slope = covariance[feature, known] @ np.linalg.inv(covariance[np.ix_(known, known)])
            spread = np.sqrt(1 - slope @ covariance[known, feature])
            scores[number] += weights @ function(slope @ row[known] + spread * places)
    return exact_shapley(torch.from_numpy(scores)[None])[0].numpy()


def _with_moments(covariance: Any) -> Any:
    """Rows whose mean is 0 and whose covariance is exactly this."""
    drawn = np.random.default_rng(0).normal(size=(SAMPLES, COLUMNS))
    centred = drawn - drawn.mean(0)
    whitened = centred @ np.linalg.inv(np.linalg.cholesky(np.cov(centred.T))).T
    return whitened @ np.linalg.cholesky(covariance).T


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """Differences from their values, and of mean rows from expected scores."""
    same = [[name, f"{value:.0e}"] for name, value in measured["same"].items()]
    conditional = [
        [f"{one['correlation']:g}", f"{one['mean row']:.2f}", f"{one['drawn']:.2f}"] for one in measured["conditional"]
    ]
    return {
        "same": outside.markdown(["exact values of, and of", "furthest"], same),
        "conditional": outside.markdown(["correlation", "mean row", f"{DRAWS} drawn rows"], conditional),
    }
