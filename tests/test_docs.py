"""The documentation runs: every page of tutorials, how-to and FAQ, block by block, as a reader would follow it."""

import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
import tomli_w
import torch
import typer

from pages import DOCS, ROOT, blocks, run_page
from verax.cli import app
from verax.cli.check import NOT_PASSED
from verax.data.file import load_file
from verax.paper.models.shipped import train_shipped
from verax.study.run import run_study
from verax.study.spec import load_spec

SPEC = importlib.util.spec_from_file_location("public_api", ROOT / "scripts" / "public_api.py")
public_api = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(public_api)
ALONE = [DOCS / name for name in ("faq.md", "concepts.md", "open-questions.md", "which-metric.md")]
ELSEWHERE = {  # run where more of them is checked: tests/test_other_data.py and tests/test_notebooks.py
    "time-series", "tokens", "image-heat-maps", "text-classification",
}  # fmt: skip
PAGES = sorted(
    page for page in [*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md"), *ALONE] if page.stem not in ELSEWHERE
)
EVERY_PAGE = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]


@pytest.fixture
def my_study(tmp_path, monkeypatch):
    """The study of the page about studies, as its spec says, on data and a model that a reader would bring."""
    monkeypatch.setattr("verax.study.run.write_report", lambda study, workers: Path("report.html"))  # slow
    numbers = np.random.default_rng(0).normal(size=(30, 4))
    np.savez(tmp_path / "my-data.npz", inputs=numbers, labels=(numbers[:, 0] > 0).astype(int))
    train_shipped("linear", load_file(tmp_path / "my-data.npz"), tmp_path / "linear.safetensors", epochs=2)
    (spec,) = (block for block in blocks(DOCS / "how-to" / "run-a-study.md") if block.title == "my-study.toml")
    (tmp_path / "my-study.toml").write_text(spec.text, encoding="utf-8")
    run_study(load_spec("my-study.toml"), "my-study")


