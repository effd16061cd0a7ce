"""The paper's figures over several studies: all models in one figure each."""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from report.synthetic import study
from verax.report.view import View
from verax.study.tables import Tables

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "draw_paper.py"))
joined, write_joint_figures = SCRIPT["joined"], SCRIPT["write_joint_figures"]
HELOC, ISIC = "HELOC-Linear", "ISIC-Linear"
METHODS = [
    "Gradient",
    "IntegratedGradients",
    "LimeTabular",
    "LimeImage",
    "Random",
]  # a figure takes as long as it has boxes


@pytest.fixture(scope="module")
def several() -> list[Tables]:
    whole = [study([name], inputs=3, every=90, uncertain=False) for name in (HELOC, ISIC)]
    return [replace(one, scores=one.scores.filter(pl.col("method").is_in(METHODS))) for one in whole]


def test_one_figure_shows_the_models_of_all_studies(several: list[Tables], tmp_path: Path) -> None:
    files = write_joint_figures(tmp_path / "new", several)
    assert [path.stem for path in files] == [
        "methods-pc", "input-factor-pc", "methods-dpc", "input-factor-dpc", "scatter-lime", "scatter-others",
    ]  # fmt: skip
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert all(re.search(rf">{name}\b", text) for name in (HELOC, ISIC)), path.name


def test_a_panel_shows_what_the_study_alone_shows(several: list[Tables]) -> None:
    together, alone = View(joined(several), ()), View(several[1], ())
    for metric in alone.main:
        both = together.boxes(metric).filter(pl.col("model") == ISIC)
        assert both.equals(alone.boxes(metric))


def test_only_metrics_of_all_studies_are_kept(several: list[Tables]) -> None:
    first, second = several
    fewer = replace(
        first,
        scores=first.scores.drop("dpc_literal"),
        metrics=tuple(metric for metric in first.metrics if metric.column != "dpc_literal"),
    )
    for pair in ([fewer, second], [second, fewer]):
        found = joined(pair)
        assert "dpc_literal" not in {metric.column for metric in found.metrics} | set(found.scores.columns)
        assert found.scores.height == first.scores.height + second.scores.height


def test_models_of_one_name_are_refused(several: list[Tables]) -> None:
    with pytest.raises(ValueError, match=f"got twice: {HELOC}"):
        joined([several[0], several[0]])
