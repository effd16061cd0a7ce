"""Rows from files, with categories and gaps, read as the model has learnt them; words are checked before anything."""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from verax.core.arguments import checked_choice
from verax.core.packages import optional_package
from verax.data.array_files import (
    SUFFIXES,
    TABLES,
    Array,
    first_line,
    listed,
    read_inputs,
    read_table,
    read_words,
    table_array,
    text_columns,
)
from verax.problem.inputs import Inputs, checked_values
from verax.problem.problem import Problem, problem_of
from verax.problem.tables import as_frame, problem
from verax.scoring.adapters.encoded import learnt_categories
from verax.scoring.adapters.estimators import fitted_names
from verax.scoring.frames import fitted_places
from verax.scoring.model_files.opening import check_model_name, open_scorer
from verax.scoring.model_files.saved import ModelFileError
from verax.scoring.scorer import Scorer, checked_device

STATISTICS = ("mean", "median", "mode")  # of the background
_CHOICES = {
    "returns": ("logits", "probabilities", "values"),
    "missing": ("allow", "raise"),
    "unit": ("token", "word", "sentence"),
    "replace": ("mask", "pad", "unk", "delete"),
}
_LABEL = "label:"  # before a label that looks like a number or like a file


@dataclass(frozen=True)
class ProblemFiles:
    """Files of a problem and their settings, as ``verax.open_problem`` explains it."""

    model: Path
    inputs: Path
    background: Path | None = None
    baselines: Any = None
    features: Any = None
    returns: Any = None
    missing: str | None = None
    device: Any = None
    trust: bool = False
    text_column: str | None = None
    word_column: str | None = None
    unit: str | None = None
    replace: str | None = None


def check_model(files: ProblemFiles) -> None:
    """Raise for what is wrong with a model file or its settings; argument as in ``open_explained``."""
    check_settings(files)
    try:
        check_model_name(files.model)
    except ValueError as error:
        raise ValueError(f"model: {files.model}: {error}.") from None
    if isinstance(files.baselines, str) and files.baselines in STATISTICS and files.background is None:
        raise ValueError(f"baselines: {files.baselines} is one of the training data; pass background=FILE as well.")
    if not files.model.is_file():
        raise FileNotFoundError(f"model: there is no file {files.model}.")


def check_settings(files: ProblemFiles) -> None:
    checked_device(files.device)
    for argument, known in _CHOICES.items():
        if (word := getattr(files, argument)) is not None:
            checked_choice(argument, word, known)


def read_target(target: Any) -> Any:
    """Read a target: a number, a name, or a file with one of either per row; arrays as they are."""
    if not isinstance(target, str | Path):
        return target
    if not is_file(target):
        text = str(target)
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else text.removeprefix(_LABEL)
    words = read_words(Path(target))
    return class_numbers("target", target) if words is None else words


def class_numbers(argument: str, path: str | Path) -> Any:
    numbers = whole_numbers(argument, path, "class numbers").values
    return numbers[:, 0] if numbers.shape[1:] == (1,) else numbers


def whole_numbers(argument: str, path: str | Path, what: str) -> Array:
    read = read_inputs(Path(path))
    if not ((read.values == read.values.round()) & (abs(read.values) < 1 << 31)).all():
        raise ValueError(f"{argument}: {path}: expected {what}, got others.")
    return Array(read.values.astype("int64"), read.source, read.columns)


def number(argument: str, value: Any, expected: str) -> float:
    """Read a number, or say what was expected."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{argument}: expected {expected}, got {value}.") from None


def is_file(word: Any) -> bool:
    """Whether a word is the name of a file of numbers."""
    return isinstance(word, str | Path) and Path(word).suffix.lower() in SUFFIXES


_WORDS = (*STATISTICS, "missing")
_BOOSTERS = ("xgboost", "lightgbm")  # take categories themselves, as a type of pandas


def mixed_table(estimator: Any, table: Any, files: ProblemFiles) -> Problem | None:
    """A table for a model that was fitted on such; None where it holds nothing but numbers."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    source, background = files.inputs, files.background
    frames = _frames(estimator, {source: table} | ({} if background is None else {background: read_table(background)}))
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
    """Tables as data frames of pandas with the model's columns; text is text in all of them if it is in one.

    Text becomes what the model knows: categories of pandas, or text with its encoders' word for a gap.
    """
    pandas = optional_package("pandas", "pandas", "a table for a model of scikit-learn")
    names = fitted_names(estimator)
    if names is not None:
        tables = {path: table[:, fitted_places(str(path), table.columns, names)] for path, table in tables.items()}
    kinds = (pl.String, pl.Categorical, pl.Enum)
    words = list(dict.fromkeys(column.name for table in tables.values() for column in table if column.dtype in kinds))
    library = type(estimator).__module__.split(".")[0]
    if words and library == "xgboost" and not hasattr(estimator.get_booster(), "get_categories"):
        raise ImportError(  # it knows categories by their place in a list that is in no file
            "model: XGBoost keeps the words for categories from 3.1 on; install it and fit the model again, or put "
            "an encoder before it in a pipeline."
        )
    texts = {path: table.with_columns(pl.col(words).cast(pl.String)) for path, table in tables.items()}
    frames = {path: as_frame("inputs", table) for path, table in texts.items()}
    none = any(category is None for known in learnt_categories(estimator) for category in known)
    for name in words:
        known = sorted({category for frame in frames.values() for category in frame[name].dropna()})
        for frame in frames.values():
            if library in _BOOSTERS:
                frame[name] = frame[name].astype(pandas.CategoricalDtype(known))
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


