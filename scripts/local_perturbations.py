"""Small perturbations: scores over epsilon, the gradient against what is possible, and how near to the data rows stay.

Part of ``scripts/open_questions.py``.
"""

from collections.abc import Callable

import torch
from answers import Answers
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from study_subjects import COLOURS, MARKERS, AuditedProblem
from torch import Tensor

import verax
from verax.core.palette import BLUE, VERMILION
from verax.metrics import DirectedPredictionChange
from verax.problem.replacement import Nudge, Replacement, Rows, Toward
from verax.report.plots import legend, panels

EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
KINDS: dict[str, Callable[[float], Replacement]] = {"Toward": Toward, "Nudge": Nudge}
STYLES = {"Toward": (VERMILION, "s"), "Nudge": (BLUE, "o")}
COMPARED = ("gradient", "SHAP", "IG x input", "random")


def metrics() -> dict[tuple[str, float], DirectedPredictionChange]:
    """One feature per step on HELOC; the first curve alone."""
    return {
        (kind, epsilon): DirectedPredictionChange("magnitude", rule="coherent", area="morf", replacement=made(epsilon))
        for kind, made in KINDS.items()
        for epsilon in EPSILONS
    }


def draw_epsilon(subjects: list[AuditedProblem], answers: Answers) -> None:
    """Mean score divided by epsilon, a panel per model and replacement."""
    chart, axes = panels(len(subjects) * len(KINDS), width=3.0, height=2.1, columns=2)
    lines, panel = [], iter(axes)
    for subject in subjects:
        given = {name: subject.attributions[name] for name in COMPARED}
        found = subject.scores(given, {f"{kind} {epsilon}": metric for (kind, epsilon), metric in metrics().items()})
        for kind in KINDS:
            ax = next(panel)
            for name in COMPARED:
                means = [float(found[f"{kind} {epsilon}"][name].mean()) / epsilon for epsilon in EPSILONS]
                ax.plot(EPSILONS, means, color=COLOURS[name], marker=MARKERS[name], markersize=4, label=name)
                lines.append([subject.name, kind, name, *(f"{mean:.3f}" for mean in means)])
            over_epsilon(ax)
            ax.set(title=f"{subject.name}, {kind}", ylabel="score / epsilon")
    answers.table("epsilon", ["model", "replacement", "attribution", *map(str, EPSILONS)], lines)
    legend(chart, axes, columns=4)
    answers.figure("epsilon", chart)


def draw_shares(subjects: list[AuditedProblem], answers: Answers, limited: int, rows: int) -> None:
    """The gradient's mean over the mean of the limits."""
    chart, axes = panels(len(subjects), width=3.0, height=2.1, columns=2, share=True)
    lines = []
    for ax, subject in zip(axes, subjects, strict=True):
        problem, gradient = subject.problem[:limited], subject.gradient[:limited]
        for kind, (colour, marker) in STYLES.items():
            shares = []
            for epsilon in EPSILONS:
                metric = {"dpc": metrics()[kind, epsilon]}
                limit = verax.limits(problem, metric, rows=rows)["dpc"]
                value = verax.evaluate(problem, gradient, metric)["dpc"].value
                shares.append(float(value.mean() / limit.best.mean()))
            ax.plot(EPSILONS, shares, color=colour, marker=marker, markersize=4, label=kind)
            lines.append([subject.name, kind, *(f"{one:.3f}" for one in shares)])
        over_epsilon(ax)
        ax.set(title=subject.name, ylabel="gradient / best possible", ylim=(0, 1.05))
    head = ["model", "replacement", *map(str, EPSILONS)]
    answers.table("gradient-of-limit", head, lines)
    legend(chart, axes)
    answers.figure("gradient-of-limit", chart)


def mahalanobis(training: Tensor) -> Callable[[Tensor], Tensor]:
    """Distance from the mean of the training rows, in their standard deviations along every direction."""
    mean, covariance = training.mean(0), training.T.cov()
    inverse = torch.linalg.pinv(covariance, hermitian=True)
    return lambda rows: ((rows - mean) @ inverse * (rows - mean)).sum(1).sqrt()


def neighbours(training: Tensor) -> Callable[[Tensor], Tensor]:
    """Distance from the tenth nearest training row: large where there are few."""
    return lambda rows: torch.cat([torch.cdist(part, training).kthvalue(10).values for part in rows.split(1024)])


def path(subject: AuditedProblem, replacement: Replacement) -> Tensor:
    """All rows that the metric scores for the gradient, beyond the input itself."""
    x = subject.inputs
    moved = replacement.fill(Rows(x, torch.zeros_like(x)))
    place = subject.gradient.abs().argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return torch.cat([torch.where(place < count, moved, x) for count in range(1, x.shape[1] + 1)])


def distances(subjects: list[AuditedProblem]) -> dict[str, tuple[AuditedProblem, Callable[[Tensor], Tensor]]]:
    """Distances from the data: of the inputs, and of what the network makes of them before its last layer."""
    network = subjects[-1]
    layers = network.module[:-1]
    near = neighbours(layers(network.background))
    return {
        "inputs, Mahalanobis": (network, mahalanobis(network.background)),
        f"{network.name}, last hidden layer": (network, lambda rows: near(layers(rows))),
    }


@torch.inference_mode()
def draw_distances(subjects: list[AuditedProblem], answers: Answers) -> None:
    """Share of perturbed rows that are further from the data, or nearer to their middle, than test rows are."""
    measures = distances(subjects)
    chart, axes = panels(len(measures), width=3.0, height=2.2, columns=2, share=True)
    lines = []
    for ax, (title, (subject, distance)) in zip(axes, measures.items(), strict=True):
        low, high, highest = torch.quantile(distance(subject.held_out), torch.tensor((0.05, 0.95, 0.99)).double())
        sides = {"beyond the 95th": (high, 1), "beyond the 99th": (highest, 1), "below the 5th": (low, -1)}
        alone = distance(subject.inputs)
        far = {
            (kind, epsilon): distance(path(subject, made(epsilon)))
            for kind, made in KINDS.items()
            for epsilon in EPSILONS
        }
        for side, (end, sign) in sides.items():
            before = share(sign * (alone - end) > 0)
            for kind, (colour, marker) in STYLES.items():
                shares = [share(sign * (far[kind, epsilon] - end) > 0) for epsilon in EPSILONS]
                lines.append([title, side, kind, f"{before:.1%}", *(f"{one:.1%}" for one in shares)])
                if side != "below the 5th":
                    dash = "-" if side == "beyond the 95th" else ":"
                    ax.plot(EPSILONS, shares, dash, color=colour, marker=marker, markersize=4, label=f"{kind}, {side}")
            if side == "beyond the 95th":
                ax.axhline(before, color="0.6", linewidth=0.8, label="unperturbed, beyond the 95th")
        over_epsilon(ax)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set(title=title, ylabel="rows beyond")
    head = ["distance", "percentile of test rows", "replacement", "unperturbed", *map(str, EPSILONS)]
    answers.table("near-the-data", head, lines)
    legend(chart, axes)
    answers.figure("near-the-data", chart)


def share(which: Tensor) -> float:
    return float(which.double().mean())


def over_epsilon(ax: Axes) -> None:
    """A logarithmic axis with few marks."""
    ax.set_xscale("log")
    ax.set_xticks((0.001, 0.01, 0.1, 1), ("0.001", "0.01", "0.1", "1"))
    ax.minorticks_off()
    ax.set_xlabel("epsilon")
