"""Small lakes: rows and attributions in files that are cut and sorted differently, and a model file."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

import verax
from verax.core.blocks import one_thread_on_cpu
from verax.lakes import score_lake
from verax.metrics import Infidelity
from verax.models import save
from verax.paper.models import MLP
from verax.scoring.model_files.opening import open_scorer

FEATURES = ("age", "income", "height", "weight")
METRICS = ("pc", "dpc", Infidelity(samples=16))
NAMES = ("shap", "lime")
ROWS = 48


class SmallLake:
    """A lake in a folder, and the same rows in memory."""

    def __init__(self, folder: Path, rows: int = ROWS, parts: int = 4) -> None:
        self.folder, self.rows = folder, rows
        draws = np.random.default_rng(0)
        self.keys = draws.permutation(10 * rows)[:rows]
        self.values = draws.normal(size=(rows, len(FEATURES)))
        self.attributions = {name: draws.normal(size=self.values.shape) for name in NAMES}
        self.model = folder / "m.safetensors"
        save_model(self.model)
        self.write("rows", self.values, np.array_split(np.arange(rows), parts))
        self.write("shap", self.attributions["shap"], np.array_split(np.arange(rows), parts))
        self.write("lime", self.attributions["lime"], np.array_split(draws.permutation(rows), parts + 3))

    def write(self, name: str, values: Any, cuts: Any) -> None:
        """Write a table in parts."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(cuts):
            columns = {"id": self.keys[rows], **{feature: values[rows][:, at] for at, feature in enumerate(FEATURES)}}
            pl.DataFrame(columns).write_parquet(self.path(name, number))

    def path(self, name: str, number: int) -> Path:
        return self.folder / name / f"part-{number}.parquet"

    def change(self, name: str, number: int, change: Any) -> None:
        """Write a part anew."""
        path = self.path(name, number)
        change(pl.read_parquet(path)).write_parquet(path)

    def change_all(self, change: Any, *names: str) -> None:
        """Write all parts of some tables anew."""
        for path in [path for name in names for path in sorted((self.folder / name).glob("*.parquet"))]:
            change(pl.read_parquet(path)).write_parquet(path)

    def problem(self, **settings: Any) -> verax.Problem:
        """The model and what is asked about it, with rows that only show what rows look like."""
        return verax.Problem(open_scorer(self.model), self.values[:3], names=FEATURES, **settings)

    def score(self, out: str = "scores", **settings: Any) -> Any:
        addresses = {name: str(self.folder / name / "*.parquet") for name in NAMES}
        return self.score_at(str(self.folder / "rows"), addresses, str(self.folder / out), **settings)

    def score_at(self, rows: str, addresses: dict[str, str], out: str, **settings: Any) -> Any:
        problem = settings.pop("problem", None) or self.problem()
        return score_lake(problem, rows, addresses, out, **{"metrics": METRICS, "engine": 1, **settings})

    def table(self, out: str = "scores") -> pl.DataFrame:
        return pl.read_parquet(self.folder / out / "*.parquet")

    def files(self, out: str = "scores") -> dict[str, int]:
        """Files of scores, with the time of their writing."""
        return {path.name: path.stat().st_mtime_ns for path in (self.folder / out).glob("*.parquet")}

    def expected(self, metrics: Any = METRICS, rows: Any = slice(None)) -> pl.DataFrame:
        """What one call gives for some rows, under their keys."""
        attributions = {name: values[rows] for name, values in self.attributions.items()}
        with one_thread_on_cpu("cpu"):
            frame = verax.evaluate(self.problem().on(self.values[rows]), attributions, metrics).to_frame()
        return frame.select(pl.Series("id", self.keys[rows])[frame["input"]], pl.exclude("input"))


def save_model(path: Path, seed: int = 0) -> None:
    for suffix, content in _model_files(seed).items():
        path.with_suffix(suffix).write_bytes(content)


@functools.cache
def _model_files(seed: int) -> dict[str, bytes]:
    architecture = MLP(len(FEATURES), hidden=(8,), outputs=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        save(path, architecture.build(seed=seed), architecture, dataset=None, hyperparameters={}, metrics={}, seed=seed)
        return {file.suffix: file.read_bytes() for file in Path(folder).iterdir()}


def agrees(table: pl.DataFrame, expected: pl.DataFrame) -> bool:
    """Equal to the rounding of a float32 model, which on some processors depends on the rows of a batch."""
    order = ["attribution", "id"]
    table, expected = table.sort(order), expected.sort(order)
    numbers = expected.select(cs.float()).columns
    same_keys = table.select(pl.exclude(numbers)).equals(expected.select(pl.exclude(numbers)))
    return same_keys and np.allclose(table.select(numbers), expected.select(numbers), rtol=1e-4, atol=1e-6)


def same(table: pl.DataFrame, expected: pl.DataFrame) -> bool:
    """Equal bit for bit, whatever the order of the rows."""
    order = ["attribution", "id"]
    return table.sort(order).equals(expected.sort(order))
