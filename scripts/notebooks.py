"""Make a notebook of every tutorial: docs/notebooks without output, and three in examples with it.

``python scripts/notebooks.py`` writes them all; a test compares them with the pages. A page is the only source: its
text becomes text cells, its Python blocks code cells, its commands cells that begin with ``!``. Blocks that show what
a command prints are left out, because the cells print it.
"""

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
NOTEBOOKS = ROOT / "docs" / "notebooks"
EXAMPLES = {
    "credit-table": "scikit-learn-credit-model",
    "image": "image-heat-maps",
    "text": "text-classification",
}
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
FENCE = re.compile(r'^```([\w-]*)(?: title="([^"]+)")?.*\n((?:.*\n)*?)^```$\n?', flags=re.MULTILINE)
PICTURES = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n?", flags=re.MULTILINE)
LINKS = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")
OPEN = re.compile(r"^\[Open as notebook\].*\n?", flags=re.MULTILINE)

Cell = dict[str, Any]


def main() -> None:
    """Write all notebooks."""
    NOTEBOOKS.mkdir(exist_ok=True)
    for page in sorted(TUTORIALS.glob("*.md")):
        write(NOTEBOOKS / f"{page.stem}.ipynb", notebook(page))
    for name, stem in EXAMPLES.items():
        write(ROOT / "examples" / f"{name}.ipynb", executed(notebook(TUTORIALS / f"{stem}.md")))
        print(f"examples/{name}.ipynb")


def write(path: Path, content: Cell) -> None:
    """Write a notebook as Jupyter does."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def notebook(page: Path) -> Cell:
    """The notebook of a page, without output."""
    cells = list(cells_of(OPEN.sub("", page.read_text(encoding="utf-8"))))
    numbered = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    return {"cells": numbered, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}


def cells_of(text: str) -> Iterator[Cell]:
    """Text and blocks of a page as cells, in its order."""
    end, shown = 0, False  # whether the last block was one that prints
    for match in FENCE.finditer(text):
        yield from _prose(text[end : match.start()])
        end = match.end()
        language, title, block = match.groups()
        if language == "text" and shown and not text[: match.start()].rstrip().endswith(":"):
            continue
        shown = language in ("python", "sh")
        if title:
            yield _code(f"%%writefile {title}\n{block}")
        elif language == "python":
            yield _code(block)
        elif language == "sh":
            yield _code(re.sub(r"^(?=\S)", "!", block.replace("\\\n", " "), flags=re.MULTILINE))
        elif language != "text":
            yield _text(match[0])
    yield from _prose(text[end:])


def _prose(text: str) -> Iterator[Cell]:
    """Text without pictures, which the cells draw; links to pages stay as words."""
    stripped = LINKS.sub(r"\1", PICTURES.sub("", text)).strip()
    if stripped:
        yield _text(stripped)


def _text(text: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}


def _code(text: str) -> Cell:
    return {"cell_type": "code", "metadata": {}, "source": text.strip(), "execution_count": None, "outputs": []}


def executed(content: Cell) -> Cell:
    """The notebook with the output of its Python cells; commands of the shell are left to the reader."""
    module = ModuleType("notebook")
    sys.modules["notebook"] = module  # where dataclasses look up the names of their annotations
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            cells = [_run(cell, module) for cell in content["cells"]]
        finally:
            os.chdir(here)
    return content | {"cells": cells}


def _run(cell: Cell, module: ModuleType) -> Cell:
    """A cell with what it prints and draws, and the value of its last line."""
    if cell["cell_type"] != "code" or cell["source"].startswith(("!", "%%")):
        return cell
    tree = ast.parse(cell["source"])
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "notebook", "exec"), module.__dict__)  # noqa: S102 - the project's own pages
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), module.__dict__)  # noqa: S307
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed.getvalue()}] if printed.getvalue() else []
    return cell | {"outputs": [*outputs, *_shown(value), *_drawn()]}


def _shown(value: Any) -> Iterator[Cell]:
    """The value of the last line, as a notebook shows it."""
    if value is None:
        return
    data = {"text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    yield {"output_type": "display_data", "metadata": {}, "data": data}


def _drawn() -> Iterator[Cell]:
    """The figures that a cell left open."""
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=72)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        yield {"output_type": "display_data", "metadata": {}, "data": data}
    plt.close("all")


if __name__ == "__main__":
    mpl.use("agg")
    main()
