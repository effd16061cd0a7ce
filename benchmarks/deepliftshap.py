"""DeepLiftSHAP of the paper's 24 configurations: Verax computes the multipliers once, Captum once per configuration.

The paper's tabular network, 1,658 inputs with 20 features, 1,024 background rows. Captum takes one background per call
and pairs every input with all of it at once, so it is given a few inputs at a time, at the best number found, and
measured on a few; its time for all inputs and all configurations is extrapolated.
"""

import json
import warnings
from typing import Any

import captum.attr
import common
import torch
from gradients import TwoClassLogits
from torch import Tensor, nn

import verax
from verax.attribution import DeepLiftSHAP

GRID = [one for one in verax.attribution.grid("tabular") if isinstance(one, DeepLiftSHAP)]
AT_ONCE = (1, 4, 16)  # inputs in a call of Captum
ALL, SINGLE, PEER = "verax, grid", "verax, one configuration", "captum, one configuration"


def main() -> None:
    options = common.arguments(__doc__)
    sizes = {"n": 24, "few": 16, "samples": 64} if options.quick else {"n": 1658, "few": 64, "samples": 1024}
    if options.memory_worker:
        print(json.dumps(memory(**sizes)))
        return
    common.print_header(f"DeepLiftSHAP, {sizes['samples']} background rows")
    model, inputs, background = material(sizes["n"], sizes["samples"])
    few = inputs[: sizes["few"]]
    agreement = check_agreement(model, few, background)
    best, trials = best_captum(model, few, background, options.repeats)
    times = common.interleaved(
        {
            ALL: lambda: run_grid(model, inputs, background),
            SINGLE: lambda: by_verax(model, inputs, background),
            PEER: lambda: by_captum(model, few, background, best),
        },
        options.repeats,
    )
    peak = common.in_fresh_process(__file__, *(["--quick"] if options.quick else []))
    measured = {"seconds": times, "agreement": agreement, "memory": peak, "captum_inputs_per_call": best}
    report(measured, sizes)
    path = common.write_results("deepliftshap", options, sizes=sizes, captum_trials=trials, **measured)
    print(f"\nRaw repeats: {path}")


def material(n: int, samples: int) -> tuple[nn.Module, Tensor, Tensor]:
    return common.paper_mlp(), common.normal_inputs(n), common.normal_inputs(samples, seed=4)


def by_verax(model: nn.Module, inputs: Tensor, background: Tensor) -> Any:
    """Use every row of the background once, as Captum does."""
    method = DeepLiftSHAP("random", samples=len(background))
    return method(verax.Problem(model, inputs, background=background))


def run_grid(model: nn.Module, inputs: Tensor, background: Tensor) -> Any:
    labels = torch.arange(len(background)) % 2
    return verax.explain(verax.Problem(model, inputs, background=background, background_labels=labels), GRID)


def by_captum(model: nn.Module, inputs: Tensor, background: Tensor, at_once: int) -> Tensor:
    peer = TwoClassLogits(model).eval()
    with torch.no_grad():
        target = peer(inputs).argmax(1)
    method = captum.attr.DeepLiftShap(peer)
    calls = zip(inputs.split(at_once), target.split(at_once), strict=True)
    return torch.cat([method.attribute(rows.clone(), background, target=classes).detach() for rows, classes in calls])


def check_agreement(model: nn.Module, few: Tensor, background: Tensor) -> float:
    ours, theirs = by_verax(model, few, background), by_captum(model, few, background, 8)
    difference = float((ours - theirs).norm() / theirs.norm())
    print(f"Verax and Captum, same background, {len(few)} inputs: relative difference {difference:.1e}\n")
    if not difference <= 1e-4:
        raise SystemExit("Verax and Captum disagree: no point in comparing their speed.")
    return difference


def best_captum(model: nn.Module, few: Tensor, background: Tensor, repeats: int) -> tuple[int, dict[str, float]]:
    """Find Captum's fastest number of inputs per call; also give the seconds of each."""
    tried = {str(size): lambda size=size: by_captum(model, few[:16], background, size) for size in AT_ONCE}
    common.interleaved(tried, 1)
    times = common.medians(common.interleaved(tried, repeats))
    return int(common.fastest(times)), times


def memory(n: int, few: int, samples: int) -> dict[str, int]:
    model, inputs, background = material(n, samples)
    run_grid(model, inputs[:4], background)
    return common.peak_extra_bytes(lambda: run_grid(model, inputs, background))


def report(measured: dict[str, Any], sizes: dict[str, int]) -> None:
    times, n = common.medians(measured["seconds"]), sizes["n"]
    peer = times[PEER] / sizes["few"] * n
    lines = [
        (f"Verax, {len(GRID)} configurations, {n} inputs", times[ALL], len(GRID) * n),
        (f"Verax, 1 configuration, {n} inputs", times[SINGLE], n),
        (f"Captum, 1 configuration, {sizes['few']} inputs", times[PEER], sizes["few"]),
        (f"Captum, {len(GRID)} configurations, {n} inputs, extrapolated", peer * len(GRID), len(GRID) * n),
    ]
    common.print_table(
        ("", "seconds", "us per attribution"),
        [(what, f"{time:,.3f}", f"{time / count * 1e6:,.1f}") for what, time, count in lines],
    )
    print(f"\nCaptum / Verax, 1 configuration: {peer / times[SINGLE]:.2f} (Captum extrapolated)")
    print(f"Captum / Verax, {len(GRID)} configurations: {peer * len(GRID) / times[ALL]:.1f} (Captum extrapolated)")
    print(common.memory_line(measured["memory"]["extra"]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="captum")
    main()
