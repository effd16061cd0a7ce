"""The recipe for Spark, as its page gives it: on plain pandas in ``test_docs``, on Spark where there is one."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calls
from verax.models import load, save
from verax.paper.models import Linear

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-spark.md"


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
@pytest.mark.filterwarnings("default")  # Spark's own are not ours
def test_the_job_of_the_page_runs_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.syspath_prepend(tmp_path)
    for title, text in re.findall(r'^```py\w* title="([^"]+)"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL):
        (tmp_path / title).write_text(text)
    save("m.safetensors", Linear(3).build(seed=0), Linear(3), dataset=None, hyperparameters={}, metrics={}, seed=0)
    draws = np.random.default_rng(0)
    values = {name: draws.normal(size=(60, 3)) for name in ("rows", "shap", "lime")}
    for name, array in values.items():
        order = draws.permutation(60)
        columns = {feature: array[order, at] for at, feature in enumerate(("age", "income", "height"))}
        (tmp_path / name).mkdir()
        pl.DataFrame({"id": order.astype(np.int64), **columns}).write_parquet(tmp_path / name / "part-0.parquet")
    from pyspark.sql import SparkSession  # noqa: PLC0415

    local = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = local.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    try:
        exec(compile((tmp_path / "job.py").read_text(), "job.py", "exec"), {})  # noqa: S102
    finally:
        spark.stop()

    attributions = {name: values[name] for name in ("shap", "lime")}
    of_evaluate = calls.evaluate(load("m.safetensors").module, values["rows"], attributions, ["pc", "dpc"]).to_frame()
    result = pl.read_parquet(tmp_path / "scores" / "*.parquet").sort("attribution", "id")
    expected = of_evaluate.rename({"input": "id"}).sort("attribution", "id")
    assert result["id"].to_list() == expected["id"].to_list()
    for metric in ("pc", "dpc"):
        np.testing.assert_allclose(result[metric], expected[metric], atol=1e-6)
