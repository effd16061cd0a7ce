"""Verax beside material that nobody here made: data, published numbers and test fixtures of others.

Writes benchmarks/results/outside.json and the tables of docs/outside.md. Each part can be run alone; the results of the
others stay as they are.
"""

import argparse
import importlib
import json
import pkgutil
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import common
import outside_parts
import polars as pl

JSON = common.RESULTS / "outside.json"
PAGE = Path(__file__).parents[1] / "docs" / "outside.md"
FILES = PAGE.parent / "results" / "outside"  # tables too long for a page
LONG = (
    ("captum_quantus", "infidelity"),
    ("naopc", "missing"),
    ("naopc", "scores"),
    ("naopc", "too_high"),
    ("shapley", "all"),
    ("xai_bench", "gaussian"),
    ("xai_units", "trials"),
)
BLOCK = re.compile(r"(<!-- (?P<part>\w+)/(?P<table>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    options = _options()
    names = options.part or ([] if options.pages else part_names())
    for name in names:
        if absent := missing(name, options.data):
            raise SystemExit(f"{name}: expected {', '.join(absent)} in {options.data}, got no such folder.")
    for name in names:
        seconds = run(name, options.data)
        print(f"{name}: {seconds:.1f} s")
    PAGE.write_text(rendered(PAGE.read_text(), stored()))
    FILES.mkdir(exist_ok=True)
    for file, content in files(stored()).items():
        (FILES / file).write_text(content)


def part_names() -> list[str]:
    names = (module.name for module in pkgutil.iter_modules(outside_parts.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def part(name: str) -> ModuleType:
    return importlib.import_module(f"outside_parts.{name}")


def missing(name: str, data: Path) -> list[str]:
    """Folders that a part needs and that are not in the data."""
    return [folder for folder in getattr(part(name), "FOLDERS", ()) if not (data / folder).is_dir()]


def run(name: str, data: Path) -> float:
    """Measure a part and store it, beside what is stored of the others."""
    start, clock = time.perf_counter(), time.process_time()
    measured = part(name).measure(data)
    seconds, processor = time.perf_counter() - start, time.process_time() - clock
    facts = {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),  # on a busy machine those of the clock say nothing
    }
    content = {**facts, "machine": common.machine(), "versions": common.versions(), "measured": measured}
    parts = {**stored(), name: content}
    JSON.write_text(json.dumps({key: parts[key] for key in sorted(parts)}, indent=2) + "\n")
    return seconds


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JSON.read_text()) if JSON.exists() else {}
    return found


def rendered(page: str, parts: dict[str, Any]) -> str:
    """The page with its tables as the stored results have them."""
    tables = tables_of(parts)

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}{tables[match['part']][match['table']].strip()}\n{match[4]}"

    return BLOCK.sub(block, page)


def tables_of(parts: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The tables of each part, and one of the parts themselves."""
    own = {name: part(name).tables(content["measured"]) for name, content in parts.items()}
    return own | {"all": {"parts": _overview(parts)}}


def files(parts: dict[str, Any]) -> dict[str, str]:
    """The tables that the page links to, as CSV."""
    tables = tables_of(parts)
    return {f"{name}-{table}.csv": _csv(tables[name][table]) for name, table in LONG}


def _csv(table: str) -> str:
    lines = (re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in table.strip().splitlines())
    head, _, *rows = ([cell.strip().replace("\\|", "|") for cell in line] for line in lines)
    return pl.DataFrame(rows, schema=head, orient="row").write_csv()


def _overview(parts: dict[str, Any]) -> str:
    rows = [
        [f"`{name}`", (part(name).__doc__ or "").split("\n")[0].rstrip("."), f"{content['processor_seconds']:,.0f}"]
        for name, content in parts.items()
    ]
    rows.append(["all", "", f"{sum(content['processor_seconds'] for content in parts.values()):,.0f}"])
    return markdown(["part", "what", "seconds of the processor"], rows)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown: the first column to the left, the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/outside"), help="folder of the material")
    parser.add_argument("--part", action="append", choices=part_names(), help="run this part alone; repeatable")
    parser.add_argument("--pages", action="store_true", help="measure nothing, write the tables from the stored JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
