"""Studies small enough to be run in a second, with every method of the paper, and what tests ask of their tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from verax.study.explained_models import Machine
from verax.study.run import Finished, run_study
from verax.study.spec import StudySpec, parse_spec

TABLE_METHODS: list[dict[str, Any]] = [
    {"method": "Gradient"},
    {"method": "GuidedBackprop"},
    {"method": "IntegratedGradients", "points": 4},
    {"method": "IntegratedGradients", "points": 4, "multiply_by_inputs": False},
    {"method": "IntegratedGradients", "points": 4, "baseline": "max"},
    {"method": "SmoothGrad", "samples": 4},
    {"method": "VarGrad", "samples": 4},
    {"method": "SmoothGrad", "samples": 4, "sigma": 0.5},
    {"method": "DeepLiftSHAP", "samples": 8, "background": 0.5},
    {"method": "DeepLiftSHAP", "samples": 8, "background": 0.25, "multiply_by_inputs": False},
    {"method": "DeepLiftSHAP", "samples": 8},
    {"method": "LimeTabular", "samples": 16},
    {"method": "LimeTabular", "samples": 32, "alpha": 1.0},
    {"method": "Random"},
    {"method": "Random", "constant": True},
]
IMAGE_METHODS: list[dict[str, Any]] = [
    {"method": "Gradient"},
    {"method": "IntegratedGradients", "points": 4},
    {"method": "DeepLiftSHAP", "samples": 8, "background": 0.5},
    {"method": "LimeImage", "samples": 16},
    {"method": "LimeImage", "samples": 16, "alpha": 1.0, "replacement": "image"},
    {"method": "LimeImage", "samples": 16, "segmenter": {"method": "Slic", "n_segments": 8}},
    {"method": "Edges", "detector": "sobel"},
    {"method": "Random"},
]
LINEAR = {"name": "Cancer-Linear", "architecture": "linear"}
MLP = {"name": "Cancer-MLP", "architecture": "mlp"}
DIGITS = {"name": "Digits-Linear", "architecture": "linear"}
SECONDS = ("attribution_seconds", "guided_seconds", "sampled_seconds")


def table(*models: dict[str, Any], others: Sequence[dict[str, Any]] = TABLE_METHODS, **settings: Any) -> dict[str, Any]:
    """A data set of a spec: a table of ten inputs in units of four."""
    own = {"name": "breast-cancer", "limit": 10, "chunk": 4, **settings}
    return {**own, "models": list(models or (LINEAR,)), "attributions": {"grid": False, "others": list(others)}}


def images(others: Sequence[dict[str, Any]] = IMAGE_METHODS, **settings: Any) -> dict[str, Any]:
    """A data set of a spec: three images in units of two."""
    own = {"name": "digits", "limit": 3, "chunk": 2, "background": 64, **settings}
    return {**own, "models": [DIGITS], "attributions": {"grid": False, "others": list(others)}}


def content(*data: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The content of a spec's file."""
    few = {"inputs": 4, "samples": 16, "sizes": [4, 16], "resamples": 4, "independent": 2}
    own = {"name": "small", "metrics": {"samples": 16}, "uncertainty": few, "examples": 2}
    return {**own, "data": list(data or (table(),)), **settings}


def spec(*data: dict[str, Any], **settings: Any) -> StudySpec:
    """A small study."""
    return parse_spec(content(*data, **settings), "small.toml")


def whole() -> StudySpec:
    """The study that is run once for all tests: two models of a table and one of images, eight units."""
    return spec(table(LINEAR, MLP), images())


def ran(study: StudySpec, folder: Path, **settings: Any) -> tuple[Finished, list[str]]:
    """Run a study and return what was found with the lines of its log, without those of the plan."""
    lines: list[str] = []
    found = run_study(study, folder, log=lines.append, **settings)
    return found, [line for line in lines if not line.startswith((f"{study.name}: ", "  "))]


def scores(folder: Path, *, seconds: bool = False) -> pl.DataFrame:
    """The table of a study in the order of its files, without seconds, which differ from run to run."""
    parts = [pl.read_parquet(path) for path in sorted((folder / "scores").glob("*.parquet"))]
    found = pl.concat(parts)
    return found if seconds else found.drop(SECONDS)


def same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether two tables are equal bit for bit, NaN included."""
    return one.schema == other.schema and one.equals(other, null_equal=True)


def agrees(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether two tables are equal to the rounding of a float32 model, whose batches hold other rows."""
    numbers = other.select(cs.float()).columns
    same_keys = one.schema == other.schema and same(one.drop(numbers), other.drop(numbers))
    return same_keys and np.allclose(one.select(numbers), other.select(numbers), rtol=1e-4, atol=1e-6, equal_nan=True)


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each file of scores: a file that was written again has others."""
    found = {path.name: path.stat() for path in sorted((folder / "scores").glob("*.parquet"))}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in found.items()}


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file; positions below 0 count from its end."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(bytes(content))


HERE = Machine()
