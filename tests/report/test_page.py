"""The HTML report: what it says, that it needs nothing else, and that names from users stay text."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import verax.report
from paper.synthetic import COLUMNS, without_metrics
from report.html import Page, rows
from report.synthetic import PROVENANCE, examples, renamed, study, without
from verax.core.palette import SPARE
from verax.paper.claims import claims
from verax.report import write_figures, write_report
from verax.report.page import SECTIONS
from verax.report.view import View
from verax.study.tables import (
    COSTS_SCHEMA,
    UNCERTAINTY_SCHEMA,
    Example,
    MetricInfo,
    ModelInfo,
    Tables,
    empty,
    scores_schema,
)

EVERYTHING = {
    "boxes-pc", "boxes-dpc_signed", "boxes-other", "input-factor-pc", "input-factor-dpc_signed", "scatter-lime",
    "scatter-others", "uncertainty-values", "uncertainty-errors", "curves-pc", "curves-dpc", "bars-0",
}  # fmt: skip
NASTY = """<script>alert(1)</script> & "quoted" 'single' {{ 7 * 7 }} </script> $x^2$"""


def written(path: Path, tables: Tables, shown: Sequence[Example] = ()) -> Page:
    write_report(path, tables, shown, PROVENANCE)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(report: Path) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def test_sections_stand_in_order(page: Page) -> None:
    assert [section["id"] for section in page.all("section")] == list(SECTIONS)
    assert [link["href"] for link in page.all("a")] == [f"#{name}" for name in SECTIONS]
    assert len(page.all("h1")) == 1
    assert len(page.all("h2")) == len(page.all("article")) + len(SECTIONS)


def test_every_chart_has_a_place_and_data(page: Page) -> None:
    specs, data = page.json("charts"), page.json("data")
    assert set(specs) == EVERYTHING
    places = [place["id"] for place in page.all("div", **{"class": "chart"})]
    assert sorted(places) == sorted(f"chart-{name}" for name in specs)
    assert all(name in data for spec in specs.values() for name in spec["tables"])
    assert all(spec["vega_lite"]["description"] for spec in specs.values())


def test_every_choice_names_charts_and_parameters_that_exist(page: Page) -> None:
    specs = page.json("charts")
    chosen = page.all("select")
    assert {one["data-signal"] for one in chosen} == {"metric", "model", "colour", "input", "method", "role"}
    for one in chosen:
        for chart in str(one["data-charts"]).split():
            assert one["data-signal"] in {parameter["name"] for parameter in specs[chart]["vega_lite"]["params"]}


def test_pictures_and_tables_are_described(page: Page) -> None:
    pictures = page.all("img")
    assert len(pictures) == 2 + 2 * 2 * 9  # two inputs in grey; best and worst of nine methods for each
    assert all(picture["alt"] for picture in pictures)
    assert all(str(picture["src"]).startswith("data:image/png;base64,") for picture in pictures)
    assert all(head.get("scope") for head in page.all("th"))


def test_head_says_what_the_tables_say(page: Page, tables: Tables) -> None:
    means = tables.scores.group_by("model", "method", "configuration").agg(pl.col("dpc_signed", "pc").mean())
    for metric, others in (
        ("dpc_signed", "a local method best on 2 of 2"),
        ("pc", "a baseline-oriented method best"),
    ):
        for model in tables.models:
            best = means.filter(pl.col("model") == model.name).sort(metric)["configuration"].cast(pl.String)[-1]
            assert page.all("span", title=best), (model.name, metric)
        assert others in page.text
    verdicts = [claim.verdict for claim in claims(tables)]
    reproduced, measured = verdicts.count("reproduced"), len(verdicts) - verdicts.count("not measured")
    assert f"{reproduced} of {measured} measured were reproduced" in page.text
    assert f"2 models on heloc, isic: {means.height:,} explanations" in page.text


def test_page_holds_every_configuration_once(page: Page, tables: Tables) -> None:
    found = rows(page.json("data")["configurations"])
    means = tables.scores.group_by("model", "configuration").agg(pl.col(*COLUMNS).mean())
    assert len(found) == means.height
    wanted = {(row["model"], row["configuration"]): row for row in means.iter_rows(named=True)}
    for row in found:
        for metric in COLUMNS:
            assert row[metric] == pytest.approx(wanted[row["model"], row["configuration"]][metric], rel=1e-5)


def test_claims_show_words_and_symbols(page: Page, tables: Tables) -> None:
    for symbol, word in (("✓", "reproduced"), ("✗", "not reproduced")):
        assert f"{symbol} {word}" in page.text
    assert all(str(claim.claim) in page.text for claim in claims(tables))


def test_claims_are_shown_under_every_reading(page: Page, tables: Tables) -> None:
    answered = View(tables, ()).paper
    found = answered.readings
    assert found is not None
    assert "The same claims under other readings" in page.text
    asked = [claim for row in found.rows for claim in row.claims if claim]
    for verdict in ("reproduced", "not reproduced"):
        own = [claim for claim in answered.claims if claim.verdict == verdict]
        many = sum(claim.verdict == verdict for claim in asked)
        cells = page.all("td", **{"class": f"verdict {verdict.replace(' ', '-')}"})
        assert len(cells) == many + 2 * len(own)  # each of the paper's own in the matrix and in its details, too
    for count in found.survivors:
        assert count in page.text


def test_provenance_and_settings_are_shown(page: Page, tables: Tables) -> None:
    for name, value in {**PROVENANCE, **tables.settings}.items():
        assert str(name) in page.text
        assert str(value) in page.text


def test_nothing_is_fetched(page: Page, report: Path) -> None:
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#")), (tag, name, value)
    assert not page.all("link")
    assert not page.all("iframe")
    text = report.read_text(encoding="utf-8")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    ours = page.scripts[-1][1]
    assert "http" not in ours
    assert "fetch(" not in ours
    assert "://" not in str(page.json("charts"))


def test_policy_allows_these_scripts_and_no_requests(page: Page) -> None:
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    content = str(policy["content"])
    running = [text for attributes, text in page.scripts if attributes.get("type") is None]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in running]
    assert re.findall(r"'sha256-([^']+)'", content) == hashes
    assert content.startswith("default-src 'none';")
    assert "unsafe-eval" not in content


def test_page_is_small(report: Path) -> None:
    assert report.stat().st_size < 3_000_000


def test_same_tables_give_the_same_bytes(
    report: Path, tables: Tables, shown: Sequence[Example], tmp_path: Path
) -> None:
    write_report(tmp_path / "again.html", tables, shown, PROVENANCE)
    assert (tmp_path / "again.html").read_bytes() == report.read_bytes()


def test_names_stay_text(tmp_path: Path) -> None:
    tables = renamed(study(("HELOC-Linear",), inputs=4, every=60), lambda name: f"{name} {NASTY}")
    (example,) = examples(study(("HELOC-Linear",), inputs=4, every=60), count=1)
    example = replace(
        example,
        model=tables.models[0].name,
        class_names=(f"Good {NASTY}", "Bad"),
        feature_names=tuple(f"{name} {NASTY}" for name in example.feature_names),
        input_ids=(f"id {NASTY}",),
    )
    model = ModelInfo(**{**vars(tables.models[0]), "dataset": f"data {NASTY}", "architecture": NASTY})
    tables = replace(tables, models=(model,), settings={f"setting {NASTY}": NASTY})
    write_report(tmp_path / "nasty.html", tables, [example], {f"key {NASTY}": f"value {NASTY}"})
    page = Page((tmp_path / "nasty.html").read_text(encoding="utf-8"))
    assert len(page.scripts) == 4
    assert {attributes.get("id") for attributes, _ in page.scripts} == {"data", "charts", None}
    squeezed = " ".join(NASTY.split())
    for where in ("HELOC-Linear", "data", "id", "setting", "key", "value"):
        assert f"{where} {squeezed}" in page.text
    (features, *_) = page.json("data")["bars"]["feature"]
    assert features[0].startswith(f"ExternalRiskEstimate {NASTY} = ")


def test_one_model_without_lime_uncertainty_examples_and_costs(tmp_path: Path) -> None:
    tables = study(("HELOC-Linear",), inputs=4, uncertain=False)
    scores = tables.scores.filter(~pl.col("method").cast(pl.String).str.starts_with("Lime"))
    page = written(tmp_path / "page.html", replace(tables, scores=scores, costs=empty(COSTS_SCHEMA), settings={}))
    assert set(page.json("charts")) == {
        "boxes-pc", "boxes-dpc_signed", "boxes-other", "input-factor-pc", "input-factor-dpc_signed",
        "scatter-others",
    }  # fmt: skip
    for said in ("no configurations of LIME", "no table of Infidelity's uncertainty", "keeps no example inputs"):
        assert said in page.text
    assert "1 model on heloc" in page.text


@pytest.mark.parametrize(
    ("columns", "gone", "said"),
    [
        (
            ("infidelity_plain", "infidelity_plain_se", "infidelity", "infidelity_se"),
            {"scatter-lime", "scatter-others"},
            "Not measured in this study: Infidelity, plain, Infidelity, normalised.",
        ),
        (("infidelity_plain", "infidelity_plain_se"), set(), "Not measured in this study: Infidelity, plain."),
        (("pc",), {"boxes-pc", "input-factor-pc"}, "Not measured in this study: PC."),
        (
            ("dpc_signed", "dpc_magnitude", "dpc_literal"),
            {"boxes-dpc_signed", "input-factor-dpc_signed", "scatter-lime", "scatter-others"},
            "Not measured in this study: DPC, DPC, signed order, DPC, literal.",
        ),
        (
            COLUMNS,
            {name for name in EVERYTHING if name.startswith(("boxes", "input-factor", "scatter"))},
            "This study measured nothing.",
        ),
    ],
)
def test_metrics_left_out_are_said(tmp_path: Path, columns: Sequence[str], gone: set[str], said: str) -> None:
    tables = without(study(("HELOC-MLP",), inputs=4, every=60), columns)
    page = written(tmp_path / "page.html", tables)
    examples_too = {"curves-pc", "curves-dpc", "bars-0"}
    assert set(page.json("charts")) == EVERYTHING - gone - examples_too
    assert said in page.text


def test_empty_study(tmp_path: Path) -> None:
    nothing = Tables(empty(scores_schema([])), empty(UNCERTAINTY_SCHEMA), (), {}, empty(COSTS_SCHEMA), ())
    page = written(tmp_path / "page.html", nothing)
    assert page.json("charts") == {}
    assert "No models." in page.text


def test_an_incomplete_study_says_so_at_the_top(tmp_path: Path, report: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, study(("HELOC-MLP",), inputs=2), (), {**PROVENANCE, "incomplete": "3 of 9 units are missing"})
    header = path.read_text(encoding="utf-8").partition("</header>")[0]
    assert "This study is incomplete: 3 of 9 units are missing." in header
    assert "incomplete" not in report.read_text(encoding="utf-8").partition("</header>")[0]


def test_a_study_with_a_metric_of_its_own_and_without_infidelity(tmp_path: Path) -> None:
    first = MetricInfo("my drop['<b>']", "My <b>drop</b>", higher_is_better=False, kind="baseline", noisy=True)
    tables = without_metrics(study(("HELOC-MLP",), inputs=4, every=60), *(name for name in COLUMNS if name != "pc"))
    values = (-pl.col("pc").cast(pl.Float64)).alias(first.column), (pl.col("pc") * 0).alias(f"{first.column}_se")
    metrics = (*tables.metrics, first)
    scores = tables.scores.with_columns(values).select(list(scores_schema(metrics)))
    shown = examples(tables, count=1)
    page = written(tmp_path / "page.html", replace(tables, scores=scores, metrics=metrics), shown)
    assert {"boxes-pc", "boxes-other"} <= set(page.json("charts"))
    assert "This study did not measure both DPC and Infidelity." in page.text
    assert "best under PC" in page.text
    assert "Spearman," not in page.text
    (options,) = (one for one in page.elements if one == ("option", {"value": first.column}))
    assert options
    assert "My <b>drop</b> (lower is better)" in page.text
    assert not page.all("b")
    found = rows(page.json("data")["configurations"])
    assert [row[first.column] for row in found] == pytest.approx([-row["pc"] for row in found], rel=1e-5)
    only = replace(tables, scores=scores.select(list(scores_schema([first]))), metrics=(first,))
    alone = written(tmp_path / "alone.html", only)
    assert {f"boxes-{first.column}", f"input-factor-{first.column}"} <= set(alone.json("charts"))
    assert f"{first.label} rates" in alone.text
    assert len(write_figures(tmp_path, only, [])) == 3


def test_a_method_that_is_not_defined_here_is_shown_by_its_name(tmp_path: Path) -> None:
    tables = study(("HELOC-MLP",), inputs=4, every=60)
    names = pl.col("method", "configuration").cast(pl.String).str.replace("^DeepLiftSHAP", "Elsewhere")
    foreign = replace(tables, scores=tables.scores.with_columns(names))
    page = written(tmp_path / "page.html", foreign, examples(tables, count=1))
    found = [row for row in rows(page.json("data")["configurations"]) if row["method"] == "Elsewhere"]
    assert {(row["name"], row["label"], row["kind"]) for row in found} == {
        ("Elsewhere", "Elsewhere", "local"),
        ("Elsewhere", "Elsewhere", "baseline-oriented"),
    }
    colours = page.json("charts")["scatter-others"]["vega_lite"]["encoding"]["color"]["scale"]
    assert dict(zip(colours["domain"], colours["range"], strict=True))["Elsewhere"] == SPARE[0]


def test_all_pages_share_one_frame() -> None:
    folder = Path(verax.report.__file__).parent / "templates"
    framed = [path.name for path in sorted(folder.glob("*.html")) if "<!DOCTYPE" in path.read_text(encoding="utf-8")]
    assert framed == ["base.html"]
