"""The tutorial about searches: every Python block runs, as a reader would run it."""

import re
import runpy
from pathlib import Path

import pytest

import verax
import verax.tuning

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "tune-an-explanation.md"


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verax, "tune", verax.tuning.tune, raising=False)
    program = tmp_path / "page.py"
    program.write_text(
        "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE))
    )
    names = runpy.run_path(str(program))
    assert names["attributions"].shape == names["test"].shape
    assert names["found"].table.height == 32
    assert float(names["dpc"].value.mean()) == pytest.approx(names["found"].score.mean, rel=0.1)
    assert names["front"].pareto["cost"].is_sorted(descending=True)
    assert len(names["more"].table) == 32
    assert (tmp_path / "search.parquet").is_file()
    assert capsys.readouterr().out.startswith("Best: ")
