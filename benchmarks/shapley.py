"""Shapley values of ten budgets at once, and exactly: Verax beside shap's KernelExplainer, in one run.

The paper's tabular network, 64 inputs with 20 features, ten budgets from 200 to 2,000 model rows, one baseline row.
Verax scores the rows of the largest budget once and fits each budget to its first ones. shap explains the same inputs
with each budget (``l1_reg=False``, its fastest), as its interface asks for. How far each is from the exact values, from
all 2^20 coalitions, is printed first: speed alone says nothing. One thread for all.
"""

import importlib.metadata
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import shap
import torch
from torch import Tensor, nn

import verax
from verax.attribution import KernelShap, PermutationShap

BUDGETS = tuple(range(200, 2001, 200))
ALL, PERMUTATIONS, SHAP, BARE = "verax", "verax, permutations", "shap", "model alone"


def main() -> None:
    options = common.arguments(__doc__)
    torch.set_num_threads(1)  # for both sides: on a busy machine threads that wait for each other are all one measures
    sizes = {"n": 4, "features": 12} if options.quick else {"n": 64, "features": 20}
    common.print_header(f"Shapley values, {sizes['n']} inputs, {sizes['features']} features, {len(BUDGETS)} budgets")
    model, inputs = common.paper_mlp(sizes["features"]), common.normal_inputs(sizes["n"], sizes["features"])
    wanted: list[Any] = []
    small = small_network(sizes["features"])
    took = {
        "paper's network": common.seconds(lambda: wanted.append(exact(model, inputs[:1]))),
        "one hidden layer of 32": min(common.seconds(lambda: exact(small, inputs[:1])) for _ in range(3)),
    }
    errors = compare(model, inputs[:1], wanted[0])
    rows = count_rows(model, inputs[:2])
    times = common.interleaved(cases(model, inputs), options.repeats)
    report(times, rows, took, sizes)
    measured = {"seconds": times, "seconds_exact_one_input": took, "rows_per_input": rows, "relative_errors": errors}
    path = common.write_results(
        "shapley", options, sizes=sizes, budgets=BUDGETS, peers={"shap": importlib.metadata.version("shap")}, **measured
    )
    print(f"\nRaw repeats: {path}")


def cases(model: nn.Module, inputs: Tensor) -> dict[str, Callable[[], object]]:
    asked = inputs.repeat_interleave(max(BUDGETS), 0)
    return {
        ALL: lambda: verax.explain(asked_of(model, inputs), [KernelShap(budget) for budget in BUDGETS]),
        PERMUTATIONS: lambda: verax.explain(asked_of(model, inputs), [PermutationShap(size) for size in BUDGETS]),
        SHAP: lambda: [by_shap(model, inputs, budget) for budget in BUDGETS],
        BARE: lambda: common.bare_forward(model, asked, 2048),
    }


def small_network(features: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 1))


def asked_of(model: nn.Module, inputs: Tensor) -> verax.Problem:
    """The network, whose one output is a logit, and its inputs."""
    return verax.Problem(verax.Scorer(model, returns="logits"), inputs)


def exact(model: nn.Module, inputs: Tensor) -> Any:
    return KernelShap(2 ** inputs.shape[1])(asked_of(model, inputs)).numpy()


def by_shap(model: nn.Module, inputs: Tensor, budget: int) -> Any:
    """The values that KernelExplainer finds for the logit of the predicted class, one baseline row of zeros."""

    def score(rows: Any) -> Any:
        with torch.inference_mode():
            return model(torch.from_numpy(rows).float())[:, 0].numpy()

    explainer = shap.KernelExplainer(score, np.zeros((1, inputs.shape[1])))
    drawn = budget - 2  # it does not count the input and the baseline
    found = explainer.shap_values(inputs.double().numpy(), nsamples=drawn, l1_reg=False, silent=True)
    return found * np.where(score(inputs.numpy()) > 0, 1.0, -1.0)[:, None]


def compare(model: nn.Module, few: Tensor, wanted: Any) -> dict[str, list[float]]:
    """How far the estimates of each budget are from the exact values."""
    found = {
        ALL: [KernelShap(budget)(asked_of(model, few)).numpy() for budget in BUDGETS],
        PERMUTATIONS: [PermutationShap(budget)(asked_of(model, few)).numpy() for budget in BUDGETS],
        SHAP: [by_shap(model, few, budget) for budget in BUDGETS],
    }
    size = np.linalg.norm(wanted)
    errors = {name: [float(np.linalg.norm(one - wanted) / size) for one in many] for name, many in found.items()}
    head = ("distance to the exact values", *(f"{budget:,}" for budget in BUDGETS))
    common.print_table(head, [(name, *(f"{error:.3f}" for error in many)) for name, many in errors.items()])
    print()
    if errors[ALL][-1] > 1.5 * errors[SHAP][-1]:
        raise SystemExit("Verax is further from the exact values than shap: no point in comparing their speed.")
    return errors


def count_rows(model: nn.Module, inputs: Tensor) -> dict[str, float]:
    found = {}
    for name, work in cases(model, inputs).items():
        with common.recorded(model) as seen:
            work()
        found[name] = sum(seen) / len(inputs)
    return found


def report(
    times: dict[str, list[float]], rows: dict[str, float], took: dict[str, float], sizes: dict[str, int]
) -> None:
    middle = common.medians(times)
    lines = [(name, f"{middle[name]:,.2f}", f"{rows[name]:,.0f}") for name in times]
    common.print_table(("", "seconds", "model rows per input"), lines)
    low, ratio, high = common.ratios(times[SHAP], times[ALL])
    reached = common.verdict(ratio >= 10)
    print(f"\nshap / Verax: {ratio:,.1f} ({low:,.1f} to {high:,.1f}; {reached}, wanted at least 10)")
    for name, seconds in took.items():
        print(f"Exact values of one input, {sizes['features']} features, {name}: {seconds:.1f} s")


if __name__ == "__main__":
    main()
