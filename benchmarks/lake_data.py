"""A lake for benchmarks: rows and attributions in parts, and the paper's network as a file. Needs torch and polars."""

import time
from pathlib import Path

import common
import numpy as np
import polars as pl
import torch

import verax
from verax.lakes import LakeScores, score_lake
from verax.metrics import PredictionChange
from verax.scoring.model_files.opening import open_scorer

FEATURES = 20
METRICS = [PredictionChange(steps=5)]
ROWS_PER_INPUT = 10  # two curves of five steps; where they end is the same row, and the input itself is one more


def write_model(folder: Path) -> Path:
    """The paper's network, exported; a format that needs nothing but torch."""
    example = torch.zeros(2, FEATURES)
    program = torch.export.export(
        common.paper_mlp(FEATURES), (example,), dynamic_shapes=[{0: torch.export.Dim("rows", min=1)}]
    )
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


def write_lake(folder: Path, rows: int, part_rows: int) -> None:
    """Rows in order, attributions in parts that are shifted by half a part: each needs two."""
    for kind, shift in (("rows", 0), ("shap", part_rows // 2)):
        (folder / kind).mkdir(parents=True)
        starts = [0, *range(part_rows - shift, rows, part_rows)] if shift else list(range(0, rows, part_rows))
        for number, (start, stop) in enumerate(zip(starts, [*starts[1:], rows], strict=True)):
            draws = np.random.default_rng([number, shift])
            values = draws.standard_normal((stop - start, FEATURES), np.float32)
            columns = {f"x{at}": values[:, at] for at in range(FEATURES)}
            pl.DataFrame({"id": np.arange(start, stop), **columns}).write_parquet(
                folder / kind / f"part-{number:05}.parquet"
            )


def problem(model: Path) -> verax.Problem:
    """The network, and rows that only show what rows look like."""
    rows = pl.DataFrame({f"x{at}": [0.0, 1.0] for at in range(FEATURES)})
    return verax.Problem(open_scorer(model, returns="logits", trust=True), rows)


def score(folder: Path, model: Path, workers: int, out: str = "scores") -> LakeScores:
    """PC of all rows."""
    attributions = {"shap": folder / "shap"}
    return score_lake(problem(model), folder / "rows", attributions, folder / out, METRICS, engine=workers)


def bare_seconds(model_rows: int) -> float:
    """Seconds of the network alone for so many rows, on one thread; measured with some of them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model, rows = common.paper_mlp(FEATURES), common.normal_inputs(1 << 17, FEATURES)
        common.bare_forward(model, rows, 1024)
        began = time.process_time()
        common.bare_forward(model, rows, 1024)
        return (time.process_time() - began) / len(rows) * model_rows
    finally:
        torch.set_num_threads(threads)
