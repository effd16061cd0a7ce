"""The documentation runs: every page of tutorials, how-to and FAQ, block by block, as a reader would follow it.

In the order of the page, Python blocks run in one namespace, blocks with a ``title`` become files of that name, and
``sh`` blocks of nothing but ``verax`` commands run as well. A ``text`` block right after one of them shows what it
prints: words must agree, numbers nearly.
"""

import contextlib
import importlib
import io
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import verax
from verax.cli import app
from verax.cli.check import NOT_PASSED
from verax.data.file import load_file
from verax.paper.models.shipped import train_shipped
from verax.study.run import run_study
from verax.study.spec import load_spec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ALONE = [DOCS / name for name in ("faq.md", "concepts.md", "open-questions.md", "which-metric.md")]
PAGES = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md"), *ALONE])
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


class Block(NamedTuple):
    language: str
    title: str | None
    line: int
    text: str


def blocks(page):
    """The fenced blocks of a page, with the line on which each begins."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^```([\w-]*)(.*)\n((?:.*\n)*?)^```$", text, flags=re.MULTILINE):
        title = re.search(r'title="([^"]+)"', match[2])
        line = text.count("\n", 0, match.start(3))
        found.append(Block(match[1], title and title[1], line, match[3]))
    return found


def numbers_and_words(text):
    text = re.sub(r"\b\d{4}-\d\d-\d\d\b", "a day", text)
    return NUMBER.findall(text), NUMBER.sub("#", text).split()


def agree(shown, printed):
    """Within a tenth, or three of the last digit: machines round differently, and training makes more of it."""
    mantissa, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    a, b = (float(one.replace(",", "")) for one in (shown, printed))
    return abs(a - b) <= max(3 * unit, 0.1 * abs(a))


def assert_prints(shown, printed, where):
    """What a page shows is what is printed; an ellipsis at the end stands for more."""
    wanted, words = numbers_and_words(shown)
    found, heard = numbers_and_words(printed)
    if words and words[-1] in ("...", "…"):
        words.pop()
        heard, found = heard[: len(words)], found[: len(wanted)]
    assert heard == words, f"{where} prints\n{printed}"
    assert all(map(agree, wanted, found)), f"{where} prints\n{printed}"


def run_command(line):
    """Run ``verax ...`` in this process and return what it prints; a comment says which status but 0 it ends with."""
    found = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
    status = re.search(r"# exit status (\d+)$", line)
    assert found.exit_code == int(status[1] if status else 0), f"{line}\n{found.output}\n{found.exception!r}"
    return found.stdout


def commands(text):
    """The lines of a block of commands, or None if they are not all of Verax."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return lines if lines and all(line.startswith("verax ") for line in lines) else None


@pytest.fixture
def one_thread():
    """The number of threads changes the last digits, and training makes more of them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def my_study(tmp_path, monkeypatch):
    """The study of the page about studies, as its spec says, on data and a model that a reader would bring."""
    monkeypatch.setattr("verax.study.run.write_study_report", lambda study, workers: Path("report.html"))  # slow
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
    monkeypatch.syspath_prepend(tmp_path)
    mpl.use("agg")
    if page.stem == "run-a-study":
        request.getfixturevalue("my_study")
    if page.stem == "check-an-explanation":
        monkeypatch.setitem(sys.modules, "mlflow", Tracking("mlflow"))
    torch.manual_seed(0)
    request.getfixturevalue("one_thread")
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look up the names of their annotations
    printed = None
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}, line {block.line + 1}"
        before, printed = printed, None
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, module.__dict__)  # noqa: S102
            printed = out.getvalue()
        elif block.language == "sh" and (lines := commands(block.text)):
            printed = "".join(run_command(line) for line in lines)
        elif block.language == "text" and before is not None:
            assert_prints(block.text, before, where)


def test_the_tables_of_the_page_about_checks_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    check_page = importlib.import_module("check_page")
    page = check_page.PAGE.read_text(encoding="utf-8")
    assert check_page.rendered(page) == page


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


OFFERED = """
adapters attribution auditing checking datasets groups lakes metrics models monitoring replacement tables text tuning
"""
MODULES = [verax, *(importlib.import_module(f"verax.{name}") for name in OFFERED.split())]


def described():
    """The objects that the reference describes, whatever module it takes them from."""
    for page in DOCS.glob("reference/*.md"):
        for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            yield getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module):
    found = list(described())
    public = {name: getattr(module, name) for name in module.__all__}
    assert [name for name, one in public.items() if isinstance(one, type | FunctionType) and one not in found] == []


FOLDERS = ("benchmarks", "docs", "examples", "packaging", "scripts", "src", "tests")
PATH = re.compile(rf"(?<![\w./])(?:{'|'.join(FOLDERS)})/[\w./-]*\w|(?<![\w./])\w+\.py\b")
OF_THE_READER = ("my_metrics.py", "my_methods.py")


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *DOCS.rglob("*.md")], ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page):
    names = {name for quoted in re.findall(r"`([^`\n]+)`", page.read_text("utf-8")) for name in PATH.findall(quoted)}
    places = [ROOT, *(ROOT / folder for folder in ("benchmarks", "scripts", "tests"))]
    assert [name for name in names - {*OF_THE_READER} if not any((place / name).exists() for place in places)] == []
