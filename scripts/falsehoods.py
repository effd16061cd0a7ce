"""What metrics reward: attributions that are known to be false against the gradient, and where a score peaks.

Part of ``scripts/open_questions.py``.
"""

from dataclasses import replace

import torch
from answers import Answers, mean_error
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from study_subjects import Attributions, AuditedProblem
from torch import Tensor

import verax
from verax.core.palette import BLUE, VERMILION
from verax.metrics import DirectedPredictionChange, LocalPredictionChange
from verax.metrics.weighted_area import DirectedArea
from verax.report.plots import LINES, legend, panels

WEIGHTS, INPUT = torch.tensor([3.0, 2.0, 1.0]), torch.ones(1, 3)
THREE = {"a = (3, 2, 1)": [3.0, 2.0, 1.0], "-1/a": [-1 / 3, -1 / 2, -1.0], "(3, 2, -1)": [3.0, 2.0, -1.0]}
TRUTH, SIZED, PAPER = "gradient", "sign(g) |g (x - b)|", "DPC, signed order"
MAGNITUDE = "DPC, magnitude order"
DRAWN = ("lower half reversed", SIZED, "gradient x input", "random")
METRICS: dict[str, DirectedArea] = {
    PAPER: DirectedPredictionChange("signed"),
    MAGNITUDE: DirectedPredictionChange("magnitude"),
    "coherent, MoRF": DirectedPredictionChange("magnitude", rule="coherent", area="morf"),
    "LPC": LocalPredictionChange(),
}
SCALE = {PAPER: 1, MAGNITUDE: 1, "coherent, MoRF": 1, "LPC": 1000}
_FINE = 64  # features; more are too many steps
POWERS = [round(-0.5 + 0.125 * place, 3) for place in range(21)]


def draw_three(answers: Answers) -> None:
    """The curves of three features, whose numbers stand in the page."""
    model = verax.Scorer(lambda rows: rows @ WEIGHTS[:, None], returns="values")
    given = {name: torch.tensor([values]) for name, values in THREE.items()}
    dpc = DirectedPredictionChange("magnitude", steps=3)(verax.Problem(model, INPUT), given)
    directed = dict(zip(THREE, dpc.curves()[:, 0], strict=True))
    chart, axes = panels(3, width=2.0, height=2.2, share=True)
    for ax, name in zip(axes, THREE, strict=True):
        morf, lerf = directed[name]
        ax.fill_between(range(4), morf, lerf, color="0.9")
        ax.plot(lerf, "s-", color=BLUE, markersize=4, label="least relevant first")
        ax.plot(morf, "o-", color=VERMILION, markersize=4, label="most relevant first")
        ax.set(title=f"{name}\nDPC {float(dpc.value[name]):.2f}", xlabel="features gone", xticks=range(4))
    axes[0].set_ylabel("directed curve")
    legend(chart, axes)
    answers.figure("three-features", chart)


def per_feature(values: Tensor) -> Tensor:
    """One number per feature: a pixel's channels are summed."""
    return values if values.ndim == 2 else values.sum(1, keepdim=True)


def half_reversed(a: Tensor) -> Tensor:
    """The same sizes, with the signs of the lower half of the features turned round."""
    size = per_feature(a).abs().flatten(1)
    place = size.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    upper = (place < size.shape[1] / 2).view(per_feature(a).shape)
    return torch.where(upper, a, -a)


def negated_inverse(a: Tensor) -> Tensor:
    """The ranking and all signs turned round: each feature gets ``-1 / a``, and 0 stays 0."""
    own = per_feature(a)
    return torch.where(own == 0, 0, -a / own.square())


def falsehoods(subject: AuditedProblem) -> Attributions:
    g, x = subject.gradient, subject.inputs
    return {
        TRUTH: g,
        "lower half reversed": half_reversed(g),
        "-1/g": negated_inverse(g),
        SIZED: g.sign() * (g * x).abs(),
        "gradient x input": g * x,
        "random": subject.attributions["random"],
    }


def compare_falsehoods(subjects: list[AuditedProblem], answers: Answers) -> None:
    """How often, and by how much, what is false scores above the gradient."""
    shares: dict[str, dict[str, dict[str, float]]] = {}
    lines = []
    for subject in subjects:
        given = falsehoods(subject)
        found = subject.scores(given, METRICS)
        shares[subject.name] = own = {metric: wins(values) for metric, values in found.items()}
        name = f"{subject.name}, {len(subject.inputs)} inputs"
        lines += [
            [name, one, *(f"{mean_error(SCALE[m] * found[m][one])}, {own[m][one]:.0%}" for m in METRICS)]
            for one in given
        ]
    answers.table("falsehoods", ["model", "attribution", PAPER, MAGNITUDE, "coherent, MoRF", "1000 LPC"], lines)
    answers.figure("false-wins", _draw_shares(shares))
    if small := [subject for subject in subjects if subject.finest <= _FINE]:
        _one_each(small, answers)


