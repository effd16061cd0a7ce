"""Mixed tables: a model of data frames, and its rows as numbers whose features are the columns of the frame."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.packages import optional_package
from verax.data.columns import Column, frame_columns
from verax.problem.baselines import typical_row
from verax.problem.inputs import Inputs
from verax.problem.problem import Problem, problem_of
from verax.problem.replacement import ReplacementLike
from verax.scoring.adapters.encoded import category_columns, fitted_columns, learnt_categories
from verax.scoring.adapters.estimators import Estimator, adapt_estimator, is_booster, predictions
from verax.scoring.class_scores import Output
from verax.scoring.raw_rows import FrameModel
from verax.scoring.scorer import Scorer

__all__ = ["problem"]

_REMOVED = {
    "mean": "the mean, and the most frequent category",
    "median": "the median, and the most frequent category",
    "mode": "the most frequent value",
    "missing": "missing",
}


def problem(
    model: Any,
    frame: Any,
    *,
    background: Any = None,
    background_labels: Any = None,
    baselines: Any = "mean",
    categorical: Sequence[str | int] | None = None,
    target: Any = None,
    output: Output = "probability",
    replacement: ReplacementLike = None,
    batch_size: int | None = None,
) -> Problem:
    """A model of data frames and its rows as a problem: one feature per column, whatever lies behind.

    Rows become numbers: amounts as they are, NaN where they are missing, categories as numbers. The model scores
    the data frame that such rows stand for, so encoders, imputers and models that take categories themselves all
    work, and a removed category becomes another that exists. Attributions have one value per column, ``(N, columns)``.

    Args:
        model: A fitted classifier or regressor with scikit-learn's interface, bare or behind encoders; also as
            ``verax.models.open_model`` or ``verax.Scorer`` hold it.
        frame: The rows to explain, a data frame of pandas or polars with the columns that it was fitted on.
        background: Rows of the training data, a frame like it.
        background_labels: Their classes, as in ``verax.Problem``; so are the arguments that are not listed here.
        baselines: What a removed feature becomes: ``"mean"`` or ``"median"`` of the background, gaps left out, and the
            most frequent category; ``"missing"``; or values by column (a dict, a series, a frame of one row), the rest
            typical.
        categorical: Columns of numbers that are categories, beside those that an encoder of the pipeline takes. Needed
            where a transformer mixes numbers before an encoder sees them; ``[]`` where there are none.

    Example:
        >>> import numpy as np, pandas as pd, verax
        >>> from sklearn.ensemble import HistGradientBoostingClassifier
        >>> frame = pd.DataFrame({"age": [20.0, np.nan, 40.0, 50.0] * 10, "town": ["Graz", "Wien", None, "Wien"] * 10})
        >>> frame["town"] = frame["town"].astype("category")
        >>> model = HistGradientBoostingClassifier(min_samples_leaf=1).fit(frame, [0, 0, 1, 1] * 10)
        >>> problem = verax.tables.problem(model, frame[:4], background=frame)
        >>> problem.names, problem.baselines[0].tolist()
        (('age', 'town'), [36.666666666666664, 2.0])
        >>> verax.evaluate(problem, np.ones((4, 2)), ["pc"])["pc"].value.shape
        (4,)
    """
    fitted = _estimator(model)
    adapter = adapt_estimator(getattr(fitted, "best_estimator_", fitted), None)
    whole = adapter.estimator

    def listed(label: str, table: Any) -> Any:
        return as_frame(label, fitted_columns(label, whole, table)).reset_index(drop=True)

    rows = listed("frame", frame)
    train = rows if background is None else listed("background", background)
    columns = _as_learnt(whole, frame_columns(rows, train, _numeric_categories(whole, rows, categorical)))
    typical = _encode(columns, train)
    encoded = FrameModel(whole, columns, adapter.returns)
    mask = np.array([column.categories is not None for column in columns])
    removed = _baseline_row(baselines, columns, typical, mask)
    become = _REMOVED.get(baselines, "") if isinstance(baselines, str) else ""

    def read(other: Any) -> Inputs:
        rows = listed("frame", other)
        values = _encode(columns, rows)
        _check_there_and_back(encoded, values, rows, fitted_columns("frame", whole, other))
        names = tuple(column.name for column in columns)
        return Inputs(values, features="element", baselines=removed, names=names, codes=mask, removed=become)

    return problem_of(
        encoded,
        read(frame),
        read,
        background=None if background is None else typical,
        background_labels=background_labels,
        target=target,
        output=output,
        replacement=replacement,
        batch_size=batch_size,
    )


def as_frame(label: str, table: Any) -> Any:
    """A data frame of pandas; one of polars is copied, with None for text that is missing, as scikit-learn reads it."""
    pandas = optional_package("pandas", "pandas", f"{label}: a table with categories")
    if isinstance(table, pandas.DataFrame):
        return table
    if not hasattr(table, "to_dicts"):
        raise TypeError(f"{label}: expected a data frame of pandas or polars, got {type(table).__name__}.")
    columns = {}
    for name in table.columns:
        values = table[name]
        plain = values.dtype.is_numeric() and values.null_count() == 0
        text = str(values.dtype).split("(")[0] in ("String", "Categorical", "Enum")  # pandas' own str has NaN for None
        kept = pandas.Series(values.to_list(), dtype=object if text else None)
        columns[name] = values.to_numpy() if plain else kept if text else kept.to_numpy()
    return pandas.DataFrame(columns)


def _estimator(model: Any) -> Any:
    """The estimator that an adapter or a scorer holds; anything else as it is."""
    adapter = model.adapter if isinstance(model, Scorer) else model
    held = adapter.estimator if isinstance(adapter, Estimator | FrameModel) else adapter
    if is_booster(getattr(held, "booster", held)):
        raise TypeError(
            "model: expected a model with scikit-learn's interface, got a booster, which takes numbers alone. Pass "
            "the fitted XGBClassifier or LGBMClassifier (or regressor); XGBoost's reads its file again: "
            "model = xgboost.XGBClassifier(); model.load_model(path)."
        )
    return held


def _encode(columns: Sequence[Column], frame: Any) -> Any:
    return np.stack([column.encode(frame[column.label]) for column in columns], axis=1)


def _numeric_categories(model: Any, frame: Any, named: Sequence[str | int] | None) -> list[str]:
    """Columns of numbers that are categories: named by the caller, or found in the model."""
    names = [str(name) for name in frame.columns]
    chosen = [str(name) for name in named or ()]
    if unknown := [name for name in chosen if name not in names]:
        raise ValueError(f"categorical: the frame has no column {', '.join(unknown)}; it has {', '.join(names)}.")
    known, mixed = category_columns(model, names)
    numbers = [names[place] for place in sorted(mixed) if getattr(frame.dtypes.iloc[place], "kind", "O") in "iuf"]
    if numbers and named is None:
        raise ValueError(
            f"categorical: cannot tell which of the columns {', '.join(numbers)} an encoder of the model takes, "
            "because a step before it mixes or renames them; name those that are categories: categorical=[...] "
            "([] for none)."
        )
    return chosen + [names[place] for place in known]


def _as_learnt(model: Any, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Numbers that are categories as Python objects where an encoder learnt them so, say from a frame of polars.

    Such an encoder of scikit-learn does not find plain numbers among its categories.
    """
    learnt = [known for known in learnt_categories(model) if getattr(known, "dtype", np.dtype(float)).kind == "O"]
    if not any(isinstance(category, int | float) and not np.isnan(category) for known in learnt for category in known):
        return columns
    numbers = [column.categories is not None and getattr(column.dtype, "kind", "O") in "iuf" for column in columns]
    return tuple(
        replace(column, dtype=np.dtype(object)) if number else column
        for column, number in zip(columns, numbers, strict=True)
    )


