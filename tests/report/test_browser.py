"""The report as a browser shows it: every chart drawn, no error, no request, and what a reader can do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from report.browser import CHROMEDRIVER, CHROMIUM, Browser, browser
from report.html import Page
from report.synthetic import PROVENANCE, examples, renamed, study
from verax.report import write_report

pytestmark = pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture
def opened(chromium: Browser, report: Path) -> Browser:
    chromium.log("browser")
    chromium.log("performance")
    chromium.open(report)
    return chromium


def choose(browser: Browser, signal: str, chart: str, value: str) -> None:
    """Choose as a person does, and wait for the chart."""
    select = f"select[data-signal={signal}][data-charts~='{chart}']"
    browser.run(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))",
        select,
        value,
    )


def drawing(browser: Browser, chart: str) -> str:
    return str(browser.run(f"return document.querySelector('#chart-{chart} svg.marks').outerHTML"))


def test_every_chart_is_drawn_without_error_or_request(opened: Browser, report: Path) -> None:
    wanted = Page(report.read_text(encoding="utf-8")).json("charts")
    script = (
        "return [...document.querySelectorAll('.chart')].map(c => [c.id, c.querySelectorAll('svg.marks path').length])"
    )
    counts = dict(opened.run(script))
    assert set(counts) == {f"chart-{name}" for name in wanted}
    assert min(counts.values()) > 10
    assert opened.log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in opened.log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:image/png;")] == [report.as_uri()]


@pytest.mark.parametrize(
    ("signal", "chart", "value"),
    [
        ("metric", "boxes-other", "infidelity"),
        ("model", "scatter-lime", "ISIC-Inception"),
        ("model", "scatter-others", "ISIC-Inception"),
        ("colour", "scatter-lime", "setting kernel_width"),
        ("input", "curves-pc", "1 ISIC-Inception"),
        ("method", "curves-dpc", "DeepLiftSHAP"),
        ("input", "bars-0", "1 HELOC-MLP"),
        ("role", "bars-0", "worst"),
    ],
)
def test_choice_changes_the_chart(opened: Browser, signal: str, chart: str, value: str) -> None:
    before = drawing(opened, chart)
    choose(opened, signal, chart, value)
    changed = f"return document.querySelector('#chart-{chart} svg.marks').outerHTML !== {json.dumps(before)}"
    opened.wait(changed)
    assert opened.log("browser") == []


def test_choices_show_what_the_charts_show(opened: Browser, report: Path) -> None:
    specs = Page(report.read_text(encoding="utf-8")).json("charts")
    script = "return [...document.querySelectorAll('select')].map(s => [s.dataset.signal, s.dataset.charts, s.value])"
    for signal, charts, value in opened.run(script):
        for chart in charts.split():
            (first,) = [one["value"] for one in specs[chart]["vega_lite"]["params"] if one["name"] == signal]
            assert value == first


def test_pointing_at_a_dot_shows_its_settings(opened: Browser) -> None:
    opened.point_at("#chart-scatter-others .mark-symbol.role-mark path")
    opened.wait("return document.querySelector('#vg-tooltip-element.visible') !== null")
    said = opened.run("return document.querySelector('#vg-tooltip-element').textContent")
    assert "configuration" in said
    assert "DPC" in said


def test_tables_are_sorted_by_number(opened: Browser) -> None:
    head = "#run table.sortable th:nth-child(3) button"
    assert opened.run("return document.querySelector('#run table.sortable') !== null")
    for order in ("ascending", "descending"):
        opened.run("document.querySelector(arguments[0]).click()", head)
        script = (
            "const t = document.querySelector('#run table.sortable'), column = t.tHead.rows[0].cells[2];"
            "return [column.getAttribute('aria-sort'), [...t.tBodies[0].rows].map(r => r.cells[2].textContent)]"
        )
        state, cells = opened.run(script)
        values = [int(cell.replace(",", "")) for cell in cells]
        assert state == order
        assert values == sorted(values, reverse=order == "descending")


def test_names_of_users_run_no_script(chromium: Browser, tmp_path: Path) -> None:
    nasty = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
    plain = study(("HELOC-Linear",), inputs=4, every=60)
    tables = renamed(plain, lambda name: name + nasty)
    (example,) = examples(plain, count=1)
    example = replace(example, model=tables.models[0].name, input_ids=(nasty,), class_names=(nasty, nasty))
    write_report(tmp_path / "nasty.html", tables, [example], {nasty: nasty, **PROVENANCE})
    chromium.log("browser")
    chromium.open(tmp_path / "nasty.html")
    assert "broken" not in chromium.run("return document.title")
    assert chromium.run("return document.querySelectorAll('.chart svg.marks').length") == 12
    assert chromium.run("return document.querySelectorAll('img').length") == 0
    chromium.point_at("#chart-scatter-others .mark-symbol.role-mark path")
    assert chromium.log("browser") == []
