"""The charts of the page, drawn without a browser by Vega in vl-convert, and what is in them."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import vl_convert

from report.html import Page, rows
from verax.report.view import View

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def page(report: Path) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def drawn(page: Page, name: str, **choices: Any) -> ET.Element:
    """A chart as SVG, with other choices than at first."""
    found = page.json("charts")[name]
    spec = found["vega_lite"]
    for parameter in spec["params"]:
        parameter["value"] = choices.get(parameter["name"], parameter.get("value"))
        if parameter["value"] is None:
            del parameter["value"]
    spec["datasets"] = {table: rows(page.json("data")[table]) for table in found["tables"]}
    return ET.fromstring(vl_convert.vegalite_to_svg(spec, show_warnings=True))  # noqa: S314 - our own


def marks(svg: ET.Element, kind: str, role: str = "role-mark") -> list[ET.Element]:
    """Elements of the marks of this kind, e.g. ``mark-symbol``."""
    groups = [g for g in svg.iter(f"{SVG}g") if {kind, role} <= set(str(g.get("class")).split())]
    return [one for group in groups for one in group]


def texts(svg: ET.Element) -> list[str]:
    return ["".join(one.itertext()) for one in svg.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "name",
    ["boxes-pc", "boxes-dpc_signed", "boxes-other", "input-factor-pc", "input-factor-dpc_signed", "scatter-lime",
     "scatter-others", "uncertainty-values", "uncertainty-errors", "curves-pc", "curves-dpc", "bars-0"],
)  # fmt: skip
def test_chart_is_drawn(page: Page, name: str) -> None:
    svg = drawn(page, name)
    found = [one for kind in ("symbol", "rect", "line", "rule") for one in marks(svg, f"mark-{kind}")]
    assert len(found) > 10
    assert not [text for text in texts(svg) if text in ("undefined", "null", "NaN")]


def test_box_plot_shows_every_configuration_and_every_method(page: Page, view: View) -> None:
    svg = drawn(page, "boxes-pc")
    assert len(marks(svg, "mark-symbol")) == view.summary.height
    said = texts(svg)
    assert set(view.labels) | set(view.models) <= set(said)


def test_chosen_metric_changes_the_chart(page: Page) -> None:
    def places(metric: str) -> list[str | None]:
        return [one.get("transform") for one in marks(drawn(page, "boxes-other", metric=metric), "mark-symbol")]

    assert places("infidelity") != places("dpc_magnitude")


@pytest.mark.parametrize("model", ["HELOC-MLP", "ISIC-Inception"])
def test_scatter_marks_the_pareto_set_of_the_chosen_model(page: Page, view: View, model: str) -> None:
    svg = drawn(page, "scatter-lime", model=model)
    own = view.lime.filter(pl.col("model") == model)
    assert len(marks(svg, "mark-symbol")) == own.height
    agreement, best = view.agreements[model, True], view.pareto_set.filter(pl.col("model") == model).height
    (title,) = [text for text in texts(svg) if text.startswith(f"{model}: Spearman")]
    assert f"{abs(agreement.spearman.mean):.2f}" in title
    assert f"{agreement.configurations} configurations" in title
    assert f"{best} in the Pareto set" in title
    shapes = Counter(one.get("d") for one in marks(svg, "mark-symbol"))
    assert best in shapes.values()


def test_pairs_are_joined(page: Page, view: View) -> None:
    lines = marks(drawn(page, "input-factor-pc"), "mark-line")
    assert len(lines) == len(view.models) * (4 + 12)


def test_curves_follow_the_chosen_input_and_method(page: Page, view: View) -> None:
    def lines(**choices: str) -> list[str | None]:
        return [line.get("d") for line in marks(drawn(page, "curves-dpc", **choices), "mark-line")]

    first = lines(input="0 HELOC-MLP", method="LIME")
    assert len(first) == 4  # best and worst, each from both ends
    assert first != lines(input="1 HELOC-MLP", method="LIME")
    assert first != lines(input="0 HELOC-MLP", method="SmoothGrad")
    said = texts(drawn(page, "curves-dpc", input="0 ISIC-Inception", method="Edges"))
    assert any(text.startswith("worst, DPC") for text in said)


def test_bars_name_features(page: Page, view: View) -> None:
    svg = drawn(page, "bars-0")
    assert any(text.startswith("ExternalRiskEstimate = ") for text in texts(svg))
    assert len(marks(svg, "mark-rect")) == 20 * 8


def test_page_states_numbers_of_the_data(page: Page, view: View) -> None:
    data: Mapping[str, Any] = page.json("data")
    found = rows(data["configurations"])
    assert sum(row["pareto"] for row in found) == view.pareto_set.height
    assert sum(row["near_zero"] for row in found) == view.near_zero.height > 0
    assert {row["setting replacement"] for row in found} == {None, "segment", "image", "dataset"}
