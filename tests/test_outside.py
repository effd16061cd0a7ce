"""The page about outside material has the tables of its stored results, and its command runs."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in [name for name in sys.modules if name.split(".")[0] in ("outside", "outside_parts", "common")]:
        monkeypatch.delitem(sys.modules, name)

    return importlib.import_module("outside")


def test_the_tables_of_the_page_are_those_of_the_stored_results(outside: ModuleType) -> None:
    page = outside.PAGE.read_text()
    assert outside.rendered(page, outside.stored()) == page


def test_every_table_of_a_stored_part_stands_on_the_page(outside: ModuleType) -> None:
    blocks = {(match["part"], match["table"]) for match in outside.BLOCK.finditer(outside.PAGE.read_text())}
    tables = {
        (name, table)
        for name, content in outside.stored().items()
        for table in outside.part(name).tables(content["measured"])
    }
    assert blocks == tables


def test_results_are_stored_beside_those_of_other_parts(
    outside: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = ModuleType("part")
    part.measure = lambda data: {"folder": data.name}
    monkeypatch.setattr(outside, "JSON", tmp_path / "outside.json")
    monkeypatch.setattr(outside, "part", lambda name: part)
    outside.run("second", Path("b"))
    outside.run("first", Path("a"))
    parts = json.loads(outside.JSON.read_text())
    assert {name: content["measured"] for name, content in parts.items()} == {
        "first": {"folder": "a"},
        "second": {"folder": "b"},
    }
