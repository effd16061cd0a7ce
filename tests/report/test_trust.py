"""The section about trust: what was found, in words and numbers; nothing where nobody asked."""

from dataclasses import replace
from pathlib import Path

import pytest

from report.html import Page
from report.synthetic import PROVENANCE
from verax.report import facts, write_report
from verax.report.view import View
from verax.study.tables import Tables


@pytest.fixture(scope="module")
def said(report: Path) -> str:
    """The section as text."""
    text = report.read_text(encoding="utf-8")
    begin = text.index('<section id="trust">')
    return Page(text[begin : text.index("</section>", begin)]).text


def test_the_three_sentences_name_metrics_as_people_do(said: str) -> None:
    assert "Use DPC: about 9 of your 16 inputs are enough for it to tell the best by DPC from random" in said
    assert "those that show no significant difference here: Infidelity (normalised) would need 40 inputs." in said
    assert "Left out: pc (your model): a reason." in said


def test_distances_and_shares_stand_with_their_intervals(said: str) -> None:
    for words in ("12.5 % [10.0, 15.0]", "the network's features", "inputs as they are", "1.2"):
        assert words in said
    for words in ("at least 0.2", "at most 0.600 [0.550, 0.650]", "a search 1 wide, then in 20 steps"):
        assert words in said
    assert "ISIC-Inception: limits: not asked of images." in said


def test_the_section_is_absent_where_nobody_asked(tables: Tables, tmp_path: Path) -> None:
    off = replace(tables, trust=None)
    assert facts.trust(View(off, ())) is None
    write_report(tmp_path / "page.html", off, (), PROVENANCE)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="trust"' not in text
    assert "#trust" not in text