def _check_there_and_back(model: FrameModel, values: Any, frame: Any, original: Any) -> None:
    """The model must see the very rows that were given, and so predict what it predicts on the caller's own frame."""
    again = model.frame(values)
    for name in frame.columns:
        if not again[name].astype(object).equals(frame[name].astype(object)):
            raise ValueError(
                f"frame: column {name} ({frame[name].dtype}) does not survive being turned into numbers and back; "
                "turn it into numbers or text first."
            )
    if list(again.dtypes) == list(getattr(original, "dtypes", ())):
        return
    try:
        expected = predictions(model.estimator, model.returns, original)
    except (TypeError, ValueError, AttributeError):  # it takes no frames of this kind, so there is nothing to compare
        return
    got = np.asarray(predictions(model.estimator, model.returns, again), dtype=np.float64)
    if not np.allclose(got, np.asarray(expected, dtype=np.float64), rtol=1e-5, atol=1e-6, equal_nan=True):
        most = float(np.abs(got - expected).max())
        raise ValueError(
            f"frame: the model's predictions on the {type(original).__module__.split('.')[0]} frame and on its columns "
            f"as pandas has them differ by up to {most:.3g}; pass the frame with the types that the model was fitted "
            "on."
        )


def _baseline_row(baselines: Any, columns: Sequence[Column], rows: Any, codes: Any) -> Any:
    if isinstance(baselines, str) and baselines == "missing":
        return np.array([_gap(column) for column in columns])
    tensor = torch.from_numpy(rows)
    if isinstance(baselines, str):
        if baselines not in ("mean", "median", "mode"):
            expected = '"mean", "median", "mode", "missing" or values by column'
            raise ValueError(f"baselines: expected {expected}, got {baselines!r}.")
        return _without_gaps(baselines, tensor, columns, codes)
    if hasattr(baselines, "iloc") and getattr(baselines, "ndim", 1) == 2:
        if len(baselines) != 1:
            raise ValueError(f"baselines: expected a data frame of one row, got {len(baselines)}.")
        baselines = baselines.iloc[0]
    if not isinstance(baselines, Mapping) and not hasattr(baselines, "items"):
        raise TypeError(f"baselines: expected a word or values by column, got {type(baselines).__name__}.")
    statistics = _without_gaps("mean", tensor, columns, codes)
    places = {column.name: place for place, column in enumerate(columns)}
    for name, value in baselines.items():
        if str(name) not in places:
            raise ValueError(f"baselines: there is no column {name}; there are {', '.join(places)}.")
        place = places[str(name)]
        statistics[place] = columns[place].encode([value])[0]
    return statistics


def _gap(column: Column) -> float:
    if column.categories is not None and not column.gaps:
        raise ValueError(f"baselines: nothing is missing in column {column.name}, so it cannot become so.")
    return float(column.gaps[0]) if column.gaps else np.nan


def _without_gaps(statistic: str, rows: Tensor, columns: Sequence[Column], codes: Any) -> Any:
    """A typical row; a category that is missing is not typical unless nothing else is there."""
    marked = rows.clone()
    for place, column in enumerate(columns):
        for code in column.gaps:
            marked[marked[:, place] == code, place] = torch.nan
    typical = typical_row(statistic, rows, marked, torch.from_numpy(codes)).numpy()
    return np.where(np.isnan(typical) & codes, rows[0].numpy(), typical)
