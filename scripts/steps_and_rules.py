"""How many steps does a ranking need? Digits of 64 pixels, the demo's models and configurations.

``python scripts/steps_and_rules.py [--models linear inception] [--inputs 32]`` trains the models by their shipped
recipes, explains the first test images with the demo's configurations, and writes two tables of the docs: Spearman's
rank correlation over configurations between some number of steps and one pixel per step, for every order, rule and
area; and the mean scores of a few methods in 20 steps and in 64.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
from answers import Answers

import verax
from verax.attribution import Gradient, IntegratedGradients, Random
from verax.datasets import Dataset, load_digits
from verax.metrics import DirectedPredictionChange, LocalPredictionChange, PredictionChange
from verax.metrics.weighted_area import Reading
from verax.paper.models.recipes import recipe_for
from verax.paper.models.shipped import architecture_for
from verax.paper.models.training import train
from verax.perturbation.removed_sets import Area, Rule
from verax.statistics.ranks import spearman
from verax.study.data_spec import AttributionsSpec

STEPS = (5, 10, 20, 32)
FULL = 64
ORDERS: tuple[Reading, ...] = ("signed", "magnitude")  # the paper's first
READINGS: dict[str, Any] = {
    "PC, between": PredictionChange(),
    "PC, morf": PredictionChange(area="morf"),
    **{
        f"DPC, {order}, {rule}, {area}": DirectedPredictionChange(order, rule=rule, area=area)
        for order, area in product(ORDERS, get_args(Area))
        for rule in get_args(Rule)
    },
    "LPC, epsilon 0.1": LocalPredictionChange(epsilon=0.1),
}
SHOWN: dict[str, Any] = {
    "gradient": Gradient(),
    "gradient x input": None,
    "IG x input": IntegratedGradients(baseline="mean"),
    "random": Random(),
}


def main() -> None:
    """Both tables, printed and written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["linear", "inception"], choices=("linear", "inception"))
    parser.add_argument("--inputs", type=int, default=32, help="test images, the first ones (default 32)")
    parser.add_argument("--every", type=int, default=97, help="of LIME's configurations (default 97, as in the demo)")
    parser.add_argument("--results", type=Path, default=Path("docs/results/open-questions"), help="the tables' folder")
    given = parser.parse_args()
    dataset = load_digits()
    inputs, _ = dataset.part("test", given.inputs)
    background, labels = dataset.part("train")
    configurations = AttributionsSpec(every=given.every).configurations("image")
    agreements, means = [], []
    for name in given.models:
        problem = verax.Problem(trained(dataset, name), inputs, background=background, background_labels=labels)
        model = f"Digits-{name.capitalize()}"
        agreements += [[model, *row] for row in agreement(mean_scores(problem, verax.explain(problem, configurations)))]
        means += [[model, *row] for row in few_methods(problem)]
    answers = Answers(given.results, given.results)
    answers.table("steps-agreement", ["model", "reading", *(f"{steps} steps" for steps in STEPS)], agreements)
    answers.table("steps-means", ["model", "DPC", *SHOWN], means)


def trained(dataset: Dataset, name: str) -> verax.Scorer:
    """A model by its shipped recipe."""
    found = train(architecture_for(name, dataset), dataset, recipe_for("digits", name), device="cpu")
    return verax.Scorer(found.module, returns="logits")


def mean_scores(problem: verax.Problem, attributions: dict[str, Any]) -> dict[str, Any]:
    """Mean score of each configuration, by reading and number of steps; one call, so that rows are shared."""
    metrics = {
        f"{name}|{steps}": in_steps(metric, steps) for name, metric in READINGS.items() for steps in (*STEPS, FULL)
    }
    found = verax.evaluate(problem, attributions, metrics)
    return {name: np.array([float(one.mean()) for one in result.value.values()]) for name, result in found.items()}


def in_steps(metric: Any, steps: int) -> Any:
    """The same metric in other steps."""
    return type(metric)(**{**vars(metric), "steps": steps})


def agreement(means: dict[str, Any]) -> list[list[str]]:
    """Rank correlation over configurations with one pixel per step: a row per reading."""
    rows = []
    for name in READINGS:
        full = means[f"{name}|{FULL}"]
        rows.append([name, *(f"{float(spearman(means[f'{name}|{steps}'], full)):.3f}" for steps in STEPS)])
    return rows


def few_methods(problem: verax.Problem) -> list[list[str]]:
    """Mean DPC of a few methods: a row per order, area and rule, in 20 steps and one pixel each."""
    methods = {name: method for name, method in SHOWN.items() if method is not None}
    arrays = dict(verax.explain(problem, methods))
    arrays["gradient x input"] = arrays["gradient"] * problem.inputs
    metrics = {
        f"{order}, {area}, {rule or 'any rule'}, {20 if rule else FULL} steps": DirectedPredictionChange(
            order, steps=20 if rule else FULL, rule=rule or "sum", area=area
        )
        for order, area in product(ORDERS, get_args(Area))
        for rule in (*get_args(Rule), None)
    }
    found = verax.evaluate(problem, {name: arrays[name] for name in SHOWN}, metrics)
    return [[name, *(f"{float(one.mean()):.3f}" for one in result.value.values())] for name, result in found.items()]


if __name__ == "__main__":
    main()
