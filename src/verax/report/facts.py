"""The page's tables: what was run, how good the models are, what it cost, and how far the numbers can be trusted."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from verax.attribution.names import label_of
from verax.auditing.result import Audit
from verax.core.display import counted
from verax.evaluation.distance import percent as percent_of
from verax.report.html import DASH, number, percent, seconds
from verax.report.view import View
from verax.statistics.intervals import Estimate
from verax.study.summary import by_kind, crossover, sharing
from verax.study.tables import BEST_BY, MetricInfo, ModelInfo, Trust

# the most telling first
_LABELS = {"auroc": "AUROC", "r2": "R\N{SUPERSCRIPT TWO}", "rmse": "RMSE", "accuracy": "accuracy"}
_SHARES = {"auroc", "accuracy"}


def main_figure(model: ModelInfo) -> str:
    """The most telling figure of a model in words, with its rows unless they are a test split; empty if unknown.

    Example:
        >>> main_figure(ModelInfo("a", "data", "tabular", "mlp", {"test": {"accuracy": 0.8, "auroc": 0.912}}, 9, 3))
        'AUROC 91.2 %'
    """
    name = next((name for name in _LABELS if figure_of(model, name) is not None), None)
    rows = "" if model.measured_on == "test split" else f" on {model.measured_on}"
    return f"{_LABELS[name]} {figure_text(model, name)}{rows}" if name else ""


def figure_text(model: ModelInfo, name: str, digits: int = 1) -> str:
    value = figure_of(model, name)
    return percent(value, digits) if name in _SHARES else number(value)


def figure_of(model: ModelInfo, name: str) -> float | None:
    """A figure of a model on the test split, or on the first split that has it."""
    splits = [model.metrics.get("test", {}), *model.metrics.values()]
    return next((float(split[name]) for split in splits if name in split), None)


KIND_NAMES = {"attribution": "attributions", "guided": "metrics of removals", "sampled": "metrics of random draws"}


@dataclass(frozen=True)
class Table:
    """A table to print: cells as text, the first one of a row is its header."""

    caption: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numeric: Sequence[int] = ()  # which columns hold numbers, to be set right
    code: Sequence[int] = ()  # which columns hold canonical forms, to be set in type of equal width


def models(view: View) -> Table:
    counts = dict(view.summary.group_by("model").len().iter_rows())
    figures = {  # those that any of the models has
        name: label
        for name, label in _LABELS.items()
        if any(figure_of(model, name) is not None for model in view.tables.models)
    }
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
    counts = {(m, label): n for m, label, n in view.rows.group_by("model", "label").len().iter_rows()}
    rows = [(label, *(f"{counts.get((model, label), 0):,}" for model in view.models)) for label in view.labels]
    return Table("Configurations by method", ("method", *view.models), rows, range(1, len(view.models) + 1))


def settings(values: Mapping[str, Any], caption: str) -> Table:
    return Table(caption, ("name", "value"), [(str(name), str(value)) for name, value in values.items()], (), (1,))


def boxes(view: View, metric: MetricInfo) -> Table:
    head = ("model", "method", "count", "min", "median", "max", "best configuration")
    rows = []
    for row in view.boxes(metric).iter_rows(named=True):
        figures = [number(row[name]) for name in ("min", "median", "max")]
        rows.append((row["model"], label_of(row["method"], row["local"]), str(row["count"]), *figures, row["best"]))
    return Table(f"{metric.label} by method over configurations", head, rows, range(2, 6), (6,))


def costs(view: View) -> list[Table]:
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
    count = crossover(steps, draws)
    return (
        f"One attribution of one input alone: DPC needs {count.guided_rows} model rows, Infidelity with {draws:,} draws"
        f" {count.draws:,}, {number(count.ratio)} times as many. All attributions of an input can share the draws: from"
        f" {count.attributions} attributions on, Infidelity needs no more rows than DPC."
    )


_SPACES = {"inputs": "the inputs", "features": "the network's features"}


def trust(view: View) -> dict[str, Any] | None:
    """What the section about trust shows; None where the study did not ask."""
    trust = view.tables.trust
    if trust is None:
        return None
    labels = {metric.column: metric.label for metric in view.tables.metrics}
    return {
        "inputs": counted(trust.inputs, "input"),
        "audits": [_model_audit(model, audit, labels) for model, audit in trust.audits.items()],
        "distance": _distance(trust, labels),
        "limits": _limits(view, trust, labels),
        "left_out": [f"{model}: {line}" for model, lines in trust.left_out.items() for line in lines],
    }


def share_of_possible(view: View, model: str, column: str) -> str:
    trust = view.tables.trust
    limits = [] if trust is None else list(trust.limits.iter_rows(named=True))
    row = next((row for row in limits if (row["model"], row["metric"]) == (model, column)), None)
    if row is None or math.isnan(row["share"]):
        return ""
    least, more = ("", "") if row["exact"] else ("At most ", " or more")
    scores = f"{number(row['score'])}, where an attribution can get {number(row['possible'])}"
    return f"{least}{_share(row)} of what is possible, on {counted(row['inputs'], 'input')}: {scores}{more}."


def _model_audit(model: str, audit: Audit, labels: Mapping[str, str]) -> dict[str, Any]:
    """An audit with metrics named as people read them, and without commas, for lists."""
    labels = {column: _bracketed(label) for column, label in labels.items()}
    best = {f"{BEST_BY}{column}": f"{BEST_BY}{label}" for column, label in labels.items()}
    findings = [
        replace(
            finding,
            metric=labels.get(finding.metric, finding.metric),
            explanation=best.get(finding.explanation, finding.explanation),
            against=best.get(finding.against, finding.against),
        )
        for finding in audit.findings
    ]
    blind = {labels.get(name, name): words for name, words in audit.known_limitations.items()}
    named = replace(audit, findings=findings, known_limitations=blind)
    whole = named.table()
    head = tuple(cell.replace("_", " ") for cell in whole.head)
    table = Table(f"{model}. {whole.caption}", head, whole.rows, range(3, len(head)))
    return {"model": model, "sentences": named.sentences, "table": table, "notes": named.notes}


def _bracketed(label: str) -> str:
    """A label in a list.

    Example:
        >>> _bracketed("DPC, coherent, MoRF alone"), _bracketed("PC")
        ('DPC (coherent, MoRF alone)', 'PC')
    """
    head, _, rest = label.partition(", ")
    return f"{head} ({rest})" if rest else head


def _distance(trust: Trust, labels: Mapping[str, str]) -> Table:
    rows = []
    for row in trust.distance.iter_rows(named=True):
        beyond = Estimate(row["beyond"], math.nan, row["low"], row["high"])
        what = labels.get(row["metric"], row["metric"]) if row["metric"] else "inputs as they are"
        where = _SPACES.get(row["space"], row["space"])
        rows.append((row["model"], what, row["replacement"], where, percent_of(beyond), number(row["ratio"], 2)))
    head = ("model", "metric", "replacement", "measured in", "beyond the 99 % quantile", "median distance, over theirs")
    return Table("Distance of perturbed rows from the training rows, 95 % intervals", head, rows, (5,))


def _limits(view: View, trust: Trust, labels: Mapping[str, str]) -> Table:
    rows = []
    for row in trust.limits.iter_rows(named=True):
        metric, best = labels.get(row["metric"], row["metric"]), view.label(row["configuration"])
        least, more = ("", "") if row["exact"] else ("at most ", "at least ")
        share = DASH if math.isnan(row["share"]) else f"{least}{_share(row)}"  # chance is not known of all metrics
        figures = (number(row["score"]), f"{more}{number(row['possible'])}", share)
        rows.append((row["model"], metric, best, *figures, str(row["inputs"]), row["found_by"]))
    head = ("model", "metric", "best explanation", "score", "best possible", "share", "inputs", "found by")
    return Table("Scores as a share of what is possible, 95 % intervals", head, rows, (3, 6))


def _share(row: Mapping[str, Any]) -> str:
    return str(Estimate(row["share"], math.nan, row["low"], row["high"]))
