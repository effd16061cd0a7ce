"""The how-to pages: every Python block runs, page by page, as a reader would run it."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from verax.datasets.file import load_file
from verax.models.shipped import train_shipped
from verax.study.run import run_study
from verax.study.spec import load_spec

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))


def programs(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def my_study(tmp_path):
    """The study of the page about studies, as its spec says, on data and a model that a reader would bring."""
    (page,) = (page for page in PAGES if page.stem == "run-a-study")
    (text,) = re.findall(r"^```toml\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "my-study.toml").write_text(text)
    numbers = np.random.default_rng(0).normal(size=(60, 4))
    np.savez(tmp_path / "my-data.npz", inputs=numbers, labels=(numbers[:, 0] > 0).astype(int))
    train_shipped("linear", load_file(tmp_path / "my-data.npz"), tmp_path / "linear.safetensors", epochs=2)
    run_study(load_spec("my-study.toml"), "my-study")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if page.stem == "run-a-study":
        request.getfixturevalue("my_study")
    torch.manual_seed(0)
    program = tmp_path / f"{page.stem}.py"
    program.write_text("\n".join(programs(page)))
    runpy.run_path(str(program))


@pytest.mark.parametrize("name", ["write-an-attribution", "write-a-family"])
def test_an_extension_takes_under_30_lines(name):
    (page,) = (page for page in PAGES if page.stem == name)
    code = [line for line in programs(page)[0].splitlines() if line.strip()]
    assert len(code) < 30
