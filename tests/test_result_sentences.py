"""Sentences of pages that state results say what the committed files hold: each is written here from the files."""

import csv
import importlib
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from verax.attribution import grid

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BENCHMARKS = ROOT / "benchmarks" / "results"


def read(name):
    with (DOCS / "results" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def stored(name):
    return json.loads((BENCHMARKS / name).read_text())


def means_of(model):
    return read(f"paper/means-{model}.csv")[0]


def value(rows, column, **cells):
    (row,) = [row for row in rows if all(row[name] == cell for name, cell in cells.items())]
    return row[column]


def search():
    ranked = [row for row in read("reading-search.csv") if row["ranked"] == "True"]
    most = max(int(row["hold"]) for row in ranked)
    best = Counter(row["reading"] for row in ranked if int(row["hold"]) == most)
    words = {0: "none", 3: "three", 4: "four"}
    yield f"Of {len(ranked)} combinations of what the paper leaves open"
    yield f"agree with {most} of "
    yield f"and {best.total()} combinations do: {words[best['signed']]} in signed order, {words[best['magnitude']]} by"
    choices = {row["choice"]: row for row in read("reading-search-choices.csv")}
    better = [
        int(choices["Infidelity: normalised"][name]) - int(choices["Infidelity: plain"][name])
        for name in ("magnitude", "signed")
    ]
    assert better == [1, 2]
    yield "agree with one statement more in magnitude and two more in signed order"


def flaws():
    rows = read("reading-search-flaws.csv")
    linear, mlp, signed_linear, signed_mlp = (
        value(rows, "half-reversed beats gradient", reading=reading, model=model).replace("%", "")
        for reading in ("magnitude", "signed")
        for model in ("linear, ours", "mlp, ours")
    )
    yield f"on {linear} % of inputs of the linear model and {mlp} % of the MLP's, in signed order on {signed_linear} %"
    yield f"and {signed_mlp} %; `-1/g` ties"
    for model in ("linear, ours", "mlp, ours"):
        assert value(rows, "-1/g ties or wins", reading="magnitude", model=model) == "100.0%"
        assert value(rows, "-1/g ties or wins", reading="signed", model=model) == "0.0%"
    exact = read("reading-search-exact.csv")
    (row,) = [row for row in exact if row["statement"] == "Pareto set, LIME, linear (9)"]
    second = list(row.values())[2]
    assert "(holds)" in second
    yield f"[{second.split()[0]} against the paper's 9]"


def steps():
    rows = read("open-questions/steps-agreement.csv")
    of_sum, of_coherent = (
        [float(row["20 steps"]) for row in rows if row["reading"] == f"DPC, {rule}, between"]
        for rule in ("sum", "coherent")
    )
    least = math.floor(100 * min(of_coherent)) / 100
    yield f"one pixel per step: {of_sum[0]:.2f} and {of_sum[1]:.2f} at 20 steps); with `coherent` 20 steps agree at "
    yield f"agree at {least:.2f} or more"
    nudged = value(read("open-questions/gradient-of-limit.csv"), "0.01", model="HELOC-MLP", replacement="Nudge")
    assert float(nudged) == 0.995
    yield "At 0.01 standard deviations the gradient has all but half a percent of what is possible."
    far = read("open-questions/near-the-data.csv")
    kind = {"distance": "inputs, Mahalanobis", "percentile of test rows": "beyond the 95th", "replacement": "Nudge"}
    (row,) = [row for row in far if kind.items() <= row.items()]
    assert 3.5 < float(row["1.0"].rstrip("%")) / float(row["unperturbed"].rstrip("%")) < 4.5
    yield "at 1, [four times as many]"


def adaptive():
    found = stored("adaptive_steps.json")
    stated = [cell["held"] for case in found["stated"].values() for cell in case["adaptive"].values()]
    yield f"held for {100 * min(stated):.1f} to {100 * max(stated):.0f} % of pairs in each of {len(stated)} cells"
    yield f"held for {round(100 * min(stated))} % of inputs or more in all {len(stated)} cells"
    cells = [
        (cell, case)
        for half in ("stated", "setting")
        for case in found[half].values()
        for cell in case["adaptive"].values()
    ]
    rows_of_fixed = importlib.import_module("adaptive_steps").rows_of_fixed
    fewer = sum(cell["rows"] < rows_of_fixed(case, cell["error"]) for cell, case in cells)
    yield f"fewer rows than fixed ones of equal error in {fewer} of {len(cells)} cells"


def sign_activations():
    cells = stored("sign_activations.json")["cells"]
    least = {
        label: f"{100 * min(cell['held'] for name, cell in cells.items() if name.startswith(f'{label}:')):.0f}"
        for label in ("PC", "LPC", "DPC")
    }
    words = [f"{share} %{' of pairs' if label == 'PC' else ''} with {label}" for label, share in least.items()]
    yield f"held for as few as {', '.join(words[:-1])} and {words[-1]}"


def sizes():
    whole = sum(2 * len(grid(modality)) for modality in ("tabular", "image"))
    yield f"The grids hold {whole:,} configurations, not 4,744"
    yield f"Steps of {224 * 224 // 20:,} pixels"
    means = read("paper/isic-linear/means-ISIC-Linear.csv")
    gradient = value(means, "dpc_signed", configuration="Gradient()")
    yield f"{sum(row['dpc_signed'] == gradient for row in means)} of the 44 equal the gradient"
    yield f"HELOC, all {int(means_of('HELOC-MLP')['inputs']):,} validation rows"
    yield f"ISIC-Linear, {means[0]['inputs']} random images"
    seeds = read("paper/heloc-seeds.csv")
    assert len({row["seed"] for row in seeds}) == 10


SENTENCES = {
    "search": ("results/reading-search.md", search),
    "flaws": ("results/reading-search.md", flaws),
    "steps": ("open-questions.md", steps),
    "adaptive": ("open-questions.md", adaptive),
    "sign activations": ("open-questions.md", sign_activations),
    "sizes": ("reproduction.md", sizes),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_says_what_the_files_hold(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page, sentences = SENTENCES[name]
    text = re.sub(r"\s+", " ", (DOCS / page).read_text(encoding="utf-8"))
    assert [sentence for sentence in sentences() if sentence not in text] == []
