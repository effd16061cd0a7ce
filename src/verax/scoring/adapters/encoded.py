"""Pipelines on data frames: which columns of the table each column inside a model is computed from."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from verax.core.packages import optional_package
from verax.scoring.adapters.estimators import fitted_names, is_catboost
from verax.scoring.frames import fitted_places

_INDICATOR = "missingindicator_"


class Encoded(NamedTuple):
    """A pipeline cut behind its column transformer.

    Attributes:
        model: What follows the column transformer, a classifier of encoded rows.
        inputs: The encoded rows, ``(N, encoded columns)``.
        features: Number of the feature that each encoded column belongs to: pass it as ``features``.
        names: Name of each feature: a column of the data frame, or several joined by ``+`` where a transformer mixes
            them.
    """

    model: Any
    inputs: Any
    features: Any
    names: list[str]

    def spread(self, attributions: Any) -> Any:
        """Give attributions of features, ``(..., len(names))``, the shape of the encoded inputs.

        The value of a feature is shared out evenly over its encoded columns, which a metric sums up again.
        """
        if attributions.shape[-1] != len(self.names):
            raise ValueError(
                f"attributions: expected one value for each of {', '.join(self.names)}, shape "
                f"(..., {len(self.names)}), got shape {tuple(attributions.shape)}."
            )
        columns = np.bincount(self.features)[self.features]
        shared = attributions[..., self.features]
        return shared / (columns if isinstance(attributions, np.ndarray) else shared.new_tensor(columns))


def encoded(pipeline: Any, frame: Any) -> Encoded:
    """Cut a fitted scikit-learn pipeline behind its column transformer and encode a data frame.

    One-hot columns of one original column become one feature, so a metric removes and perturbs them together.

    Args:
        pipeline: A fitted pipeline with a ``ColumnTransformer`` before its classifier, or a fitted search over such.
        frame: The rows to explain, with the columns that the pipeline was fitted on.

    Example:
        >>> import numpy as np, pandas as pd, verax
        >>> from sklearn.compose import make_column_transformer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
        >>> frame = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "town": ["Graz", "Wien", "Linz", "Wien"]})
        >>> columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["town"]))
        >>> pipeline = make_pipeline(columns, LogisticRegression()).fit(frame, [0, 0, 1, 1])
        >>> cut = verax.adapters.encoded(pipeline, frame)
        >>> cut.inputs.shape, cut.features.tolist(), cut.names
        ((4, 4), [0, 1, 1, 1], ['age', 'town'])
        >>> by_column = np.array([[2.0, 1.0]] * 4)  # one attribution per column of the data frame
        >>> problem = verax.Problem(cut.model, cut.inputs, features=cut.features)
        >>> verax.metrics.PredictionChange()(problem, cut.spread(by_column)).steps
        2
    """
    optional_package("sklearn", "scikit-learn", "pipeline: a scikit-learn pipeline")
    whole = getattr(pipeline, "best_estimator_", pipeline)
    place = _place(whole)
    transformer = whole[place]
    values = whole[: place + 1].transform(fitted_columns("frame", whole, frame))
    inputs = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if inputs.dtype.kind not in "fiub":
        raise TypeError(
            f"pipeline: expected its column transformer to give numbers, got {inputs.dtype}; encode the columns that "
            "hold text."
        )
    features, names = _features(transformer)
    return Encoded(whole[place + 1 :], inputs if inputs.dtype == np.float32 else inputs.astype(float), features, names)


def fitted_columns(label: str, model: Any, frame: Any) -> Any:
    """The columns that a model was fitted on, in that order: a transformer may know them by their place."""
    names = fitted_names(model)
    if names is None or not hasattr(frame, "columns"):
        return frame
    places = fitted_places(label, frame.columns, names)
    return frame.iloc[:, places] if hasattr(frame, "iloc") else frame[:, places]


def _place(pipeline: Any) -> int:
    if not hasattr(pipeline, "steps"):
        raise TypeError(f"pipeline: expected a fitted sklearn.pipeline.Pipeline, got {type(pipeline).__name__}.")
    steps = [step for _, step in pipeline.steps]
    places = [place for place, step in enumerate(steps) if hasattr(step, "transformers")]
    if len(places) != 1 or places[0] == len(steps) - 1:
        listed = ", ".join(type(step).__name__ for step in steps)
        raise ValueError(f"pipeline: expected one ColumnTransformer, then a classifier; got the steps {listed}.")
    if not hasattr(steps[places[0]], "transformers_"):
        raise ValueError("pipeline: its ColumnTransformer is not fitted; call fit first.")
    return places[0]


def _features(transformer: Any) -> tuple[Any, list[str]]:
    total = transformer.n_features_in_
    columns = [str(name) for name in getattr(transformer, "feature_names_in_", [f"x{i}" for i in range(total)])]
    walk = _Walk(columns)
    encoded_from: Any = walk.visit(transformer, walk.table)
    first = list(range(total))  # the first column of the feature that each column belongs to
    for sources in encoded_from:  # those that an encoder mixes, or may mix, are one feature
        joined = {first[column] for column in sources}
        first = [min(joined) if root in joined else root for root in first]
    kept, features = np.unique([first[min(sources)] for sources in encoded_from], return_inverse=True)
    return features, ["+".join(name for name, root in zip(columns, first, strict=True) if root == at) for at in kept]


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
            selected = [columns[place] for place in _positions(chosen, names)]
            made = self.visit(part, selected)
            sources += made if isinstance(made, list) and len(made) == width else [_union(selected)] * width
        return sources

    def _visit_inner(self, step: Any, columns: _Columns) -> None:
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
        for inner in _held_elsewhere(step):  # by a class of a user's: what happens to the rows before is unknown
            names = [str(name) for name in getattr(inner, "feature_names_in_", ())]
            known = names and set(names) <= set(self.names)
            self.visit(inner, [self.table[self.names.index(name)] for name in names] if known else _union(self.table))

    def _note_trees(self, step: Any, columns: _Columns) -> None:
        marked = getattr(step, "is_categorical_", None)  # of gradient boosting on histograms
        if marked is not None:
            self._note(columns, [place for place, on in enumerate(marked) if on])
        elif is_catboost(step):
            self._note(columns, step.get_cat_feature_indices())
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
    places = _owners(step, len(columns))
    return _union(columns) if places is None else [columns[place] for place in places]


def _owners(step: Any, columns: int) -> list[int] | None:
    """Position of the input column behind each output of a transformer; None where that cannot be told."""
    preprocessing = importlib.import_module("sklearn.preprocessing")
    if isinstance(step, preprocessing.OneHotEncoder):
        return np.repeat(np.arange(len(step.categories_)), _one_hot_widths(step)).tolist()
    if isinstance(step, preprocessing.KBinsDiscretizer) and step.encode != "ordinal":
        return np.repeat(np.arange(len(step.n_bins_)), step.n_bins_.astype(int)).tolist()
    if isinstance(step, importlib.import_module("sklearn.impute").SimpleImputer):
        # columns without any value may be gone; columns that tell what was missing may have come
        known = [str(name) for name in getattr(step, "feature_names_in_", [f"x{i}" for i in range(columns)])]
        names = [str(name) for name in step.get_feature_names_out(known)]
        return [known.index(name if name in known else name.removeprefix(_INDICATOR)) for name in names]
    if isinstance(step, preprocessing.FunctionTransformer):
        by_column = step.func is None or bool(step.feature_names_out == "one-to-one")
    else:
        by_column = isinstance(step, importlib.import_module("sklearn.base").OneToOneFeatureMixin)
    if by_column:
        return list(range(columns))
    return step.get_support(indices=True).tolist() if hasattr(step, "get_support") else None


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


def _one_hot_widths(encoder: Any) -> list[int]:
    """Columns for each input: its categories, the infrequent ones as one, less the one that is dropped."""
    widths = [len(categories) for categories in encoder.categories_]
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(widths)
    drop = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(widths)
    return [
        width - (0 if few is None else len(few) - 1) - (0 if dropped is None else 1)
        for width, few, dropped in zip(widths, rare, drop, strict=True)
    ]


def _positions(spec: Any, columns: list[str]) -> list[int]:
    """Positions of the columns that a transformer was given: by name, number, slice or mask."""
    if isinstance(spec, slice):
        if isinstance(spec.start, str) or isinstance(spec.stop, str):  # by names, both ends included
            start = 0 if spec.start is None else columns.index(spec.start)
            stop = len(columns) if spec.stop is None else columns.index(spec.stop) + 1
            spec = slice(start, stop, spec.step)
        return list(range(*spec.indices(len(columns))))
    listed = np.atleast_1d(np.asarray(spec))
    if listed.dtype == bool:
        return [int(place) for place in listed.nonzero()[0]]
    if listed.dtype.kind in "iu":
        return [int(place) % len(columns) for place in listed]
    return [columns.index(str(name)) for name in listed]
