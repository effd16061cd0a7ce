"""A finished study as one HTML file that needs nothing else, and its figures as SVG files."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import vl_convert
from markupsafe import Markup
from matplotlib.figure import Figure

from verax.core.display import metric_head
from verax.core.files import write_atomically
from verax.report import answers, attributions, boxes, curves, facts, scatter, sweeps
from verax.report.html import encoded, fixed_style, joined_words, rendered, save, script_json, signed, template_file
from verax.report.view import View
from verax.study.tables import LEADING_DPC, Example, Tables, joined

SECTIONS = {
    "findings": "All metrics",
    "run": "What was run",
    "methods": "Scores by method",
    "input-factor": "With and without the input",
    "agreement": "DPC against Infidelity",
    "uncertainty": "Uncertainty",
    "trust": "Can these numbers be trusted?",
    "curves": "Perturbation curves",
    "attributions": "Attributions",
    "claims": "Claims",
    "costs": "Costs",
    "provenance": "Provenance",
}
_SHOWN = ("model", "method", "name", "label", "kind", "configuration", "lime", "pareto", "near_zero", "jitter", "pair")


def write_report(path: Path, tables: Tables, examples: Sequence[Example], provenance: Mapping[str, str]) -> None:
    """Write a study's report as one HTML file that works offline and asks for nothing over the network.

    The same tables give the same bytes. What the study does not hold (a metric, LIME, examples) the page says.

    Args:
        path: The file to write; its folder is made if need be.
        tables: What the study measured.
        examples: A few explained inputs per model, for pictures; may be empty.
        provenance: Names and values of versions, hashes, seeds and commands, in the order to show them. What stands
            under ``"study"``, ``"begun"``, ``"warning"`` and ``"incomplete"`` is also said at the top of the page.
    """
    write_atomically(path, page(View(tables, tuple(examples)), provenance).encode("utf-8"))


def page(view: View, provenance: Mapping[str, str]) -> str:
    """The report as text."""
    charts = _charts(view)
    drawing, script = vega(), _safe_script(template_file("page.js"))
    return rendered(
        "page.html",
        policy=_policy(drawing, script),
        vega=drawing,
        script=script,
        data=Markup(script_json(_data(view))),  # noqa: S704 - escaped by script_json
        drawings=Markup(script_json(charts)),  # noqa: S704 - escaped by script_json
        charts=set(charts),
        **_head(view),
        **_body(view),
        identity=", begun ".join(provenance[name] for name in ("study", "begun") if name in provenance),
        warning=provenance.get("warning", ""),
        incomplete=provenance.get("incomplete", ""),
        provenance=facts.settings(provenance, "Versions, hashes, seeds and commands"),
    )


@cache
def vega() -> Markup:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    return _safe_script(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _safe_script(text: str) -> Markup:
    return Markup(text.replace("</script", r"<\/script"))  # noqa: S704 - a script of this package or of Vega


def _policy(*scripts: str) -> str:
    """Only these scripts may run, and nothing may be fetched, whatever the page holds."""
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _charts(view: View) -> dict[str, Any]:
    return {
        **boxes.charts(view),
        **sweeps.epsilon_charts(view),
        **boxes.paired_charts(view),
        **scatter.charts(view),
        **sweeps.uncertainty_charts(view),
        **curves.charts(view),
        **attributions.charts(view),
    }


def _data(view: View) -> dict[str, Any]:
    """The page's tables, each once, whatever number of charts draws from it."""
    means = [name for metric in view.tables.metrics for name in (metric.column, f"{metric.column}_error")]
    figures = (*view.pair, f"{view.pair[1]}_mc_error", "attribution_norm")
    rows = view.rows.select(list(dict.fromkeys((*_SHOWN, *means, *figures))))
    settings = {scatter.SETTING + name: values for name, values in view.settings.items()}
    paired = boxes.paired_rows(view).select(*_SHOWN, "side", *means)
    return {
        "configurations": encoded(rows.to_dict(as_series=False) | settings),
        "input_factor": encoded(paired.to_dict(as_series=False)),
        "epsilon": encoded(sweeps.epsilon_columns(view)),
        "uncertainty": encoded(sweeps.uncertainty_columns(view)),
        "curves": encoded(curves.columns(view)),
        "bars": encoded(attributions.columns(view)),
    }


