"""A model and its inputs from files: the model first, then rows in its order, and what goes with them."""

import dataclasses
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verax.cli import model_options
from verax.cli.common import checked_device_name

if TYPE_CHECKING:
    from verax import Inputs, Scorer
    from verax.datasets.array_files import Array

_RETURNS = ("logits", "probabilities", "values")
_STATISTICS = ("mean", "median", "mode")  # of the background
_BASELINES = (*_STATISTICS, "zero", "missing")


@dataclass(frozen=True)
class Files:
    """What a command is given about a model and its inputs, as the options say it."""

    model: Path
    inputs: Path
    background: Path | None
    features: str | None
    baselines: str | None
    returns: Any
    missing: str | None
    device: str | None
    trust: bool


@dataclass(frozen=True)
class Subject:
    """What is explained.

    Attributes:
        scorer: The model.
        inputs: The rows, with what a feature is and what it becomes.
        rows: The same as they were read: files of attributions go by its columns.
        background: Rows of the training data, if they were given.
        metrics: What is measured where nothing is said.
        left_out: What is not, in words, where somebody may miss it.
        perturbation: Infidelity's, where nothing is said.
    """

    scorer: "Scorer"
    inputs: "Inputs"
    rows: "Array"
    background: Any
    metrics: tuple[str, ...] = ("pc", "dpc", "infidelity")
    left_out: str = ""
    perturbation: None = None  # the metric's own

    def attributions(self, paths: Iterable[Path]) -> dict[str, Any]:
        """Attributions of the rows from files, by name."""
        from verax.datasets.array_files import read_attributions

        return read_attributions(paths, self.rows)

    @property
    def explained(self) -> str:
        """What is explained where no target is said."""
        return "the value" if self.scorer.adapter.returns == "values" else "the predicted class"

    @property
    def removed(self) -> str:
        """What removed features become where it is not said."""
        return "0" if self.inputs.baselines is None else "the mean, and the most frequent category"


def open_subject(files: Files) -> Subject:
    """Open the model, read what goes with it in its order, and try some rows; the model's kind is checked first."""
    check_model(files)
    scorer = _opened(files)
    subject = _subject(files, scorer)
    _try(subject, files.model)
    return subject


def check_model(files: Files) -> None:
    """What can be refused before anything is opened."""
    from verax.models.foreign_files import check_model_name

    if files.device is not None:
        checked_device_name(files.device)
    try:
        check_model_name(files.model)
    except ValueError as error:
        raise ValueError(f"--model: {files.model}: {error}.") from None
    check_returns(files.returns)
    model_options.check_word("--missing", files.missing, ("allow", "refuse"))
    if files.baselines in _STATISTICS and files.background is None:
        raise ValueError(f"--baselines: {files.baselines} is one of the training data; pass --background FILE as well.")
    if not files.model.is_file():
        raise FileNotFoundError(f"--model: there is no file {files.model}.")


def check_returns(word: str | None) -> None:
    """Refuse what no model gives."""
    model_options.check_word("--returns", word, _RETURNS)


def _opened(files: Files) -> "Scorer":
    from verax.models import ModelFileError
    from verax.models.scorers import open_scorer

    try:
        return open_scorer(files.model, returns=files.returns, device=files.device, trust=files.trust)
    except ModelFileError as error:
        if files.model.suffix.lower() == ".safetensors":  # which it names itself
            raise
        raise ModelFileError(f"--model: {error}") from None


def _subject(files: Files, scorer: "Scorer") -> Subject:
    """Rows of numbers, or a mixed table where the model is one of scikit-learn's."""
    from verax.cli.mixed_tables import mixed_table
    from verax.datasets.array_files import TABLES, read_inputs, read_table, table_array

    estimator = getattr(scorer.adapter, "estimator", None)
    if files.inputs.suffix.lower() not in TABLES:
        return _numbers(files, scorer, read_inputs(files.inputs))
    table = read_table(files.inputs)
    if estimator is not None:
        found = mixed_table(estimator, table, files.inputs, files.background, files.baselines, files.missing)
        if found is not None:
            inputs = dataclasses.replace(found.inputs, **_features_of(files.features, found.rows))
            return Subject(found.scorer, inputs, found.rows, found.background)
    _refuse_text(table, files)
    return _numbers(files, scorer, table_array(table, files.inputs, gaps=True))


def _refuse_text(table: Any, files: Files) -> None:
    from verax.datasets.array_files import listed, text_columns

    if words := text_columns(table):
        raise ValueError(
            f"{files.inputs}: expected numbers, not so in {listed(words)}; {files.model.name} takes numbers alone. A "
            "scikit-learn pipeline that encodes text is saved as .skops, and so is a classifier of LightGBM or XGBoost "
            "that was fitted on categories."
        )


