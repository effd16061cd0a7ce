"""Mixed tables: a model of data frames, and its rows as numbers whose features are the columns of the frame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.core.arrays import ArrayKind
from verax.core.packages import optional_package
from verax.problem.inputs import Inputs
from verax.problem.table_columns import Column, as_frame, read_columns
from verax.problem.typical_rows import typical_row
from verax.scoring.adapters import Returns, catboost
from verax.scoring.adapters.base import as_numpy
from verax.scoring.adapters.estimators import adapt_estimator, fitted_labels, fitted_names, predictions
from verax.scoring.frames import fitted_places
from verax.scoring.scorer import Scorer

__all__ = ["encoded"]


@dataclass(frozen=True, eq=False)
class FrameModel:
    """A fitted model of data frames that is asked about rows of numbers: categories come as codes."""

    estimator: Any
    columns: tuple[Column, ...]
    returns: Returns
    module: None = None
    takes_missing: bool = True

    @property
    def feature_names(self) -> Sequence[str]:
        """The columns of the data frame."""
        return [column.name for column in self.columns]

    @property
    def labels(self) -> Sequence[Any] | None:
        """The classes, in the order of their probabilities."""
        return fitted_labels(self.estimator) if self.returns == "probabilities" else None

    def frame(self, rows: Any) -> Any:
        """The data frame that rows of numbers stand for."""
        pandas = optional_package("pandas", "pandas", "frame: a table with categories")
        return pandas.DataFrame({one.name: one.decode(rows[:, place]) for place, one in enumerate(self.columns)})

    def model_rows(self, batch: Tensor) -> Any:
        """The data frame that a batch stands for."""
        return self.frame(as_numpy(batch.detach().double()))

    def __call__(self, batch: Tensor, kind: ArrayKind) -> object:
        """Ask the model about the data frame that a batch stands for."""
        return predictions(self.estimator, self.returns, self.model_rows(batch))


def encoded(
    pipeline: Any,
    frame: Any,
    *,
    background: Any = None,
    baselines: Any = "mean",
    categories: Sequence[str] = (),
) -> tuple[Scorer, Inputs]:
    """Open a model of data frames to metrics and methods: one feature per column, whatever lies behind.

    Rows become numbers: amounts as they are, NaN where they are missing, categories as codes. The model is asked about
    the data frame that such rows stand for, so encoders, imputers and models that take categories themselves all work,
    and a removed category becomes another that exists. Attributions have one value per column, ``(N, columns)``.

    Args:
        pipeline: A fitted classifier or regressor with scikit-learn's interface, bare or behind encoders.
        frame: The rows to explain, a data frame of pandas or polars with the columns that it was fitted on.
        background: Rows of the training data. To pass them on, say for ``sigma="std"``, encode them likewise:
            ``encoded(pipeline, train, background=train)[1]``.
        baselines: What a removed feature becomes: ``"mean"`` or ``"median"`` of the background, gaps left out, and the
            most frequent category; ``"missing"``; or values by column (a dict, a series, a frame of one row), the rest
            typical.
        categories: Columns of numbers that are categories, beside those that an encoder of the pipeline takes.

    Returns:
        The model as a ``verax.Scorer``, and the inputs.

    Example:
        >>> import numpy as np, pandas as pd, verax
        >>> from sklearn.ensemble import HistGradientBoostingClassifier
        >>> frame = pd.DataFrame({"age": [20.0, np.nan, 40.0, 50.0] * 10, "town": ["Graz", "Wien", None, "Wien"] * 10})
        >>> frame["town"] = frame["town"].astype("category")
        >>> model = HistGradientBoostingClassifier(min_samples_leaf=1).fit(frame, [0, 0, 1, 1] * 10)
        >>> scorer, inputs = verax.tables.encoded(model, frame[:4], background=frame)
        >>> inputs.names, inputs.baselines.tolist()
        (('age', 'town'), [36.666666666666664, 2.0])
        >>> verax.prediction_change(scorer, inputs, np.ones((4, 2))).value.shape
        (4,)
    """
    adapter = adapt_estimator(getattr(pipeline, "best_estimator_", pipeline), None)
    whole = adapter.estimator
    rows = _fitted_columns("frame", whole, as_frame("frame", frame))
    train = rows if background is None else _fitted_columns("background", whole, as_frame("background", background))
    said = [str(name) for name in categories]
    if unknown := [name for name in said if name not in rows.columns]:
        raise ValueError(f"categories: the frame has no column {', '.join(unknown)}; it has {', '.join(rows.columns)}.")
    columns = read_columns(rows, train, [*said, *_encoded_columns(whole, list(rows.columns))])
    values, typical = _encode(columns, rows), _encode(columns, train)
    codes = np.array([column.categories is not None for column in columns])
    model = FrameModel(whole, columns, adapter.returns)
    _check_there_and_back(model, values, rows)
    removed = _baseline_row(baselines, columns, typical, codes)
    names = tuple(column.name for column in columns)
    return Scorer(model), Inputs(values, features="element", baselines=removed, names=names, codes=codes)


def _encode(columns: Sequence[Column], frame: Any) -> Any:
    return np.stack([column.encode(frame[column.name]) for column in columns], axis=1)


def _fitted_columns(label: str, model: Any, frame: Any) -> Any:
    """The columns that a model was fitted on, in that order."""
    names = fitted_names(model)
    frame = frame.reset_index(drop=True)
    if names is None:
        return frame
    return frame.iloc[:, fitted_places(label, frame.columns, names)]


def _check_there_and_back(model: FrameModel, values: Any, frame: Any) -> None:
    """The model must see the very rows that were given."""
    again = model.frame(values)
    for name in frame.columns:
        if not again[name].astype(object).equals(frame[name].astype(object)):
            raise ValueError(
                f"frame: column {name} ({frame[name].dtype}) does not survive being turned into numbers and back; "
                "turn it into numbers or text first."
            )


def _baseline_row(baselines: Any, columns: Sequence[Column], rows: Any, codes: Any) -> Any:
    """One row that removed features take their values from."""
    if isinstance(baselines, str) and baselines == "missing":
        return np.array([column.gap for column in columns])
    given = torch.from_numpy(rows)
    if isinstance(baselines, str):
        if baselines not in ("mean", "median", "mode"):
            wanted = '"mean", "median", "mode", "missing" or values by column'
            raise ValueError(f"baselines: expected {wanted}, found {baselines!r}.")
        return _without_gaps(baselines, given, columns, codes)
    found = _without_gaps("mean", given, columns, codes)
    places = {column.name: place for place, column in enumerate(columns)}
    for name, value in _by_column(baselines):
        if name not in places:
            raise ValueError(f"baselines: there is no column {name}; there are {', '.join(places)}.")
        found[places[name]] = columns[places[name]].encode([value])[0]
    return found


def _without_gaps(statistic: str, rows: Tensor, columns: Sequence[Column], codes: Any) -> Any:
    """A typical row; a category that is missing is not typical unless nothing else is there."""
    marked = rows.clone()
    for place, column in enumerate(columns):
        gaps = [] if column.categories is None else column.gaps
        for code in gaps:
            marked[marked[:, place] == code, place] = torch.nan
    found = typical_row(statistic, rows, marked, torch.from_numpy(codes)).numpy()
    empty = np.isnan(found) & codes
    return np.where(empty, rows[0].numpy(), found)


def _by_column(baselines: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(baselines, "iloc") and getattr(baselines, "ndim", 1) == 2:
        if len(baselines) != 1:
            raise ValueError(f"baselines: expected a data frame of one row, found {len(baselines)}.")
        baselines = baselines.iloc[0]
    if not isinstance(baselines, Mapping) and not hasattr(baselines, "items"):
        raise TypeError(f"baselines: expected a word or values by column, found {type(baselines).__name__}.")
    for name, value in baselines.items():
        yield str(name), value


def _encoded_columns(model: Any, names: list[str]) -> list[str]:
    """Columns that an encoder of a pipeline turns into something else: numbers there are categories."""
    found: list[str] = []
    for step in [one for _, one in getattr(model, "steps", [])] or [model]:
        if hasattr(step, "transformers_"):
            for _, part, chosen in step.transformers_:
                if _encodes(part):
                    found += [name for name in names if name in _names(chosen, names)]
        elif _encodes(step):
            found += names
        marked = getattr(step, "is_categorical_", None)  # of gradient boosting on histograms
        if marked is not None and len(marked) == len(names):
            found += [name for name, on in zip(names, marked, strict=True) if on]
    if catboost.is_catboost(model):
        found += [names[place] for place in catboost.category_places(model)]
    return found


def _encodes(step: Any) -> bool:
    inner = [one for _, one in getattr(step, "steps", [])]
    return any(_encodes(one) for one in inner) or hasattr(step, "categories_") or "Encoder" in type(step).__name__


def _names(chosen: Any, names: list[str]) -> list[str]:
    """Names of the columns that a transformer was given: by name, number, slice or mask."""
    if isinstance(chosen, slice):
        if isinstance(chosen.start, str) or isinstance(chosen.stop, str):
            first = 0 if chosen.start is None else names.index(chosen.start)
            last = len(names) if chosen.stop is None else names.index(chosen.stop) + 1
            return names[first:last]
        return names[chosen]
    listed = np.atleast_1d(np.asarray(chosen))
    if listed.dtype == bool:
        return [name for name, on in zip(names, listed, strict=True) if on]
    return [names[int(one)] for one in listed] if listed.dtype.kind in "iu" else [str(one) for one in listed]
