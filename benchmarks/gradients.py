"""Gradient methods against Captum: one configuration each, and all of the paper's configurations of each method.

The paper's tabular network, 1,658 inputs with 20 features. Captum computes one configuration per call, at the best
batch size found; its time for all configurations of a method is extrapolated. Verax gives Integrated Gradients with and
without input multiplication, and SmoothGrad with VarGrad, from the same gradients.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import captum.attr
import common
import torch
from torch import Tensor, nn

import verax
from verax.attribution import Attribution, Gradient, GuidedBackprop, IntegratedGradients, SmoothGrad, VarGrad

SIGMA, SAMPLES, POINTS = 0.25, 64, 64
GRID = verax.attribution.grid("tabular")
BATCHES = (1, 8, 64)  # noisy copies or points of all inputs at once


class TwoClassLogits(nn.Module):
    """The binary model as Captum wants it: one column of logits per class, the same numbers as in Verax."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Tensor:
        """Score both classes."""
        logit = self.model(batch)
        return torch.cat((-logit, logit), dim=1)


@dataclass(frozen=True)
class Case:
    """A method: our configuration, all of the paper's, and Captum's call for ours at some batch size."""

    one: Attribution
    all: Sequence[Attribution]
    peer: Callable[[int], Tensor]
    batches: Sequence[int]
    exact: bool = True


def main() -> None:
    options = common.arguments(__doc__)
    n = 60 if options.quick else 1658
    common.print_header(f"Gradient methods, {n} inputs with 20 features")
    model, inputs = common.paper_mlp(), common.normal_inputs(n)
    background = common.normal_inputs(500, seed=4)
    found = {}
    for name, case in cases(model, inputs, background).items():
        agreement = check_agreement(name, case, model, inputs, background)
        found[name] = {"agreement": agreement, **measure(case, model, inputs, background, options.repeats)}
    report(found)
    path = common.write_results("gradients", options, sizes={"n": n}, methods=found)
    print(f"\nRaw repeats: {path}")


def cases(model: nn.Module, inputs: Tensor, background: Tensor) -> dict[str, Case]:
    peer = TwoClassLogits(model).eval()
    with torch.no_grad():
        target = peer(inputs).argmax(1)
    mean, count = background.mean(0, keepdim=True), len(inputs)

    def leaf() -> Tensor:
        return inputs.clone().requires_grad_()

    def integrated(batch: int) -> Any:
        method = captum.attr.IntegratedGradients(peer)
        return method.attribute(leaf(), mean, target, n_steps=POINTS, internal_batch_size=batch * count)

    def smooth(batch: int) -> Any:
        method = captum.attr.NoiseTunnel(captum.attr.Saliency(peer))
        settings = {"nt_type": "smoothgrad", "nt_samples": SAMPLES, "nt_samples_batch_size": batch, "stdevs": SIGMA}
        return method.attribute(leaf(), target=target, abs=False, **settings)

    return {
        "Gradient": Case(
            Gradient(),
            of(Gradient),
            lambda _: captum.attr.Saliency(peer).attribute(leaf(), target, abs=False),
            (1,),
        ),
        "GuidedBackprop": Case(
            GuidedBackprop(),
            of(GuidedBackprop),
            lambda _: captum.attr.GuidedBackprop(peer).attribute(leaf(), target),
            (1,),
        ),
        "IntegratedGradients": Case(
            IntegratedGradients("mean", points=POINTS), of(IntegratedGradients), integrated, BATCHES
        ),
        "SmoothGrad, VarGrad": Case(
            SmoothGrad(SIGMA, samples=SAMPLES), of(SmoothGrad, VarGrad), smooth, BATCHES, exact=False
        ),
    }


def of(*kinds: type[Attribution]) -> list[Attribution]:
    return [one for one in GRID if isinstance(one, kinds)]


def check_agreement(name: str, case: Case, model: nn.Module, inputs: Tensor, background: Tensor) -> dict[str, float]:
    """Compare values; where both sides draw, their difference with that of two seeds of Verax."""
    problem = verax.Problem(model, inputs, background=background)
    ours, theirs = case.one(problem), case.peer(case.batches[-1]).detach()
    difference = float((ours - theirs).norm() / theirs.norm())
    wanted = 1e-4
    if not case.exact:
        again = replace(case.one, seed=1)(problem)  # type: ignore[call-arg]
        wanted = 1.5 * float((ours - again).norm() / again.norm())
    print(f"{name}: relative difference to Captum {difference:.1e} (at most {wanted:.1e} wanted)")
    if not difference <= wanted:
        raise SystemExit("Verax and Captum disagree: no point in comparing their speed.")
    return {"relative_difference": difference, "wanted": wanted}


def measure(case: Case, model: nn.Module, inputs: Tensor, background: Tensor, repeats: int) -> dict[str, Any]:
    tried = {str(batch): lambda batch=batch: case.peer(batch) for batch in case.batches}
    common.interleaved(tried, 1)
    trials = common.medians(common.interleaved(tried, max(1, repeats // 2)))
    best = int(common.fastest(trials))
    times = common.interleaved(
        {
            "verax": lambda: case.one(verax.Problem(model, inputs, background=background)),
            "verax, all": lambda: verax.explain(verax.Problem(model, inputs, background=background), case.all),
            "captum": lambda: case.peer(best),
        },
        repeats,
    )
    return {"configurations": len(case.all), "captum_batch": best, "captum_trials": trials, "seconds": times}


def report(found: dict[str, Any]) -> None:
    rows = []
    for name, values in found.items():
        times, count = common.medians(values["seconds"]), values["configurations"]
        peer, whole = times["captum"], times["captum"] * count
        one = (f"{peer:.4f}", f"{times['verax']:.4f}", f"{peer / times['verax']:.1f}")
        many = (str(count), f"{whole:.3f}", f"{times['verax, all']:.3f}", f"{whole / times['verax, all']:.1f}")
        rows.append((name, *one, *many))
    head = ("seconds", "Captum", "Verax", "ratio", "configurations", "Captum, extrapolated", "Verax", "ratio")
    print()
    common.print_table(head, rows)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="captum")
    main()
