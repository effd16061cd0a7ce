"""Shapley values (shap, shapiq): how far estimates are from exact values, with the same model rows.

Three games: the paper's network with ten features, boosted trees with thirty (exact values by shap's TreeExplainer),
and texts of twelve words, made of NAOPC's.
"""

import importlib.metadata
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import outside
import polars as pl
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

import verax
from verax.attribution import KernelShap, PermutationShap

FOLDERS = ("naopc", "shapiq")
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096)
SEEDS, INPUTS = 3, 4
WORDS = 12
ROUNDING = 1e-7  # of exact values: shap adds those of trees up in float32
Array = Any


@dataclass(frozen=True)
class Game:
    """A model, rows to explain, one baseline, and the exact values."""

    name: str
    model: Callable[[Array], Array]
    rows: Array
    baseline: Array
    exact: Array

    @property
    def features(self) -> int:
        """How many features a row has."""
        return int(self.rows.shape[1])

    def problem(self) -> verax.Problem:
        """The same as Verax takes it."""
        return verax.Problem(verax.Scorer(self.model, returns="values"), self.rows, baselines=self.baseline)

    def error(self, found: Array) -> float:
        """Mean relative distance to the exact values."""
        sizes = np.linalg.norm(self.exact, axis=1)
        return float(np.mean(np.linalg.norm(found - self.exact, axis=1) / sizes))


def measure(data: Path) -> dict[str, Any]:
    """Let all estimate with each budget and seed; compare exact values with those that shapiq stores."""
    torch.set_num_threads(1)
    games = [network(), trees(), text(data)]
    return {
        "games": [_raced(game) for game in games],
        "stored": [stored(path) for path in sorted((data / "shapiq").glob("*Moebius*.json"))],
        "seeds": SEEDS,
        "inputs": INPUTS,
        "peers": {name: importlib.metadata.version(name) for name in ("shap", "shapiq")},
    }


def network() -> Game:
    """The logit of the paper's network with ten features; zeros are the baseline."""
    module = common.paper_mlp(10).double()
    rows = common.normal_inputs(INPUTS, 10).double().numpy()

    def model(batch: Array) -> Array:
        with torch.inference_mode():
            return module(torch.as_tensor(np.asarray(batch)))[:, 0].numpy()

    return _with_exact("network, 10 features", model, rows, np.zeros(10))


def trees() -> Game:
    """Log-odds of 100 boosted trees on scikit-learn's breast cancer data; the mean row is the baseline."""
    import shap  # noqa: PLC0415  # the page's tables are made without it

    rows, labels = load_breast_cancer(return_X_y=True)
    fitted = GradientBoostingClassifier(n_estimators=100, max_depth=3, random_state=0).fit(rows, labels)
    baseline, some = rows.mean(0), rows[:INPUTS]
    exact = shap.TreeExplainer(fitted, data=baseline[None], feature_perturbation="interventional").shap_values(some)
    return Game(
        "boosted trees, 30 features",
        lambda batch: fitted.decision_function(np.asarray(batch, dtype=float)),
        some,
        baseline,
        exact,
    )


