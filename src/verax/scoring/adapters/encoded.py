"""Pipelines on data frames: the model behind a column transformer, and which encoded columns belong together."""

import importlib
from typing import Any, NamedTuple

import numpy as np

from verax.core.packages import optional_package
from verax.scoring.adapters.estimators import fitted_names
from verax.scoring.frames import column_names, fitted_places

_INDICATOR = "missingindicator_"


def owners(step: Any, columns: int) -> list[int] | None:
    """Position of the input column behind each output of an encoder; None where that cannot be told."""
    if hasattr(step, "steps"):
        current = list(range(columns))
        for _, part in step.steps:
            places = owners("passthrough" if part is None else part, len(current))
            if places is None:
                return None
            current = [current[place] for place in places]
        return current
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
    return list(range(columns)) if _one_to_one(step) else None


def _one_to_one(step: Any) -> bool:
    if isinstance(step, str):
        return step == "passthrough"
    if isinstance(step, importlib.import_module("sklearn.preprocessing").FunctionTransformer):
        return step.func is None or bool(step.feature_names_out == "one-to-one")
    return isinstance(step, importlib.import_module("sklearn.base").OneToOneFeatureMixin)


def _one_hot_widths(encoder: Any) -> list[int]:
    """Columns for each input: its categories, the infrequent ones as one, less the one that is dropped."""
    widths = [len(categories) for categories in encoder.categories_]
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(widths)
    drop = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(widths)
    return [
        width - (0 if few is None else len(few) - 1) - (0 if dropped is None else 1)
        for width, few, dropped in zip(widths, rare, drop, strict=True)
    ]


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
    values = whole[: place + 1].transform(_fitted_columns(whole, frame))
    inputs = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if inputs.dtype.kind not in "fiub":
        raise TypeError(
            f"pipeline: expected its column transformer to give numbers, got {inputs.dtype}; encode the columns that "
            "hold text."
        )
    features, names = _features(transformer)
    return Encoded(whole[place + 1 :], inputs if inputs.dtype == np.float32 else inputs.astype(float), features, names)


def _fitted_columns(pipeline: Any, frame: Any) -> Any:
    """The columns that a pipeline was fitted on, in that order: a transformer may know them by their place."""
    names, known = fitted_names(pipeline), column_names(frame)
    if names is None or known is None:
        return frame
    places = fitted_places("frame", known, names)
    return frame if places == list(range(len(known))) else frame[[known[place] for place in places]]


def _place(pipeline: Any) -> int:
    """Where the column transformer is."""
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
    """Number of the feature of each encoded column, in the order of the original columns, and the features' names."""
    total = transformer.n_features_in_
    columns = [str(name) for name in getattr(transformer, "feature_names_in_", [f"x{i}" for i in range(total)])]
    first = list(range(len(columns)))  # the first column of the feature that each column belongs to
    width = max(part.stop for part in transformer.output_indices_.values())
    owner = np.full(width, -1)
    for name, step, spec in transformer.transformers_:
        part = transformer.output_indices_[name]
        if part.stop == part.start:
            continue
        positions = column_positions(spec, columns)
        places = owners(step, len(positions))
        if places is None or len(places) != part.stop - part.start:  # an encoder that mixes its columns, or may do so
            joined = {first[position] for position in positions}
            first = [min(joined) if root in joined else root for root in first]
            places = [0] * (part.stop - part.start)
        owner[part] = [positions[root_number] for root_number in places]
    roots = np.array(first)[owner]
    kept, features = np.unique(roots, return_inverse=True)
    return features, [
        "+".join(name for name, root in zip(columns, first, strict=True) if root == root_number) for root_number in kept
    ]


def column_positions(spec: Any, columns: list[str]) -> list[int]:
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