class Tracking(ModuleType):
    """What the page about checks asks of MLflow, which is no dependency: what is logged must be there, and plain."""

    def set_tag(self, key, value):
        assert (key, value) == ("check", "passed")

    def log_dict(self, dictionary, artifact_file):
        assert json.loads(json.dumps(dictionary)) == dictionary
        assert artifact_file.endswith(".json")

    def log_artifact(self, local_path):
        assert Path(local_path).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_page_runs(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if page.stem == "run-a-study":
        request.getfixturevalue("my_study")
    if page.stem == "check-an-explanation":
        monkeypatch.setitem(sys.modules, "mlflow", Tracking("mlflow"))
    run_page(page, tmp_path)


def test_the_first_page_runs(tmp_path):
    names = {name: torch.randn(9, 4) for name in ("shap_values", "lime_weights", "mine")}
    run_page(DOCS / "index.md", tmp_path, model=torch.nn.Linear(4, 2), x=torch.ones(9, 4), **names)


def commands_shown(page):
    """Every command of Verax that a page shows, whether it can be run where the page is tested or not."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"(?:^|`|run: |- )verax ([^`\n|]+)", text, flags=re.MULTILINE):
        yield shlex.split(line.replace("...", ""), comments=True)


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_every_command_of_a_page_has_the_options_that_it_is_shown_with(page):
    for words in commands_shown(page):
        command = typer.main.get_command(app)
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        shown = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert shown <= known | {"--help"}, f"verax {command.name} {' '.join(words)}"
        assert not hasattr(command, "commands") or not words or shown, f"there is no verax {' '.join(words)}"


@pytest.mark.parametrize(
    ("name", "spec"), [("run-a-study", "my-study.toml"), ("study-of-your-own", "homes.toml")], ids=lambda name: name
)
def test_the_parts_of_a_spec_that_a_page_shows_belong_into_one(name, spec, tmp_path):
    shown = blocks(DOCS / "how-to" / f"{name}.md")
    (whole,) = (tomllib.loads(block.text) for block in shown if block.title == spec)
    (part,) = (tomllib.loads(block.text) for block in shown if block.language == "toml" and not block.title)
    if "data" in part:
        whole["data"][0] |= part["data"]
    else:
        whole |= part
    (tmp_path / spec).write_text(tomli_w.dumps(whole), encoding="utf-8")
    assert load_spec(tmp_path / spec).name == whole["name"]


def test_the_tables_of_the_page_about_checks_are_those_of_the_results(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    check_page = importlib.import_module("check_page")
    page = check_page.PAGE.read_text(encoding="utf-8")
    assert check_page.rendered(page) == page
    monkeypatch.setattr(check_page, "COVERAGE", ROOT / "benchmarks" / "results" / "check_coverage-quick.json")
    monkeypatch.setattr(check_page, "REASONS", tmp_path / "reasons.csv")
    check_page.REASONS.write_text(
        "method,draws,reasons,applicants,fewest,most,under_any_seed,seeds\nLIME,1024,either,1658,100,120,170,3\n"
    )
    page = check_page.rendered(page)
    assert "| a network: `pc` | ten segments of 200, one false, nine true by far | 0 of 20 | 13.9 % |" in page
    assert "fails `false_reasons` at most 0.01 in 20 of 20 checks" in page
    assert "| LIME | 1,024 | the four largest | 100 to 120 | 170 of 1,658 (10 %) |" in page


def test_the_page_about_checks_has_an_example_for_github_and_for_gitlab():
    page = DOCS / "how-to" / "check-an-explanation.md"
    github, gitlab = (block.text for block in blocks(page) if block.language == "yaml")
    for example in (github, gitlab):
        assert re.search(r"^ +- (run: )?verax check run check\.toml$", example, flags=re.MULTILINE)
    assert "if: always()" in github
    assert f"allow_failure: {{ exit_codes: [{NOT_PASSED['undecided']}] }}" in gitlab
    assert "reports: { junit: check.xml }" in gitlab


@pytest.mark.parametrize("name", ["write-an-attribution", "write-a-family", "add-a-metric"])
def test_an_extension_takes_under_30_lines(name):
    first = next(block for block in blocks(DOCS / "how-to" / f"{name}.md") if block.language == "python")
    assert len([line for line in first.text.splitlines() if line.strip()]) < 30


NEEDED = {  # what a page does, and what has to be installed for it beside Verax
    "verax study run": "study",
    "Edges(": "study",
    "verax.tune(": "tune",
    "verax tune": "tune",
    "from skops": "sklearn-files",
    "verax lake": "lake",
    "import pyarrow": "lake",
    "from skl2onnx": "skl2onnx",
    "import pandas": "pandas",
    "as_frame=True": "pandas",
    "import captum": "captum",
    "verax.text.": "text",
}


@pytest.mark.parametrize(
    "page", sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md")]), ids=lambda page: page.stem
)
def test_a_page_says_what_to_install_for_what_it_does(page):
    code = "".join(block.text for block in blocks(page) if block.language in ("python", "sh"))
    needed = {name for words, name in NEEDED.items() if words in code}
    installed = {
        name.strip("'\"")
        for line in re.findall(r"pip install ([^`\n]+)", page.read_text(encoding="utf-8"))
        for name in re.split(r"[\s,\[\]]+", line)
    }
    if "sklearn-files" in installed:
        installed.add("pandas")
    assert needed - installed == set()


def test_the_pages_are_short_enough_to_be_read():
    """The reference, which is made from docstrings, is not counted."""
    pages = [page for page in DOCS.rglob("*.md") if page.parent.name != "reference"]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 36_000


def test_every_picture_is_there():
    """The build finds broken links, but not missing pictures."""
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for target in [*re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text), *re.findall(r'<img[^>]*src="([^"]+)"', text)]:
            assert (page.parent / target).is_file(), f"{page.relative_to(ROOT)}: {target}"


def test_every_page_is_in_the_navigation():
    """And every page of the navigation is there: the build would leave it out without a word."""

    def listed(part):
        if isinstance(part, str):
            return [part]
        return [page for entry in part for value in entry.values() for page in listed(value)]

    found = listed(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"])
    assert sorted(found) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def reference():
    """The objects that the reference describes by their names there, whatever module it takes them from."""
    described = {}
    for page in DOCS.glob("reference/*.md"):
        for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            described[name] = getattr(importlib.import_module(module), attribute)
    return described


def public():
    """The classes and functions that public modules name in their ``__all__``."""
    for module in public_api.modules():
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type | FunctionType):
                yield f"{module.__name__}.{name}", value


def test_every_public_name_is_in_the_reference():
    described = list(reference().values())
    assert [name for name, value in public() if value not in described] == []


def test_the_reference_describes_public_names_and_no_others():
    values = [value for _, value in public()]
    assert [name for name, value in reference().items() if value not in values] == []


FOLDERS = ("benchmarks", "docs", "examples", "packaging", "scripts", "src", "tests")
PATH = re.compile(rf"(?<![\w./])(?:{'|'.join(FOLDERS)})/[\w./-]*\w|(?<![\w./])\w+\.py\b")
OF_THE_READER = ("my_metrics.py", "my_methods.py")


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page):
    names = {name for quoted in re.findall(r"`([^`\n]+)`", page.read_text("utf-8")) for name in PATH.findall(quoted)}
    places = [ROOT, *(ROOT / folder for folder in ("benchmarks", "scripts", "tests"))]
    assert [name for name in names - {*OF_THE_READER} if not any((place / name).exists() for place in places)] == []
