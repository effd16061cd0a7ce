"""Infidelity of many attributions: Verax asks the model once per draw, Captum once per draw and attribution.

The paper's tabular network, 46 and 775 attributions (the paper's grid), 1,280 draws of 1,658 inputs with 20 features,
beta-normalised. Captum evaluates two attributions (it takes one per call), at the best batch size found; its time for
all is extrapolated.
"""

import json
import warnings
from typing import Any

import captum.metrics
import common
import torch
from torch import Tensor, nn

import verax

SIGMA = 0.2
MEASURED = 2  # attributions that Captum evaluates
DRAWS_PER_BATCH = (1, 4, 16, 64)
MANY = 775
WANTED = {46: 30, 775: 300}  # times faster than Captum


def main() -> None:
    options = common.arguments(__doc__)
    sizes = {"k": 6, "n": 100, "samples": 160} if options.quick else {"k": 46, "n": 1658, "samples": 1280}
    if options.memory_worker:
        print(json.dumps(memory(**sizes)))
        return
    common.print_header("Infidelity, normalised, Gaussian perturbation")
    model, inputs, attributions = material(sizes["k"], sizes["n"])
    many = common.attributions_like_a_study(model, inputs, MANY // (10 if options.quick else 1))
    peer = Captum(model, inputs)
    per_batch, trials = best_batch(peer, attributions[0], sizes["samples"], options.repeats)
    found, rows = first_run(model, peer, attributions, sizes["samples"], per_batch)
    agreement = compare(found)
    times = common.interleaved(
        {
            "verax": lambda: evaluate(model, inputs, attributions, sizes["samples"]),
            "verax, one attribution": lambda: evaluate(model, inputs, attributions[:1], sizes["samples"]),
            "verax, the grid": lambda: evaluate(model, inputs, many, sizes["samples"]),
            "captum": lambda: [peer.infidelity(one, sizes["samples"], per_batch) for one in attributions[:MEASURED]],
        },
        options.repeats,
    )
    peak = common.in_fresh_process(__file__, *(["--quick"] if options.quick else []))
    measured = {"rows": rows, "seconds": times, "memory": peak, "agreement": agreement}
    report(measured, found["verax"], sizes["k"], len(many), per_batch)
    chosen = {"max_examples_per_batch": per_batch * sizes["n"], "captum_batch_trials": trials}
    path = common.write_results("infidelity", options, sizes=sizes, **chosen, **measured)
    print(f"\nRaw repeats: {path}")


def material(k: int, n: int) -> tuple[nn.Module, Tensor, Tensor]:
    model, inputs = common.paper_mlp(), common.normal_inputs(n)
    return model, inputs, common.attributions_like_a_study(model, inputs, k)


def evaluate(model: nn.Module, inputs: Tensor, attributions: Tensor, samples: int) -> Any:
    return verax.metrics.Infidelity(sigma=SIGMA, samples=samples)(verax.Problem(model, inputs), attributions)


class Captum:
    """Captum's Infidelity of the probability of the predicted class, on fixed inputs."""

    def __init__(self, model: nn.Module, inputs: Tensor) -> None:
        self.model, self.inputs = common.TwoClassProbabilities(model).eval(), inputs
        with torch.no_grad():
            self.classes = self.model(inputs).argmax(1)

    def infidelity(self, attribution: Tensor, samples: int, draws_per_batch: int) -> Tensor:
        """Evaluate one attribution, which is all that a call takes."""
        return captum.metrics.infidelity(
            self.model,
            _perturb,
            self.inputs,
            attribution,
            target=self.classes,
            n_perturb_samples=samples,
            max_examples_per_batch=draws_per_batch * len(self.inputs),
            normalize=True,
        )


def _perturb(inputs: Tensor) -> tuple[Tensor, Tensor]:
    noise = SIGMA * torch.randn_like(inputs)
    return noise, inputs - noise


def best_batch(peer: Captum, attribution: Tensor, samples: int, repeats: int) -> tuple[int, dict[str, float]]:
    """Find Captum's fastest batch size on a tenth of the draws; also give the seconds of each."""
    trial = max(*DRAWS_PER_BATCH, samples // 10)
    cases = {str(size): lambda size=size: peer.infidelity(attribution, trial, size) for size in DRAWS_PER_BATCH}
    common.interleaved(cases, 1)
    times = common.medians(common.interleaved(cases, repeats))
    return int(common.fastest(times)), times


def first_run(
    model: nn.Module, peer: Captum, attributions: Tensor, samples: int, per_batch: int
) -> tuple[dict[str, Any], dict[str, int]]:
    """Run both sides once, for their results and for the rows that reach the model."""
    with common.recorded(model) as ours:
        result = evaluate(model, peer.inputs, attributions, samples)
    assert sum(ours) == result.rows, "Verax miscounts its rows"
    with common.recorded(model) as one:
        evaluate(model, peer.inputs, attributions[:1], samples)
    with common.recorded(model) as theirs:
        values = [peer.infidelity(each, samples, per_batch) for each in attributions[:MEASURED]]
    rows = {"verax": sum(ours), "verax, one attribution": sum(one), "captum": sum(theirs)}
    return {"verax": result, "captum": torch.stack(values)}, rows


def compare(found: dict[str, Any]) -> dict[str, Any]:
    """Express differences in standard errors. Captum gives none; with as many draws it has the same as Verax."""
    ours, theirs = found["verax"], found["captum"]
    z = (theirs - ours.value[:MEASURED]) / (ours.standard_error[:MEASURED] * 2**0.5)
    means = zip(theirs.mean(1).tolist(), ours.mean(), ours.mean_standard_error, strict=False)
    of_means = [(captum_mean - one.mean) / (error * 2**0.5) for captum_mean, one, error in means]
    print(
        f"Captum minus Verax in standard errors, {z.numel():,} scores: mean {z.mean():+.2f}, "
        f"standard deviation {z.std():.2f} (1 expected), largest {z.abs().max():.1f}"
    )
    print(f"The same for the means over inputs: {', '.join(f'{one:+.2f}' for one in of_means)}\n")
    if z.std() > 2 or max(map(abs, of_means)) > 5:
        raise SystemExit("Verax and Captum disagree: no point in comparing their speed.")
    return {"z_mean": float(z.mean()), "z_std": float(z.std()), "z_max": float(z.abs().max()), "z_of_means": of_means}


def memory(k: int, n: int, samples: int) -> dict[str, int]:
    model, inputs, attributions = material(k, n)
    evaluate(model, inputs[:8], attributions[:2, :8], samples)
    return common.peak_extra_bytes(lambda: evaluate(model, inputs, attributions, samples))


def report(measured: dict[str, Any], result: Any, k: int, many: int, per_batch: int) -> None:
    times, rows = common.medians(measured["seconds"]), measured["rows"]
    each, each_rows = times["captum"] / MEASURED, rows["captum"] // MEASURED
    lines = [
        (f"Verax, {k} attributions", times["verax"], rows["verax"]),
        (f"Verax, {many} attributions", times["verax, the grid"], rows["verax"]),
        ("Verax, 1 attribution", times["verax, one attribution"], rows["verax, one attribution"]),
        (f"Captum, {MEASURED} attributions, {per_batch} draws a batch (best)", times["captum"], rows["captum"]),
        (f"Captum, {k} attributions, extrapolated from {MEASURED}", each * k, each_rows * k),
        (f"Captum, {many} attributions, extrapolated from {MEASURED}", each * many, each_rows * many),
    ]
    common.print_table(
        ("", "seconds", "rows", "rows/s"),
        [(what, f"{time:.3f}", f"{count:,}", f"{count / time:,.0f}") for what, time, count in lines],
    )
    relative = (result.standard_error / result.value).median()
    gradient, error = result.mean()[0].mean, result.mean_standard_error[0]
    print()
    for count, taken in ((k, times["verax"]), (many, times["verax, the grid"])):
        gain = each * count / taken
        wanted = f"{common.verdict(gain >= WANTED[count])}, wanted >= {WANTED[count]}; " if count in WANTED else ""
        print(f"Captum / Verax, {count} attributions: {gain:.1f} ({wanted}Captum extrapolated)")
    print(f"Captum / Verax, 1 attribution: {each / times['verax, one attribution']:.2f} (both measured)")
    print(f"Captum / Verax, rows for {k} attributions: {each_rows * k / rows['verax']:.1f}")
    print(f"Standard error that Verax gives: median {relative:.1%} of an input's score;")
    print(f"mean over inputs for the gradient {gradient:.4g} +- {error:.2g}. Captum gives none.")
    print(common.memory_line(measured["memory"]["extra"]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="captum")
    main()
