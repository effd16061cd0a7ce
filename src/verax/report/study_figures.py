"""The paper's figures as SVG files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from verax.report import attributions, boxes, curves, epsilon, input_factor, scatter, uncertainty
from verax.report.svg import fixed_style, save
from verax.report.view import View
from verax.study.tables import LEADING_DPC, Example, Tables, joined

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
    """Those of the examples."""
    return _drawn(folder, _of_examples(examples))


def _drawn(folder: Path, figures: Iterator[tuple[str, Figure]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with fixed_style(_SIZE):
        return [save(figure, folder / f"{name}.svg") for name, figure in figures]


def write_joint_figures(folder: Path, several: Sequence[Tables]) -> list[Path]:
    """Draw the paper's figures over several studies, all models in one figure each, and return the files written.

    Args:
        folder: Where to write; made if need be.
        several: What each study measured; their models have different names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    view = View(joined(several), ())
    with (
        fixed_style(_SIZE),
        mpl.rc_context({"svg.fonttype": "none"}),
    ):  # letters as outlines would take most of the file
        return [save(figure, folder / f"{name}.svg") for name, figure in _over_configurations(view)]


def _figures(view: View) -> Iterator[tuple[str, Figure]]:
    yield from _over_configurations(view)
    if epsilon.series(view):
        yield "epsilon", epsilon.figure(view)
    if view.uncertainty.height:
        yield "uncertainty", uncertainty.figure(view)


def _of_examples(examples: Sequence[Example]) -> Iterator[tuple[str, Figure]]:
    shown = [example for example in examples if curves.has_content(example)]
    for at, example in enumerate(shown, start=1):
        yield f"curves-{at}", curves.figure(example)
        yield f"attributions-{at}", attributions.figure(example)


def _over_configurations(view: View) -> Iterator[tuple[str, Figure]]:
    for metric in view.main:
        name = "dpc" if metric.column == LEADING_DPC else re.sub(r"\W+", "-", metric.column)
        yield f"methods-{name}", boxes.figure(view, metric)
        if input_factor.paired_methods(view):
            yield f"input-factor-{name}", input_factor.figure(view, metric)
    for lime, name in ((True, "scatter-lime"), (False, "scatter-others")):
        if scatter.models(view, lime):
            yield name, scatter.figure(view, lime)
