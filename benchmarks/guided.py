"""PC and DPC of many attributions: how close is Verax to a bare forward pass, and how far is Quantus?

The paper's tabular network, 46 attributions, 1,658 inputs with 20 features. The bare forward runs as many rows as
Verax had to evaluate, at the best batch size found, and does nothing else. Quantus evaluates one attribution (it takes
one per call); its time for all is extrapolated. Then the same of a few small images through InceptionV1.
"""

import json
import warnings
from collections.abc import Callable
from typing import Any

import common
import guided_images
from peers import Quantus
from torch import Tensor, nn

import verax
from verax.metrics import DirectedPredictionChange

BARE_BATCHES = (1024, 2048, 4096)
TRIALS = 5  # of each batch size, to find the best
METRICS = ("pc", DirectedPredictionChange(order="signed"))
WANTED_SHARE = 0.9  # of the bare forward's rows per second
WANTED_SPEEDUP = 15  # over Quantus


def main() -> None:
    options = common.arguments(__doc__)
    sizes = {"k": 6, "n": 100} if options.quick else {"k": 46, "n": 1658}
    if options.memory_worker:
        print(json.dumps(memory(**sizes)))
        return
    common.print_header("Guided perturbation: PC and DPC (signed) in one call")
    model, inputs, attributions = material(**sizes)
    agreement = check_agreement(model, inputs, attributions)
    print(f"MoRF and LeRF curves of Verax and Quantus, max |difference|: {agreement:.2g}")
    folding = folding_difference(model, inputs, attributions)
    print(f"Curves with and without folded batch norms, max |difference|: {folding:.2g}")
    found = measure(model, inputs, attributions, options.repeats)
    found["memory"] = common.in_fresh_process(__file__, *(["--quick"] if options.quick else []))
    report(found, **sizes)
    found["images"] = guided_images.measure(options.quick, options.repeats)
    guided_images.report(found["images"])
    path = common.write_results("guided", options, sizes=sizes, max_difference=agreement, folding=folding, **found)
    print(f"\nRaw repeats: {path}")


def material(k: int, n: int) -> tuple[nn.Module, Tensor, Tensor]:
    model, inputs = common.paper_mlp(), common.normal_inputs(n)
    return model, inputs, common.attributions_like_a_study(model, inputs, k)


def evaluate(model: nn.Module | verax.Scorer, inputs: Tensor, attributions: Tensor) -> Any:
    """From the problem on, so that unperturbed rows are scored in every call."""
    return verax.evaluate(verax.Problem(model, inputs), attributions, METRICS)


def evaluate_folded(model: nn.Module, inputs: Tensor, attributions: Tensor) -> Any:
    """On a copy of the model that has its batch norms folded, made within the call."""
    return evaluate(verax.Scorer(model, precision="float32"), inputs, attributions)


def check_agreement(model: nn.Module, inputs: Tensor, attributions: Tensor) -> float:
    """Compare the curves of two attributions."""
    ours, peer = evaluate(model, inputs, attributions[:2])["pc"], Quantus(model, inputs)
    return max(
        peer.difference(attributions[which], ours.morf[which], ours.lerf[which], len(inputs)) for which in range(2)
    )


def folding_difference(model: nn.Module, inputs: Tensor, attributions: Tensor) -> float:
    plain, fast = (one(model, inputs, attributions)["pc"] for one in (evaluate, evaluate_folded))
    worst = max(
        float((ours - theirs).abs().max()) for ours, theirs in ((plain.morf, fast.morf), (plain.lerf, fast.lerf))
    )
    if worst > 1e-5:
        raise SystemExit(f"Folding changes curves by {worst}: no point in timing it.")
    return worst


