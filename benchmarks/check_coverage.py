"""How often ``verax.check`` passes a requirement that is false by a hair, and finds a planted wrong reason.

A population of rows has a known truth: the mean of each score over all of them. The threshold lies a millionth on the
wrong side of it. Each simulated check draws other inputs; at most 5 % of 1,000 may pass. With inputs of a fixed number,
with ``until = "decided"``, and over ten segments, of which one is false and nine are true by far. True by a hair in all
ten, at most 5 % may fail. Then the power: one of four reasons is swapped for an irrelevant feature on 10 % of the
inputs, and 1,000 inputs must tell it in 95 % of the checks.
"""

import argparse
from typing import Any

import common
import numpy as np
import torch
from scipy.stats import beta

import verax
from verax.checking import Requirement
from verax.metrics import EffectCorrelation, PredictionChange

HAIR = 1e-6
DRAWS = 20
FEW, MANY, POPULATION = 100, 1000, 20_000
REMOVAL = f"effect_correlation(perturbation=baseline, samples={DRAWS})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=1000, help="simulated checks of each kind (default 1,000)")
    parser.add_argument("--quick", action="store_true", help="20 checks")
    options = parser.parse_args()
    options.repeats = 20 if options.quick else options.checks
    common.print_header(f"Requirements false by a hair: {options.repeats} checks of each kind")
    torch.set_num_threads(1)
    worlds = {"a network": network(), "reasons, one in forty is wrong": planted(0.1), "one explanation in 50": rare()}
    rows = []
    found: dict[str, Any] = {}
    for name, (problem, attribution, metric, scores, bounded) in worlds.items():
        truth, lower = float(scores.mean()), metric.startswith("false")
        false = truth - HAIR if lower else truth + HAIR
        for kind, settings in kinds(bounded).items():
            outcomes = simulated(problem, attribution, metric, false, settings, options.repeats)
            found[f"{name}, {metric}, {kind}"] = outcomes
            rows.append((name, metric, kind, *counted(outcomes, "passed")))
        for passes in (True, False):
            outcomes = segments(problem, attribution, metric, scores, lower, passes, options.repeats)
            kind = f"ten segments of {FEW * 2}, {'one false, nine true by far' if passes else 'all true by a hair'}"
            found[f"{name}, {metric}, {kind}"] = outcomes
            rows.append((name, metric, kind, *counted(outcomes, "passed" if passes else "failed")))
    common.print_table(("population", "metric", "inputs", "wrong outcomes", "share", "95 % at most"), rows)
    powers = {"planted on 10 %": power(0.1, options.repeats), "not planted": power(0.0, options.repeats)}
    print()
    common.print_table(
        (f"false_reasons at most 0.01, {MANY:,} inputs", "failed", "passed"),
        [(name, str(one.count("failed")), str(one.count("passed"))) for name, one in powers.items()],
    )
    path = common.write_results("check_coverage", options, outcomes=tally(found), power=tally(powers))
    print(f"\nRaw outcomes: {path}")


def kinds(bounded: bool) -> dict[str, dict[str, Any]]:
    """Draws of inputs; Student's t is meant for scores without bounds of their own."""
    fixed = {f"{count:,} inputs": {"inputs": count} for count in (FEW, MANY)}
    return (
        fixed | {f"until decided, {2 * MANY:,} at most": {"inputs": 2 * MANY, "until": "decided"}} if bounded else fixed
    )


def network() -> tuple[verax.Problem, Any, str, Any, bool]:
    """PC of a noisy explanation of the paper's network: scores without bounds of their own."""
    torch.manual_seed(0)
    model, x = common.paper_mlp(8), common.normal_inputs(POPULATION, 8)
    problem = verax.Problem(verax.Scorer(model, returns="logits"), x)
    attribution = common.attributions_like_a_study(model, x, 3)[2]
    return problem, attribution, "pc", PredictionChange()(problem, attribution).scores[0], False