def text(data: Path) -> Game:
    """Texts of twelve words, each made of two of six or more, under a network on their words and pairs of words."""
    texts, labels = [], []
    for path in sorted((data / "naopc" / "data").glob("*.csv")):
        read = pl.read_csv(path)
        texts += read["text"].to_list()
        labels += read["label"].to_list()
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+"),  # noqa: S106  # no password
        MLPClassifier(hidden_layer_sizes=(32,), max_iter=200, random_state=0),
    ).fit(texts, labels)
    halves = [one.split()[: WORDS // 2] for one in texts if len(one.split()) >= WORDS // 2]
    half = len(halves) // 2
    joined = [halves[place] + halves[half + place] for place in range(INPUTS)]

    def model(batch: Array) -> Array:
        kept = np.asarray(batch)
        number = np.maximum(np.rint(kept.max(1)).astype(int) - 1, 0)
        rows = [
            " ".join(itertools.compress(joined[at], row)) for at, row in zip(number.tolist(), kept > 0, strict=True)
        ]
        return pipeline.predict_proba(rows)[:, 1]

    return _with_exact(f"text, {WORDS} words", model, _marks(WORDS), np.zeros(WORDS))


def _marks(words: int) -> Array:
    return np.repeat(1.0 + np.arange(INPUTS)[:, None], words, axis=1)


def _with_exact(name: str, model: Callable[[Array], Array], rows: Array, baseline: Array) -> Game:
    problem = verax.Problem(verax.Scorer(model, returns="values"), rows, baselines=baseline)
    return Game(name, model, rows, baseline, np.asarray(KernelShap(2 ** rows.shape[1])(problem)))


Estimator = Callable[[Game, int, int], Array]


def _ours(method: type[Any]) -> Estimator:
    return lambda game, budget, seed: np.asarray(method(samples=budget, seed=seed)(game.problem()))


def _shap_kernel(game: Game, budget: int, seed: int) -> Array:
    import shap  # noqa: PLC0415  # the page's tables are made without it

    np.random.seed(seed)  # noqa: NPY002  # the state that shap draws from
    explainer = shap.KernelExplainer(game.model, game.baseline[None])
    return explainer.shap_values(game.rows, nsamples=budget - 2, l1_reg=False, silent=True)


def _shap_permutation(game: Game, budget: int, seed: int) -> Array:
    import shap  # noqa: PLC0415  # the page's tables are made without it

    masker = shap.maskers.Independent(game.baseline[None])
    return shap.PermutationExplainer(game.model, masker, seed=seed)(game.rows, max_evals=budget, silent=True).values


def _shapiq(make: Callable[[int, int], Any]) -> Estimator:
    def found(game: Game, budget: int, seed: int) -> Array:
        values = []
        for row in game.rows:

            def score(coalitions: Array, row: Array = row) -> Array:
                return game.model(np.where(np.asarray(coalitions, dtype=bool), row, game.baseline))

            values.append(make(game.features, seed).approximate(budget, score).get_n_order_values(1))
        return np.stack(values)

    return found


OURS = ("Verax KernelShap", "Verax PermutationShap")


def estimators() -> dict[str, Estimator]:
    """All that take part, by name: shapiq's as they are by default but for pairs, a proxy's errors taken off."""
    from shapiq.approximator import (  # noqa: PLC0415  # the page's tables are made without it
        KernelSHAP,
        LeverageSHAP,
        OddSHAP,
        ProxySHAP,
        RegressionMSR,
    )

    return {
        OURS[0]: _ours(KernelShap),
        OURS[1]: _ours(PermutationShap),
        "shap Kernel": _shap_kernel,
        "shap Permutation": _shap_permutation,
        "shapiq KernelSHAP": _shapiq(lambda d, seed: KernelSHAP(d, pairing_trick=True, random_state=seed)),
        "shapiq LeverageSHAP": _shapiq(lambda d, seed: LeverageSHAP(d, random_state=seed)),
        "shapiq OddSHAP": _shapiq(lambda d, seed: OddSHAP(d, random_state=seed)),
        "shapiq ProxySHAP": _shapiq(
            lambda d, seed: ProxySHAP(d, max_order=1, index="SV", adjustment=True, random_state=seed)
        ),
        "shapiq RegressionMSR": _shapiq(lambda d, seed: RegressionMSR(d, "SV", random_state=seed)),
    }


def stored(path: Path) -> dict[str, Any]:
    """Exact values of a game that shapiq's tests store by its Moebius coefficients, and those that they store."""
    moebius, values = (
        json.loads(Path(str(path).replace("Moebius_order=8", kind)).read_text())["data"]
        for kind in ("Moebius_order=8", "SV_order=1")
    )
    sets = [[int(one) for one in key.split(",")] if key != "Empty" else [] for key in moebius]
    features = 1 + max(max(one, default=0) for one in sets)

    def model(batch: Array) -> Array:
        kept = np.asarray(batch) > 0
        return sum(size * kept[:, one].all(1) for one, size in zip(sets, moebius.values(), strict=True))

    problem = verax.Problem(verax.Scorer(model, returns="values"), np.ones((1, features)))
    exact = np.array([values[str(feature)] for feature in range(features)])
    limits = verax.limits(problem, ["pc"])["pc"]
    return {
        "game": path.name.split("_index")[0],
        "features": features,
        **{
            type(method).__name__: float(np.abs(np.asarray(method(problem))[0] - exact).max())
            for method in (KernelShap(2**features), PermutationShap(2**features))
        },
        "limits": float(np.abs(np.asarray(limits.shapley)[0] - exact).max()),
    }


def _raced(game: Game) -> dict[str, Any]:
    lines = []
    for budget in BUDGETS:
        for name, estimate in estimators().items():
            if not _possible(name, game, budget):
                continue
            errors, seconds = zip(*(_timed(game, estimate, budget, seed) for seed in range(SEEDS)), strict=True)
            median = float(np.median(seconds))
            lines.append(
                {"budget": budget, "who": name, "error": float(np.mean(errors)), "errors": errors, "seconds": median}
            )
    return {"game": game.name, "features": game.features, "lines": lines, "coverage": _coverage(game)}


def _possible(name: str, game: Game, budget: int) -> bool:
    """Below all coalitions; shap's permutations need one walk there and back."""
    return budget < 2**game.features and not (name == "shap Permutation" and budget < 2 * game.features + 1)


def _timed(game: Game, estimate: Estimator, budget: int, seed: int) -> tuple[float, float]:
    """The error, and the processor's seconds: on a busy machine those of the clock say nothing."""
    start = time.process_time()
    found = estimate(game, budget, seed)
    return game.error(found), time.process_time() - start


def _coverage(game: Game) -> dict[str, float]:
    """By our method: the share of values that are within two standard errors of the exact ones, over all budgets."""
    found = {}
    for name, method in zip(OURS, (KernelShap, PermutationShap), strict=True):
        shares = []
        for budget in (one for one in BUDGETS if _possible("", game, one)):
            fits = verax.explain(game.problem(), {"fit": method(samples=budget)})
            errors = np.asarray(fits.standard_errors["fit"])
            away = np.abs(np.asarray(fits["fit"]) - game.exact)
            shares += [(away <= 2 * errors + ROUNDING)[np.isfinite(errors)]]
        found[name] = float(np.mean(np.concatenate(shares)))
    return found


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """Errors and seconds of all, and a short one: ours beside the best of the others."""
    head = ["game", "model rows", "who", "error", "seconds"]
    every = [
        [game["game"], f"{one['budget']:,}", one["who"], f"{one['error']:.4f}", f"{one['seconds']:.2f}"]
        for game in measured["games"]
        for one in game["lines"]
    ]
    return {"all": outside.markdown(head, every), "best": _short(measured), "stored": _stored(measured)}


def _stored(measured: dict[str, Any]) -> str:
    names = ("KernelShap", "PermutationShap", "limits")
    rows = [[one["game"], str(one["features"]), *(f"{one[name]:.1e}" for name in names)] for one in measured["stored"]]
    return outside.markdown(["game", "features", *names], rows)


def _short(measured: dict[str, Any]) -> str:
    """Of the smallest, a middle and the largest budget of each game."""
    lines = []
    for game in measured["games"]:
        budgets = sorted({one["budget"] for one in game["lines"]})
        for budget in (budgets[0], budgets[len(budgets) // 2], budgets[-1]):
            some = [one for one in game["lines"] if one["budget"] == budget]
            first, second = (next(one for one in some if one["who"] == name) for name in OURS)
            best = min((one for one in some if one["who"] not in OURS), key=lambda one: one["error"])
            cells = [f"{one['error']:.4f} ({one['seconds']:.2f} s)" for one in (first, second, best)]
            lines.append([game["game"], f"{budget:,}", *cells, best["who"]])
    head = ["game", "model rows", "KernelShap", "PermutationShap", "best of the others", "which"]
    return outside.markdown(head, lines)
