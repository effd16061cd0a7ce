"""The table of docs/reproduction.md: a row per claim of the paper, a column per model, from committed results.

``python scripts/reproduction_page.py`` writes it between the marks of the page. It reads, in ``docs/results/paper``,

- ``claims.csv``, of ``verax study claims HELOC_STUDY --runtime ... --out docs/results/paper``,
- ``isic-linear/claims.csv``, of ``verax study claims ISIC_STUDY --out docs/results/paper/isic-linear``,
- ``images-and-tables.csv`` of ``scripts/images_and_tables.py``,
- ``heloc-seeds.csv`` of ``scripts/heloc_seeds.py``: in how many seeds a claim holds, where that is not all or none,
- ``isic-2026-11-16.csv`` for what those do not answer about a model: an earlier run on a GPU.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from verax.paper.claims import ALL_MODELS, SYMBOLS, markdown_row
from verax.paper.published import PAPER

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "docs" / "results" / "paper"
TODAY = ("claims.csv", "isic-linear/claims.csv", "images-and-tables.csv")
DATED = "isic-2026-11-16.csv"
BEGIN, END = "<!-- answers -->", "<!-- end -->"
MODELS = tuple(PAPER)
OTHERS = {  # the column and the first words
    ALL_MODELS: (MODELS[0], "together: "),
    "Inception on digits": (MODELS[3], "digits: "),
}
FIGURE = re.compile(r"[+-]?[\d.]+(?:e-?\d+)?%? \[[^\]]+\]x?(?: (?:mean|median))?")
SHORTER = {  # of figures that come in words
    r"(\d+) of (\d+) (?:pairs|methods)": r"\1/\2",
    r" draws": "",
    r" overlap$": "",
    r"middle half spans ([\d.]+%) .*": r"\1",
    r"DPC alone (\d+) rows, with PC (\d+)": r"\1 rows, with PC \2",
    r", compared bit for bit: DPC differs in (\d+) units": r", \1 units differ",
}
SHORT = {
    "AUROC on the test split": "Test AUROC",
    "Accuracy on the test split": "Test accuracy",
    "PC rates baseline-oriented methods above local ones": "PC: IG and DeepLiftSHAP above local methods",
    "PC rates baseline-oriented methods above local ones, LIME on segments counted as baseline-oriented": (
        "… LIME apart"
    ),
    "PC rates the gradient about as high as a random attribution": "PC: gradient like random; both less random",
    "PC rates IG with input multiplication above its pseudo-local variant": "PC: IG gains by the input",
    "PC rates DeepLiftSHAP with input multiplication above its pseudo-local variant": "… DeepLiftSHAP",
    "DPC rates the pseudo-local variant of IG above the one with input multiplication": "DPC: IG loses by the input",
    "DPC rates the pseudo-local variant of DeepLiftSHAP above the one with input multiplication": "… DeepLiftSHAP",
    "DPC's preference for pseudo-local variants is weaker on images": "… less on images",
    "DPC rates the gradient best on linear models": "DPC: gradient best, less the next",
    "DPC often rates DeepLiftSHAP below random": "DPC: DeepLiftSHAP often below random",
    "Random is below most methods under DPC": "DPC: random below most methods",
    "Random is below most local methods under DPC, LIME on segments counted as baseline-oriented": "… most local ones",
    "DPC and local Infidelity agree, all methods but LIME: their Spearman correlation is negative": (
        "DPC and Infidelity agree, 44 configurations: sign"
    ),
    "Value of that correlation": "… value",
    "Sign of the Spearman correlation of DPC with local Infidelity, LIME alone": "… LIME: sign",
    "Value of that correlation for LIME": "… value",
    "The Pareto set of DPC and Infidelity over the LIME grid is small": "LIME's Pareto set small",
    "Size of that Pareto set": "… size",
    "LIME configurations with near-zero attributions are worst under Infidelity and near 0 under DPC": (
        "LIME near zero worst under Infidelity, 0 under DPC"
    ),
    "LIME with dataset-mean replacement scores high under Infidelity, with image-mean under DPC": (
        "LIME's replacements differ"
    ),
    "Most Infidelity values lie in a narrow band": "Infidelity in a narrow band",
    "Infidelity's Monte-Carlo deviation makes methods hard to tell apart at 20 to 640 draws": (
        "… methods overlap at 20 to 640 draws"
    ),
    "Model evaluations per attribution, Infidelity against DPC": "Rows, Infidelity against DPC",
    "Wall clock of one attribution, Infidelity against DPC": "Seconds, Infidelity against DPC",
    "Value of that speed-up": "… value",
    "PC and DPC together need no further evaluations": "PC and DPC share rows",
    "PC and DPC together against two Infidelity runs": "Rows, both against two Infidelities",
    "Wall clock of PC and DPC together against two Infidelity runs": "… seconds",
    "DPC is deterministic": "DPC deterministic",
    "Theorem 1: what satisfies Sensitivity-N is optimal under PC": "Theorem 1, IG optimal under PC",
}
Row = Mapping[str, str]


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The page with the table of today's result files."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    today = [row for name in TODAY for row in alone(read(name))]
    return f"{before}{BEGIN}\n\n{table(today, read(DATED), read('heloc-seeds.csv'))}\n\n{END}{after}"


def alone(rows: Sequence[Row]) -> list[Row]:
    """A run's rows; where it has one of the paper's models, what it says of all models it says of that one."""
    models = {row["model"] for row in rows} & set(MODELS)
    if len(models) != 1:
        return list(rows)
    (model,) = models
    return [{**row, "model": model if row["model"] == ALL_MODELS else row["model"]} for row in rows]


def table(today: Sequence[Row], dated: Sequence[Row], seeds: Sequence[Row]) -> str:
    """A row per claim, in the paper's order."""
    answered = {(row["claim"], row["model"]) for row in today}
    held = holding(seeds)
    cells: dict[tuple[int, str], dict[str, str]] = {}
    for row in [*today, *(row for row in dated if (row["claim"], row["model"]) not in answered)]:
        column, first = OTHERS.get(row["model"], (row["model"], ""))
        found = cells.setdefault((int(row["number"]), row["claim"]), {})
        if row["verdict"] != "not measured" and column in MODELS:
            found[column] = f"{first}{cell(row)}{held.get((row['claim'], row['model']), '')}"
    head = [markdown_row("claim", *MODELS), "|---" * (1 + len(MODELS)) + "|"]
    lines = [
        markdown_row(named(number, claim), *(by_model.get(model, "") for model in MODELS))
        for (number, claim), by_model in sorted(cells.items(), key=lambda item: item[0][0])
        if by_model
    ]
    return "\n".join([*head, *lines])


