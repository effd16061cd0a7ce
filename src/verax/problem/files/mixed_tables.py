"""Tables of numbers, categories and gaps for a model of scikit-learn: read as the model has learnt them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from verax.core.packages import optional_package
from verax.data.array_files import TABLES, listed, read_table
from verax.problem.files.said import ProblemFiles, number
from verax.problem.inputs import Inputs
from verax.problem.problem import ReadRows
from verax.problem.table_columns import as_frame, learnt_categories
from verax.problem.tables import problem
from verax.scoring.adapters.estimators import fitted_names
from verax.scoring.frames import fitted_places
from verax.scoring.scorer import Scorer

_WORDS = ("mean", "median", "mode", "missing")
_BOOSTERS = ("xgboost", "lightgbm")  # take categories themselves, as a type of pandas


@dataclass(frozen=True)
class MixedTable:
    """A model and a table as ``verax.tables.problem`` holds them.

    Attributes:
        scorer: The model.
        rows: The rows, one feature per column.
        read: Makes such rows of another data frame.
        background: Rows of the training data, if they were given.
    """

    scorer: Scorer
    rows: Inputs
    read: ReadRows
    background: Any


def mixed_table(estimator: Any, table: Any, files: ProblemFiles) -> MixedTable | None:
    """Open a table to a model that was fitted on such; None where it holds nothing but numbers.

    Args:
        estimator: A fitted model of scikit-learn's interface.
        table: The rows, a frame of polars.
        files: Where they come from, and what is said about them.
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    source, background = files.inputs, files.background
    tables = {source: table} | ({} if background is None else {background: read_table(background)})
    frames = _frames(estimator, tables)
    train = None if background is None else frames[background]
    read = problem(estimator, frames[source], background=train)
    if not read.rows.codes.any() and not any(frame.isna().any(axis=None) for frame in frames.values()):
        return None
    if files.missing == "refuse":
        _refuse_gaps(source, frames[source])
    if files.baselines is not None:
        instead = _baselines_of(files.baselines, read.rows)
        read = problem(estimator, frames[source], background=train, baselines=instead)
    return MixedTable(read.scorer, read.rows, read.read, read.background)


def _frames(estimator: Any, tables: dict[Path, Any]) -> dict[Path, Any]:
    """Tables as data frames of pandas, with the model's columns; text is text in all of them if it is in one."""
    names = fitted_names(estimator)
    chosen = {}
    for path, table in tables.items():
        wanted = table.columns if names is None else fitted_places(str(path), table.columns, names)
        chosen[path] = table[:, wanted]
    kinds = (pl.String, pl.Categorical, pl.Enum)
    words = list(dict.fromkeys(column.name for table in chosen.values() for column in table if column.dtype in kinds))
    texts = {path: table.with_columns(pl.col(words).cast(pl.String)) for path, table in chosen.items()}
    return _as_learnt(estimator, {path: as_frame("inputs", table) for path, table in texts.items()}, words)


def _as_learnt(estimator: Any, frames: dict[Path, Any], words: list[str]) -> dict[Path, Any]:
    """Columns of text as the model knows them: as categories of pandas, or with its encoders' word for a gap."""
    pandas = optional_package("pandas", "pandas", "a table for a model of scikit-learn")
    native = type(estimator).__module__.split(".")[0] in _BOOSTERS
    if native and words:
        _check_keeps_categories(estimator)
    none = any(one is None for known in learnt_categories(estimator) for one in known)
    for name in words:
        known = pandas.CategoricalDtype(sorted({one for frame in frames.values() for one in frame[name].dropna()}))
        for frame in frames.values():
            if native:
                frame[name] = frame[name].astype(known)
            elif not none:
                frame[name] = pandas.Series(frame[name].tolist(), dtype="str")  # with NaN for None
    return frames


def _check_keeps_categories(estimator: Any) -> None:
    """Refuse a model that knows categories by their place in a list that is in no file."""
    if type(estimator).__module__.startswith("xgboost") and not hasattr(estimator.get_booster(), "get_categories"):
        raise ImportError(
            "model: XGBoost keeps the words for categories from 3.1 on; install it and fit the model again, or put "
            "an encoder before it in a pipeline."
        )


def _refuse_gaps(source: Path, frame: Any) -> None:
    if gaps := [str(name) for name in frame.columns if frame[name].isna().any()]:
        raise ValueError(
            f"{source}: expected a value in every row, missing values in {listed(gaps)}, and missing is refuse."
        )


def _baselines_of(said: Any, inputs: Inputs) -> Any:
    """Read ``baselines`` for a mixed table: a word, a table of one row, or a number where all columns are numbers."""
    if said in _WORDS:
        return said
    if isinstance(said, str | Path) and Path(said).suffix.lower() in TABLES:
        table = read_table(Path(said))
        if table.height != 1:
            raise ValueError(f"baselines: {said}: expected one row, by the names of the columns, got {table.height}.")
        return as_frame("baselines", table)
    expected = f"{', '.join(_WORDS)}, a number, or a table of one row"
    value = 0.0 if said == "zero" else number("baselines", said, expected)
    names = list(inputs.names or ())
    if words := [name for name, code in zip(names, inputs.codes, strict=True) if code]:
        raise ValueError(
            f"baselines: {said} is no category of {listed(words)}; say {', '.join(_WORDS)}, or a table of one row."
        )
    return dict.fromkeys(names, value)
