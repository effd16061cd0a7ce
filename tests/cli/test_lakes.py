"""``verax lake``: patterns, names, what is printed, what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import verax
from scale.lakes import SmallLake, agrees
from verax.cli import app
from verax.core.blocks import one_thread_on_cpu

RUN = CliRunner()
FEW = ("--metric", "pc", "--metric", "dpc", "--metric", "infidelity(samples=16)")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    return SmallLake(tmp_path_factory.mktemp("lake"))


def call(lake: SmallLake, *words: str) -> Any:
    before = Path.cwd()
    os.chdir(lake.folder)
    try:
        given = ["lake", "--model", "m.safetensors", "--inputs", "rows/*.parquet", "--workers", "1"]
        return RUN.invoke(app, [*given, *words])
    finally:
        os.chdir(before)


def test_a_lake_is_scored_and_its_means_are_printed(lake: SmallLake) -> None:
    words = ("--attributions", "shap=shap/*.parquet", "lime/*.parquet", *FEW, "--out", "scores")
    found = call(lake, *words)
    assert found.exit_code == 0, found.output
    assert "Means over 48 rows with 95 % intervals" in found.output
    assert "48 of 48 rows scored now" in found.output
    assert agrees(lake.table(), lake.expected())
    again = call(lake, *words, "--json")
    told = json.loads(again.stdout)
    assert (told["rows"], told["computed"]) == (48, 0)
    mean = lake.table().filter(pl.col("attribution") == "lime")["dpc"].mean()
    assert told["metrics"]["dpc"]["lime"]["mean"] == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "other", "--report", "r.html"], "No such option: --report"),
        ([], "Missing option '--out'"),
        (["--out", "other", "--metric", "pcc"], "--metric: expected"),
        (["--out", "other", "--level", "95"], "level: expected a number between 0 and 1"),
        (["--out", "m.safetensors"], "--out: m.safetensors is a file"),
        (["--out", "other", "--target", "targets.npy"], "--target: targets.npy has one class per row"),
        (["--out", "other", "--baselines", "mean"], "--baselines: mean is one of the training data"),
        (["--out", "other", "--address", "auto"], "--address: is that of a Ray cluster"),
        (["--out", "other", "--attributions", "a=shap", "a=lime"], "--attributions: a second one called a"),
        (["--out", "other", "--attributions", "none=none/*.parquet"], "none: there is no such file or folder."),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(lake: SmallLake, words: list[str], message: str) -> None:
    given = words if "--attributions" in words else ["--attributions", "shap=shap/*.parquet", *words]
    found = call(lake, *given)
    assert found.exit_code == 2
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not (lake.folder / "other").exists()


def test_methods_are_computed_for_every_part(lake: SmallLake) -> None:
    """The scores are those of one call for all rows; another method is another question."""
    words = ("--metric", "pc", "--out", "computed", "--method", "kernelshap(samples=32)")
    found = call(lake, "--attributions", "shap=shap/*.parquet", *words)
    assert found.exit_code == 0, found.output
    problem = lake.problem().on(lake.values)
    given = {"shap": lake.attributions["shap"], "KernelShap(samples=32)": verax.attribution.KernelShap(samples=32)}
    with one_thread_on_cpu("cpu"):
        frame = verax.evaluate(problem, given, ["pc"]).to_frame()
    keys = pl.Series("id", lake.keys)[frame["input"]]
    order = ["attribution", "id"]
    direct, scored = frame.select(keys, pl.exclude("input")).sort(order), lake.table("computed").sort(order)
    assert scored[order].equals(direct[order])
    np.testing.assert_allclose(scored["pc"], direct["pc"], rtol=1e-5, atol=1e-7)
    assert call(lake, *words[:-1], "gradient").exit_code == 2
    alone = call(lake, "--metric", "pc", "--out", "alone", "--method", "KernelShap(samples=32)")
    assert alone.exit_code == 0, alone.output
    own = lake.table("alone").sort(order)
    np.testing.assert_array_equal(own["pc"], scored.filter(pl.col("attribution") != "shap")["pc"])


def test_evaluate_names_the_command_for_lakes(lake: SmallLake) -> None:
    words = ["evaluate", "--model", "m.onnx", "--inputs", "rows/*.parquet", "--attributions", "a.npy"]
    found = RUN.invoke(app, words)
    assert found.exit_code == 2
    assert "--inputs: rows/*.parquet is a folder, a pattern or a URL of many files; use verax lake." in found.stderr
