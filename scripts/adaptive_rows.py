"""Fixed and adaptive steps: how far a score is from that at one pixel per step, for so many model rows.

Part of ``scripts/open_questions.py``. ``benchmarks/adaptive_steps.py`` measures the same over more models and metrics.
"""

from dataclasses import replace

import torch
from answers import Answers
from matplotlib.axes import Axes
from study_subjects import Attributions, AuditedProblem

import verax
from verax.core.palette import BLUE, ORANGE, VERMILION
from verax.metrics import DirectedPredictionChange
from verax.report.plots import legend, panels

DPC = DirectedPredictionChange("signed")  # the paper's order
FIXED = (5, 10, 20, 32, 48)
TOLERANCES = (0.1, 0.03, 0.01, 0.003)
COMPARED = ("gradient", "SmoothGrad", "gradient x input", "IG x input", "random")
SERIES = {
    "fixed steps, `sum`": (ORANGE, "s", [replace(DPC, steps=steps) for steps in FIXED]),
    "fixed steps, `coherent`": (VERMILION, "^", [replace(DPC, steps=steps, rule="coherent") for steps in FIXED]),
    "adaptive": (BLUE, "o", [replace(DPC, steps="adaptive", tolerance=one) for one in TOLERANCES]),
}


def compare_adaptive(subjects: list[AuditedProblem], answers: Answers) -> None:
    """A panel per model: rows to the right, errors up."""
    chart, axes = panels(len(subjects), width=3.0, height=2.4, columns=2)
    lines = []
    for ax, subject in zip(axes, subjects, strict=True):
        given = {name: subject.attributions[name] for name in COMPARED}
        full, most, _ = _values(subject, given, replace(DPC, steps=subject.finest))
        lines.append([subject.name, "one pixel per step", f"{most:.0f}", "0", "", ""])
        for name, (colour, marker, metrics) in SERIES.items():
            rows, errors = [], []
            for metric in metrics:
                value, count, stated = _values(subject, given, metric)
                error = (value - full).abs()
                rows.append(count)
                errors.append(float(error.quantile(0.95)))
                what = f"tolerance {metric.tolerance}" if metric.steps == "adaptive" else f"{metric.steps} steps"
                ends = (None, None) if stated is None else (stated, torch.tensor(metric.tolerance))
                held = ["" if end is None else f"{float((error <= end).double().mean()):.0%}" for end in ends]
                lines.append([subject.name, f"{name}, {what}", f"{count:.0f}", f"{errors[-1]:.3f}", *held])
            ax.plot(rows, errors, color=colour, marker=marker, markersize=4, label=name.replace("`", ""))
        _logarithmic(ax)
        ax.set(title=subject.name, xlabel="model rows per image", ylabel="error, 95th percentile")
    legend(chart, axes, columns=3)
    answers.figure("adaptive", chart)
    head = ["model", "steps", "model rows per image and attribution", "error, 95th percentile"]
    head += ["below the stated error", "below the tolerance"]
    answers.table("adaptive", head, lines)


def _values(
    subject: AuditedProblem, given: Attributions, metric: DirectedPredictionChange
) -> tuple[torch.Tensor, float, torch.Tensor | None]:
    """Scores, rows per input and attribution, and the stated errors of adaptive steps."""
    problem = verax.Problem(subject.scorer, subject.inputs)  # a new one, whose unperturbed rows count
    found = verax.evaluate(problem, given, [metric])["dpc"]
    value = torch.stack(list(found.value.values())).double().cpu()
    stated = torch.stack(list(found.error.values())).double().cpu() if metric.steps == "adaptive" else None
    return value, found.rows / value.numel(), stated


def _logarithmic(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks((10, 20, 40, 80), ("10", "20", "40", "80"))
    ax.set_yticks((0.01, 0.1, 1), ("0.01", "0.1", "1"))
    ax.minorticks_off()
