"""The how-to pages: every Python block runs, page by page, as a reader would run it."""

import re
import runpy
from pathlib import Path

import pytest
import torch

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))


def programs(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path):
    torch.manual_seed(0)
    program = tmp_path / f"{page.stem}.py"
    program.write_text("\n".join(programs(page)))
    runpy.run_path(str(program))


@pytest.mark.parametrize("name", ["write-an-attribution", "write-a-family"])
def test_an_extension_takes_under_30_lines(name):
    (page,) = (page for page in PAGES if page.stem == name)
    code = [line for line in programs(page)[0].splitlines() if line.strip()]
    assert len(code) < 30
