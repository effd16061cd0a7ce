"""Plain tables of the page: what was run, the numbers behind the boxes, what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from verax.attribution.names import label_of
from verax.report.quality import figure_names, figure_text
from verax.report.style import number, percent, seconds
from verax.report.view import View
from verax.study.summary import by_kind, crossover, sharing
from verax.study.tables import MetricInfo

KIND_NAMES = {"attribution": "attributions", "guided": "metrics of removals", "sampled": "metrics of random draws"}


@dataclass(frozen=True)
class Table:
    """A table to print: cells as text, the first one of a row is its header.

    Attributes:
        numeric: Which columns hold numbers, to be set right.
        code: Which columns hold canonical forms, to be set in type of equal width.
    """

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: Sequence[int] = ()
    code: Sequence[int] = ()


def models(view: View) -> Table:
    """The models, how good they are, and on how much they were explained."""
    counts = dict(view.summary.group_by("model").len().iter_rows())
    figures = figure_names(view.tables.models)
    measured = ("measured on",) if figures else ()
    head = ("model", "data", "architecture", *figures.values(), *measured, "inputs", "features", "configurations")
    rows = [
        (
            model.name,
            f"{model.dataset} ({model.modality})",
            model.architecture,
            *(figure_text(model, name, 2) for name in figures),
            *(model.measured_on for _ in measured),
            *(f"{count:,}" for count in (model.inputs, model.features, counts.get(model.name, 0))),
        )
        for model in view.tables.models
    ]
    learnt = any("learnt" in model.measured_on for model in view.tables.models)
    hint = "; name the rows that a model has not learnt from (held_out) to know how good it is on new ones"
    numeric = [at for at in range(3, len(head)) if head[at] != "measured on"]
    return Table(f"Models{hint if learnt and figures else ''}", head, rows, numeric)


def method_counts(view: View) -> Table:
    """How many configurations of each method each model has."""
    counts = {(m, label): n for m, label, n in view.rows.group_by("model", "label").len().iter_rows()}
    rows = [(label, *(f"{counts.get((model, label), 0):,}" for model in view.models)) for label in view.labels]
    return Table("Configurations by method", ("method", *view.models), rows, range(1, len(view.models) + 1))


def settings(values: Mapping[str, Any], caption: str) -> Table:
    """Settings or provenance, name by name."""
    return Table(caption, ("name", "value"), [(str(name), str(value)) for name, value in values.items()], (), (1,))


def boxes(view: View, metric: MetricInfo) -> Table:
    """The numbers behind the boxes of a metric."""
    head = ("model", "method", "count", "min", "median", "max", "best configuration")
    rows = []
    for row in view.boxes(metric).iter_rows(named=True):
        figures = [number(row[name]) for name in ("min", "median", "max")]
        rows.append((row["model"], label_of(row["method"], row["local"]), str(row["count"]), *figures, row["best"]))
    return Table(f"{metric.label} by method over configurations", head, rows, range(2, 6), (6,))


def costs(view: View) -> list[Table]:
    """What was run and what sharing saved, per model and per kind of work."""
    return [table for table in (_sharing(view), _kinds(view)) if table.rows]


def _sharing(view: View) -> Table:
    forward, backward = ("rows forward", "without sharing", "times"), ("rows backward", "without sharing")
    names = ("rows_forward", "rows_forward_unshared", "saving", "rows_backward", "rows_backward_unshared")
    rows = []
    for row in sharing(view.tables.costs).iter_rows(named=True):
        share = row["model_seconds"] / row["seconds"] if row["seconds"] else None
        times = (seconds(row["seconds"]), percent(share, 0))
        rows.append((row["model"], row["device"], *times, *(number(row[name]) for name in names)))
    head = ("model", "device", "time", "of it in the model", *forward, *backward)
    return Table("Per model, and what a run without sharing would need", head, rows, range(2, 9))


def _kinds(view: View) -> Table:
    rows = []
    for row in by_kind(view.summary).filter(pl.col("rows") > 0).iter_rows(named=True):
        figures = (number(row["rows"]), number(row["rows_per_attribution"]), seconds(row["seconds"]))
        rows.append((row["model"], KIND_NAMES[row["kind"]], *figures))
    head = ("model", "work", "rows", "rows per attribution", "time")
    return Table("Per kind of work; an attribution is one configuration on one input", head, rows, range(2, 5))


def cost_sentence(view: View) -> str | None:
    """DPC against Infidelity in rows, from the study's settings; None where one of them is unknown."""
    steps, draws = view.tables.settings.get("steps"), view.tables.settings.get("samples")
    both = set(view.pair) <= {metric.column for metric in view.measured}
    if not both or not isinstance(steps, int) or not isinstance(draws, int):
        return None
    found = crossover(steps, draws)
    return (
        f"One attribution of one input alone: DPC needs {found.guided_rows} model rows, Infidelity with {draws:,} draws"
        f" {found.draws:,}, {number(found.ratio)} times as many. All attributions of an input can share the draws: from"
        f" {found.attributions} attributions on, Infidelity needs no more rows than DPC."
    )