def _numbers(files: Files, scorer: "Scorer", read: "Array") -> Subject:
    """Rows of numbers alone."""
    from verax import Inputs
    from verax.problem.checked_inputs import checked_values

    rows = read if scorer.feature_names is None else read.ordered(scorer.feature_names, str(files.model))
    allowed = files.missing == "allow" or (files.missing is None and scorer.takes_missing)
    checked_values(rows.values, missing=True)
    if not allowed:
        _refuse_gaps(rows, files.model)
    background = None if files.background is None else _read_like(files.background, rows, gaps=True)
    baselines = _baselines_of(files.baselines, rows, allowed)
    names = rows.columns if files.features is None else None
    said = {"baselines": baselines, "names": names, "codes": _categories(files, scorer, rows)}
    inputs = Inputs(rows.values, **said | _features_of(files.features, rows))
    return Subject(scorer, inputs, rows, None if background is None else background.astype(rows.values.dtype))


def _categories(files: Files, scorer: "Scorer", rows: "Array") -> Any:
    """Which columns of numbers are categories to the model, where its file says so; None where none is."""
    known = set(getattr(scorer.adapter, "categorical", ()))
    places = [name in known for name in rows.columns or scorer.feature_names or ()]
    if not any(places):
        return None
    if files.baselines is None:
        from verax.datasets.array_files import listed

        raise ValueError(
            f"--baselines: {listed(sorted(known))} are categories to {files.model.name}, of which 0 may be one like "
            "any other; say --baselines mean --background FILE, which takes the most frequent category, or a file "
            "of one row."
        )
    return places


def _refuse_gaps(rows: "Array", model: Path) -> None:
    """Say where values are missing, for a model of which nobody said that it takes them."""
    import numpy as np

    from verax.datasets.array_files import listed

    gaps = np.isnan(rows.values)
    if not gaps.any():
        return
    hint = f"if {model.name} takes missing values, say --missing allow"
    if rows.columns is None:
        row = int(gaps.reshape(len(gaps), -1).any(1).argmax())
        raise ValueError(f"{rows.source}: inputs: expected finite numbers, found nan in row {row}; {hint}.")
    names = [name for name, gap in zip(rows.columns, gaps.any(0), strict=True) if gap]
    raise ValueError(f"{rows.source}: expected a number in every row, missing values in {listed(names)}; {hint}.")


def _read_like(path: Path, rows: "Array", *, gaps: bool = False) -> Any:
    """Numbers of another file, with their columns in the order of the inputs'."""
    from verax.datasets.array_files import TABLES, read_inputs, read_table, table_array

    if path.suffix.lower() in TABLES:
        return table_array(read_table(path), path, gaps=gaps).like(rows).values
    return read_inputs(path).like(rows).values


def _baselines_of(text: str | None, rows: "Array", missing: bool) -> Any:
    """Read ``--baselines`` for rows of numbers."""
    if text is None or text in (*_STATISTICS, "zero"):
        return text
    if text == "missing":
        if not missing:
            raise ValueError("--baselines: the model is not known to take missing values; if it does, --missing allow.")
        return float("nan")
    if model_options.is_file(text):
        return _read_like(Path(text), rows, gaps=missing)
    return model_options.number("--baselines", text, f"a number, {', '.join(_BASELINES)} or a file")


def _features_of(text: str | None, rows: "Array") -> dict[str, Any]:
    """Read ``--features``; numbers of groups have other names than the columns."""
    if text is None or text in ("auto", "element", "pixel"):
        return {} if text is None else {"features": text}
    if not model_options.is_file(text):
        raise ValueError(f"--features: expected a file of group numbers, auto, element or pixel, found {text}.")
    groups = model_options.whole_numbers("--features", text, "whole numbers of groups").like(rows)
    return {"features": groups.values, "names": None}


def _try(subject: Subject, path: Path) -> None:
    """Score the first rows, and one with a gap, so that inputs that the model cannot score are told in a line."""
    import numpy as np

    from verax.datasets.array_files import first_line, listed
    from verax.problem.checked_inputs import checked_values

    values = subject.inputs.values
    gaps = np.isnan(values.reshape(len(values), -1)).any(1)
    chosen = sorted({0, min(1, len(values) - 1), int(gaps.argmax())})
    rows = checked_values(values[chosen], missing=True)
    try:
        with subject.scorer.session(rows, "numpy", "probability") as session:
            session.class_scores(rows)
    except _model_errors(path) as error:
        shape, reason = tuple(rows.shape[1:]), first_line(error.__cause__ or error).removesuffix(".")
        columns = subject.rows.columns
        named = "" if columns is None else f" Its columns are {listed(list(columns))}; leave out what is no input."
        raise ValueError(
            f"{subject.rows.source}: {path} cannot score rows of shape {shape}: {reason}.{named}"
        ) from None


def _model_errors(path: Path) -> tuple[type[Exception], ...]:
    """What a model may raise on rows that do not fit it; libraries have no common type."""
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        return (state.Fail, state.InvalidArgument, state.RuntimeException, state.NotImplemented)
    if suffix in (".pt2", ".safetensors"):
        return (RuntimeError, AssertionError)
    return (ValueError, TypeError, LookupError, AttributeError)
