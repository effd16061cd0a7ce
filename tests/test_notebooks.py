"""Notebooks are the tutorials and nothing else: made from the pages, those among the examples with output."""

import importlib.util
import json
import re
from pathlib import Path

import matplotlib as mpl
import pytest

from pages import assert_prints, blocks

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
SPEC = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def printed(notebook):
    """What the cells of a notebook print, but for seconds."""
    cells = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    streams = [[output["text"] for output in outputs if output["output_type"] == "stream"] for outputs in cells]
    return [re.sub(r"[\d.]+ s\b", "", "".join(texts)) for texts in streams]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_notebook_of_a_tutorial_is_what_its_page_says(page):
    assert read(ROOT / "docs" / "notebooks" / f"{page.stem}.ipynb") == notebooks.notebook(page), (
        "run python scripts/notebooks.py"
    )
    assert f"[Open as notebook](../notebooks/{page.stem}.ipynb)" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", notebooks.EXAMPLES)
def test_the_examples_print_what_they_show(name):
    mpl.use("agg")
    page = ROOT / "docs" / "tutorials" / f"{notebooks.EXAMPLES[name]}.md"
    kept = read(ROOT / "examples" / f"{name}.ipynb")
    found = notebooks.executed(notebooks.notebook(page))
    assert [cell["source"] for cell in kept["cells"]] == [cell["source"] for cell in found["cells"]]
    for shown, now in zip(printed(kept), printed(found), strict=True):
        assert_prints(shown, now, f"examples/{name}.ipynb")
    now, outputs = None, iter(printed(found))
    for block in blocks(page):  # so that the page is not run once more for what it shows
        if block.language == "text" and now is not None:
            assert_prints(re.sub(r"[\d.]+ s\b", "", block.text), now, f"{page.name}, line {block.line + 1}")
        now = next(outputs) if block.title or block.language in ("python", "sh") else None
