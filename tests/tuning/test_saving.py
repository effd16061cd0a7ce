"""What a search found as a data frame and as files."""

import json

import polars as pl
import pytest

from calls import tune
from report.html import Page
from tuning.conftest import SIX, small_model, some_inputs


@pytest.fixture(scope="module")
def found():
    return tune(small_model(), some_inputs(20), SIX)


def test_files_hold_the_table(found, tmp_path):
    assert found.to_frame().equals(found.table)
    for ending in (".parquet", ".csv", ".json"):
        found.save(tmp_path / f"trials{ending}")
    assert pl.read_parquet(tmp_path / "trials.parquet").equals(found.table)
    read = pl.read_csv(tmp_path / "trials.csv")
    assert read.columns == found.table.columns
    assert read["dpc"].to_list() == found.table["dpc"].to_list()
    assert json.loads((tmp_path / "trials.json").read_text()) == found.table.to_dicts()


def test_the_page_says_what_was_found_and_shows_every_trial(found, tmp_path):
    found.save(tmp_path / "search.html")
    text = (tmp_path / "search.html").read_text(encoding="utf-8")
    page = Page(text)
    assert f"Best: {found.best.canonical}" in page.text
    assert "DPC: Does the score move" in page.text
    assert "DPC (higher is better)" in page.text
    assert all(one.canonical in page.text for one in SIX)
    assert len(page.all("svg")) == 1
    assert not page.scripts
    assert "://" not in text.replace("http://www.w3.org/", "")  # names of XML, which nothing fetches


def test_another_ending_is_refused(found, tmp_path):
    with pytest.raises(ValueError, match=r"path: expected a name that ends in \.parquet, \.csv, \.json or \.html"):
        found.save(tmp_path / "trials.txt")
