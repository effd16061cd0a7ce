"""Tabular LIME of the paper's 729 configurations: Verax fits them all to one set of model evaluations.

The paper's tabular network, 1,658 inputs with 20 features. Captum (LimeBase, from which its Lime derives; the only one
with a Gaussian neighbourhood) and the lime package explain one input with one configuration per call. They are given
the same neighbourhood, kernel and ridge regression, and their best settings, and are measured on a few inputs with
each number of samples; their time for the whole grid is extrapolated.
"""

import importlib.metadata
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import captum.attr
import common
import numpy as np
import torch
from captum._utils.models.linear_model import SkLearnRidge
from sklearn.linear_model import Ridge
from torch import Tensor, nn

import verax
from verax.attribution.lime_tabular import LimeTabular

# This script has the name of the lime package and would be found in its place.
sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parent]

ALPHAS = (0.000055, 0.0001, 0.00055, 0.001, 0.0055, 0.01, 0.055, 0.1, 0.55)
WIDTHS = (0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25)
SIGMAS = (0.1, 0.5, 1.0)
SAMPLES = (64, 256, 1024)
GRID = [LimeTabular(*settings) for settings in product(ALPHAS, WIDTHS, SIGMAS, SAMPLES)]
ONE = LimeTabular(alpha=0.01, kernel_width=1.25, sigma=0.5, samples=1024)
PER_EVALUATION = (1, 64, 1025)
ALL, SINGLE, BARE = "verax, grid", "verax, one configuration", "model alone"

Explain = Callable[[Tensor, int], Any]


def main() -> None:
    options = common.arguments(__doc__)
    sizes = {"n": 60, "few": 3} if options.quick else {"n": 1658, "few": 10}
    if options.memory_worker:
        print(json.dumps(memory(sizes["n"])))
        return
    common.print_header("Tabular LIME, the paper's grid of 729 configurations")
    model, inputs = common.paper_mlp(), common.normal_inputs(sizes["n"])
    few = inputs[: sizes["few"]]
    per_evaluation, trials = best_captum(model, few[0], options.repeats)
    peers: dict[str, Explain] = {"captum": partial(by_captum, model, per_evaluation), **by_lime_if_installed(model)}
    agreement = compare(model, few, peers)
    times = common.interleaved(cases(model, inputs, few, peers), options.repeats)
    rows = count_rows(model, few, peers)
    peak = common.in_fresh_process(__file__, *(["--quick"] if options.quick else []))
    measured = {"rows_per_input": rows, "seconds": times, "memory": peak, "agreement": agreement}
    report(measured, sizes, peers, per_evaluation)
    chosen = {"perturbations_per_eval": per_evaluation, "captum_trials": trials, "peers": peer_versions()}
    path = common.write_results("lime", options, sizes=sizes, **chosen, **measured)
    print(f"\nRaw repeats: {path}")


def cases(model: nn.Module, inputs: Tensor, few: Tensor, peers: dict[str, Explain]) -> dict[str, Callable[[], object]]:
    """All grids and all peers; the model alone sees as many rows as it does in the grid, in the same batches."""
    neighbours = inputs.repeat_interleave(len(SIGMAS) * max(SAMPLES), 0)
    found: dict[str, Callable[[], object]] = {
        ALL: lambda: verax.explain(verax.Problem(model, inputs), GRID),
        SINGLE: lambda: ONE(verax.Problem(model, inputs)),
        BARE: lambda: common.bare_forward(model, neighbours, 2048),
    }
    for (name, explain), samples in product(peers.items(), SAMPLES):
        found[f"{name}, {samples}"] = partial(explain_all, explain, few, samples)
    return found


def explain_all(explain: Explain, few: Tensor, samples: int) -> Any:
    return np.stack([explain(row, samples) for row in few])


def predicted_logit(model: nn.Module, row: Tensor) -> Callable[[Tensor], Tensor]:
    """The logit of the class that is predicted for a row, as a function of a batch."""
    with torch.no_grad():
        sign = 1.0 if model(row[None])[0, 0] > 0 else -1.0
    return lambda batch: sign * model(batch)[:, 0]


