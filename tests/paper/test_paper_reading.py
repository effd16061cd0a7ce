"""Which reading is the paper's is said in one place, and everything follows it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import verax
from verax.paper import published as paper

SOURCE = Path(verax.__file__).parent
# As if the constant were another one in the file: the module is made before anything imports it.
SWITCHED = """
import importlib.util, sys
from pathlib import Path
import verax.study
path = Path(verax.study.__file__).parent / "tables.py"
text = path.read_text().replace('LEADING_DPC = "{old}"', 'LEADING_DPC = "{new}"')
spec = importlib.util.spec_from_file_location("verax.study.tables", path)
module = importlib.util.module_from_spec(spec)
sys.modules["verax.study.tables"] = module
exec(compile(text, str(path), "exec"), module.__dict__)
assert module.LEADING_DPC == "{new}"
from dataclasses import replace
import polars as pl
from paper.synthetic import HELOC_LINEAR, explained, study, runtime
from verax.paper.claims import as_markdown, claims
from verax.report.answers import _LEADING
from verax.report.view import View
from verax.metrics import DirectedPredictionChange
from verax.study.metrics import described
tables = study([HELOC_LINEAR], inputs=6, members=lambda model: explained("tabular", 100))
lost = tables.scores.with_columns(pl.lit(None, pl.Float32).alias("{old}"))
answered = claims(replace(tables, scores=lost, runtimes=(runtime(),)), resamples=20)
assert all(c.verdict != "not measured" for c in answered if c.number in (5, 6, 7, 8, 13, 15))
print([c.verdict for c in answered if "no further" in c.claim])
print(as_markdown(answered).splitlines()[0])
print(View(tables, ()).pair, _LEADING[0], [metric.column for metric in View(tables, ()).main])
print([described(column, DirectedPredictionChange(), False).label for column in ("{old}", "{new}")])
"""


def switched(new: str) -> list[str]:
    code = SWITCHED.format(old=paper.PAPER_DPC, new=new)
    tests = Path(__file__).parents[1]
    environment = {"PYTHONPATH": f"{SOURCE.parent}:{tests}", "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@pytest.mark.parametrize("new", [name for name in paper.DPC_READINGS if name != paper.PAPER_DPC])
def test_another_reading_switches_rules_texts_figures_and_labels(new: str) -> None:
    verdicts, introduction, shown, labels = switched(new)
    shares = paper.DPC_READINGS[new].shares_pc  # ranks as PC does, so that DPC needs no further rows
    assert verdicts == str(["reproduced" if shares else "not reproduced"])
    assert introduction.startswith(f"DPC is the column {new}: it {paper.DPC_READINGS[new].words}.")
    assert shown == f"('{new}', 'infidelity_plain') {new} ['pc', '{new}']"
    assert labels == str(["DPC, signed order", "DPC"])


def test_no_rule_and_no_report_names_a_reading_itself() -> None:
    names = [f'"{name}"' for name in (*paper.DPC_READINGS, paper.PAPER_INFIDELITY)]
    sources = [path for part in ("paper", "report") for path in (SOURCE / part).rglob("*.py")]
    naming = [path.name for path in sources if any(name in path.read_text(encoding="utf-8") for name in names)]
    assert naming == ["published.py"]


def test_the_default_and_the_papers_metrics_follow_the_reading() -> None:
    order = paper.PAPER_READING.order
    assert verax.metrics.DirectedPredictionChange().order == order
    x = torch.eye(3)
    evaluation = verax.evaluate(verax.Problem(torch.nn.Linear(3, 2), x), x, "paper")
    assert evaluation["dpc"].metric.order == order
