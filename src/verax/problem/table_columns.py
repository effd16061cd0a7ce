"""Columns of mixed tables: numbers as they are, categories as codes, and which a fitted model takes as categories."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from verax.core.packages import optional_package
from verax.scoring.adapters.encoded import column_positions, owners
from verax.scoring.adapters.estimators import category_places, is_catboost

_UNSUPPORTED = {"M": "dates", "m": "time spans", "c": "complex numbers", "V": "records"}


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


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str  # its name
    dtype: Any  # its type in the data frame
    categories: tuple[Any, ...] | None  # the values that codes stand for, gaps among them; None for a column of numbers
    label: Any  # what the data frame calls it: its name, or a number

    def encode(self, values: Any) -> Any:
        """Numbers in float64, gaps as NaN; or the code of each category."""
        if self.categories is None:
            return np.asarray(values.astype("float64") if hasattr(values, "astype") else values, dtype=np.float64)
        places = {_identity(value): place for place, value in enumerate(self.categories)}
        if self.gaps:  # however it is written, what is missing is missing
            places |= {_identity(value): self.gaps[0] for value in values if _is_gap(value)} | places
        try:
            return np.array([places[_identity(value)] for value in values], dtype=np.float64)
        except KeyError as error:
            raise ValueError(f"{self.name}: {error.args[0][1]!r} is not among its categories.") from None

    def decode(self, numbers: Any) -> Any:
        """What the data frame had: numbers of the column's type where it can hold them, or categories."""
        pandas = _pandas()
        of_pandas = not isinstance(self.dtype, np.dtype)  # such types know gaps
        if self.categories is not None:
            looked_up = np.empty(len(self.categories), dtype=object)
            looked_up[:] = self.categories
            cells = looked_up[numbers.astype(np.int64)]
            return pandas.Series(cells, dtype=self.dtype if self.dtype.kind in "biuf" or of_pandas else object)
        gaps = np.isnan(numbers)
        whole = bool((gaps | (numbers == np.round(numbers))).all())
        if self.dtype.kind in "iu" and not of_pandas:
            return pandas.Series(numbers.astype(self.dtype) if whole and not gaps.any() else numbers)
        if self.dtype.kind in "iu" and not whole:
            return pandas.Series(numbers).astype("Float64")
        return pandas.Series(numbers).astype(self.dtype)

    @property
    def gaps(self) -> list[int]:
        """Codes of what is missing."""
        return [place for place, value in enumerate(self.categories or ()) if _is_gap(value)]

    @property
    def gap(self) -> float:
        """The number that stands for a missing value."""
        if self.categories is None:
            return float("nan")
        if not self.gaps:
            raise ValueError(f"baselines: nothing is missing in column {self.name}, so it cannot become so.")
        return float(self.gaps[0])


