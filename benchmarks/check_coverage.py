"""How often ``verax.check`` passes a requirement that is false by a hair, and finds a planted wrong reason.

A population of rows has a known truth: the mean of each score over all of them. The threshold lies a millionth on the
wrong side of it. Each simulated check draws other inputs; at most 5 % of 1,000 may pass. With inputs of a fixed number,
with ``until = "decided"``, and over ten segments, of which one is false and nine are true by far. True by a hair in all
ten, at most 5 % may fail. Then the power: one of four reasons is swapped for an irrelevant feature on 10 % of the
inputs, and 1,000 inputs must tell it in 95 % of the checks.

A check draws by its seed, so that the outcomes are the same with any number of ``--processes``. On one core 1,000
checks of each kind take about 80 minutes.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import common
import numpy as np
import torch
from scipy.stats import beta

import verax
from verax.checking import Requirement
from verax.core.blocks import pieces
from verax.core.engine import Engine, Processes, ThisProcess
from verax.metrics import EffectCorrelation, PredictionChange

HAIR = 1e-6
DRAWS = 20
FEW, MANY, POPULATION = 100, 1000, 20_000
REMOVAL = f"effect_correlation(perturbation=baseline, samples={DRAWS})"
ROWS, CHECKS = 2000, 20  # of a task
ONE_FALSE, ALL_TRUE = "one false, nine true by far", "all true by a hair"


@dataclass(frozen=True)
class World:
    """A population, an explanation of it, and a metric of that."""

    problem: verax.Problem
    attribution: Any
    metric: str
    scores: Callable[[verax.Problem, Any], Any]  # the metric's, of rows and their attributions
    bounded: bool  # whether scores have bounds of their own; Student's t is meant for those that have none

    @property
    def kinds(self) -> dict[str, dict[str, Any]]:
        """Draws of inputs."""
        fixed = {f"{count:,} inputs": {"inputs": count} for count in (FEW, MANY)}
        decided = {f"until decided, {2 * MANY:,} at most": {"inputs": 2 * MANY, "until": "decided"}}
        return fixed | decided if self.bounded else fixed

    def threshold(self, truth: float, hair: float) -> float:
        """A threshold on the wrong side of the truth by ``hair``."""
        return truth - hair if self.metric == "false_reasons" else truth + hair


@dataclass(frozen=True, eq=False)
class Task:
    """Rows of a population to score, or checks to simulate by their seeds."""

    world: str
    kind: str
    numbers: slice
    work: Callable[["Task"], Any]
    truth: float = 0.0  # the mean of all scores of the population
    best: Any = None  # an explanation that none can beat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=1000, help="simulated checks of each kind (default 1,000)")
    parser.add_argument("--quick", action="store_true", help="20 checks")
    parser.add_argument("--processes", type=int, default=1, help="of one thread each (default 1)")
    options = parser.parse_args()
    options.repeats = 20 if options.quick else options.checks
    common.print_header(f"Requirements false by a hair: {options.repeats} checks of each kind")
    torch.set_num_threads(1)
    with Processes([done] * options.processes) if options.processes > 1 else ThisProcess(done) as engine:
        populations = list(results(engine, "rows", population_tasks()))
        outcomes: dict[tuple[str, str], list[str]] = {}
        for task, several in results(engine, "checks", check_tasks(populations, options.repeats)):
            outcomes.setdefault((task.world, task.kind), []).extend(several)
    powers = {name: outcomes.pop((name, POWER)) for name in PLANTED}
    rows = [
        (name, world(name).metric, kind, *counted(several, "failed" if ALL_TRUE in kind else "passed"))
        for (name, kind), several in outcomes.items()
    ]
    print()
    common.print_table(("population", "metric", "inputs", "wrong outcomes", "share", "95 % at most"), rows)
    print()
    common.print_table(
        (POWER, "failed", "passed"),
        [(name, str(several.count("failed")), str(several.count("passed"))) for name, several in powers.items()],
    )
    named = {f"{name}, {world(name).metric}, {kind}": several for (name, kind), several in outcomes.items()}
    path = common.write_results("check_coverage", options, outcomes=tally(named), power=tally(powers))
    print(f"\nRaw outcomes: {path}")


def population_tasks() -> list[Task]:
    """The scores of all populations, and the best explanation of each, some rows at a time."""
    return [Task(name, "rows", rows, scored) for name in WORLDS for rows in pieces(POPULATION, ROWS)]


def check_tasks(populations: list[tuple[Task, Any]], checks: int) -> list[Task]:
    """All checks, a few seeds at a time."""
    several = list(pieces(checks, CHECKS))
    tasks = []
    for name in WORLDS:
        scores, best = (
            torch.cat(parts)
            for parts in zip(*(parts for task, parts in populations if task.world == name), strict=True)
        )
        truth = float(scores.mean())
        tasks += [Task(name, kind, seeds, drawn, truth) for kind in world(name).kinds for seeds in several]
        for case, every in ((ONE_FALSE, best), (ALL_TRUE, None)):
            kind = f"ten segments of {FEW * 2}, {case}"
            tasks += [Task(name, kind, seeds, segmented, truth, every) for seeds in several]
    return tasks + [Task(name, POWER, seeds, searched) for name in PLANTED for seeds in several]


def results(engine: Engine, what: str, tasks: list[Task]) -> Iterator[tuple[Task, Any]]:
    """Tasks in their order with what came of each; a line for each that is done."""
    start = time.perf_counter()
    several = {}
    for count, (number, result) in enumerate(engine.run(enumerate(tasks)), 1):
        several[number] = result
        print(f"{what}: {count} of {len(tasks)} tasks, {time.perf_counter() - start:.0f} s", flush=True)
    return ((task, several[number]) for number, task in enumerate(tasks))


def done(task: tuple[int, Task], tell: object) -> tuple[int, Any]:
    """What a process does with a task."""
    number, what = task
    return number, what.work(what)


def network() -> World:
    """PC of a noisy explanation of the paper's network: scores without bounds of their own."""
    torch.manual_seed(0)
    model, x = common.paper_mlp(8), common.normal_inputs(POPULATION, 8)
    problem = verax.Problem(verax.Scorer(model, returns="logits"), x)
    attribution = common.attributions_like_a_study(model, x, 3)[2]
    return World(problem, attribution, "pc", scores_of(PredictionChange()), False)