def _one_each(subjects: list[AuditedProblem], answers: Answers) -> None:
    """DPC where a step is one feature."""
    lines = []
    for subject in subjects:
        given = falsehoods(subject)
        fine = {name: replace(METRICS[name], steps=subject.finest) for name in (PAPER, MAGNITUDE)}  # type: ignore[call-arg]
        for metric, values in subject.scores(given, fine).items():
            apart = (values["-1/g"] - values[TRUTH]).abs().max()
            own = wins(values)
            line = [f"{values[name].mean():.3f}, {own[name]:.0%}" for name in (TRUTH, *DRAWN)]
            lines.append([subject.name, metric, f"{apart:.0e}", *line])
    answers.table("one-each", ["model", "metric", "largest difference of g and -1/g", TRUTH, *DRAWN], lines)


def wins(values: Attributions) -> dict[str, float]:
    """Share of inputs on which each attribution scores above the gradient."""
    return {name: float(above(value, values[TRUTH]).double().mean()) for name, value in values.items()}


def above(values: Tensor, truth: Tensor) -> Tensor:
    """Where a score is higher by more than rounding."""
    return values > truth + 1e-6 * truth.abs()


def _draw_shares(shares: dict[str, dict[str, dict[str, float]]]) -> Figure:
    """A panel per metric, a line per falsehood, a mark per model."""
    chart, axes = panels(len(METRICS), width=2.1, height=2.3, share=True)
    for ax, metric in zip(axes, METRICS, strict=True):
        for place, (subject, (colour, marker)) in enumerate(zip(shares, LINES, strict=False)):
            values = [shares[subject][metric][name] for name in DRAWN]
            rows = [row + 0.13 * (place - (len(shares) - 1) / 2) for row in range(len(DRAWN))]
            ax.plot(values, rows, marker, color=colour, markersize=5, alpha=0.85, label=subject)
        ax.axvline(0.5, color="0.5", linestyle="--", linewidth=0.8)
        ax.set(title=metric, xlim=(-0.05, 1.05), xticks=(0, 0.5, 1))
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.tick_params(labelleft=ax is axes[0])
    axes[0].set_yticks(range(len(DRAWN)), DRAWN)
    axes[0].invert_yaxis()
    axes[1].set_xlabel("inputs on which it scores above the gradient")
    legend(chart, axes, columns=3)
    return chart


def find_peaks(subjects: list[AuditedProblem], answers: Answers) -> None:
    """``sign(g) |g| |x - b|^p``: p = 0 is the gradient, p = 1 what it predicts for the whole way to the baseline."""
    chart, axes = panels(len(subjects), width=3.0, height=2.4, columns=2)
    lines = []
    for ax, subject in zip(axes, subjects, strict=True):
        distance = subject.inputs.abs()
        given = {str(power): subject.gradient * distance.clamp_min(1e-9) ** power for power in POWERS}
        found = subject.scores(given, METRICS)
        for (metric, values), (colour, marker) in zip(found.items(), LINES, strict=False):
            means = torch.stack([value.mean() for value in values.values()])
            ax.plot(POWERS, means / means.max(), color=colour, label=metric)
            best = int(means.argmax())
            ax.plot(POWERS[best], 1.0, marker, color=colour)
            truth = float(means[POWERS.index(0.0)] / means[best])
            lines.append([subject.name, metric, str(POWERS[best]), f"{truth:.3f}"])
        ax.set(title=subject.name, xlabel="p", ylabel="mean score, its peak = 1", ylim=(0, 1.08))
    legend(chart, axes, columns=3)
    answers.figure("peak", chart)
    answers.table("peak", ["model", "metric", "peak at p", "the gradient has of it"], lines)


def show_limits(subjects: list[AuditedProblem], answers: Answers, limited: int, rows: int) -> None:
    """What share of the best possible score the gradient and the two rivals get."""
    lines = []
    for subject in subjects:
        g, x = subject.gradient[:limited], subject.inputs[:limited]
        given = {TRUTH: g, SIZED: g.sign() * (g * x).abs(), "lower half reversed": half_reversed(g)}
        problem = subject.problem[:limited]
        found = verax.evaluate(problem, given, METRICS)
        for name, metric in METRICS.items():
            limit = verax.limits(problem, {name: metric}, rows=rows)[name]
            part = [float(found[name].value[one].mean() / limit.best.mean()) for one in given]
            lines.append([subject.name, name, *(f"{one:.3f}" for one in part), "exact" if limit.exact else "bound"])
    answers.table("limits", ["model", "metric", TRUTH, SIZED, "lower half reversed", "limit"], lines)