def _head(view: View) -> dict[str, Any]:
    data = list(dict.fromkeys(model.dataset for model in view.tables.models))
    absent = {key for key, shown in (("claims", view.paper), ("trust", view.tables.trust)) if not shown}
    return {
        "title": f"Which explanation should I trust on {joined_words(data)}?" if data else "An empty study",
        "cards": answers.cards(view),
        "one_line": answers.one_line(view),
        "sentences": answers.sentences(view),
        "model_rows": answers.model_rows(view),
        "ranked": [metric.label for metric in answers.ranked(view)],
        "missing": [metric.label for metric in view.tables.metrics if metric not in view.measured],
        "agreements": view.agreements,
        "sections": [(key, name) for key, name in SECTIONS.items() if key not in absent],
        "signed": signed,
    }


def _body(view: View) -> dict[str, Any]:
    shown = [example for example in view.examples if curves.has_content(example)]
    return {
        "models": facts.models(view),
        "method_counts": facts.method_counts(view),
        "settings": facts.settings(view.tables.settings, "Settings of the metrics"),
        "boxes": [facts.boxes(view, metric) for metric in view.measured],
        "main": view.main,
        "over_epsilon": sweeps.epsilon_series(view),
        "other_metrics": [
            (metric.column, metric_head(metric.label, metric.higher_is_better)) for metric in boxes.other_metrics(view)
        ],
        "model_options": [(model, model) for model in view.models],
        "colour_options": list(scatter.colourings(view).items()),
        "input_groups": [_inputs(example) for example in shown],
        "curve_methods": [(name, name) for name in curves.methods(view)],
        "roles": [(role, f"the {role} of each method") for role in curves.ROLES],
        "bars": [
            {"id": f"bars-{at}", "model": example.model, "groups": [_inputs(example)]}
            for at, example in enumerate(attributions.tables(view))
        ],
        "galleries": [attributions.gallery(example) for example in shown if attributions.is_image(example)],
        "trust": facts.trust(view),
        "paper": view.paper,
        "verdicts": view.paper.matrix(view.models) if view.paper else [],
        "costs": facts.costs(view),
        "cost_sentence": facts.cost_sentence(view),
    }


def _inputs(example: Example) -> tuple[str, list[tuple[str, str]]]:
    options = [
        (curves.input_key(example.model, at), f"{example.model}, {curves.input_label(example, at)}")
        for at in range(len(example.input_ids))
    ]
    return example.model, options


_SIZE = 8  # points


def write_figures(folder: Path, tables: Tables, examples: Sequence[Example]) -> list[Path]:
    """Draw the paper's figures from a study, each as an SVG file, and return the files written.

    The same tables give the same bytes. A figure for which the study has no data is left out.

    Args:
        folder: Where to write; made if need be.
        tables: What the study measured.
        examples: A few explained inputs per model; may be empty.
    """
    return draw_figures(folder, View(tables, tuple(examples))) + draw_examples(folder, examples)


def draw_figures(folder: Path, view: View) -> list[Path]:
    """Those without examples, from a view whose analysis serves others as well."""
    return _drawn(folder, _figures(view))


def draw_examples(folder: Path, examples: Sequence[Example]) -> list[Path]:
    return _drawn(folder, _of_examples(examples))


def _drawn(folder: Path, figures: Iterator[tuple[str, Figure]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with fixed_style(_SIZE):
        return [save(figure, folder / f"{name}.svg") for name, figure in figures]


def write_joint_figures(folder: Path, several: Sequence[Tables]) -> list[Path]:
    """Draw the paper's figures over several studies, all models in one figure each, and return the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    view = View(joined(several), ())
    # letters as outlines would take most of the file
    with fixed_style(_SIZE), mpl.rc_context({"svg.fonttype": "none"}):
        return [save(figure, folder / f"{name}.svg") for name, figure in _over_configurations(view)]


def _figures(view: View) -> Iterator[tuple[str, Figure]]:
    yield from _over_configurations(view)
    if sweeps.epsilon_series(view):
        yield "epsilon", sweeps.epsilon_figure(view)
    if view.uncertainty.height:
        yield "uncertainty", sweeps.uncertainty_figure(view)


def _of_examples(examples: Sequence[Example]) -> Iterator[tuple[str, Figure]]:
    shown = [example for example in examples if curves.has_content(example)]
    for at, example in enumerate(shown, start=1):
        yield f"curves-{at}", curves.figure(example)
        yield f"attributions-{at}", attributions.figure(example)


def _over_configurations(view: View) -> Iterator[tuple[str, Figure]]:
    for metric in view.main:
        name = "dpc" if metric.column == LEADING_DPC else re.sub(r"\W+", "-", metric.column)
        yield f"methods-{name}", boxes.figure(view, metric)
        if boxes.paired_methods(view):
            yield f"input-factor-{name}", boxes.paired_figure(view, metric)
    for lime, name in ((True, "scatter-lime"), (False, "scatter-others")):
        if scatter.models(view, lime):
            yield name, scatter.figure(view, lime)
