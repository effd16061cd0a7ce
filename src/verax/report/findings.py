"""What was run in one line, and what came out of it in words and numbers."""

import math
from collections import Counter
from dataclasses import dataclass

import polars as pl

from verax.attribution.names import REFERENCE, kind_of, label_of
from verax.report.facts import main_figure
from verax.report.html import DASH, number, signed
from verax.report.view import View
from verax.statistics.ranks import tied
from verax.study.tables import LEADING_DPC, LEADING_PC, MetricInfo


@dataclass(frozen=True)
class Best:
    """The configuration of a model that a metric rates best, with the standard error of its mean over inputs.

    Its kind may be a naive reference, which no metric should prefer.
    """

    label: str
    configuration: str
    value: float
    error: float | None
    kind: str

    def __str__(self) -> str:
        return number(self.value) + (f" ± {number(self.error, 2)}" if self.error is not None else "")


def ranked(view: View) -> list[MetricInfo]:
    """The metrics whose best configurations the table by model names."""
    return view.leading(LEADING_DPC, LEADING_PC, view.pair[1])


def best(view: View, model: str, metric: MetricInfo) -> Best | None:
    """The best configuration of a model, or None where the metric was not measured."""
    column = metric.column
    rows = view.summary.filter(pl.col("model") == model).drop_nulls(column)
    if not rows.height:
        return None
    means = tied(rows[column].to_numpy())  # of those that differ by rounding alone the first
    row = rows.row(int(means.argmax() if metric.higher_is_better else means.argmin()), named=True)
    variant = (row["method"], row["local"])
    return Best(label_of(*variant), row["configuration"], row[column], row[f"{column}_error"], kind_of(*variant))


def one_line(view: View) -> str:
    """What was run."""
    models = view.tables.models
    if not models:
        return "No models."
    data = list(dict.fromkeys(model.dataset for model in models))
    inputs = sorted({model.inputs for model in models})
    many = f"{inputs[0]:,}" if len(inputs) == 1 else f"{inputs[0]:,} to {inputs[-1]:,}"
    text = f"{_count(len(models), 'model')} on {', '.join(data)}: {_count(view.summary.height, 'explanation')}"
    limits = view.tables.settings.get("limits", {})
    limited = [metric for metric in view.measured if metric.column in limits]
    fewer = ", ".join(f"{metric.label} on the first {limits[metric.column]:,}" for metric in limited)
    return f"{text} (configurations of attribution methods), each on {many} inputs{f'; {fewer}' if fewer else ''}."


def sentences(view: View) -> list[str]:
    """The most important findings, most important first."""
    lines = [_preference(view, metric) for metric in view.leading(LEADING_DPC, LEADING_PC)]
    lines += [_agreement(view)] if any(math.isfinite(a.spearman.mean) for a in view.agreements.values()) else []
    lines += view.paper.sentences() if view.paper else []
    lines += [_sharing(view)] if view.tables.costs["rows_forward"].sum() > 0 else []
    return lines


def _preference(view: View, metric: MetricInfo) -> str:
    leaders = [leader for leader in (best(view, model, metric) for model in view.models) if leader is not None]
    kind, many = Counter(leader.kind for leader in leaders).most_common(1)[0]
    labels = Counter(leader.label for leader in leaders)
    words = ", ".join(label + (f" ({count} times)" if count > 1 else "") for label, count in labels.items())
    article = "a naive" if kind == REFERENCE else "a"
    return f"{metric.label} rates {article} {kind} method best on {_of(many, len(leaders))}: {words}."


def _agreement(view: View) -> str:
    parts = []
    for lime, where in ((False, "without LIME"), (True, "with LIME alone")):
        values = [a.spearman.mean for (_, of_lime), a in view.agreements.items() if of_lime == lime]
        known = [value for value in values if math.isfinite(value)]
        if known:
            span = f"{signed(min(known))} to {signed(max(known))}" if len(known) > 1 else signed(known[0])
            parts.append(f"{where} on {_of(sum(value < 0 for value in known), len(known))} ({span})")
    return f"DPC and Infidelity rank alike, that is with a negative Spearman correlation, {' and '.join(parts)}."


def _sharing(view: View) -> str:
    run, unshared = (float(view.tables.costs[name].sum()) for name in ("rows_forward", "rows_forward_unshared"))
    text = f"Sharing model evaluations between configurations and metrics needed {number(run)} forward rows"
    return f"{text} instead of {number(unshared)}, {number(unshared / run)} times fewer."


def _of(many: int, total: int) -> str:
    return f"{many} of {_count(total, 'model')}"


def _count(many: int, what: str) -> str:
    return f"{many:,} {what}" + ("" if many == 1 else "s")


def model_rows(view: View) -> list[dict[str, object]]:
    """The table below the sentences: one row per model."""
    return [
        {
            "model": model.name,
            "quality": main_figure(model) or DASH,
            "best": [best(view, model.name, metric) for metric in ranked(view)],
            "others": view.agreements.get((model.name, False)),
            "lime": view.agreements.get((model.name, True)),
        }
        for model in view.tables.models
    ]
