"""Shapley values (shap, shapiq): how far estimates are from exact values, with the same model rows.

Three games: the paper's network with ten features, boosted trees with thirty (exact values by shap's TreeExplainer), and
words of the longest texts of NAOPC, whose published outputs are the model.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import numpy as np
import outside
import shap
import shapiq
import torch
from outside_parts import naopc
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import verax
from verax.attribution import KernelShap, PermutationShap

FOLDERS = ("naopc",)
PACKAGES = ("shapiq",)
BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096)
SEEDS, INPUTS = 5, 6
SLOW_BUDGETS = (256, 2048)
TEXTS = "yelp_roberta-base-SST-2"
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
    """Let all estimate with each budget and seed."""
    torch.set_num_threads(1)
    games = [network(), trees(), text(data)]
    return {"games": [_raced(game) for game in games], "seeds": SEEDS, "inputs": INPUTS}


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
    """Words of the longest texts, as ones of a size that says which text a row is of."""
    texts = naopc._texts(data / "naopc" / "results" / "permutation_outputs" / f"{TEXTS}.parquet")
    longest = np.argsort(texts.words)[::-1][:INPUTS]
    words = texts.words[int(longest[-1])]
    table = texts.table.numpy()[longest]
    bits = 1 << np.arange(words)
    marks = 1.0 + np.arange(INPUTS)  # the size of a row's ones says which text it is

    def model(batch: Array) -> Array:
        kept = np.asarray(batch)
        number = np.rint(kept.max(1)).astype(int) - 1
        removed = (kept == 0) @ bits
        return table[np.maximum(number, 0), removed]

    return _with_exact(f"text, {words} words", model, np.repeat(marks[:, None], words, axis=1), np.zeros(words))


def _with_exact(name: str, model: Callable[[Array], Array], rows: Array, baseline: Array) -> Game:
    problem = verax.Problem(verax.Scorer(model, returns="values"), rows, baselines=baseline)
    return Game(name, model, rows, baseline, np.asarray(KernelShap(2 ** rows.shape[1])(problem)))


Estimator = Callable[[Game, int, int], Array]


def _ours(method: type[Any]) -> Estimator:
    return lambda game, budget, seed: np.asarray(method(samples=budget, seed=seed)(game.problem()))


def _shap_kernel(game: Game, budget: int, seed: int) -> Array:
    np.random.seed(seed)  # noqa: NPY002  # the state that shap draws from
    explainer = shap.KernelExplainer(game.model, game.baseline[None])
    return explainer.shap_values(game.rows, nsamples=budget - 2, l1_reg=False, silent=True)


def _shap_permutation(game: Game, budget: int, seed: int) -> Array:
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
ESTIMATORS: dict[str, Estimator] = {
    OURS[0]: _ours(KernelShap),
    OURS[1]: _ours(PermutationShap),
    "shap Kernel": _shap_kernel,
    "shap Permutation": _shap_permutation,
    "shapiq KernelSHAP": _shapiq(lambda d, seed: shapiq.KernelSHAP(d, pairing_trick=True, random_state=seed)),
    "shapiq LeverageSHAP": _shapiq(
        lambda d, seed: shapiq.KernelSHAP(d, pairing_trick=True, sampling_weights=np.ones(d + 1), random_state=seed)
    ),
    "shapiq kADDSHAP": _shapiq(lambda d, seed: shapiq.kADDSHAP(d, max_order=2, random_state=seed)),
    "shapiq SVARM": _shapiq(lambda d, seed: shapiq.SVARM(d, random_state=seed)),
}
SLOW = {"shapiq ProxySPEX": _shapiq(lambda d, seed: shapiq.ProxySPEX(n=d, index="SV", max_order=1, random_state=seed))}


def _raced(game: Game) -> dict[str, Any]:
    lines = []
    for budget in BUDGETS:
        for name, estimate in ESTIMATORS.items():
            if not _possible(name, game, budget):
                continue
            errors, seconds = zip(*(_timed(game, estimate, budget, seed) for seed in range(SEEDS)), strict=True)
            mean, median = float(np.mean(errors)), float(np.median(seconds))
            lines.append({"budget": budget, "who": name, "error": mean, "errors": errors, "seconds": median})
    few = Game(game.name, game.model, game.rows[:2], game.baseline, game.exact[:2])
    for budget in SLOW_BUDGETS:
        if _possible("", game, budget):
            for name, estimate in SLOW.items():
                error, seconds = _timed(few, estimate, budget, 0)
                lines.append({"budget": budget, "who": name, "error": error, "errors": [error], "seconds": seconds})
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
            shares += [(away <= 2 * errors)[np.isfinite(errors)]]
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
    return {"all": outside.markdown(head, every), "best": _short(measured)}


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