def named(number: int, claim: str) -> str:
    """A claim in short, with its number."""
    return f"{number}. {SHORT[claim]}" if number else SHORT[claim]


def cell(row: Row) -> str:
    """The verdict, our figures with their intervals, and the paper's number in parentheses."""
    ours, found = row["ours"], FIGURE.findall(row["ours"])
    if found:
        ours = " and ".join(found)
    elif row["number"] == "11":  # two lists, of which the kinds that are there
        ours = re.sub(r"\w+ 0%(?:, )?|, \w+ 0%", "", ours)
    else:
        ours = ours.partition(";")[0].split("rows: ")[-1]
        for long, short in SHORTER.items():
            ours = re.sub(long, short, ours)
    paper = re.sub(r"^.*: | of \d+$|^about ", "", row["paper"])
    published = f" ({paper})" if re.search(r"\d", paper) else ""
    return f"{SYMBOLS[row['verdict']]} {ours}{published}"


def holding(answers: Sequence[Row]) -> dict[tuple[str, str], str]:
    """In how many seeds each claim holds about each model, where it does so in some and not in others."""
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for row in answers:
        verdicts.setdefault((row["claim"], row["model"]), []).append(row["verdict"] == "reproduced")
    return {key: f"; {sum(held)}/{len(held)}" for key, held in verdicts.items() if len(set(held)) > 1}


def read(name: str) -> list[dict[str, str]]:
    """The rows of a result file; none where it is not there."""
    path = RESULTS / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
