"""Both reports as a browser shows them: every chart drawn, no error, no request, and what a reader can do."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import calls
import verax
from report.browser import CHROMIUM, Browser, browser
from report.html import Page
from report.synthetic import PROVENANCE, examples, renamed, study
from verax.auditing import cases
from verax.monitoring import Monitor
from verax.problem.text.example import small_classifier, small_tokenizer
from verax.report import write_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, chromium-browser or google-chrome")
NASTY = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
TEXTS = [f"a good  film {NASTY.replace(' ', '_')} & more\nof it", "word" * 200, "bad"]
OUTSIDE = """
const scrolled = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolled(e.parentElement));
const out = [...document.querySelectorAll("body *")].filter((e) => {
  const r = e.getBoundingClientRect();
  return r.width > 0 && (r.right > innerWidth + 1 || r.left < -1) && !scrolled(e.parentElement);
});
return [document.documentElement.scrollWidth > innerWidth, out.map((e) => e.outerHTML.slice(0, 80))];
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as one:
        yield one


@pytest.fixture
def opened(chromium: Browser, report: Path) -> Browser:
    chromium.open(report)
    return chromium


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of three attributions, two of them with names that are hard to show."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(4, 2), torch.randn(9, 4)
    given = {"itself": x, NASTY: -x, "averyveryverylongnamewithoutanyspaceinit" * 3: x * x}
    path = tmp_path_factory.mktemp("comparison") / "report.html"
    calls.compare(model, x, given, samples=20).save(path)
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of texts, one of them hard to show."""
    pytest.importorskip("transformers")
    tokenizer = small_tokenizer(*TEXTS)
    problem = verax.text.classification(small_classifier(tokenizer), tokenizer, TEXTS)
    generator = torch.Generator().manual_seed(0)
    given = {name: torch.randn(problem.inputs.shape, generator=generator) for name in ("ig", "lime")}
    path = tmp_path_factory.mktemp("texts") / "report.html"
    verax.compare(problem, given, ["pc"]).save(path)
    return path


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a monitor whose track has a long name."""
    path = tmp_path_factory.mktemp("monitor") / "report.html"
    torch.manual_seed(0)
    model, watched = torch.nn.Linear(4, 2), Monitor()
    for day in ("monday", "tuesday"):
        x = torch.randn(120, 4)
        given = {
            "averyveryverylongnamewithoutanyspaceinit": x * calls.explained(verax.attribution.Gradient(), model, x)
        }
        watched.fold(calls.evaluate(model, x, given, ["pc"]), label=day)
    watched.report(path)
    return path


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an audit."""
    path = tmp_path_factory.mktemp("audit") / "report.html"
    few = cases(inputs=8)[:1]
    calls.audit(metrics=["pc", "dpc"], cases=few, replacements=["baseline"], trials=["truth_wins"]).save(path)
    return path


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a search."""
    pytest.importorskip("optuna")
    path = tmp_path_factory.mktemp("search") / "report.html"
    torch.manual_seed(0)
    methods = [verax.attribution.Gradient(), verax.attribution.Random()]
    calls.tune(torch.nn.Linear(4, 2), torch.randn(8, 4), methods).save(path)
    return path


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
    assert opened.console == []
    assert [url for url in opened.requests if not url.startswith("data:image/png;")] == [report.as_uri()]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", ["report", "comparison", "texts", "monitor", "audit", "search"])
def test_nothing_overflows(chromium: Browser, request: pytest.FixtureRequest, name: str, width: int) -> None:
    chromium.resize(width)
    try:
        chromium.open(request.getfixturevalue(name))
        assert chromium.run(OUTSIDE) == [False, []]
    finally:
        chromium.resize(1280)


def test_the_chart_of_a_monitor_shrinks_to_the_page(chromium: Browser, monitor: Path) -> None:
    chromium.resize(400)
    try:
        chromium.open(monitor)
        script = "const c = document.querySelector('.chart'); return [c.scrollWidth <= c.clientWidth, c.clientWidth]"
        assert chromium.run(script)[0]
        drawn = chromium.run("return document.querySelector('.chart svg').getBoundingClientRect().width")
        assert 300 < drawn <= 400  # and no smaller than it must be
    finally:
        chromium.resize(1280)


