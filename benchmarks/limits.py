"""Limits of PC and DPC, exactly: how long does one input of 20 features take, beside its 2^20 model rows alone?

The paper's tabular network. Wanted: at most 10 seconds on two cores. A beam search over the same input is timed too,
and how near its bound comes to the limit.
"""

from collections.abc import Callable
from typing import Any

import common
import torch
from torch import Tensor, nn

import verax

EXACT, SEARCH, BARE = "all removed sets", "a search 32 wide", "model alone, all sets"
WANTED = 10.0  # seconds


def main() -> None:
    options = common.arguments(__doc__)
    features = 16 if options.quick else 20
    common.print_header(f"Limits of PC and DPC, one input, {features} features, {torch.get_num_threads()} threads")
    model, inputs = common.paper_mlp(features), common.normal_inputs(1, features)
    found = {name: limits(model, inputs, rows) for name, rows in budgets(features).items()}
    times = common.interleaved(cases(model, inputs), options.repeats)
    shares = {metric: float(found[SEARCH][metric].best / found[EXACT][metric].best) for metric in ("pc", "dpc", "lpc")}
    middle = common.medians(times)
    both = {name: limits(model, inputs, rows, ("pc", "dpc"))["pc"].rows for name, rows in budgets(features).items()}
    counted = {name: both.get(name, 2**features) for name in times}
    lines = [(name, f"{middle[name]:,.2f}", f"{counted[name]:,}") for name in times]
    common.print_table(("", "seconds", "model rows of PC and DPC"), lines)
    print("\nBound of the search over the limit: " + ", ".join(f"{name} {one:.4f}" for name, one in shares.items()))
    print(f"Exact, wanted at most {WANTED:g} s: {common.verdict(middle[EXACT] <= WANTED)}")
    path = common.write_results(
        "limits", options, sizes={"features": features}, seconds=times, bound_over_limit=shares, rows=counted
    )
    print(f"\nRaw repeats: {path}")


def budgets(features: int) -> dict[str, int]:
    """Model rows for all sets, and for the widest search: twice PC and DPC, once LPC, which has rows of its own."""
    return {EXACT: 2 ** (features + 1), SEARCH: 2 * 32 * 2 * features * (features + 2)}


def limits(model: nn.Module, inputs: Tensor, rows: int, metrics: tuple[str, ...] = ("pc", "dpc", "lpc")) -> Any:
    return verax.limits(verax.Problem(verax.Scorer(model, returns="logits"), inputs), metrics, rows=rows)


def cases(model: nn.Module, inputs: Tensor) -> dict[str, Callable[[], object]]:
    features = inputs.shape[1]
    sizes = budgets(features)
    removed = (torch.arange(2**features)[:, None] >> torch.arange(features)) % 2
    return {
        EXACT: lambda: limits(model, inputs, sizes[EXACT] // 2, ("pc", "dpc")),
        SEARCH: lambda: limits(model, inputs, sizes[SEARCH] // 2, ("pc", "dpc")),
        BARE: lambda: common.bare_forward(model, inputs * (1 - removed), 2048),
    }


if __name__ == "__main__":
    main()
