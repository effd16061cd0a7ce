"""Figures as SVG that is the same every time: files, and pictures that stand in a page and take its colours."""

import hashlib
import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure


@contextmanager
def fixed_style(size: int) -> Iterator[None]:
    """Matplotlib's settings for figures that are drawn and written in the block, with letters of so many points."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", family="DejaVu Sans", size=size)  # comes with matplotlib, so that figures are alike everywhere
        mpl.rc("axes", titlesize=size + 1)
        mpl.rc("svg", hashsalt="verax")
        yield


def save(figure: Figure, path: Path) -> Path:
    """Write a figure without a date, with ids that depend on its content only."""
    _write(figure, path, metadata={"Date": None})
    return path


def _write(figure: Figure, file: Path | io.BytesIO, **options: Any) -> None:
    """Write a figure as SVG; one that is laid out already is not drawn a first time for nothing."""
    dpi = figure.dpi
    FigureCanvasSVG(figure)  # measures texts as they are written
    figure.dpi = 72  # what SVG counts in; pictures in it keep their own
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
    figure.savefig(file, format="svg", dpi=dpi, **options)


def inline(figure: Figure, description: str) -> str:
    """An SVG element of a figure drawn in ``fixed_style``, with a description for those who do not see it.

    Text stays text, black takes the page's colour, and the width gives way. Its ids begin with a hash of the
    description, so that no figure of a page takes a shape from another one, which may be hidden.
    """
    own = f"{hashlib.sha256(description.encode()).hexdigest()[:8]}-"
    written = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        _write(figure, written, transparent=True)
    root = ET.fromstring(written.getvalue())  # noqa: S314 - our own
    for element in root.iter():
        for child in list(element):
            if child.tag.endswith(("}metadata", "}style")):  # a style would rule the whole page
                element.remove(child)
        element.tag = element.tag.rpartition("}")[2]  # a page knows SVG without its namespaces
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.items()}
        for name, value in element.items():
            element.attrib[name] = f"#{own}{value[1:]}" if name == "href" else value.replace("url(#", f"url(#{own}")
        if "style" in element.attrib:
            style = element.attrib["style"].replace("#000000", "currentColor")
            element.attrib["style"] = style.replace("'DejaVu Sans'", "sans-serif")
        if element.tag == "g":
            element.attrib.pop("id", None)  # nothing refers to it
        elif "id" in element.attrib:
            element.attrib["id"] = own + element.attrib["id"]
    root.attrib.pop("height")
    width = 4 / 3 * figure.get_figwidth() * 72
    root.attrib |= {"width": f"{width:.0f}", "fill": "currentColor", "stroke-linejoin": "round"}
    root.attrib |= {"role": "img", "aria-label": description}
    return ET.tostring(root, encoding="unicode")
