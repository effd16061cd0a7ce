"""Fill the tables of docs/how-to/check-an-explanation.md from results that other commands wrote.

``python scripts/check_page.py`` reads benchmarks/results/check_coverage.json (benchmarks/check_coverage.py),
docs/results/heloc-reasons.csv (scripts/heloc_reasons.py), and the points of the page of a check. A table whose results
are not there stays as it is.
"""

import json
import re
from pathlib import Path

import heloc_reasons
import polars as pl
from scipy.stats import beta

from verax.report.result_pages import POINTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "check-an-explanation.md"
COVERAGE = ROOT / "benchmarks" / "results" / "check_coverage.json"
REASONS = ROOT / "docs" / "results" / "heloc-reasons.csv"
BLOCK = re.compile(r"(<!-- (?P<table>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Write the page with the tables as the results have them."""
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def rendered(page: str) -> str:
    """The page with its tables filled."""
    tables = {"points": points()}
    tables |= {"coverage": coverage()} if COVERAGE.exists() else {}
    tables |= {"reasons": reasons()} if REASONS.exists() else {}
    return BLOCK.sub(
        lambda match: f"{match[1]}{tables[match['table']]}\n{match[3]}" if match["table"] in tables else match[0], page
    )


def coverage() -> str:
    """Checks of each kind: how many had an outcome that they must not have, and those that had to."""
    results = json.loads(COVERAGE.read_text(encoding="utf-8"))
    lines = [
        f"Simulated where the truth is known: {results['repeats']:,} checks of each kind, of a requirement that is "
        "false by a millionth and must not pass (true by a millionth in all segments: must not fail); "
        "`python benchmarks/check_coverage.py --processes 8`:",
        "",
        "| population and metric | inputs | wrong outcomes | 95 % at most |",
        "|---|---|---|---|",
    ]
    for name, outcomes in results["outcomes"].items():
        # A short form of the metric holds commas of its own.
        population, metric, kind = re.fullmatch(r"(.*?), (\w+(?:\(.*?\))?), (.*)", name).groups()  # type: ignore[union-attr]
        wrong = outcomes["failed" if "all true" in kind else "passed"]
        count = sum(outcomes.values())
        most = beta.ppf(0.95, wrong + 1, count - wrong) if wrong < count else 1.0
        lines.append(f"| {population}: `{metric}` | {kind} | {wrong} of {count:,} | {100 * most:.1f} % |")
    planted, clean = results["power"]["planted on 10 %"], results["power"]["not planted"]
    lines.append("")
    lines.append(
        f"A wrong reason in the place of one of four on 10 % of 1,000 inputs fails `false_reasons` at most 0.01 in "
        f"{planted['failed']:,} of {sum(planted.values()):,} checks; without it {clean['passed']:,} of "
        f"{sum(clean.values()):,} pass."
    )
    return "\n".join(lines)


def reasons() -> str:
    """Applicants whose top four reasons change with the seed."""
    table = pl.read_csv(REASONS)
    text = (
        "Seeds change reasons: of the validation applicants of HELOC, so many have other top four reasons under "
        f"another seed than under seed 0 ({table['seeds'][0]} seeds; the paper's perceptron, contributions to the "
        'log-odds of "Bad"; KernelShap of before it searched for interactions of three; '
        "`python scripts/heloc_reasons.py --data heloc.csv --out docs/results/heloc-reasons.csv`):"
    )
    return f"{text}\n\n{heloc_reasons.markdown(table)}"


def points() -> str:
    """What a check is evidence for, as the page of a check has it."""
    lines = ["| point | what it asks, in short | which part answers |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(point)} |" for point in POINTS)])


if __name__ == "__main__":
    main()