def measure(model: nn.Module, inputs: Tensor, attributions: Tensor, repeats: int) -> dict[str, Any]:
    peer = Quantus(model, inputs)
    rows = {
        "verax": evaluate(model, inputs, attributions).rows,
        "verax, one attribution": evaluate(model, inputs, attributions[:1]).rows,
    }
    with common.recorded(model) as sizes:
        peer.curves(attributions[0], len(inputs))
    rows["quantus, one attribution"] = sum(sizes)
    evaluated = rows["verax"]
    bare_rows = common.normal_inputs(evaluated, seed=3)
    bare: dict[str, Callable[[], object]] = {
        f"bare forward, {size}": lambda size=size: common.bare_forward(model, bare_rows, size) for size in BARE_BATCHES
    }
    quantus: dict[str, Callable[[], object]] = {
        f"quantus, one attribution, batch {size}": lambda size=size: peer.curves(attributions[0], size)
        for size in sorted({64, min(512, len(inputs)), len(inputs)})
    }
    trials = common.interleaved(bare | quantus, TRIALS)
    best, peers_best = (common.fastest(common.medians(trials), name) for name in ("bare", "quantus"))
    cases = {
        best: bare[best],
        "verax": lambda: evaluate(model, inputs, attributions),
        "verax, folded": lambda: evaluate_folded(model, inputs, attributions),
        "verax, one attribution": lambda: evaluate(model, inputs, attributions[:1]),
        peers_best: quantus[peers_best],
    }
    return {"rows": rows, "trials": trials, "seconds": common.interleaved(cases, repeats)}


def memory(k: int, n: int) -> dict[str, int]:
    model, inputs, attributions = material(k, n)
    evaluate(model, inputs[:64], attributions[:2, :64])
    return common.peak_extra_bytes(lambda: evaluate(model, inputs, attributions))


def report(found: dict[str, Any], k: int, n: int) -> None:
    times, rows = common.medians(found["seconds"]), found["rows"]
    peer = common.fastest(times, "quantus")
    bare = common.fastest(times, "bare forward")
    each, batch = rows["quantus, one attribution"], peer.rsplit(", ", 1)[1]
    lines = [
        (f"{bare.capitalize()} rows a batch (best)", times[bare], rows["verax"]),
        (f"Verax, PC and DPC of {k} attributions", times["verax"], rows["verax"]),
        ("Verax, the same, precision='float32' (folded)", times["verax, folded"], rows["verax"]),
        ("Verax, PC and DPC of 1", times["verax, one attribution"], rows["verax, one attribution"]),
        (f"Quantus, MoRF and LeRF of 1, {batch} (best)", times[peer], each),
        (f"Quantus, MoRF and LeRF of {k}, extrapolated from 1", times[peer] * k, each * k),
    ]
    common.print_table(
        ("", "seconds", "rows", "rows/s"),
        [(what, f"{time:.3f}", f"{count:,}", f"{count / time:,.0f}") for what, time, count in lines],
    )
    asked, evaluated = k * n * 38 + 2 * n, rows["verax"]
    gain = times[peer] * k / times["verax"]
    low, share, high = common.ratios(found["seconds"][bare], found["seconds"]["verax"])
    print(f"\nRows asked {asked:,}, distinct rows evaluated {evaluated:,} ({evaluated / asked:.1%})")
    near = common.verdict(share >= WANTED_SHARE)
    print(
        f"Share of the bare forward's rows/s, median of the rounds: {share:.2f} ({near}, wanted >= {WANTED_SHARE}); "
        f"half of them from {low:.2f} to {high:.2f}"
    )
    low, share, high = common.ratios(found["seconds"][bare], found["seconds"]["verax, folded"])
    print(f"With precision='float32': {share:.2f}, half of them from {low:.2f} to {high:.2f}")
    reached = common.verdict(gain >= WANTED_SPEEDUP)
    print(
        f"Quantus / Verax, {k} attributions: {gain:.1f} ({reached}, wanted >= {WANTED_SPEEDUP}; Quantus extrapolated)"
    )
    print(f"Quantus / Verax, 1 attribution: {times[peer] / times['verax, one attribution']:.1f} (both measured)")
    print(common.memory_line(found["memory"]["extra"]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="quantus")
    main()
