"""Pages of the documentation, run block by block as a reader would follow them.

In the order of the page, Python blocks run in one namespace, blocks with a ``title`` become files of that name, and
``sh`` blocks of nothing but ``verax`` commands run as well. A ``text`` block right after one of them shows what it
prints: words must agree, numbers nearly.
"""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import matplotlib as mpl
import torch
from typer.testing import CliRunner

from verax.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
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


def run_page(page, folder, **names):
    """Run a page in a folder, on one thread, and give its names; what it prints must be what it shows.

    ``names`` are those that the page takes for given.
    """
    module, printed = ModuleType("page"), None
    vars(module).update(names)
    threads = torch.get_num_threads()
    mpl.use("agg")
    torch.set_num_threads(1)  # their number changes the last digits, and training makes more of them
    sys.modules["page"] = module  # where dataclasses look up the names of their annotations
    try:
        with (
            contextlib.chdir(folder),
            mock.patch.object(sys, "path", [str(folder), *sys.path]),
            torch.random.fork_rng(),
        ):
            torch.manual_seed(0)
            for block in blocks(page):
                printed = run_block(block, page, module, printed)
    finally:
        torch.set_num_threads(threads)
        del sys.modules["page"]
    return vars(module)


def run_block(block, page, module, before):
    """What a block prints, if it may print; ``before`` is what the last one printed."""
    where = f"{page.relative_to(ROOT)}, line {block.line + 1}"
    if block.title:
        Path(block.title).write_text(block.text, encoding="utf-8")
    if block.language == "python":
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, module.__dict__)  # noqa: S102
        return out.getvalue()
    if block.language == "sh" and (lines := commands(block.text)):
        return "".join(run_command(line) for line in lines)
    if block.language == "text" and before is not None:
        assert_prints(block.text, before, where)
    return None