def by_captum(model: nn.Module, per_evaluation: int, row: Tensor, samples: int) -> Any:
    """Captum's coefficients for the setting ``ONE``; the unperturbed row comes first and counts, as in Verax."""

    def perturb(original: Tensor, **_: Any) -> Iterator[Tensor]:
        yield original
        yield from original + ONE.sigma * torch.randn(samples, *original.shape)

    def kernel(original: Tensor, perturbed: Tensor, _: Tensor, **__: Any) -> Tensor:
        return torch.exp(-(original - perturbed).square().sum() / (2 * ONE.kernel_width**2))

    explainer = captum.attr.LimeBase(
        predicted_logit(model, row),
        SkLearnRidge(alpha=ONE.alpha),
        kernel,
        perturb,
        perturb_interpretable_space=False,
        from_interp_rep_transform=None,
        to_interp_rep_transform=lambda perturbed, original, **_: perturbed - original,
    )
    found = explainer.attribute(row[None], n_samples=samples + 1, perturbations_per_eval=per_evaluation)
    return found.detach().numpy().reshape(-1)


def best_captum(model: nn.Module, row: Tensor, repeats: int) -> tuple[int, dict[str, float]]:
    """Find Captum's fastest number of rows per model call; also give the seconds of each."""
    tried = {str(size): partial(by_captum, model, size, row, max(SAMPLES)) for size in PER_EVALUATION}
    common.interleaved(tried, 1)
    times = common.medians(common.interleaved(tried, repeats))
    return int(common.fastest(times)), times


def by_lime_if_installed(model: nn.Module) -> dict[str, Explain]:
    return {"lime": partial(by_lime, model)} if importlib.util.find_spec("lime") else {}


def by_lime(model: nn.Module, row: Tensor, samples: int) -> Any:
    """Compute the lime package's coefficients for the setting ``ONE``.

    It measures everything in standard deviations of its training data, which are made to be ``sigma``: neighbours then
    spread by ``sigma``, and width, penalty and coefficients are converted.
    """
    from lime.lime_tabular import LimeTabularExplainer  # noqa: PLC0415

    def predict(batch: Any) -> Any:
        with torch.no_grad():
            return logit(torch.from_numpy(batch).float()).numpy()

    logit = predicted_logit(model, row)
    explainer = LimeTabularExplainer(
        ONE.sigma * np.array([[-1.0], [1.0]]) * np.ones(len(row)),
        mode="regression",
        kernel_width=ONE.kernel_width / ONE.sigma,
        feature_selection="none",
        discretize_continuous=False,
        sample_around_instance=True,
    )
    found = explainer.explain_instance(
        row.double().numpy(),
        predict,
        num_features=len(row),
        num_samples=samples + 1,  # the unperturbed row is one of them
        model_regressor=Ridge(alpha=ONE.alpha / ONE.sigma**2),
    )
    return np.array([value for _, value in sorted(found.local_exp[1])]) / ONE.sigma


def compare(model: nn.Module, few: Tensor, peers: dict[str, Explain]) -> dict[str, float]:
    """Compare Verax with scikit-learn on the same draws, and with peers on as many."""
    found = {"scikit_learn_difference": max(sklearn_difference(model, row[None]) for row in few)}
    problem = verax.Problem(model, few)
    ours = torch.cat([ONE(problem), replace(ONE, seed=1)(problem)]).double().numpy()
    found["another_seed_correlation"] = correlation(*np.split(ours, 2))
    for name, explain in peers.items():
        found[f"{name}_correlation"] = correlation(ours[: len(few)], explain_all(explain, few, ONE.samples))
    print(
        f"Verax against scikit-learn's Ridge on the same draws, {len(few)} inputs, {len(GRID)} configurations: "
        f"largest difference {found['scikit_learn_difference']:.1e}"
    )
    named = {name: value for name, value in found.items() if name.endswith("_correlation")}
    for name, value in named.items():
        print(
            f"Verax against {name.removesuffix('_correlation').replace('_', ' ')}, other draws: correlation {value:.4f}"
        )
    print()
    if found["scikit_learn_difference"] > 1e-8 or any(
        value < found["another_seed_correlation"] - 0.05 for value in named.values()
    ):
        raise SystemExit("Verax and the others disagree: no point in comparing their speed.")
    return found


def sklearn_difference(model: nn.Module, row: Tensor) -> float:
    """Fit the rows that the model saw again, with scikit-learn, for the whole grid; in float64 as results are then."""
    scorer = verax.Scorer(Seen(model))
    found = verax.explain(verax.Problem(scorer, row.double()), GRID)
    seen, logits = scorer.adapter.module.recorded()  # type: ignore[union-attr]
    neighbours = dict(zip(SIGMAS, (seen[1:] - seen[0]).split(max(SAMPLES)), strict=True))
    values = dict(zip(SIGMAS, logits[1:].split(max(SAMPLES)), strict=True))
    sign = 1.0 if logits[0] > 0 else -1.0
    worst = 0.0
    for one in GRID:
        design = torch.cat((torch.zeros(1, row.shape[1]), neighbours[one.sigma][: one.samples])).numpy()
        scores = torch.cat((logits[:1], values[one.sigma][: one.samples])).numpy() * sign
        weights = np.exp(-(design**2).sum(1) / (2 * one.kernel_width**2))
        fitted = Ridge(alpha=one.alpha).fit(design, scores, sample_weight=weights)
        worst = max(worst, float(np.abs(fitted.coef_ - found[one.canonical].numpy()[0]).max()))
    return worst