def read_columns(frame: Any, background: Any, categorical: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a table; categories are numbered as they come in the background, sorted, then in the frame."""
    columns = []
    for name in frame.columns:
        dtype = frame[name].dtype
        kind = getattr(dtype, "kind", "O")
        if kind in _UNSUPPORTED:
            raise TypeError(f"frame: column {name} holds {_UNSUPPORTED[kind]}; turn it into numbers or text first.")
        if hasattr(dtype, "sparse") or "Sparse" in str(dtype):
            raise TypeError(f"frame: column {name} is sparse; turn it into a dense one: frame.sparse.to_dense().")
        counted = kind in "iuf" and str(name) not in categorical
        categories = None if counted else _categories(background[name], frame[name])
        columns.append(Column(str(name), _holding(dtype, background[name], categories or ()), categories, name))
    return tuple(columns)


def _holding(dtype: Any, background: Any, categories: Sequence[Any]) -> Any:
    """A type that holds all categories as they are, also those that only the background has.

    A category dtype of pandas turns what it does not list into NaN, its text turns None into NaN, plain flags turn both
    into True or False, and whole numbers hold neither parts nor NaN.
    """
    pandas = _pandas()
    if not isinstance(dtype, pandas.CategoricalDtype):
        if dtype == np.dtype(bool):
            holds = not any(_is_gap(value) for value in categories)
        elif isinstance(dtype, pandas.StringDtype):
            holds = not any(value is None for value in categories)
        else:
            kinds = int if getattr(dtype, "kind", "O") in "iu" else int | float
            plain = isinstance(dtype, np.dtype) and dtype.kind != "O"
            holds = not plain or all(isinstance(value, kinds) for value in categories)
        return dtype if holds else np.dtype(object)
    values = [value for value in categories if not _is_gap(value)]
    if all(value in dtype.categories for value in values):
        return dtype
    first = background.dtype if isinstance(background.dtype, pandas.CategoricalDtype) else dtype  # as it was fitted
    listed = [*first.categories, *(value for value in values if value not in first.categories)]
    return pandas.CategoricalDtype(listed, ordered=dtype.ordered)


def _categories(first: Any, second: Any) -> tuple[Any, ...]:
    known = {_identity(value): value for value in first.tolist()}
    ordered = {key: known[key] for key in sorted(known, key=lambda key: (key[0], key[2]))}
    ordered |= {_identity(value): value for value in second.tolist() if _identity(value) not in known}
    return tuple(ordered.values())


def _identity(value: Any) -> tuple[str, Any, str]:
    """What tells values apart: 1 and True are two, and so are the ways in which something can be missing."""
    if _is_gap(value):
        return ("", None, type(value).__name__)
    value = value.item() if isinstance(value, np.generic) else value
    return (type(value).__name__, value, str(value))


def _is_gap(value: Any) -> bool:
    return bool(_pandas().isna(value)) if np.ndim(value) == 0 else False


def _pandas() -> Any:
    return optional_package("pandas", "pandas", "frame: a table with categories")


_Sources = frozenset[int]  # columns of the table that one column inside the model is computed from
_Columns = list[_Sources] | _Sources  # columns inside the model; where their number is unknown, all their sources

_NOTHING: _Sources = frozenset()
_INNER = ("best_estimator_", "regressor_", "classifier_", "estimator_", "estimators_", "calibrated_classifiers_")
_OF_LABELS = ("transformer_", "le_", "label_encoder_", "label_binarizer_")  # these take labels, not rows
_FITTED_ELSEWHERE = ("named_estimators_", "named_transformers_", "final_estimator_", "init_")


def category_columns(model: Any, names: Sequence[str]) -> tuple[set[int], set[int]]:
    """Columns that encoders and trees of a model take as categories, and those of which this cannot be known."""
    walk = _Walk(names)
    walk.visit(model, walk.table)
    return walk.categories, walk.unknown - walk.categories


def learnt_categories(model: Any) -> list[Any]:
    """The arrays of categories that encoders of a model have learnt, one per column; gaps are None or NaN in them."""
    walk = _Walk(())
    walk.visit(model, walk.table)
    return [known for encoder in walk.encoders for known in getattr(encoder, "categories_", ())]


class _Walk:
    """One walk through a model, from the columns of the table to every encoder."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.table: list[_Sources] = [frozenset([place]) for place in range(len(names))]
        self.categories: set[int] = set()
        self.unknown: set[int] = set()
        self.encoders: list[Any] = []

    def visit(self, step: Any, columns: _Columns) -> _Columns:
        """Note what a step takes as categories, and return what its output columns are computed from."""
        if step is None or isinstance(step, str):
            return [] if step == "drop" else columns
        columns = self._fitting(step, columns)
        if hasattr(step, "steps"):
            for _, part in step.steps:
                columns = self.visit(part, columns)
            return columns
        if hasattr(step, "transformers_"):
            return self._column_transformer(step, columns)
        if hasattr(step, "transformer_list"):
            parts = [self.visit(part, columns) for _, part in step.transformer_list]
            lists = [part for part in parts if isinstance(part, list)]
            return [*chain(*lists)] if len(lists) == len(parts) else _union([_union(part) for part in parts])
        if _encodes(step):
            self.encoders.append(step)
            self._note(columns, None)
        self._note_trees(step, columns)
        self._visit_inner(step, columns)
        return _outputs(step, columns)

    def _fitting(self, step: Any, columns: _Columns) -> _Columns:
        """The columns where their number is that of the step; otherwise each may come from any of them."""
        count = getattr(step, "n_features_in_", None)
        if count is None or (isinstance(columns, list) and len(columns) == count):
            return columns
        return [_union(columns)] * int(count)

    def _column_transformer(self, step: Any, columns: _Columns) -> _Columns:
        if not isinstance(columns, list):  # it was never fitted
            return columns
        names = [str(name) for name in getattr(step, "feature_names_in_", range(len(columns)))]
        sources: list[_Sources] = []
        for name, part, chosen in step.transformers_:
            width = step.output_indices_[name].stop - step.output_indices_[name].start
            selected = [columns[place] for place in column_positions(chosen, names)]
            made = self.visit(part, selected)
            sources += made if isinstance(made, list) and len(made) == width else [_union(selected)] * width
        return sources

    def _visit_inner(self, step: Any, columns: _Columns) -> None:
        """Visit the fitted models that a model holds."""
        for name in _INNER:
            places = getattr(step, "estimators_features_", None) if name == "estimators_" else None  # of bagging
            for number, inner in enumerate(_each(getattr(step, name, None))):
                seen = columns
                if isinstance(columns, list) and places is not None:
                    seen = [columns[int(place)] for place in places[number]]
                self.visit(getattr(inner, "estimator", inner) if name == "calibrated_classifiers_" else inner, seen)
        if type(step).__name__ == "FrozenEstimator":
            self.visit(step.estimator, columns)
        if (final := getattr(step, "final_estimator_", None)) is not None:  # of stacking: predictions, then columns
            passed = columns if isinstance(columns, list) and getattr(step, "passthrough", False) else []
            self.visit(final, [_NOTHING] * (int(getattr(final, "n_features_in_", 0)) - len(passed)) + passed)
        for inner in _held_elsewhere(step):  # by a class of somebody's own: what happens to the rows before is unknown
            names = [str(name) for name in getattr(inner, "feature_names_in_", ())]
            known = names and set(names) <= set(self.names)
            self.visit(inner, [self.table[self.names.index(name)] for name in names] if known else _union(self.table))

    def _note_trees(self, step: Any, columns: _Columns) -> None:
        """Trees that take numbers as categories themselves."""
        marked = getattr(step, "is_categorical_", None)  # of gradient boosting on histograms
        if marked is not None:
            self._note(columns, [place for place, on in enumerate(marked) if on])
        elif is_catboost(step):
            self._note(columns, category_places(step))
        elif type(step).__module__.startswith("lightgbm.") and hasattr(step, "booster_"):
            infos = step.booster_.dump_model(num_iteration=1)["feature_infos"]
            names = step.booster_.feature_name()
            self._note(columns, [place for place, name in enumerate(names) if infos.get(name, {}).get("values")])
        elif type(step).__module__.startswith("xgboost.") and hasattr(step, "get_booster"):
            kinds = step.get_booster().feature_types or ()
            self._note(columns, [place for place, kind in enumerate(kinds) if kind == "c"])

    def _note(self, columns: _Columns, places: Iterable[int] | None) -> None:
        """Note columns that are categories; None for all of them."""
        if not isinstance(columns, list):
            columns, places = [columns], None
        for sources in columns if places is None else [columns[place] for place in places]:
            (self.categories if len(sources) == 1 else self.unknown).update(sources)


def _encodes(step: Any) -> bool:
    return hasattr(step, "categories_") or "Encoder" in type(step).__name__


def _outputs(step: Any, columns: _Columns) -> _Columns:
    """What each output column of a transformer is computed from."""
    if not isinstance(columns, list) or not hasattr(step, "transform"):
        return _union(columns)
    places = owners(step, len(columns))
    if places is None and hasattr(step, "get_support"):  # it selects columns
        places = [int(place) for place in step.get_support(indices=True)]
    return _union(columns) if places is None else [columns[place] for place in places]


def _union(columns: _Columns) -> _Sources:
    return _NOTHING.union(*columns) if isinstance(columns, list) else columns


def _held_elsewhere(step: Any) -> Iterator[Any]:
    """Fitted encoders and pipelines that a class holds under names that scikit-learn does not have."""
    settings = set(step.get_params(deep=False)) if hasattr(step, "get_params") else set()
    for name, value in getattr(step, "__dict__", {}).items():
        if name.startswith("_") or name in settings or name in (*_INNER, *_OF_LABELS, *_FITTED_ELSEWHERE):
            continue
        for inner in _each(value):
            holds = any(
                hasattr(inner, attribute) for attribute in ("steps", "transformers_", "transformer_list", *_INNER)
            )
            if hasattr(inner, "fit") and (holds or _encodes(inner)):
                yield inner


def _each(value: Any) -> Iterator[Any]:
    """A model, or the models of a list, an array or a dict."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist() if value.dtype == object else []
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _each(entry)
    elif value is not None and not isinstance(value, str | int | float):
        yield value
