"""Small lakes: rows and attributions in parts that are cut and sorted differently, and a model file."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import verax
from verax.lakes import ModelFile, Settings, score_lake
from verax.metrics import Infidelity
from verax.models import MLP, save

FEATURES = ("age", "income", "height", "weight")
SETTINGS = Settings(("pc", "dpc", Infidelity(samples=16)))
NAMES = ("shap", "lime")
ROWS = 48


class SmallLake:
    """A lake in a folder, and the same rows at hand."""

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
            own = values[rows]
            columns = {"id": self.keys[rows], **{one: own[:, at] for at, one in enumerate(FEATURES)}}
            pl.DataFrame(columns).write_parquet(self.path(name, number))

    def path(self, name: str, number: int) -> Path:
        return self.folder / name / f"part-{number}.parquet"

    def change(self, name: str, number: int, change: Any) -> None:
        """Write a part anew."""
        path = self.path(name, number)
        change(pl.read_parquet(path)).write_parquet(path)

    def score(self, out: str = "scores", **settings: Any) -> Any:
        given = {name: str(self.folder / name / "*.parquet") for name in NAMES}
        return self.score_at(str(self.folder / "rows"), given, str(self.folder / out), **settings)

    def score_at(self, rows: str, given: dict[str, str], out: str, **settings: Any) -> Any:
        asked = {"settings": SETTINGS, "workers": 1, **settings}
        return score_lake(ModelFile(self.model), rows, given, out, **asked)

    def table(self, out: str = "scores") -> pl.DataFrame:
        return pl.read_parquet(self.folder / out / "*.parquet")

    def parts(self, out: str = "scores") -> dict[str, int]:
        """Files of scores, with the time of their writing."""
        return {path.name: path.stat().st_mtime_ns for path in (self.folder / out).glob("*.parquet")}

    def expected(self, settings: Settings = SETTINGS) -> pl.DataFrame:
        """What one call says, under the keys."""
        scorer = ModelFile(self.model).open()
        frame = verax.evaluate(verax.Problem(scorer, self.values), self.attributions, settings.metrics).to_frame()
        keys = pl.Series("id", self.keys)[frame["input"]]
        return frame.select(keys, pl.exclude("input"))


def save_model(path: Path, seed: int = 0) -> None:
    for suffix, content in _model_files(seed).items():
        path.with_suffix(suffix).write_bytes(content)


@functools.cache
def _model_files(seed: int) -> dict[str, bytes]:
    architecture = MLP(len(FEATURES), hidden=(8,), outputs=2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.safetensors")
        save(path, architecture.build(seed=seed), architecture, dataset=None, hyperparameters={}, metrics={}, seed=seed)
        return {one.suffix: one.read_bytes() for one in Path(folder).iterdir()}


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> bool:
    """Equal bit for bit, whatever the order of the rows."""
    order = ["attribution", "id"]
    return found.sort(order).equals(wanted.sort(order))