def test_a_choice_changes_the_curves_of_a_comparison(chromium: Browser, comparison: Path) -> None:
    shown = "return [...document.querySelectorAll('#curves-2 .panel')].map(p => p.checkVisibility())"
    chromium.open(comparison)
    assert chromium.run(shown) == [True] * 4  # three attributions, and the random one beside them
    before = chromium.run("return document.querySelector('#curves-2 .panel svg').getBoundingClientRect().width")
    chromium.click("#curves-2 input[value='2']")
    assert chromium.run(shown) == [False, True, False, False]
    assert chromium.run("return [...document.querySelectorAll('#curves-1 .panel')].every(p => p.checkVisibility())")
    script = "return document.querySelector('#curves-2 .panel[data-at=\"2\"] svg').getBoundingClientRect().width"
    assert chromium.run(script) > before
    chromium.click("#curves-2 input[value='0']")
    assert chromium.run(shown) == [True] * 4
    assert (chromium.console, chromium.requests) == ([], [comparison.as_uri()])


def test_no_figure_of_a_comparison_borrows_from_another(chromium: Browser, comparison: Path) -> None:
    """One that is hidden has nothing to lend."""
    chromium.open(comparison)
    ids = chromium.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    used = chromium.run("return [...document.querySelectorAll('use')].map(e => e.getAttribute('href').slice(1))")
    assert used
    assert set(used) <= set(ids)


def test_names_of_a_comparison_stay_text(chromium: Browser, comparison: Path) -> None:
    chromium.open(comparison)
    assert "broken" not in chromium.run("return document.title")
    assert chromium.run("return [document.images.length, document.scripts.length]") == [0, 0]
    named = "return [...document.querySelectorAll('th, label, svg text')].map(e => e.textContent.trim())"
    assert chromium.run(named).count(NASTY) == 1 + 3 + 2  # the table, three rankings, two choices
    assert chromium.console == []


def test_what_is_copied_from_texts_is_the_text(chromium: Browser, texts: Path) -> None:
    chromium.open(texts)
    copied = (
        "const s = getSelection(); return [...document.querySelectorAll('.text')].map("
        "(e) => { s.selectAllChildren(e); return s.toString(); })"
    )
    assert chromium.run(copied) == [text for text in TEXTS for _ in ("most", "least")]
    assert chromium.run("return [document.images.length, document.scripts.length, document.title]")[:2] == [0, 0]
    assert (chromium.console, chromium.requests) == ([], [texts.as_uri()])


CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const paper = parts(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll(".text span")].map((e) => {
  const [r, g, b, alpha = 1] = parts(getComputedStyle(e).backgroundColor);
  const below = light([r, g, b].map((v, at) => alpha * v + (1 - alpha) * paper[at]));
  const ink = light(parts(getComputedStyle(e).color).slice(0, 3));
  return (Math.max(below, ink) + 0.05) / (Math.min(below, ink) + 0.05);
});
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_coloured_tokens_can_be_read(chromium: Browser, texts: Path, scheme: str) -> None:
    """Contrast of text and ground by WCAG 2, of which 4.5 is wanted."""
    chromium.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        chromium.open(texts)
        found = chromium.run(CONTRAST)
    finally:
        chromium.command("Emulation.setEmulatedMedia", features=[])
    assert len(found) > 10
    assert min(found) > 4.5
    assert max(found) > min(found) + 1  # some are coloured more than others


def test_choices_change_the_charts(opened: Browser) -> None:
    for signal, charts, value in (
        ("metric", ["boxes-other"], "infidelity"),
        ("model", ["scatter-lime", "scatter-others"], "ISIC-Inception"),
        ("colour", ["scatter-lime"], "setting kernel_width"),
        ("input", ["curves-pc", "curves-dpc"], "1 ISIC-Inception"),
        ("method", ["curves-pc", "curves-dpc"], "DeepLiftSHAP"),
        ("input", ["bars-0"], "1 HELOC-MLP"),
        ("role", ["bars-0"], "worst"),
    ):
        before = [drawing(opened, chart) for chart in charts]
        choose(opened, signal, charts[0], value)
        for chart, old in zip(charts, before, strict=True):
            opened.wait(f"return document.querySelector('#chart-{chart} svg.marks').outerHTML !== arguments[0]", old)
    assert opened.console == []


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
    plain = study(("HELOC-Linear",), inputs=4, every=60)
    tables = renamed(plain, lambda name: name + NASTY)
    (example,) = examples(plain, count=1)
    example = replace(example, model=tables.models[0].name, input_ids=(NASTY,), class_names=(NASTY, NASTY))
    write_report(tmp_path / "nasty.html", tables, [example], {NASTY: NASTY, **PROVENANCE})
    chromium.open(tmp_path / "nasty.html")
    assert "broken" not in chromium.run("return document.title")
    assert chromium.run("return document.querySelectorAll('.chart svg.marks').length") == 12
    assert chromium.run("return document.querySelectorAll('img').length") == 0
    chromium.point_at("#chart-scatter-others .mark-symbol.role-mark path")
    assert chromium.console == []
