"""Pages that show results show those of the committed files, which commands wrote.

Any page can take part: ``<!-- table: FILE -->`` before a table makes it an excerpt of that file, a path from the page.
A page of ``PROSE`` may have no decimal number and no percentage in its text that is not in a file or table of the same
section.
"""

import csv
import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from verax.paper.claims import QUESTIONS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ("reproduction.md", "open-questions.md", "which-metric.md", "results/reading-search.md")
PROSE = [DOCS / name for name in PAGES]
MARK = re.compile(r"<!-- table: (\S+) -->\n+((?:\|.*\n)+)")
FILE = re.compile(r"[\w./-]+\.(?:csv|json)")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?%?")
CHECKED = re.compile(r"(?<![\w.§])[-+]?(?:\d+\.\d+(?:e-?\d+)?|\d+(?= ?%))")


class Excerpt(NamedTuple):
    page: Path
    file: str
    rows: list[list[str]]


def cells(line):
    return [cell.strip().replace("\\|", "|").replace("**", "") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


EXCERPTS = [
    Excerpt(page, match[1], [cells(line) for line in match[2].splitlines()])
    for page in sorted(DOCS.rglob("*.md"))
    for match in MARK.finditer(page.read_text(encoding="utf-8"))
]


def missing(excerpt, columns, rows):
    """The rows of an excerpt that its file does not have."""
    head, _, *body = excerpt.rows
    assert set(head) <= set(columns), f"{excerpt.file} has the columns {columns}"
    known = {tuple(row[columns.index(name)] for name in head) for row in rows}
    return [row for row in body if tuple(row) not in known]


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda one: f"{one.page.stem}-{Path(one.file).stem}")
def test_a_table_shows_rows_of_its_file(excerpt):
    with (excerpt.page.parent / excerpt.file).open(encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    assert missing(excerpt, columns, rows) == []


def test_a_row_that_is_not_in_the_file_is_found():
    shown = [["model", "share"], ["---", "---"], ["a", "1%"], ["b", "3%"]]
    excerpt = Excerpt(DOCS / "index.md", "x.csv", shown)
    assert missing(excerpt, ["model", "other", "share"], [["a", "", "1%"], ["b", "", "2%"]]) == [["b", "3%"]]


@pytest.fixture
def script():
    """What writes the answers of the page on the paper."""
    spec = importlib.util.spec_from_file_location("reproduction_page", ROOT / "scripts" / "reproduction_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_answers_are_those_of_the_result_files(script):
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.filled(text) == text


def test_every_claim_of_the_paper_has_a_row_or_a_reason(script):
    """Every question has a name; what has no row was measured by none of the files."""
    assert set(script.SHORT) == {question.claim for question in QUESTIONS}
    rows = [row for name in (*script.TODAY, script.DATED) for row in script.read(name)]
    measured = {script.named(int(row["number"]), row["claim"]) for row in rows if row["verdict"] != "not measured"}
    shown = {cells(line)[0] for line in script.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")}
    assert measured <= shown


def test_the_page_on_the_paper_is_short(script):
    words = [word for word in script.PAGE.read_text(encoding="utf-8").split() if re.search(r"\w", word)]
    assert len(words) <= 1500


def test_what_a_study_of_one_model_says_of_all_is_about_that_one(script):
    about_all = {"model": "all models", "claim": "c"}
    one = [{"model": "ISIC-Linear", "claim": "b"}, about_all]
    assert [row["model"] for row in script.alone(one)] == ["ISIC-Linear"] * 2
    two = [*one, {"model": "HELOC-MLP", "claim": "b"}]
    assert script.alone(two) == two
    assert script.alone([about_all]) == [about_all]


def test_a_model_that_was_run_again_replaces_its_earlier_run(script):
    row = {"number": "7", "claim": "Value of that correlation", "verdict": "reproduced", "paper": "-0.57"}
    early = [
        row | {"model": name, "ours": "-0.77 [-0.80, -0.70] over 44"} for name in ("ISIC-Linear", "ISIC-Inception")
    ]
    late = [row | {"model": "ISIC-Linear", "ours": "-0.50 [-0.60, -0.40] over 44", "verdict": "not reproduced"}]
    seeds = [row | {"model": "ISIC-Linear", "seed": str(seed), "verdict": verdict} for seed, verdict in enumerate("ab")]
    seeds.append(row | {"model": "ISIC-Linear", "seed": "2"})
    (line,) = script.table(late, early, seeds).splitlines()[2:]
    assert cells(line)[3:] == ["✗ -0.50 [-0.60, -0.40] (-0.57); 1/3", "✓ -0.77 [-0.80, -0.70] (-0.57)"]


def sections(text):
    """Parts of a page, from one second heading to the next."""
    return re.split(r"^(?=## )", text, flags=re.MULTILINE)


def prose(text):
    """What is neither code nor table nor the address of a link."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", " ", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def leaves(content):
    """All that a JSON file says."""
    if isinstance(content, dict):
        return [leaf for value in content.values() for leaf in leaves(value)]
    return [leaf for value in content for leaf in leaves(value)] if isinstance(content, list) else [str(content)]


def numbers(text):
    found = [one.replace(",", "") for one in NUMBER.findall(text)]
    return {abs(float(one.rstrip("%"))) for one in found}


def known_numbers(section, folder):
    """Of its tables, its code and the files that it names."""
    known = numbers("\n".join(line for line in section.splitlines() if line.startswith("|")))
    known |= numbers(" ".join(re.findall(r"`[^`]*`", section)))
    for name in FILE.findall(section):
        path = next((place for place in (folder / name, ROOT / name) if place.is_file()), None)
        if path is not None:  # others are a reader's own, like heloc.csv
            text = path.read_text(encoding="utf-8")
            known |= numbers(text if path.suffix == ".csv" else " ".join(leaves(json.loads(text))))
    return known


def unknown(section, folder):
    """The decimal numbers and percentages of the prose that no table and no file of the section rounds to."""
    known = known_numbers(section, folder)

    def is_known(shown):
        digits = len(shown.partition(".")[2].partition("e")[0])
        value = abs(float(shown))
        return any(abs(round(one * scale, digits) - value) < 1e-9 for one in known for scale in (1, 100))

    return [shown for shown in CHECKED.findall(prose(section)) if not is_known(shown)]


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.stem)
def test_a_number_in_the_text_is_in_a_file_or_table_of_its_section(page):
    parts = sections(page.read_text(encoding="utf-8"))
    found = {part.splitlines()[0]: unknown(part, page.parent) for part in parts}
    assert {head: shown for head, shown in found.items() if shown} == {}


def test_a_number_that_nothing_printed_is_found():
    text = "## A\nIt is 0.75, not 0.76, 12.5 %, not 13.5 or 14 %.\n\n| a | 0.7512 | 0.125 |\n"
    assert unknown(text, DOCS) == ["0.76", "13.5", "14"]


@pytest.fixture
def benchmark(monkeypatch):
    """A benchmark by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_the_tables_of_metrics_are_those_of_the_result_files(benchmark):
    which_metric, common = benchmark("which_metric"), benchmark("common")
    text = which_metric.PAGE.read_text(encoding="utf-8")
    assert common.filled(text, which_metric.tables_of(*which_metric.stored())) == text
    for name, table in which_metric.files_of(*which_metric.stored()).items():
        assert (which_metric.FILES / name).read_text(encoding="utf-8") == table


def test_the_table_of_verdicts_is_that_of_the_result_files_and_holds_what_it_says(benchmark):
    verdicts, common = benchmark("verdicts"), benchmark("common")
    text = verdicts.PAGE.read_text(encoding="utf-8")
    assert common.filled(text, {"verdicts": verdicts.page_table()}) == text
    found, cost = verdicts.stored("verdicts"), verdicts.stored("verdict_cost")
    for kind in ("local", "baseline"):
        named = [one["truth"] in verdicts.NAMED for one in found["verdicts"] if one["kind"] == kind]
        assert sum(named) >= 0.95 * len(named) >= 95
        assert found["wrong"][kind] <= 0.05 * found["of"] == 50
    assert not any(one["above"] for one in found["verdicts"])
    assert cost["rows_per_input"] <= 322


def test_the_scores_of_what_methods_explain_are_those_of_the_result_file(benchmark):
    explained = benchmark("explained")
    text = (DOCS / "concepts.md").read_text(encoding="utf-8").partition("## What methods explain")[2]
    gained = {line[0]: line[3:5] for line in explained.lines(explained.stored()) if line[1] == "gradient"}
    assert set(CHECKED.findall(text)) == {*gained["digits"], *gained["wine"]}
