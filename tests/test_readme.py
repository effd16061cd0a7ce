"""The README's example runs as it stands, and a package index shows no link that leads nowhere."""

import re
import runpy

import matplotlib as mpl
import pytest
import torch

from pages import ROOT, assert_prints, blocks

README = ROOT / "README.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_it_begins_with_the_installation_and_a_ranking(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    install, example, shown, *_ = blocks(README)
    assert [one.language for one in (install, example, shown)] == ["", "python", "text"]
    assert all(line.startswith("pip install ") for line in install.text.splitlines())
    assert len(example.text.splitlines()) <= 18
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # their number changes the last digits
    exec(compile(example.text, str(README), "exec"), {})  # noqa: S102
    torch.set_num_threads(threads)
    assert_prints(shown.text, capsys.readouterr().out, "README.md")
    assert {path.name for path in tmp_path.iterdir()} == {"ranking.svg", "report.html"}


def test_every_link_leads_somewhere():
    links = LINK.findall(README.read_text(encoding="utf-8"))
    assert [one for one in links if not one.startswith("https://") and not (ROOT / one).exists()] == []


def test_a_package_index_gets_no_relative_link():
    pytest.importorskip("hatchling")
    for_index = runpy.run_path(str(ROOT / "scripts" / "index_readme.py"))["for_index"]
    kept = "See [a page](https://example.org/a.md), [below](#use-it).\n"
    assert for_index(kept) == kept
    assert for_index("![A picture](docs/a.svg)\n\nA [page](docs/a.md).\n") == "A page.\n"
    shown = for_index(README.read_text(encoding="utf-8"))
    assert [one for one in LINK.findall(shown) if not one.startswith(("https://", "#"))] == []
    assert "pip install verax" in shown
