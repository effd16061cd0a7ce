"""Tables of numbers, categories and gaps for a model of scikit-learn: read as the model has learnt them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verax.cli import model_options

if TYPE_CHECKING:
    from verax import Inputs, Scorer
    from verax.datasets.array_files import Array

_WORDS = ("mean", "median", "mode", "missing")
_BOOSTERS = ("xgboost", "lightgbm")  # take categories themselves, as a type of pandas


@dataclass(frozen=True)
class MixedTable:
    """A model and a table as ``verax.tables.encoded`` gives them.

    Attributes:
        scorer: The model.
        inputs: The rows, one feature per column.
        rows: The same, with the columns by which files of attributions go.
        background: Rows of the training data, if they were given.
    """

    scorer: "Scorer"
    inputs: "Inputs"
    rows: "Array"
    background: "Inputs | None"


def mixed_table(
    estimator: Any, table: Any, source: Path, background: Path | None, baselines: str | None, missing: str | None
) -> MixedTable | None:
    """Open a table to a model that was fitted on such; None where it holds nothing but numbers.

    Args:
        estimator: A fitted model of scikit-learn's interface.
        table: The rows, a frame of polars.
        source: Their file.
        background: File with rows of the training data.
        baselines: What removed features become, as the option says it.
        missing: Whether values may be missing, as the option says it.
    """
    from verax.datasets.array_files import Array, read_table
    from verax.problem.tables import encoded

    estimator = getattr(estimator, "best_estimator_", estimator)
    tables = {source: table} | ({} if background is None else {background: read_table(background)})
    frames = _frames(estimator, tables)
    train = None if background is None else frames[background]
    scorer, inputs = encoded(estimator, frames[source], background=train)
    if not inputs.codes.any() and not any(frame.isna().any(axis=None) for frame in frames.values()):
        return None
    if missing == "refuse":
        _refuse_gaps(source, frames[source])
    if baselines is not None:
        removed = _baselines_of(baselines, inputs)
        scorer, inputs = encoded(estimator, frames[source], background=train, baselines=removed)
    names = tuple(inputs.names or ())
    rows = Array(inputs.values, str(source), names, tuple(name for name in table.columns if name in names))
    return MixedTable(scorer, inputs, rows, None if train is None else encoded(estimator, train, background=train)[1])


def _frames(estimator: Any, tables: dict[Path, Any]) -> dict[Path, Any]:
    """Tables as data frames of pandas, with the model's columns; text is text in all of them if it is in one."""
    import polars as pl

    from verax.problem.table_columns import as_frame
    from verax.scoring.adapters.estimators import fitted_names
    from verax.scoring.frames import fitted_places

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
    from verax.core.packages import optional_package
    from verax.problem.category_columns import learnt_categories

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
            "--model: XGBoost keeps the words for categories from 3.1 on; install it and fit the model again, or put "
            "an encoder before it in a pipeline."
        )


def _refuse_gaps(source: Path, frame: Any) -> None:
    from verax.datasets.array_files import listed

    if gaps := [str(name) for name in frame.columns if frame[name].isna().any()]:
        raise ValueError(
            f"{source}: expected a value in every row, missing values in {listed(gaps)}, and --missing is refuse."
        )


def _baselines_of(text: str, inputs: "Inputs") -> Any:
    """Read ``--baselines`` for a mixed table: a word, a table of one row, or a number where all columns are numbers."""
    from verax.datasets.array_files import TABLES, listed, read_table
    from verax.problem.table_columns import as_frame

    if text in _WORDS:
        return text
    path = Path(text)
    if path.suffix.lower() in TABLES:
        table = read_table(path)
        if table.height != 1:
            raise ValueError(
                f"--baselines: {path}: expected one row, by the names of the columns, found {table.height}."
            )
        return as_frame("baselines", table)
    found = (
        0.0
        if text == "zero"
        else model_options.number("--baselines", text, f"{', '.join(_WORDS)}, a number, or a table of one row")
    )
    names = list(inputs.names or ())
    if words := [name for name, code in zip(names, inputs.codes, strict=True) if code]:
        raise ValueError(
            f"--baselines: {text} is no category of {listed(words)}; say {', '.join(_WORDS)}, or a table of one row."
        )
    return dict.fromkeys(names, found)
