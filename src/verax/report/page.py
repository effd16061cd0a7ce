"""A finished study as one HTML file that needs nothing else, and its figures as SVG files."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup
from matplotlib.figure import Figure

from verax.core.display import metric_head
from verax.core.engine import Processes, ThisProcess
from verax.core.files import write_atomically
from verax.report import answers, configuration_charts, example_charts, facts, sweeps
from verax.report.html import encoded, fixed_style, joined_words, rendered, save, script_json, signed, template_file
from verax.report.view import View
from verax.study.results import Results, read_results, weak_models
from verax.study.store import StoreError
from verax.study.study import Study
from verax.study.tables import LEADING_DPC, Example, Tables

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
        **configuration_charts.box_charts(view),
        **sweeps.epsilon_charts(view),
        **configuration_charts.paired_charts(view),
        **configuration_charts.scatter_charts(view),
        **sweeps.uncertainty_charts(view),
        **example_charts.curve_charts(view),
        **example_charts.bar_charts(view),
    }


def _data(view: View) -> dict[str, Any]:
    """The page's tables, each once, whatever number of charts draws from it."""
    means = [name for metric in view.tables.metrics for name in (metric.column, f"{metric.column}_error")]
    figures = (*view.pair, f"{view.pair[1]}_mc_error", "attribution_norm")
    rows = view.rows.select(list(dict.fromkeys((*_SHOWN, *means, *figures))))
    settings = {configuration_charts.SETTING + name: values for name, values in view.settings.items()}
    paired = configuration_charts.paired_rows(view).select(*_SHOWN, "side", *means)
    return {
        "configurations": encoded(rows.to_dict(as_series=False) | settings),
        "input_factor": encoded(paired.to_dict(as_series=False)),
        "epsilon": encoded(sweeps.epsilon_columns(view)),
        "uncertainty": encoded(sweeps.uncertainty_columns(view)),
        "curves": encoded(example_charts.curve_columns(view)),
        "bars": encoded(example_charts.bar_columns(view)),
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
    shown = [example for example in view.examples if example_charts.has_content(example)]
    return {
        "models": facts.models(view),
        "method_counts": facts.method_counts(view),
        "settings": facts.settings(view.tables.settings, "Settings of the metrics"),
        "boxes": [facts.boxes(view, metric) for metric in view.measured],
        "main": view.main,
        "over_epsilon": sweeps.epsilon_series(view),
        "other_metrics": [
            (metric.column, metric_head(metric.label, metric.higher_is_better))
            for metric in configuration_charts.other_metrics(view)
        ],
        "model_options": [(model, model) for model in view.models],
        "colour_options": list(configuration_charts.colourings(view).items()),
        "input_groups": [_inputs(example) for example in shown],
        "curve_methods": [(name, name) for name in example_charts.curve_methods(view)],
        "roles": [(role, f"the {role} of each method") for role in example_charts.ROLES],
        "bars": [
            {"id": f"bars-{at}", "model": example.model, "groups": [_inputs(example)]}
            for at, example in enumerate(example_charts.bar_examples(view))
        ],
        "galleries": [example_charts.gallery(example) for example in shown if example_charts.is_image(example)],
        "trust": facts.trust(view),
        "paper": view.paper,
        "verdicts": view.paper.matrix(view.models) if view.paper else [],
        "costs": facts.costs(view),
        "cost_sentence": facts.cost_sentence(view),
    }


def _inputs(example: Example) -> tuple[str, list[tuple[str, str]]]:
    options = [
        (example_charts.input_key(example.model, at), f"{example.model}, {example_charts.input_label(example, at)}")
        for at in range(len(example.input_ids))
    ]
    return example.model, options


FONT_SIZE = 8  # points, of figures


def write_figures(folder: Path, tables: Tables, examples: Sequence[Example]) -> list[Path]:
    """Draw the paper's figures from a study, each as an SVG file, and return the files written.

    The same tables give the same bytes. A figure for which the study has no data is left out.

    Args:
        folder: Where to write; made if need be.
        tables: What the study measured.
        examples: A few explained inputs per model; may be empty.
    """
    return _drawn(folder, _figures(View(tables, tuple(examples)))) + _drawn(folder, _of_examples(examples))


def _drawn(folder: Path, figures: Iterator[tuple[str, Figure]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with fixed_style(FONT_SIZE):
        return [save(figure, folder / f"{name}.svg") for name, figure in figures]


def _figures(view: View) -> Iterator[tuple[str, Figure]]:
    yield from over_configurations(view)
    if sweeps.epsilon_series(view):
        yield "epsilon", sweeps.epsilon_figure(view)
    if view.uncertainty.height:
        yield "uncertainty", sweeps.uncertainty_figure(view)


def _of_examples(examples: Sequence[Example]) -> Iterator[tuple[str, Figure]]:
    shown = [example for example in examples if example_charts.has_content(example)]
    for at, example in enumerate(shown, start=1):
        yield f"curves-{at}", example_charts.curve_figure(example)
        yield f"attributions-{at}", example_charts.attribution_figure(example)


def over_configurations(view: View) -> Iterator[tuple[str, Figure]]:
    for metric in view.main:
        name = "dpc" if metric.column == LEADING_DPC else re.sub(r"\W+", "-", metric.column)
        yield f"methods-{name}", configuration_charts.box_figure(view, metric)
        if configuration_charts.paired_methods(view):
            yield f"input-factor-{name}", configuration_charts.paired_figure(view, metric)
    for lime, name in ((True, "scatter-lime"), (False, "scatter-others")):
        if configuration_charts.scatter_models(view, lime):
            yield name, configuration_charts.scatter_figure(view, lime)


def write_study_report(study: Study, *, workers: int = 1) -> Path:
    """Write ``report.html``, figures and, for the paper's models, claims; of several ``workers`` one draws."""
    folder = study.store.folder
    figures = folder / "figures"
    with ThreadPoolExecutor(1) as beside:
        beside.submit(vega)  # a second or two without Python's lock
        results = read_results(study)
    if results.tables.scores.is_empty():
        raise StoreError(f"{folder}: no finished unit yet, so there is nothing to report.")
    view = View(results.tables, results.examples)
    with Processes([_draw_examples]) if workers > 1 else ThisProcess(_draw_examples) as engine:
        drawing = engine.run([(figures, view.examples)], name=lambda task: f"figures in {folder}")
        _drawn(figures, _figures(view))
        if view.paper is not None:
            view.paper.save_report(folder)
        path = folder / "report.html"
        write_atomically(path, page(view, provenance(study, results)).encode())
        list(drawing)
    return path


def _draw_examples(task: tuple[Path, Sequence[Example]], tell: object) -> None:
    folder, examples = task
    _drawn(folder, _of_examples(examples))


def provenance(study: Study, results: Results) -> dict[str, str]:
    """Where everything came from, in words."""
    facts = study.store.frozen().facts
    lines = {"study": study.spec.name, "begun": str(facts.get("begun", "at an unknown date"))}
    lines |= {f"version of {name}": str(value) for name, value in facts["versions"].items()}
    lines |= {f"data {data['name']}": f"fingerprint {data['fingerprint']}" for data in facts["data"]}
    lines |= {f"model {model['name']}": f"weights {model['weights']}" for model in facts["models"]}
    lines["units"] = str(len(study.units))
    if results.missing:
        lines["incomplete"] = f"{len(results.missing)} of {len(study.units)} units are missing"
    if weak := weak_models(study.models.values()):
        lines["warning"] = " ".join(weak)
    imports = [f"--import {module}" for module in facts.get("imports", [])]
    lines["check it"] = " ".join(("verax verify", study.store.folder.name, *imports))
    return lines
