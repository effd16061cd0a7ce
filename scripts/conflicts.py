"""Steps of many features: how often their directions conflict, and what the three rules make of it, in either order.

Part of ``scripts/open_questions.py``.
"""

from itertools import pairwise, product
from typing import get_args

import torch
from answers import Answers, mean_error
from matplotlib.figure import Figure
from study_subjects import COLOURS, MARKERS, AuditedProblem
from torch import Tensor

from verax.metrics import DirectedPredictionChange
from verax.metrics.weighted_area import Reading
from verax.perturbation.block import cut_points
from verax.perturbation.removed_sets import Rule
from verax.report.plots import legend, panels

RULES: tuple[Rule, ...] = get_args(Rule)
STEPS = (5, 10, 20, 32, 64)
PAPER = 20
ORDERS: tuple[Reading, ...] = ("signed", "magnitude")  # the paper's first
COMPARED = ("gradient", "SmoothGrad", "gradient x input", "IG x input", "random")


def share_against(a: Tensor, x: Tensor, steps: int, order: Reading) -> float:
    """Share of features that alone would get another sign than the paper's sums give their step.

    In magnitude order that is the sign of the change that the attribution predicts; in signed order, which takes the
    attribution for positive, that of the way to the baseline.
    """
    signed = order == "signed"
    rank = a.flatten(2).sum(1) if a.ndim > 2 else a
    a = torch.ones_like(a) if signed else a
    own, far, effect = (part.flatten(2).sum(1) if part.ndim > 2 else part for part in (a, x, a * x))
    place = (rank if signed else rank.abs()).argsort(dim=1, descending=True, stable=True)
    own, far, effect = (part.gather(1, place) for part in (own, far, effect))
    features = own.shape[1]
    cuts = cut_points(torch.tensor([features]), steps, features)[0].tolist()
    against = torch.zeros(len(own), device=own.device)
    for start, stop in pairwise(cuts):
        sign = own[:, start:stop].sum(1).sign() * far[:, start:stop].sum(1).sign()
        against += (effect[:, start:stop].sign() != sign[:, None]).sum(1)
    return float((against / features).mean())


def compare_rules(subjects: list[AuditedProblem], answers: Answers) -> None:
    """Mean DPC by order, rule and number of steps; the figure is of the paper's order."""
    lines, figures = [], {}
    for subject, order in product(subjects, ORDERS):
        counts = STEPS if subject.finest == max(STEPS) else (PAPER,)
        metrics = {f"{rule} {n}": DirectedPredictionChange(order, rule=rule, steps=n) for rule in RULES for n in counts}
        given = {name: subject.attributions[name] for name in COMPARED}
        found = subject.scores(given, metrics)
        shown = {f"{PAPER} steps, `{rule}`": f"{rule} {PAPER}" for rule in RULES}
        if counts == STEPS:
            if order == ORDERS[0]:
                figures[subject.name] = found
            shown["one pixel per step"] = f"sum {subject.finest}"  # where all rules are one
        head = [f"{subject.name}, {len(subject.inputs)} images", order]
        lines += [[*head, row, *(mean_error(found[key][one]) for one in given)] for row, key in shown.items()]
        against = [f"{share_against(a, subject.inputs, PAPER, order):.0%}" for a in given.values()]
        lines.append([*head, f"pixels against their step, {PAPER} steps", *against])
    answers.table("rules", ["model", "order", "mean DPC (s.e.)", *COMPARED], lines)
    if figures:
        answers.figure("rules-by-steps", _draw(figures))


def _draw(figures: dict[str, dict[str, dict[str, Tensor]]]) -> Figure:
    chart, axes = panels(len(RULES) * len(figures), width=2.1, height=2.0)
    for row, (name, found) in enumerate(figures.items()):
        line = axes[row * len(RULES) : (row + 1) * len(RULES)]
        for ax, rule in zip(line, RULES, strict=True):
            for method in COMPARED:
                means = [float(found[f"{rule} {steps}"][method].mean()) for steps in STEPS]
                ax.plot(STEPS, means, color=COLOURS[method], marker=MARKERS[method], markersize=4, label=method)
            ax.sharey(line[0])
            ax.set_xscale("log")
            ax.set_xticks(STEPS, [str(steps) for steps in STEPS])
            ax.minorticks_off()
            ax.set(title=f"{name.partition('-')[2]}, {rule}", xlabel="steps")
        line[0].set_ylabel("mean DPC")
    legend(chart, axes, columns=3)
    return chart
