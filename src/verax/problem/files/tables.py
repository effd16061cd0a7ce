"""Tables from files, of numbers, categories and gaps: read as the model has learnt them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from verax.core.packages import optional_package
from verax.data.array_files import (
    TABLES,
    Array,
    first_line,
    listed,
    read_inputs,
    read_table,
    table_array,
    text_columns,
)
from verax.problem.files.description import STATISTICS, ProblemFiles, check_model, is_file, number, whole_numbers
from verax.problem.inputs import Inputs, checked_values
from verax.problem.problem import Problem, problem_of
from verax.problem.table_columns import as_frame, learnt_categories
from verax.problem.tables import problem
from verax.scoring.adapters.estimators import fitted_names
from verax.scoring.frames import fitted_places
from verax.scoring.model_files.opening import open_scorer
from verax.scoring.model_files.saved import ModelFileError
from verax.scoring.scorer import Scorer

_WORDS = ("mean", "median", "mode", "missing")
_BOOSTERS = ("xgboost", "lightgbm")  # take categories themselves, as a type of pandas


def mixed_table(estimator: Any, table: Any, files: ProblemFiles) -> Problem | None:
    """A table for a model that was fitted on such; None where it holds nothing but numbers."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    source, background = files.inputs, files.background
    tables = {source: table} | ({} if background is None else {background: read_table(background)})
    frames = _frames(estimator, tables)
    train = None if background is None else frames[background]
    read = problem(estimator, frames[source], background=train)
    if not read.rows.codes.any() and not any(frame.isna().any(axis=None) for frame in frames.values()):
        return None
    gaps = [str(name) for name in frames[source].columns if frames[source][name].isna().any()]
    if files.missing == "raise" and gaps:
        raise ValueError(
            f"{source}: expected a value in every row, missing values in {listed(gaps)}, and missing is raise."
        )
    if files.baselines is not None:
        instead = _mixed_baselines(files.baselines, read.rows)
        read = problem(estimator, frames[source], background=train, baselines=instead)
    return read


def _frames(estimator: Any, tables: dict[Path, Any]) -> dict[Path, Any]:
    """Tables as data frames of pandas, with the model's columns; text is text in all of them if it is in one."""
    names = fitted_names(estimator)
    chosen = {}
    for path, table in tables.items():
        columns = table.columns if names is None else fitted_places(str(path), table.columns, names)
        chosen[path] = table[:, columns]
    kinds = (pl.String, pl.Categorical, pl.Enum)
    words = list(dict.fromkeys(column.name for table in chosen.values() for column in table if column.dtype in kinds))
    texts = {path: table.with_columns(pl.col(words).cast(pl.String)) for path, table in chosen.items()}
    return _as_learnt(estimator, {path: as_frame("inputs", table) for path, table in texts.items()}, words)


def _as_learnt(estimator: Any, frames: dict[Path, Any], words: list[str]) -> dict[Path, Any]:
    """Columns of text as the model knows them: as categories of pandas, or with its encoders' word for a gap."""
    pandas = optional_package("pandas", "pandas", "a table for a model of scikit-learn")
    library = type(estimator).__module__.split(".")[0]
    native = library in _BOOSTERS
    if words and library == "xgboost" and not hasattr(estimator.get_booster(), "get_categories"):
        raise ImportError(  # it knows categories by their place in a list that is in no file
            "model: XGBoost keeps the words for categories from 3.1 on; install it and fit the model again, or put "
            "an encoder before it in a pipeline."
        )
    none = any(category is None for known in learnt_categories(estimator) for category in known)
    for name in words:
        known = pandas.CategoricalDtype(
            sorted({category for frame in frames.values() for category in frame[name].dropna()})
        )
        for frame in frames.values():
            if native:
                frame[name] = frame[name].astype(known)
            elif not none:
                frame[name] = pandas.Series(frame[name].tolist(), dtype="str")  # with NaN for None
    return frames


