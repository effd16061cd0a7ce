"""Plain tables of the page: what was run, the numbers behind the boxes, what it cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from verax.analysis.costs import by_metric, crossover, sharing
from verax.report.findings import figure_of
from verax.report.names import METRIC_NAMES, label_of
from verax.report.style import number, percent, seconds
from verax.report.view import View

KIND_NAMES = {"attribution": "attributions", "guided": "PC and DPC", "infidelity": "Infidelity"}


@dataclass(frozen=True)
class Table:
    """A table to print.

    Attributes:
        caption: What it shows.
        head: Names of the columns.
        rows: Cells, as text; the first one is the row's header.
        numeric: Which columns hold numbers, to be set right.
        code: Which columns hold canonical forms, to be set in type of equal width.
    """

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: tuple[int, ...] = ()
    code: tuple[int, ...] = ()


def models(view: View) -> Table:
    """The models, how good they are, and on how much they were explained."""
    counts = dict(view.summary.group_by("model").len().iter_rows())
    head = ("model", "data", "architecture", "AUROC", "accuracy", "inputs", "features", "configurations")
    rows = [
        (
            model.name,
            f"{model.dataset} ({model.modality})",
            model.architecture,
            percent(figure_of(model, "auroc"), 2),
            percent(figure_of(model, "accuracy"), 2),
            f"{model.inputs:,}",
            f"{model.features:,}",
            f"{counts.get(model.name, 0):,}",
        )
        for model in view.tables.models
    ]
    return Table("Models; AUROC and accuracy on the test split where known", head, rows, (3, 4, 5, 6, 7))


def method_counts(view: View) -> Table:
    """How many configurations of each method each model has."""
    counts = {(m, label): n for m, label, n in view.rows.group_by("model", "label").len().iter_rows()}
    rows = [(label, *(f"{counts.get((model, label), 0):,}" for model in view.models)) for label in view.labels]
    return Table("Configurations by method", ("method", *view.models), rows, tuple(range(1, len(view.models) + 1)))


def settings(values: Mapping[str, Any], caption: str) -> Table:
    """Settings or provenance, name by name."""
    return Table(caption, ("name", "value"), [(str(name), str(value)) for name, value in values.items()], (), (1,))


def boxes(view: View, metric: str) -> Table:
    """The numbers behind the boxes of a metric."""
    found = view.boxes(metric)
    head = ("model", "method", "count", "min", "median", "max", "best configuration")
    rows = [
        (
            row["model"],
            label_of(row["method"], row["local"]),
            str(row["count"]),
            number(row["min"]),
            number(row["median"]),
            number(row["max"]),
            row["best"],
        )
        for row in found.iter_rows(named=True)
    ]
    return Table(f"{METRIC_NAMES[metric]} by method over configurations", head, rows, (2, 3, 4, 5), (6,))


def costs(view: View) -> list[Table]:
    """What was run and what sharing saved, per model, per kind of work and per unit."""
    found = [
        Table("Per model, and what a run without sharing would need", _SHARING, list(_sharing(view)), _cells(2, 9))
    ]
    kinds = by_metric(view.summary).filter(pl.col("rows") > 0)
    if kinds.height:
        rows = [
            (
                row["model"],
                KIND_NAMES.get(row["kind"], row["kind"]),
                number(row["rows"]),
                number(row["rows_per_attribution"]),
                seconds(row["seconds"]),
            )
            for row in kinds.iter_rows(named=True)
        ]
        head = ("model", "work", "rows", "rows per attribution", "time")
        found.append(Table("Per kind of work; an attribution is one configuration on one input", head, rows, (2, 3, 4)))
    return [table for table in found if table.rows]


_SHARING = (
    "model",
    "device",
    "time",
    "of it in the model",
    "rows forward",
    "without sharing",
    "times",
    "rows backward",
    "without sharing",
)


def _cells(first: int, behind: int) -> tuple[int, ...]:
    return tuple(range(first, behind))


def _sharing(view: View) -> Iterator[tuple[str, ...]]:
    for row in sharing(view.tables.costs).iter_rows(named=True):
        share = row["model_seconds"] / row["seconds"] if row["seconds"] else None
        yield (
            row["model"],
            row["device"],
            seconds(row["seconds"]),
            percent(share, 0),
            number(row["rows_forward"]),
            number(row["rows_forward_unshared"]),
            number(row["saving"]),
            number(row["rows_backward"]),
            number(row["rows_backward_unshared"]),
        )


def cost_sentence(view: View) -> str | None:
    """DPC against Infidelity in rows, from the study's settings; None where they are unknown."""
    steps, draws = view.tables.settings.get("steps"), view.tables.settings.get("samples")
    if not isinstance(steps, int) or not isinstance(draws, int):
        return None
    found = crossover(steps, draws)
    return (
        f"One attribution of one input alone: DPC needs {found.guided_rows} model rows, Infidelity with {draws:,} draws"
        f" {found.draws:,}, {number(found.ratio)} times as many. All attributions of an input can share the draws: from"
        f" {found.attributions} attributions on, Infidelity needs no more rows than DPC."
    )
