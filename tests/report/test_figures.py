"""The paper's figures as SVG: which there are, what they show, and that they are the same every time."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

from report.synthetic import examples, renamed, study, without
from verax.report import configuration_charts, sweeps, write_figures
from verax.report.html import fixed_style
from verax.report.view import View
from verax.study.tables import COSTS_SCHEMA, UNCERTAINTY_SCHEMA, Example, Tables, empty, scores_schema

ALL = [
    "methods-pc", "input-factor-pc", "methods-dpc", "input-factor-dpc", "scatter-lime", "scatter-others", "uncertainty",
    "curves-1", "attributions-1", "curves-2", "attributions-2",
]  # fmt: skip


@pytest.fixture(scope="module")
def few(tables: Tables) -> list[Example]:
    """Examples with three methods each: a figure takes as long as it has panels."""
    return [_few(example, ("Gradient", "SmoothGrad", "Random")) for example in examples(tables, count=1, size=32)]


def _few(example: Example, methods: Sequence[str]) -> Example:
    kept = [c for c, method in enumerate(example.methods) if method in methods]
    words = {name: tuple(getattr(example, name)[c] for c in kept) for name in ("configurations", "methods", "roles")}
    names = ("attributions", "pc_morf", "pc_lerf", "dpc_morf", "dpc_lerf", "dpc", "pc")
    return replace(example, **words, **{name: getattr(example, name)[kept] for name in names})


@pytest.fixture(scope="module")
def folder(tables: Tables, few: list[Example], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures") / "new"
    write_figures(folder, tables, few)
    return folder


def test_every_figure_is_drawn(folder: Path) -> None:
    assert sorted(path.stem for path in folder.iterdir()) == sorted(ALL)
    for path in folder.iterdir():
        root = ET.parse(path).getroot()  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10


def test_same_tables_give_the_same_bytes(folder: Path, tables: Tables, few: list[Example], tmp_path: Path) -> None:
    with mpl.rc_context({"font.size": 20, "svg.hashsalt": "other"}):  # what the user has set does not matter
        files = write_figures(tmp_path, tables, few)
    assert [path.stem for path in files] == ALL
    for path in files:
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


def test_settings_of_the_user_are_left_alone(tables: Tables, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    write_figures(tmp_path, replace(tables, scores=tables.scores.clear(), uncertainty=tables.uncertainty.clear()), [])
    assert dict(mpl.rcParams) == before


def test_whiskers_reach_the_extremes(view: View) -> None:
    drawn = configuration_charts.box_figure(view, view.tables.metric("dpc_signed"))
    for model, ax in zip(view.models, drawn.axes, strict=True):
        assert ax.get_title() == model
        wanted = view.boxes(view.tables.metric("dpc_signed")).filter(pl.col("model") == model)
        ends = {float(x) for line in ax.lines for x in line.get_xdata()}
        assert set(wanted["min"]) | set(wanted["max"]) <= ends


def test_lines_join_the_variants_of_the_same_settings(view: View) -> None:
    for ax in configuration_charts.paired_figure(view, view.tables.metric("pc")).axes:
        values = view.summary.filter(pl.col("model") == ax.get_title())
        one = "IntegratedGradients(baseline='max', multiply_by_inputs={}, points=64)"
        pair = [values.filter(pl.col("configuration") == one.format(side))["pc"].item() for side in (True, False)]
        assert any(np.allclose(line.get_ydata(), pair) for line in ax.lines if len(line.get_ydata()) == 2)


def test_scatter_marks_the_pareto_set(view: View) -> None:
    for ax in configuration_charts.scatter_figure(view, lime=True).axes:
        usual, nothing, best = (len(part.get_offsets()) for part in ax.collections)
        model = ax.get_title().split(",")[0]
        assert best == view.pareto_set.filter(pl.col("model") == model).height
        assert nothing == view.near_zero.filter(pl.col("model") == model).height
        assert usual + nothing + best == view.lime.filter(pl.col("model") == model).height


def test_uncertainty_shows_every_method(view: View) -> None:
    first = sweeps.uncertainty_figure(view).axes[0]
    assert {line.get_label() for line in first.lines} <= set(view.method_names)
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["20", "40", "80", "160", "320", "640"]


def test_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    plain = study(("HELOC-Linear",), inputs=3, every=100, uncertain=False)
    tables = renamed(plain, lambda name: f"{name} $\\frac$ < &")
    (example,) = examples(plain, count=1)
    example = replace(
        example, model=tables.models[0].name, feature_names=tuple(f"$_{n}" for n in example.feature_names)
    )
    assert len(write_figures(tmp_path, tables, [example])) == 8


def test_figures_without_data_are_left_out(tmp_path: Path) -> None:
    tables = without(
        study(("HELOC-Linear",), inputs=3, every=100, uncertain=False), ("infidelity_plain", "infidelity", "pc")
    )
    assert [path.stem for path in write_figures(tmp_path / "a", tables, [])] == ["methods-dpc", "input-factor-dpc"]
    nothing = Tables(empty(scores_schema([])), empty(UNCERTAINTY_SCHEMA), (), {}, empty(COSTS_SCHEMA), ())
    assert write_figures(tmp_path / "b", nothing, []) == []


def test_style_ends_with_its_block() -> None:
    before = mpl.rcParams["font.size"]
    with fixed_style(8):
        assert mpl.rcParams["font.size"] == 8
    assert mpl.rcParams["font.size"] == before
