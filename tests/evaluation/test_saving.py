"""Results as data frames and files: what is written is what the results hold."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import calls
import verax
from verax.core.files import ENDINGS
from verax.report.comparison import comparison_page

NAMES = ("pc", "dpc", "infidelity", "sensitivity_n")


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    given = {"a": x, 'b, "quoted"\nand broken': -x}
    return calls.evaluate(torch.nn.Linear(4, 3), x, given, NAMES, samples=20)


@pytest.fixture(scope="module")
def comparison():
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    return calls.compare(torch.nn.Linear(4, 3), x, {"a": x, "b": -x}, samples=20)


def test_a_frame_has_one_row_per_attribution_and_input(found):
    frame = found.to_frame()
    assert frame.columns == [
        "attribution",
        "input",
        "target",
        "pc",
        "dpc",
        "infidelity",
        "infidelity_se",
        "sensitivity_n",
    ]
    assert frame.height == 10
    for name, metric in ((name, metric) for name in found["pc"].value for metric in NAMES):
        rows = frame.filter(pl.col("attribution") == name)
        assert rows["input"].to_list() == list(range(5))
        assert rows["target"].to_list() == found["pc"].target.tolist()
        np.testing.assert_allclose(rows[metric], found[metric].value[name], rtol=1e-6)
    errors = frame.filter(pl.col("attribution") == "a")["infidelity_se"]
    np.testing.assert_allclose(errors, found["infidelity"].standard_error["a"], rtol=1e-6)


@pytest.mark.parametrize("metric", NAMES)
def test_a_result_has_the_columns_of_its_metric(found, metric):
    frame = found[metric].to_frame()
    whole = found.to_frame()
    assert frame.equals(whole.select(frame.columns))
    assert [name for name in whole.columns if name.startswith(metric)] == frame.columns[3:]


def test_a_stack_and_a_single_one_are_named():
    x = torch.randn(2, 4)
    model = torch.nn.Linear(4, 2)
    stacked = calls.prediction_change(model, x, torch.stack((x, -x))).to_frame()
    assert stacked["attribution"].to_list() == ["attribution 0"] * 2 + ["attribution 1"] * 2
    assert calls.prediction_change(model, x, x).to_frame()["attribution"].to_list() == ["attribution"] * 2


def test_a_name_that_the_call_gave_is_the_column():
    x = torch.randn(2, 4)
    found = calls.evaluate(torch.nn.Linear(4, 2), x, x, {"mine": verax.metrics.PredictionChange()})
    assert found.to_frame().columns[3:] == ["mine"]


@pytest.fixture(scope="module")
def totals():
    torch.manual_seed(0)
    x = torch.randn(9, 4)
    return calls.stream(torch.nn.Linear(4, 3), [(x, {"a<b": x, "b": -x})], metrics=["pc"]).totals()


@pytest.mark.parametrize("kind", ["result", "evaluation", "comparison", "totals"])
def test_files_hold_the_frame(found, comparison, totals, tmp_path, kind):
    saved = {"result": found["infidelity"], "evaluation": found, "comparison": comparison, "totals": totals}[kind]
    frame = saved.to_frame()
    for ending in (".parquet", ".csv", ".json"):
        saved.save(tmp_path / f"scores{ending}")
    assert pl.read_parquet(tmp_path / "scores.parquet").equals(frame)
    assert pl.read_csv(tmp_path / "scores.csv").equals(frame)
    assert json.loads((tmp_path / "scores.json").read_text()) == frame.to_dicts()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.csv", "scores.json", "scores.parquet"]


def test_json_has_null_where_a_number_is_none(found, tmp_path):
    scores = found["pc"].scores.clone()
    scores[0, :2] = torch.tensor([math.nan, math.inf])
    replace(found["pc"], scores=scores).save(tmp_path / "scores.JSON")
    text = (tmp_path / "scores.JSON").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert [row["pc"] for row in json.loads(text)][:2] == [None, None]


def test_the_page_of_a_comparison_is_the_report_of_the_command_line(comparison, tmp_path):
    comparison.save(str(tmp_path / "folder" / "report.html"))
    assert (tmp_path / "folder" / "report.html").read_text() == comparison_page(comparison)


def test_pages_of_results_and_evaluations_show_their_metrics(found, tmp_path):
    found.save(tmp_path / "all.html")
    found["dpc"].save(tmp_path / "dpc.html")
    whole, one = ((tmp_path / f"{name}.html").read_text() for name in ("all", "dpc"))
    assert [whole.count(f"<h2>{found.label(name)}</h2>") for name in NAMES] == [1, 1, 1, 1]
    assert [one.count(f"<h2>{found.label(name)}</h2>") for name in NAMES] == [0, 1, 0, 0]


def test_the_page_of_totals_is_their_table(totals, tmp_path):
    totals.save(tmp_path / "totals.html")
    page = (tmp_path / "totals.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert totals.table().html() in page
    assert "a&lt;b" in page
    with pytest.raises(ValueError, match=r"path: expected a name that ends in \.parquet, \.csv, \.json or \.html"):
        totals.save(tmp_path / "totals.xlsx")


@pytest.mark.parametrize("name", ["scores.xlsx", "scores", ".parquet", "scores.html.gz"])
def test_another_ending_is_refused_with_those_there_are(found, tmp_path, name):
    with pytest.raises(ValueError, match=r"path: expected a name that ends in .*, got") as refused:
        found.save(tmp_path / name)
    assert all(ending in str(refused.value) for ending in ENDINGS)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_refused(found, tmp_path):
    (tmp_path / "scores.csv").mkdir()
    with pytest.raises(ValueError, match=r"path: .*scores.csv is a folder"):
        found.save(tmp_path / "scores.csv")


def test_a_write_that_fails_leaves_the_old_file(found, tmp_path, monkeypatch):
    found.save(tmp_path / "scores.csv")
    before = (tmp_path / "scores.csv").read_bytes()

    def fail(self: Path, to: Path) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        found["pc"].save(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


FORMULAS = ('=HYPERLINK("http://x")', "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "\uff20SUM(1)")


@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_of_a_csv_is_a_formula(name, tmp_path):
    """Names of attributions are cells, names of metrics are heads of columns."""
    x = torch.randn(3, 4)
    found = calls.evaluate(torch.nn.Linear(4, 2), x, {name: x, "plain": x}, {name: verax.metrics.PredictionChange()})
    found.save(tmp_path / "scores.csv")
    with (tmp_path / "scores.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head[-1] == f"'{name}"
    assert {row[head.index("attribution")] for row in rows} == {f"'{name}", "plain"}
    assert [float(row[-1]) for row in rows] == found.to_frame()[name].to_list()  # numbers stay numbers


def test_text_that_is_a_number_is_left_as_it_is(tmp_path):
    x = torch.randn(3, 4)
    calls.evaluate(torch.nn.Linear(4, 2), x, {"-0.5": x, "+1e-3": x}, ["pc"]).save(tmp_path / "scores.csv")
    assert set(pl.read_csv(tmp_path / "scores.csv", infer_schema=False)["attribution"]) == {"-0.5", "+1e-3"}


def test_a_name_with_a_control_character_is_saved_and_drawn_written_out(tmp_path):
    x = torch.randn(5, 3)
    found = calls.compare(torch.nn.Linear(3, 2), x, {"a\x1b[2J": x, "b": -x}, ["pc"])
    found.save(tmp_path / "page.html")
    assert r"a\x1b[2J" in (tmp_path / "page.html").read_text()
    assert any(r"a\x1b[2J" in text.get_text() for ax in found.plot().axes for text in ax.get_yticklabels())