def _mixed_baselines(baselines: Any, inputs: Inputs) -> Any:
    """Read ``baselines`` for a mixed table: a word, a table of one row, or a number where all columns are numbers."""
    if baselines in _WORDS:
        return baselines
    if isinstance(baselines, str | Path) and Path(baselines).suffix.lower() in TABLES:
        table = read_table(Path(baselines))
        if (count := table.height) != 1:
            raise ValueError(f"baselines: {baselines}: expected one row, by the names of the columns, got {count}.")
        return as_frame("baselines", table)
    expected = f"{', '.join(_WORDS)}, a number, or a table of one row"
    value = 0.0 if baselines == "zero" else number("baselines", baselines, expected)
    names = list(inputs.names or ())
    if words := [name for name, code in zip(names, inputs.codes, strict=True) if code]:
        raise ValueError(
            f"baselines: {baselines} is no category of {listed(words)}; say {', '.join(_WORDS)}, or a table of one row."
        )
    return dict.fromkeys(names, value)


_BASELINES = (*STATISTICS, "zero", "missing")


@dataclass(frozen=True, eq=False)
class FileRows(Inputs):
    """Rows of a file, which know its columns: files of attributions go by them."""

    source: str = ""  # the file
    columns: tuple[str, ...] | None = None  # its columns in the order of the model; None for arrays
    written: tuple[str, ...] | None = None  # the same as the file has them

    @property
    def table(self) -> Array:
        """The rows as they were read, by which other files are put in order."""
        return Array(self.values, self.source, self.columns, self.written)


def open_rows(files: ProblemFiles, settings: Mapping[str, Any]) -> Problem:
    """Open the model, read the rows in its order, and try some of them; the model's kind is checked first."""
    check_model(files)
    try:
        scorer = open_scorer(files.model, returns=files.returns, device=files.device, trust=files.trust)
    except ModelFileError as error:
        if files.model.suffix.lower() == ".safetensors":  # which it names itself
            raise
        raise ModelFileError(f"model: {error}") from None
    problem = _problem(files, scorer, settings)
    _try(problem, files.model)
    return problem


def _problem(files: ProblemFiles, scorer: Scorer, settings: Mapping[str, Any]) -> Problem:
    """A problem of numbers, or of a mixed table where the model is one of scikit-learn's."""
    if files.inputs.suffix.lower() not in TABLES:
        return _of_numbers(files, scorer, read_inputs(files.inputs), settings)
    table = read_table(files.inputs)
    estimator = getattr(scorer.adapter, "estimator", None)
    mixed = None if estimator is None else mixed_table(estimator, table, files)
    if mixed is None:
        if words := text_columns(table):
            raise ValueError(
                f"{files.inputs}: expected numbers, not so in {listed(words)}; {files.model.name} takes numbers alone. "
                "A scikit-learn pipeline that encodes text is saved as .skops, and so is a classifier of LightGBM or "
                "XGBoost that was fitted on categories."
            )
        return _of_numbers(files, scorer, table_array(table, files.inputs, gaps=True), settings)
    names = tuple(mixed.rows.names or ())
    read = Array(mixed.rows.values, str(files.inputs), names, tuple(name for name in table.columns if name in names))
    groups = _features_of(files.features, read)

    def rows_of(inputs: Inputs) -> FileRows:
        return FileRows(**vars(replace(inputs, **groups)), source=read.source, columns=names, written=read.written)

    rows, background = rows_of(mixed.rows), mixed.background
    return problem_of(mixed.scorer, rows, lambda other: rows_of(mixed.read(other)), background=background, **settings)


def _of_numbers(files: ProblemFiles, scorer: Scorer, read: Array, settings: Mapping[str, Any]) -> Problem:
    """Rows of numbers alone."""
    rows = read if scorer.feature_names is None else read.ordered(scorer.feature_names, str(files.model))
    allowed = files.missing == "allow" or (files.missing is None and scorer.takes_missing)
    checked_values(rows.values, missing=True)
    if not allowed:
        _check_no_gaps(rows, files.model)
    background = None if files.background is None else _read_like(files.background, rows, gaps=True)
    about: dict[str, Any] = {
        "baselines": _baselines_of(files.baselines, rows, allowed),
        "names": rows.columns if files.features is None else None,
        "codes": _categories(files, scorer, rows),
        **_features_of(files.features, rows),
    }
    file_rows = FileRows(rows.values, **about, source=rows.source, columns=rows.columns, written=rows.written)
    train = None if background is None else background.astype(rows.values.dtype)
    return Problem(scorer, file_rows, background=train, **settings)


