"""What every page has in common: its frame, numbers to read, tables as compact JSON, and figures as inline SVG."""

import hashlib
import io
import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from verax.core.packages import __version__

_STILL = "default-src 'none'; style-src 'unsafe-inline'"  # nothing runs, and nothing is fetched


def template_file(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def rendered(template: str, policy: str = _STILL, **values: Any) -> str:
    """A page that shows these values as text, whatever they contain; a value that the template lacks is an error."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_file), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    css = Markup(template_file("page.css"))  # noqa: S704 - a file of this package
    return environment.get_template(template).render(css=css, policy=policy, version=__version__, **values)


MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def number(value: float | None, digits: int = 3) -> str:
    """A number to read: so many significant digits, a real minus sign, and a dash where there is none.

    Example:
        >>> number(0.04321), number(170.2, 2), number(123456.0), number(-2.0) == f"{MINUS}2", number(None) == DASH
        ('0.0432', '170', '123,456', True, True)
    """
    if value is None or not math.isfinite(value):
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 100 and digits < 4 else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def joined_words(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def signed(value: float | None) -> str:
    return DASH if value is None or not math.isfinite(value) else f"{value:+.2f}".replace("-", MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


def seconds(value: float | None) -> str:
    """A time span in the unit that people would use.

    Example:
        >>> seconds(0.00125), seconds(0.25), seconds(75.0), seconds(7500.0)
        ('1.2 ms', '0.25 s', '1.2 min', '2.1 h')
    """
    if value is None or not math.isfinite(value):
        return DASH
    for least, size, unit in ((3600.0, 3600.0, "h"), (60.0, 60.0, "min"), (0.1, 1.0, "s"), (1e-3, 1e-3, "ms")):
        if value >= least:
            return f"{number(value / size, 2)} {unit}"
    return f"{number(value / 1e-6, 2)} \N{MICRO SIGN}s"


DIGITS = 6


def encoded(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns of equal length in the form that ``page.js`` reads.

    Columns of text become a list of distinct words and numbers into it; floats are rounded to ``DIGITS`` significant
    digits; lists (curves) are rounded as well.

    Example:
        >>> encoded({"model": ["a", "b", "a"], "pc": [0.12345678, None, float("nan")]})
        {'model': {'words': ['a', 'b'], 'codes': [0, 1, 0]}, 'pc': [0.123457, None, None]}
    """
    form: dict[str, Any] = {}
    for name, values in columns.items():
        if any(isinstance(value, str) for value in values):
            places = {word: at for at, word in enumerate(dict.fromkeys(values))}
            form[name] = {"words": [_json_value(word) for word in places], "codes": [places[word] for word in values]}
        else:
            form[name] = [_json_value(value) for value in values]
    return form


def as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def script_json(value: Any) -> str:
    r"""JSON that may stand inside an HTML script element, whatever its texts contain.

    Example:
        >>> print(script_json({"a": "</script>"}))
        {"a":"\u003c/script\u003e"}
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


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
    prefix = f"{hashlib.sha256(description.encode()).hexdigest()[:8]}-"
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
            element.attrib[name] = (
                f"#{prefix}{value[1:]}" if name == "href" else value.replace("url(#", f"url(#{prefix}")
            )
        if "style" in element.attrib:
            style = element.attrib["style"].replace("#000000", "currentColor")
            element.attrib["style"] = style.replace("'DejaVu Sans'", "sans-serif")
        if element.tag == "g":
            element.attrib.pop("id", None)  # nothing refers to it
        elif "id" in element.attrib:
            element.attrib["id"] = prefix + element.attrib["id"]
    root.attrib.pop("height")
    width = 4 / 3 * figure.get_figwidth() * 72
    root.attrib |= {"width": f"{width:.0f}", "fill": "currentColor", "stroke-linejoin": "round"}
    root.attrib |= {"role": "img", "aria-label": description}
    return ET.tostring(root, encoding="unicode")
