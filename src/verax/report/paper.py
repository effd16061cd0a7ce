"""The paper's figures as SVG files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from verax.analysis.tables import Example, Tables
from verax.report import attributions, boxes, curves, scatter, twins, uncertainty
from verax.report.draw import paper_style, save
from verax.report.view import View

SHORT = {"pc": "pc", "dpc_magnitude": "dpc"}


def write_figures(folder: Path, tables: Tables, examples: Sequence[Example]) -> list[Path]:
    """Draw the paper's figures from a study, each as an SVG file, and return the files written.

    The same tables give the same bytes. A figure for which the study has no data is left out.

    Args:
        folder: Where to write; made if need be.
        tables: What the study measured.
        examples: A few explained inputs per model; may be empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    view = View(tables, tuple(examples))
    with paper_style():
        return [save(figure, folder / f"{name}.svg") for name, figure in _figures(view)]


def _figures(view: View) -> Iterator[tuple[str, Figure]]:
    for metric, short in SHORT.items():
        if view.measured(metric):
            yield f"methods-{short}", boxes.figure(view, metric)
            if twins.twin_methods(view):
                yield f"twins-{short}", twins.figure(view, metric)
    for lime, name in ((True, "scatter-lime"), (False, "scatter-others")):
        if scatter.models(view, lime):
            yield name, scatter.figure(view, lime)
    if view.uncertainty.height:
        yield "uncertainty", uncertainty.figure(view)
    shown = [example for example in view.examples if attributions.has_content(example)]
    for at, example in enumerate(shown, start=1):
        yield f"curves-{at}", curves.figure(example)
        yield f"attributions-{at}", attributions.figure(example)
