"""Rows of numbers from files: the model first, then rows in its order, and what goes with them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from verax.problem.files.mixed_tables import mixed_table
from verax.problem.files.said import STATISTICS, ProblemFiles, check_model, is_file, number, whole_numbers
from verax.problem.inputs import Inputs, checked_values
from verax.problem.problem import Problem, problem_of
from verax.scoring.model_files.opening import open_scorer
from verax.scoring.model_files.saved import ModelFileError
from verax.scoring.scorer import Scorer

_BASELINES = (*STATISTICS, "zero", "missing")


@dataclass(frozen=True, eq=False)
class FileRows(Inputs):
    """Rows of a file, which know its columns: files of attributions go by them.

    Attributes:
        source: The file.
        columns: Its columns in the order of the model; None for arrays.
        written: The same as the file has them.
    """

    source: str = ""
    columns: tuple[str, ...] | None = None
    written: tuple[str, ...] | None = None

    @property
    def table(self) -> Array:
        """The rows as they were read, by which other files are put in order."""
        return Array(self.values, self.source, self.columns, self.written)


def open_rows(files: ProblemFiles, asked: Mapping[str, Any]) -> Problem:
    """Open the model, read the rows in its order, and try some of them; the model's kind is checked first."""
    check_model(files)
    scorer = _opened(files)
    problem = _problem(files, scorer, asked)
    _try(problem, files.model)
    return problem


def _opened(files: ProblemFiles) -> Scorer:
    try:
        return open_scorer(files.model, returns=files.returns, device=files.device, trust=files.trust)
    except ModelFileError as error:
        if files.model.suffix.lower() == ".safetensors":  # which it names itself
            raise
        raise ModelFileError(f"model: {error}") from None


def _problem(files: ProblemFiles, scorer: Scorer, asked: Mapping[str, Any]) -> Problem:
    """A problem of numbers, or of a mixed table where the model is one of scikit-learn's."""
    if files.inputs.suffix.lower() not in TABLES:
        return _of_numbers(files, scorer, read_inputs(files.inputs), asked)
    table = read_table(files.inputs)
    estimator = getattr(scorer.adapter, "estimator", None)
    mixed = None if estimator is None else mixed_table(estimator, table, files)
    if mixed is None:
        _refuse_text(table, files)
        return _of_numbers(files, scorer, table_array(table, files.inputs, gaps=True), asked)
    names = tuple(mixed.rows.names or ())
    read = Array(mixed.rows.values, str(files.inputs), names, tuple(name for name in table.columns if name in names))
    groups = _features_of(files.features, read)

    def rows_of(inputs: Inputs) -> FileRows:
        return FileRows(**vars(replace(inputs, **groups)), source=read.source, columns=names, written=read.given)

    again = mixed.read
    return problem_of(
        mixed.scorer, rows_of(mixed.rows), lambda other: rows_of(again(other)), background=mixed.background, **asked
    )


def _refuse_text(table: Any, files: ProblemFiles) -> None:
    if words := text_columns(table):
        raise ValueError(
            f"{files.inputs}: expected numbers, not so in {listed(words)}; {files.model.name} takes numbers alone. A "
            "scikit-learn pipeline that encodes text is saved as .skops, and so is a classifier of LightGBM or XGBoost "
            "that was fitted on categories."
        )


def _of_numbers(files: ProblemFiles, scorer: Scorer, read: Array, asked: Mapping[str, Any]) -> Problem:
    """Rows of numbers alone."""
    rows = read if scorer.feature_names is None else read.ordered(scorer.feature_names, str(files.model))
    allowed = files.missing == "allow" or (files.missing is None and scorer.takes_missing)
    checked_values(rows.values, missing=True)
    if not allowed:
        _refuse_gaps(rows, files.model)
    background = None if files.background is None else _read_like(files.background, rows, gaps=True)
    said: dict[str, Any] = {
        "baselines": _baselines_of(files.baselines, rows, allowed),
        "names": rows.columns if files.features is None else None,
        "codes": _categories(files, scorer, rows),
        **_features_of(files.features, rows),
    }
    own = FileRows(rows.values, **said, source=rows.source, columns=rows.columns, written=rows.given)
    train = None if background is None else background.astype(rows.values.dtype)
    return Problem(scorer, own, background=train, **asked)


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


def _refuse_gaps(rows: Array, model: Path) -> None:
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


def _baselines_of(said: Any, rows: Array, missing: bool) -> Any:
    """Read ``baselines`` for rows of numbers."""
    if said is None or (isinstance(said, str) and said in (*STATISTICS, "zero")):
        return said
    if said == "missing":
        if not missing:
            raise ValueError('baselines: the model is not known to take missing values; if it does, missing="allow".')
        return float("nan")
    if is_file(said):
        return _read_like(Path(said), rows, gaps=missing)
    return number("baselines", said, f"a number, {', '.join(_BASELINES)} or a file")


def _features_of(said: Any, rows: Array) -> dict[str, Any]:
    """Read ``features``; numbers of groups have other names than the columns."""
    if said is None or said in ("auto", "element", "pixel"):
        return {} if said is None else {"features": said}
    if not is_file(said):
        raise ValueError(f"features: expected a file of group numbers, auto, element or pixel, got {said}.")
    groups = whole_numbers("features", said, "whole numbers of groups").like(rows)
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