class Seen(nn.Module):
    """A model that keeps what it was asked and what it answered."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.kept: list[tuple[Tensor, Tensor]] = []

    def forward(self, batch: Tensor) -> Tensor:
        """Run the model."""
        logit = self.model(batch)
        self.kept.append((batch.double(), logit[:, 0].double()))
        return logit

    def recorded(self) -> tuple[Tensor, Tensor]:
        """Give all rows and their logits, in the order asked."""
        rows, logits = zip(*self.kept, strict=True)
        return torch.cat(rows), torch.cat(logits)


def correlation(ours: Any, theirs: Any) -> float:
    return float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1])


def count_rows(model: nn.Module, few: Tensor, peers: dict[str, Explain]) -> dict[str, float]:
    """Count the model rows per input, for all configurations; peers' are counted for each number of samples."""
    with common.recorded(model) as ours:
        result = verax.explain(verax.Problem(model, few), GRID)
    assert sum(ours) == result.rows, "Verax miscounts its rows"
    with common.recorded(model) as single:
        ONE(verax.Problem(model, few))
    found = {ALL: sum(ours) / len(few), SINGLE: sum(single) / len(few)}
    for name, explain in peers.items():
        with common.recorded(model) as theirs:
            for samples in SAMPLES:
                explain(few[0], samples)
        found[f"{name}, extrapolated"] = sum(theirs) / len(SAMPLES) * len(GRID)
    return found


def memory(n: int) -> dict[str, int]:
    model, inputs = common.paper_mlp(), common.normal_inputs(n)
    return common.peak_extra_bytes(lambda: verax.explain(verax.Problem(model, inputs), GRID))


def peer_versions() -> dict[str, str]:
    found = {"scikit-learn": importlib.metadata.version("scikit-learn"), "lime": "not installed"}
    if importlib.util.find_spec("lime"):
        found["lime"] = importlib.metadata.version("lime")
    return found


def report(measured: dict[str, Any], sizes: dict[str, int], peers: dict[str, Explain], per_evaluation: int) -> None:
    times, rows, n = common.medians(measured["seconds"]), measured["rows_per_input"], sizes["n"]
    lines = [
        (f"Verax, grid, {n} inputs", times[ALL], len(GRID) * n, rows[ALL]),
        (f"  of which the model alone (its {rows[ALL] - 1:,.0f} neighbours)", times[BARE], len(GRID) * n, None),
        (f"Verax, 1 configuration, {n} inputs", times[SINGLE], n, rows[SINGLE]),
    ]
    labels = {"captum": f"Captum ({per_evaluation} rows a call, best)", "lime": "lime package"}
    for name in peers:
        for samples in SAMPLES:
            what = f"{labels[name]}, 1 configuration, {samples} samples, {sizes['few']} inputs"
            lines.append((what, times[f"{name}, {samples}"], sizes["few"], samples + 1))
        each = sum(times[f"{name}, {samples}"] for samples in SAMPLES) / len(SAMPLES) / sizes["few"]
        whole = (f"{labels[name]}, grid, {n} inputs, extrapolated", each * len(GRID) * n, len(GRID) * n)
        lines.append((*whole, rows[f"{name}, extrapolated"]))
        print(f"{labels[name]} / Verax, grid: {each * len(GRID) * n / times[ALL]:,.0f} (extrapolated)")
    if "lime" not in peers:
        print("lime package: not installed")
    print()
    common.print_table(
        ("", "seconds", "us per attribution", "model rows per input"),
        [
            (what, f"{time:,.2f}", f"{time / attributions * 1e6:,.1f}", "" if count is None else f"{count:,.0f}")
            for what, time, attributions, count in lines
        ],
    )
    peak = measured["memory"]
    print(
        f"\nGrid in {times[ALL]:.1f} s (wanted < 90 s for 1,658 inputs on two cores), peak memory of its process "
        f"{peak['peak'] / 2**20:,.0f} MiB (wanted < 4 GiB), of which {peak['extra'] / 2**20:,.0f} MiB for the call"
    )


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="captum")
    main()