def linear() -> tuple[verax.Problem, Any]:
    """A linear model whose last feature is irrelevant, and exact contributions of the others."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(8, 2), torch.randn(POPULATION, 8)
    with torch.no_grad():
        model.weight[:, 7] = 0
    return verax.Problem(model, x, target=1), x * (model.weight[1] - model.weight[0]).detach()


def planted(share: float) -> World:
    """False reasons, whose true share is known by construction: the irrelevant feature is the fourth on some inputs."""
    problem, exact = linear()
    attribution = exact.clone()
    rows = shuffled(round(share * POPULATION))
    fourth = exact.abs().argsort(1, descending=True)[rows, 3]
    attribution[rows, 7] = exact[rows, fourth]
    attribution[rows, fourth] = 0
    return World(problem, attribution, "false_reasons", false_reasons, True)


def rare() -> World:
    """Effect correlation of an explanation that is exact, and on one input in fifty the opposite."""
    problem, exact = linear()
    attribution = exact.clone()
    attribution[shuffled(POPULATION // 50)] *= -1
    return World(
        problem, attribution, REMOVAL, scores_of(EffectCorrelation(perturbation="baseline", samples=DRAWS)), True
    )


def shuffled(count: int) -> Any:
    """The numbers of some inputs, at random."""
    return torch.from_numpy(np.random.default_rng(5).permutation(POPULATION)[:count])


def scores_of(metric: PredictionChange | EffectCorrelation) -> Callable[[verax.Problem, Any], Any]:
    return lambda problem, attribution: metric(problem, attribution).scores[0]


def false_reasons(problem: verax.Problem, attribution: Any) -> Any:
    return verax.reasons(problem, attribution, repeats=0, rows=0).per_input()["false"][0]


WORLDS = {
    "a network": network,
    "reasons, one in forty is wrong": functools.partial(planted, 0.1),
    "one explanation in 50": rare,
}
PLANTED = {"planted on 10 %": functools.partial(planted, 0.1), "not planted": functools.partial(planted, 0.0)}
POWER = f"false_reasons at most 0.01, {MANY:,} inputs"


@functools.cache
def world(name: str) -> World:
    """A population, made once in each process."""
    return (WORLDS | PLANTED)[name]()


def scored(task: Task) -> tuple[Any, Any]:
    """The scores of some rows, and an explanation that none can beat."""
    population = world(task.world)
    problem = population.problem[task.numbers]
    best = verax.attribution.KernelShap(samples=256)(problem)
    return population.scores(problem, population.attribution[task.numbers]), best


def drawn(task: Task) -> list[str]:
    """The outcomes of checks that draw different inputs; the threshold is false by a hair."""
    population = world(task.world)
    settings, threshold = population.kinds[task.kind], population.threshold(task.truth, HAIR)
    return outcomes_of(task, [Requirement(population.metric, threshold, seed=n, **settings) for n in seeds(task)])


def searched(task: Task) -> list[str]:
    """The outcomes of checks of 1,000 inputs for wrong reasons."""
    return outcomes_of(task, [Requirement("false_reasons", 0.01, inputs=MANY, seed=seed) for seed in seeds(task)])


def outcomes_of(task: Task, musts: list[Requirement]) -> list[str]:
    population = world(task.world)
    return [verax.check(population.problem, population.attribution, must).outcome for must in musts]


def segmented(task: Task) -> list[str]:
    """The outcomes over ten segments of 200 inputs: one false by a hair and nine true by far, or all true by a hair.

    Each segment is a part of the population with the same mean. The other nine have an explanation that none can beat,
    where one is false.
    """
    population, best = world(task.world), task.best
    outcomes: list[str] = []
    threshold = population.threshold(task.truth, -HAIR if best is None else HAIR)
    labels = np.arange(20 * FEW) % 10
    for seed in seeds(task):
        chosen = np.sort(np.random.default_rng([seed, 3]).permutation(POPULATION)[: 20 * FEW])
        part = population.attribution[chosen]
        if best is not None:
            part = torch.where(torch.from_numpy(labels == 0)[:, None], part, best[chosen])
        must = Requirement(population.metric, threshold, segments=labels)
        outcomes.append(verax.check(population.problem[chosen], part, must).outcome)
    return outcomes


def seeds(task: Task) -> range:
    return range(task.numbers.start, task.numbers.stop)


def counted(outcomes: list[str], wrong: str) -> tuple[str, str, str]:
    """Wrong outcomes, their share, and where its one-sided 95 % interval of Clopper and Pearson ends."""
    many, count = outcomes.count(wrong), len(outcomes)
    most = beta.ppf(0.95, many + 1, count - many) if many < count else 1.0
    return f"{many} of {count}", f"{100 * many / count:.1f} %", f"{100 * most:.1f} %"


def tally(outcomes: dict[str, list[str]]) -> dict[str, dict[str, int]]:
    """How often each outcome occurred, by kind."""
    words = ("passed", "failed", "undecided")
    return {name: {word: several.count(word) for word in words} for name, several in outcomes.items()}


if __name__ == "__main__":
    main()