def _categories(files: ProblemFiles, scorer: Scorer, rows: Array) -> Any:
    """Which columns of numbers are categories to the model, where its file says so; None where none is."""
    known = set(getattr(scorer.adapter, "categorical", ()))
    places = [name in known for name in rows.columns or scorer.feature_names or ()]
    if not any(places):
        return None
    if files.baselines is None:
        raise ValueError(
            f"baselines: {listed(sorted(known))} are categories to {files.model.name}, of which 0 may be one like "
            'any other; say baselines="mean" background=FILE, which takes the most frequent category, or a file of '
            "one row."
        )
    return places


def _check_no_gaps(rows: Array, model: Path) -> None:
    """Say where values are missing, for a model of which nobody said that it takes them."""
    gaps = np.isnan(rows.values)
    if not gaps.any():
        return
    hint = f'if {model.name} takes missing values, say missing="allow"'
    if rows.columns is None:
        row = int(gaps.reshape(len(gaps), -1).any(1).argmax())
        raise ValueError(f"{rows.source}: inputs: expected finite numbers, got nan in row {row}; {hint}.")
    names = [name for name, gap in zip(rows.columns, gaps.any(0), strict=True) if gap]
    raise ValueError(f"{rows.source}: expected a number in every row, missing values in {listed(names)}; {hint}.")


def _read_like(path: Path, rows: Array, *, gaps: bool = False) -> Any:
    """Numbers of another file, with their columns in the order of the inputs'."""
    if path.suffix.lower() in TABLES:
        return table_array(read_table(path), path, gaps=gaps).like(rows).values
    return read_inputs(path).like(rows).values


def _baselines_of(baselines: Any, rows: Array, missing: bool) -> Any:
    """Read ``baselines`` for rows of numbers."""
    if baselines is None or (isinstance(baselines, str) and baselines in (*STATISTICS, "zero")):
        return baselines
    if baselines == "missing":
        if not missing:
            raise ValueError('baselines: the model is not known to take missing values; if it does, missing="allow".')
        return float("nan")
    if is_file(baselines):
        return _read_like(Path(baselines), rows, gaps=missing)
    return number("baselines", baselines, f"a number, {', '.join(_BASELINES)} or a file")


def _features_of(features: Any, rows: Array) -> dict[str, Any]:
    """Read ``features``; numbers of groups have other names than the columns."""
    if features is None or features in ("auto", "element", "pixel"):
        return {} if features is None else {"features": features}
    if not is_file(features):
        raise ValueError(f"features: expected a file of group numbers, auto, element or pixel, got {features}.")
    groups = whole_numbers("features", features, "whole numbers of groups").like(rows)
    return {"features": groups.values, "names": None}


def _try(problem: Problem, path: Path) -> None:
    """Score the first rows, and one with a gap, so that inputs that the model cannot score are told in a line."""
    rows = problem.rows
    assert isinstance(rows, FileRows)  # noqa: S101  # which all problems of this module have
    gaps = np.isnan(rows.values.reshape(len(rows), -1)).any(1)
    chosen = sorted({0, min(1, len(rows) - 1), int(gaps.argmax())})
    few = checked_values(rows.values[chosen], missing=True)
    try:
        with problem.scorer.session(few, "numpy", "probability") as session:
            session.class_scores(few)
    except _model_errors(path) as error:
        shape, reason = tuple(few.shape[1:]), first_line(error.__cause__ or error).removesuffix(".")
        columns = rows.columns
        named = "" if columns is None else f" Its columns are {listed(list(columns))}; leave out what is no input."
        raise ValueError(f"{rows.source}: {path} cannot score rows of shape {shape}: {reason}.{named}") from None


def _model_errors(path: Path) -> tuple[type[Exception], ...]:
    """What a model may raise on rows that do not fit it; libraries have no common type."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        return (state.Fail, state.InvalidArgument, state.RuntimeException, state.NotImplemented)
    if suffix in (".pt2", ".safetensors"):
        return (RuntimeError, AssertionError)
    return (ValueError, TypeError, LookupError, AttributeError)
