"""Which columns of a table a fitted model takes as categories: its encoders are followed at any depth."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from verax.scoring.adapters.encoded import column_positions, owners
from verax.scoring.adapters.estimators import category_places, is_catboost

_Sources = frozenset[int]  # columns of the table that one column inside the model is computed from
_Columns = list[_Sources] | _Sources  # columns inside the model; where their number is unknown, all their sources

_NOTHING: _Sources = frozenset()
_INNER = ("best_estimator_", "regressor_", "classifier_", "estimator_", "estimators_", "calibrated_classifiers_")
_OF_LABELS = ("transformer_", "le_", "label_encoder_", "label_binarizer_")  # these take labels, not rows
_FITTED_ELSEWHERE = ("named_estimators_", "named_transformers_", "final_estimator_", "init_")


def category_columns(model: Any, names: Sequence[str]) -> tuple[set[int], set[int]]:
    """Columns that encoders and trees of a model take as categories, and those of which this cannot be known.

    Args:
        model: A fitted model with scikit-learn's interface.
        names: The columns of the table.

    Returns:
        The places of the categories, and the places of columns that a transformer mixes before an encoder sees them.
    """
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
            return _joined([self.visit(part, columns) for _, part in step.transformer_list])
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
        found: list[_Sources] = []
        for name, part, chosen in step.transformers_:
            width = step.output_indices_[name].stop - step.output_indices_[name].start
            selected = [columns[place] for place in column_positions(chosen, names)]
            made = self.visit(part, selected)
            found += made if isinstance(made, list) and len(made) == width else [_union(selected)] * width
        return found

    def _visit_inner(self, step: Any, columns: _Columns) -> None:
        """Visit the fitted models that a model holds."""
        for name in _INNER:
            places = getattr(step, "estimators_features_", None) if name == "estimators_" else None  # of bagging
            for number, inner in enumerate(_each(getattr(step, name, None))):
                seen = columns
                if isinstance(columns, list) and places is not None:
                    seen = [columns[int(one)] for one in places[number]]
                self.visit(getattr(inner, "estimator", inner) if name == "calibrated_classifiers_" else inner, seen)
        if type(step).__name__ == "FrozenEstimator":
            self.visit(step.estimator, columns)
        if (final := getattr(step, "final_estimator_", None)) is not None:  # of stacking: predictions, then columns
            passed = columns if isinstance(columns, list) and getattr(step, "passthrough", False) else []
            self.visit(final, [_NOTHING] * (int(getattr(final, "n_features_in_", 0)) - len(passed)) + passed)
        for inner in _held_elsewhere(step):
            self._visit_by_name(inner)

    def _visit_by_name(self, model: Any) -> None:
        """Visit a model that a class of somebody's own holds: what happens to the rows before is unknown."""
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        if names and set(names) <= set(self.names):
            self.visit(model, [self.table[self.names.index(name)] for name in names])
        else:
            self.visit(model, _union(self.table))

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


def _joined(parts: list[_Columns]) -> _Columns:
    lists = [part for part in parts if isinstance(part, list)]
    if len(lists) < len(parts):
        return _union([_union(part) for part in parts])
    return [sources for part in lists for sources in part]


def _union(columns: _Columns) -> _Sources:
    return _NOTHING.union(*columns) if isinstance(columns, list) else columns


def _held_elsewhere(step: Any) -> Iterator[Any]:
    """Fitted encoders and pipelines that a class holds under names that scikit-learn does not have."""
    settings = set(step.get_params(deep=False)) if hasattr(step, "get_params") else set()
    for name, value in getattr(step, "__dict__", {}).items():
        if name.startswith("_") or name in settings or name in (*_INNER, *_OF_LABELS, *_FITTED_ELSEWHERE):
            continue
        for inner in _each(value):
            holds = any(hasattr(inner, one) for one in ("steps", "transformers_", "transformer_list", *_INNER))
            if hasattr(inner, "fit") and (holds or _encodes(inner)):
                yield inner


def _each(value: Any) -> Iterator[Any]:
    """A model, or the models of a list, an array or a dict."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist() if value.dtype == object else []
    if isinstance(value, list | tuple):
        for one in value:
            yield from _each(one)
    elif value is not None and not isinstance(value, str | int | float):
        yield value
