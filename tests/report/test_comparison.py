"""The short report of a comparison."""

import re

import matplotlib as mpl
import pytest
import torch

import verax
from report.html import Page
from verax.evaluation.compare import Comparison
from verax.report.comparison import comparison_page

NASTY = "<script>&$x$ #000000"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=generator)
    given = {"itself": x, NASTY: -x, "a name that is longer than the room beside a chart": x * x}
    return verax.compare(torch.nn.Linear(4, 2), x, given, samples=10)


def test_the_page_is_the_same_every_time_whatever_the_user_has_set(comparison: Comparison) -> None:
    first = comparison_page(comparison, {"model": "linear"})
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "other", "svg.fonttype": "path"}):
        assert comparison_page(comparison, {"model": "linear"}) == first


def test_every_metric_has_a_chart_that_names_stand_in_as_text(comparison: Comparison) -> None:
    text = comparison_page(comparison, {NASTY: NASTY})
    page = Page(text)
    assert text.count("<svg") == len(comparison.metrics) == 3
    assert not page.scripts
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for chart, metric in zip(charts, comparison.metrics, strict=True):
        shown = Page(chart)
        assert NASTY in shown.text
        assert f"{comparison.evaluation.label(metric)}: mean" in str(shown.all("svg")[0]["aria-label"])
        dots = {use["href"] for use in shown.all("use") if "#0072b2" in str(use) or "#808080" in str(use)}
        assert len([use for use in shown.all("use") if use["href"] in dots]) == 3


def test_charts_take_the_colours_of_the_page_give_way_and_need_no_network(comparison: Comparison) -> None:
    text = comparison_page(comparison, {})
    for chart in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        (root,) = Page(chart).all("svg")
        assert root["fill"] == "currentColor"
        assert "viewbox" in root
        assert "height" not in root
        styles = re.findall('style="([^"]*)"', chart)
        assert not [style for style in styles if "#000000" in style or "#ffffff" in style]
        assert "stroke: currentColor" in chart
        assert all(where.startswith("#") for where in re.findall(r"""(?:href="|url\()([^")]*)""", chart))
    assert "://" not in text


def test_one_input_and_one_attribution_have_no_interval() -> None:
    x = torch.ones(1, 4)
    page = comparison_page(verax.compare(torch.nn.Linear(4, 2), x, {"only": x}, ["pc"]), {})
    assert page.count("<svg") == 1
    assert "is the only one" in page