@dataclass(frozen=True, eq=False)
class FileRows(Inputs):
    """Rows of a file, as they were read: files of attributions go by its columns."""

    file: Array | None = None


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
        return FileRows(**vars(replace(inputs, **groups)), file=replace(read, values=inputs.values))

    rows, background = rows_of(mixed.rows), mixed.background
    return problem_of(mixed.scorer, rows, lambda other: rows_of(mixed.read(other)), background=background, **settings)


def _of_numbers(files: ProblemFiles, scorer: Scorer, read: Array, settings: Mapping[str, Any]) -> Problem:
    rows = read if scorer.feature_names is None else read.ordered(scorer.feature_names, str(files.model))
    allowed = files.missing == "allow" or (files.missing is None and scorer.takes_missing)
    checked_values(rows.values, missing=True)
    if not allowed:
        _check_no_gaps(rows, files.model)
    background = None if files.background is None else _read_like(files.background, rows, gaps=True)
    file_rows = FileRows(
        rows.values,
        baselines=_baselines_of(files.baselines, rows, allowed),
        names=rows.columns if files.features is None else None,
        codes=_categories(files, scorer, rows),
        file=rows,
    )
    train = None if background is None else background.astype(rows.values.dtype)
    return Problem(scorer, replace(file_rows, **_features_of(files.features, rows)), background=train, **settings)


def _categories(files: ProblemFiles, scorer: Scorer, rows: Array) -> Any:
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
    if rows.columns is None:
        row = int(gaps.reshape(len(gaps), -1).any(1).argmax())
        where = f"inputs: expected finite numbers, got nan in row {row}"
    else:
        names = [name for name, gap in zip(rows.columns, gaps.any(0), strict=True) if gap]
        where = f"expected a number in every row, missing values in {listed(names)}"
    raise ValueError(f'{rows.source}: {where}; if {model.name} takes missing values, say missing="allow".')


def _read_like(path: Path, rows: Array, *, gaps: bool = False) -> Any:
    """Numbers of another file, with their columns in the order of the inputs'."""
    table = path.suffix.lower() in TABLES
    return (table_array(read_table(path), path, gaps=gaps) if table else read_inputs(path)).like(rows).values


def _baselines_of(baselines: Any, rows: Array, missing: bool) -> Any:
    if baselines is None or (isinstance(baselines, str) and baselines in (*STATISTICS, "zero")):
        return baselines
    if baselines == "missing":
        if not missing:
            raise ValueError('baselines: the model is not known to take missing values; if it does, missing="allow".')
        return float("nan")
    if is_file(baselines):
        return _read_like(Path(baselines), rows, gaps=missing)
    return number("baselines", baselines, f"a number, {', '.join(STATISTICS)}, zero, missing or a file")


def _features_of(features: Any, rows: Array) -> dict[str, Any]:
    """Read ``features``; groups have other names than the columns."""
    if features is None or features in ("auto", "element", "pixel"):
        return {} if features is None else {"features": features}
    if not is_file(features):
        raise ValueError(f"features: expected a file of group numbers, auto, element or pixel, got {features}.")
    groups = whole_numbers("features", features, "whole numbers of groups").like(rows)
    return {"features": groups.values, "names": None}


def _try(problem: Problem, path: Path) -> None:
    """Score the first rows, and one with a gap, so that inputs that the model cannot score raise in one line."""
    file = problem.rows.file  # type: ignore[attr-defined]  # which all problems of this module have
    gaps = np.isnan(file.values.reshape(len(problem), -1)).any(1)
    few = checked_values(file.values[sorted({0, min(1, len(problem) - 1), int(gaps.argmax())})], missing=True)
    try:
        with problem.scorer.session(few, "numpy", "probability") as session:
            session.class_scores(few)
    except _model_errors(path.suffix.lower()) as error:
        shape, reason = tuple(few.shape[1:]), first_line(error.__cause__ or error).removesuffix(".")
        columns = file.columns
        named = "" if columns is None else f" Its columns are {listed(list(columns))}; leave out what is no input."
        raise ValueError(f"{file.source}: {path} cannot score rows of shape {shape}: {reason}.{named}") from None


def _model_errors(suffix: str) -> tuple[type[Exception], ...]:
    """What a model may raise on rows that do not fit it; libraries have no common type."""
    if suffix == ".onnx":
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        return (state.Fail, state.InvalidArgument, state.RuntimeException, state.NotImplemented)
    if suffix in (".pt2", ".safetensors"):
        return (RuntimeError, AssertionError)
    return (ValueError, TypeError, LookupError, AttributeError)