def linear(rows: int) -> tuple[verax.Problem, Any]:
    """A linear model whose last feature is irrelevant, and exact contributions of the others."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(8, 2), torch.randn(rows, 8)
    with torch.no_grad():
        model.weight[:, 7] = 0
    return verax.Problem(model, x, target=1), x * (model.weight[1] - model.weight[0]).detach()


def with_wrong_reasons(exact: Any, share: float) -> Any:
    """The irrelevant feature in the place of the fourth reason, on a share of the inputs."""
    changed = exact.clone()
    rows = torch.from_numpy(np.random.default_rng(5).permutation(len(exact))[: round(share * len(exact))])
    fourth = exact.abs().argsort(1, descending=True)[rows, 3]
    changed[rows, 7] = exact[rows, fourth]
    changed[rows, fourth] = 0
    return changed


def planted(share: float) -> tuple[verax.Problem, Any, str, Any, bool]:
    """False reasons, whose true share is known by construction: one of four on so many inputs."""
    problem, exact = linear(POPULATION)
    attribution = with_wrong_reasons(exact, share)
    found = verax.reasons(problem, attribution, repeats=0, rows=0)
    return problem, attribution, "false_reasons", found.per_input()["false"][0], True


def rare() -> tuple[verax.Problem, Any, str, Any, bool]:
    """Effect correlation of an explanation that is exact, and on one input in fifty the opposite."""
    problem, exact = linear(POPULATION)
    rows = torch.from_numpy(np.random.default_rng(5).permutation(POPULATION)[: POPULATION // 50])
    attribution = exact.clone()
    attribution[rows] *= -1
    scores = EffectCorrelation(perturbation="baseline", samples=DRAWS)(problem, attribution).scores[0]
    return problem, attribution, REMOVAL, scores, True


def simulated(
    problem: verax.Problem, attribution: Any, metric: str, threshold: float, settings: Any, count: int
) -> list[str]:
    """The outcomes of checks that draw different inputs."""
    musts = [Requirement(metric, threshold, seed=seed, **settings) for seed in range(count)]
    return [verax.check(problem, attribution, must).outcome for must in musts]


def segments(
    problem: verax.Problem, attribution: Any, metric: str, scores: Any, lower: bool, one_is_false: bool, count: int
) -> list[str]:
    """The outcomes over ten segments of 200 inputs: one false by a hair and nine true by far, or all true by a hair.

    Each segment is a part of the population with the same mean. The other nine have an explanation that none can beat,
    where one is false.
    """
    outcomes, sign = [], -1 if lower else 1
    best = verax.attribution.KernelShap(samples=256)(problem) if one_is_false else None
    for seed in range(count):
        chosen = np.sort(np.random.default_rng([seed, 3]).permutation(POPULATION)[: 20 * FEW])
        labels = np.arange(20 * FEW) % 10
        part, truth = attribution[chosen], float(scores.mean())
        if best is not None:
            part = torch.where(torch.from_numpy(labels == 0)[:, None], part, best[chosen])
        threshold = truth + sign * (HAIR if one_is_false else -HAIR)
        must = Requirement(metric, threshold, segments=labels)
        outcomes.append(verax.check(problem[chosen], part, must).outcome)
    return outcomes


def power(share: float, count: int) -> list[str]:
    """The outcomes of checks of 1,000 inputs for wrong reasons on a share of the population."""
    problem, exact = linear(POPULATION)
    attribution = with_wrong_reasons(exact, share)
    musts = [Requirement("false_reasons", 0.01, inputs=MANY, seed=seed) for seed in range(count)]
    return [verax.check(problem, attribution, must).outcome for must in musts]


def counted(outcomes: list[str], wrong: str) -> tuple[str, str, str]:
    """Wrong outcomes, their share, and where its one-sided 95 % interval of Clopper and Pearson ends."""
    many, count = outcomes.count(wrong), len(outcomes)
    most = beta.ppf(0.95, many + 1, count - many) if many < count else 1.0
    return f"{many} of {count}", f"{100 * many / count:.1f} %", f"{100 * most:.1f} %"


def tally(found: dict[str, list[str]]) -> dict[str, dict[str, int]]:
    """How often each outcome occurred, by kind."""
    return {name: {word: one.count(word) for word in ("passed", "failed", "undecided")} for name, one in found.items()}


if __name__ == "__main__":
    main()
