"""TreeShap: Shapley values of tree ensembles, computed by the packages that read the trees themselves."""

import importlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution, Modality
from verax.attribution.coalitions import removable, spread_evenly
from verax.attribution.family import Family, Piece, Place
from verax.core import palette
from verax.core.arguments import checked_flag
from verax.core.packages import optional_package
from verax.core.shapes import Float, Shaped
from verax.problem.problem import Problem
from verax.scoring.adapters.estimators import is_catboost
from verax.scoring.meter import Rows

_BOOSTERS = ("xgboost", "lightgbm", "catboost")
_ENSEMBLES = ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest", "GradientBoosting", "HistGradientBoosting")
_UNREADABLE = "model: shap cannot read {what}; KernelShap and PermutationShap take any model."
_ROUNDING = 1e-4  # of the largest score: shap and XGBoost add up in float32
_SKLEARN = {f"{name}{kind}" for name in _ENSEMBLES for kind in ("Classifier", "Regressor")}


@dataclass(frozen=True)
class TreeShap(Attribution):
    """Shapley values of trees, read from the trees instead of asked of the model (Lundberg et al. 2020).

    For trees and forests of scikit-learn by shap's ``TreeExplainer`` (``pip install 'verax[shap]'``), for XGBoost,
    LightGBM and CatBoost by their own code. They explain what the trees add up: the log-odds or the value of boosted
    trees, the probability of a forest. With one margin for two classes, class 0 has minus the values of class 1.
    A group has the sum of its columns. Boosters that take categories themselves are explained on the data frame that
    ``verax.tables.problem`` keeps for them.

    It has no baseline of the call: a removed feature is averaged over. Without ``interventional`` over the training
    rows that went down the same branches, which the trees remember; with it over the rows of the background.

    Args:
        interventional: Average over the rows of ``background``, which is then needed, and shap as well.

    Example:
        >>> import verax
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> x, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
        >>> found = TreeShap()(verax.Problem(DecisionTreeRegressor().fit(x, y), x))
        >>> bool(np.allclose(found.sum(1), y - y.mean()))
        True
    """

    interventional: bool = False

    local: ClassVar[bool] = False
    label: ClassVar[str] = "Tree SHAP"
    colour: ClassVar[str | None] = palette.SAND
    citation: ClassVar[str] = "Lundberg et al.: From local explanations to global understanding for trees, 2020"
    modalities: ClassVar[tuple[Modality, ...]] = ("tabular",)

    def __post_init__(self) -> None:
        checked_flag("interventional", self.interventional)

    @property
    def family(self) -> "TreeShapFamily":
        """On its own: the two ways share nothing."""
        return TreeShapFamily(self.interventional)

    def unsupported_reason(self, problem: Problem) -> str:
        """It reads trees."""
        return "" if has_trees(problem.scorer.adapter) else "the model has no trees that can be read"


@dataclass(frozen=True)
class TreeShapFamily(Family):
    """Trees that are read by another package."""

    interventional: bool

    def check(self, members: Sequence[TreeShap], problem: Problem) -> None:
        if problem.inputs.ndim != 2:
            raise ValueError(f"inputs: TreeShap needs a table (N, columns), got shape {tuple(problem.inputs.shape)}.")
        if self.interventional:
            problem.need_background("TreeShap(interventional=True)")
        trees = trees_of(problem.scorer.adapter)
        if self.interventional or not _is_booster(trees):
            _numbers(as_the_trees_take(problem.scorer.adapter, problem.inputs[:1])[0])
            _shap()
        if self.interventional:
            _check_for_shap(trees)

    def rows(self, members: Sequence[TreeShap], problem: Problem, place: Place) -> Rows:
        """None."""
        return Rows(0)

    def pieces(self, members: Sequence[TreeShap], problem: Problem) -> Iterator[Piece]:
        model = problem.scorer.adapter
        trees, (rows, places) = trees_of(model), as_the_trees_take(model, problem.inputs)
        if self.interventional:
            background, _ = as_the_trees_take(model, problem.need_background("TreeShap"))
            shap_values = by_shap(trees, _numbers(rows), _numbers(background))
        else:
            shap_values = by_booster(trees, rows) if _is_booster(trees) else by_shap(trees, _numbers(rows), None)
        if places is not None:  # columns that the model does not know have no effect
            table = np.zeros((*problem.inputs.shape, shap_values.shape[2]))
            table[:, places] = shap_values
            shap_values = table
        device, every = problem.open_session.device, slice(0, len(rows))
        one_margin = shap_values.shape[2] == 1 and problem.open_session.returns != "values"
        values = torch.from_numpy(shap_values).to(device)
        target = problem.classes[:, None, None]
        values = values * (2 * target - 1) if one_margin else values.gather(2, target.expand(-1, values.shape[1], 1))
        fmap, values = problem.features, values[:, :, 0]
        grouped = fmap.reduce((values * removable(fmap, every, values))[None], every)
        yield Piece(every, spread_evenly(fmap, grouped, every))


def as_the_trees_take(model: Any, rows: Shaped[Tensor, "n features"]) -> tuple[Any, list[int] | None]:
    """Rows as the trees take them, an array or a data frame, and the inputs' places of its columns if they differ."""
    places = None
    while hasattr(model, "model_rows"):
        rows, places = model.model_rows(rows), getattr(model, "places", places)
        model = getattr(model, "adapter", None)
    return (rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows), places


def _numbers(rows: Any) -> Any:
    """Rows for shap, which reads no splits by category."""
    if not hasattr(rows, "columns"):
        return rows
    if words := [str(name) for name in rows.columns if rows[name].dtype.kind not in "iufb"]:
        raise TypeError(_UNREADABLE.format(what=f"splits by category (column {words[0]}) here"))
    return rows.to_numpy(dtype=np.float64)


def trees_of(model: Any) -> Any:
    """The trees behind an adapter, or why they cannot be read."""
    model, held = _behind(model)
    name = type(held).__name__
    if not _is_read(held):
        kind = type(model).__name__ if held is None else name
        raise TypeError(
            f"model: TreeShap reads trees of scikit-learn, XGBoost, LightGBM and CatBoost, got {kind}; pass "
            "the trees themselves, without a pipeline around them. KernelShap and PermutationShap take any model."
        )
    if name == "GradientBoostingClassifier" and len(held.classes_) > 2:
        raise TypeError(_UNREADABLE.format(what="a GradientBoostingClassifier of more than two classes"))
    if name.startswith("Hist") and np.any(held.is_categorical_):
        raise TypeError(_UNREADABLE.format(what="splits by category in a model of scikit-learn"))
    if _start(held) is not None:
        raise TypeError(_UNREADABLE.format(what=f"a {name} with init={_start(held)!r}"))
    if _has_linear_leaves(held):
        raise TypeError(
            f"model: TreeShap cannot read a {name} with linear_tree=True, of which LightGBM gives no contributions; "
            "KernelShap and PermutationShap take any model."
        )
    return held


def made_of_trees(model: Any) -> bool:
    """Whether a model's score is a sum of trees', also behind a pipeline's steps or a table's."""
    _, held = _behind(model)
    while hasattr(held, "steps") and held.steps:
        held = held.steps[-1][1]
    return _is_read(held) and not _has_slopes(held)


def _has_slopes(trees: Any) -> bool:
    """Whether what counts as trees moves with its inputs between splits."""
    start = _start(trees)
    lines = hasattr(start, "predict") and (not _is_read(start) or _has_slopes(start))
    return lines or _has_linear_leaves(trees) or _xgboost_part(trees).get("name") == "gblinear"


def _start(trees: Any) -> Any:
    """What the user has boosted trees of scikit-learn start from, an estimator or "zero"; None for a constant."""
    start = trees.init_ if type(trees).__name__.startswith("GradientBoosting") else None
    return None if type(start).__name__.startswith("Dummy") else start


def _has_linear_leaves(trees: Any) -> bool:
    if not type(trees).__module__.startswith("lightgbm"):
        return False
    booster = getattr(trees, "booster_", trees)
    return "is_linear=1" in booster.model_to_string(num_iteration=1)


def _xgboost_part(trees: Any) -> dict[str, Any]:
    """How a model of XGBoost was boosted, in its own words; nothing for others."""
    if not type(trees).__module__.startswith("xgboost"):
        return {}
    booster = trees.get_booster() if hasattr(trees, "get_booster") else trees
    part: dict[str, Any] = json.loads(booster.save_config())["learner"]["gradient_booster"]
    return part


def _check_for_shap(trees: Any) -> None:
    """Raise for what shap cannot read although the package's own code can."""
    part = _xgboost_part(trees)
    what = "a linear booster (gblinear)" if part.get("name") == "gblinear" else ""
    if int(part.get("gbtree", part).get("gbtree_model_param", {}).get("num_parallel_tree", 1)) > 1:
        what = "parallel trees of XGBoost (num_parallel_tree)"
    if what:
        raise TypeError(
            f"TreeShap(interventional=True): shap cannot read {what}; use TreeShap() without a background, or "
            "KernelShap or PermutationShap, which take any model."
        )


def _behind(model: Any) -> tuple[Any, Any]:
    """The adapter of a model without what a table puts around it, and what it holds."""
    while hasattr(model, "model_rows") and hasattr(model, "adapter"):
        model = model.adapter
    return model, getattr(model, "booster", getattr(model, "estimator", None))


def _is_read(held: Any) -> bool:
    return _is_booster(held) or (type(held).__module__.split(".")[0] == "sklearn" and type(held).__name__ in _SKLEARN)


def has_trees(model: Any) -> bool:
    """Whether there are trees behind a model that can be read."""
    try:
        trees_of(model)
    except TypeError:
        return False
    return True


def by_booster(trees: Any, inputs: Any) -> Float[np.ndarray, "n features outputs"]:
    """Contributions by the booster's own code; the last one of each row, the expected value, is left out."""
    count, features = inputs.shape
    if type(trees).__module__.startswith("lightgbm"):
        values = trees.predict(inputs, pred_contrib=True)
    elif is_catboost(trees):
        pool = importlib.import_module("catboost").Pool(inputs, cat_features=trees.get_cat_feature_indices())
        values = trees.get_feature_importance(pool, type="ShapValues")
    else:
        values = _by_xgboost(trees, inputs)
    return np.asarray(values, dtype=np.float64).reshape(count, -1, features + 1)[:, :, :-1].transpose(0, 2, 1)


def _by_xgboost(trees: Any, inputs: Any) -> Any:
    best = getattr(trees, "best_iteration", None) if hasattr(trees, "get_booster") else None
    booster = trees.get_booster() if hasattr(trees, "get_booster") else trees
    matrix = importlib.import_module("xgboost").DMatrix(inputs, enable_categorical=True)
    used = (0, 0 if best is None else best + 1)  # (0, 0): all
    return booster.predict(matrix, pred_contribs=True, iteration_range=used, validate_features=False)


def by_shap(
    trees: Any, inputs: Float[np.ndarray, "n features"], background: Float[np.ndarray, "m features"] | None
) -> Float[np.ndarray, "n features outputs"]:
    """Values of shap's explainer: of the log-odds or the value, or of a forest's probabilities."""
    way = "tree_path_dependent" if background is None else "interventional"
    shap = _shap()
    # of a bare array with more than 100 rows, shap would draw 100
    rows = None if background is None else shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(trees, rows, feature_perturbation=way)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LightGBM binary classifier")  # that its output has another form than once
        # its own check compares with its own reading of the trees
        values = np.asarray(explainer.shap_values(inputs, check_additivity=background is None), dtype=np.float64)
    values = values.reshape(*inputs.shape, -1)
    if background is not None:
        _check_sums(values, raw_outputs(trees, inputs), raw_outputs(trees, background))
    return values


def raw_outputs(trees: Any, rows: Float[np.ndarray, "n features"]) -> Float[np.ndarray, "n outputs"]:
    """What the trees add up for each row, by the model's own code: log-odds, values, or a forest's probabilities."""
    name = type(trees).__name__
    if type(trees).__module__.startswith("lightgbm"):
        outputs = trees.predict(rows, raw_score=True)
    elif is_catboost(trees):
        outputs = trees.predict(rows, prediction_type="RawFormulaVal")
    elif hasattr(trees, "get_booster"):
        outputs = trees.predict(rows, output_margin=True)
    elif type(trees).__module__.startswith("xgboost"):
        matrix = importlib.import_module("xgboost").DMatrix(rows)
        outputs = trees.predict(matrix, output_margin=True, validate_features=False)
    elif "GradientBoostingClassifier" in name:
        outputs = trees.decision_function(rows)
    elif name.endswith("Classifier"):
        outputs = trees.predict_proba(rows)
    else:
        outputs = trees.predict(rows)
        if name.startswith("Hist") and trees.loss in ("poisson", "gamma"):  # its trees add up the logarithm
            outputs = np.log(outputs)
    return np.asarray(outputs, dtype=np.float64).reshape(len(rows), -1)


def _check_sums(
    values: Float[np.ndarray, "n features outputs"],
    scores: Float[np.ndarray, "n outputs"],
    background: Float[np.ndarray, "m outputs"],
) -> None:
    """Raise where values do not sum to the score less its mean over the background."""
    wrong = np.abs(values.sum(1)[:, -scores.shape[1] :] - (scores - background.mean(0)))
    largest = max(np.abs(scores).max(), np.abs(background).max())
    if not wrong.max() <= _ROUNDING * largest:
        raise ValueError(
            f"TreeShap(interventional=True): the values of shap are inexact for this model: they miss the score less "
            f"its mean over the background by up to {wrong.max():.4g}, where scores reach {largest:.4g}. Use "
            "PermutationShap or KernelShap, which take any model, or TreeShap() without a background."
        )


def _is_booster(trees: Any) -> bool:
    return type(trees).__module__.split(".")[0] in _BOOSTERS


def _shap() -> Any:
    return optional_package("shap", "verax[shap]", "TreeShap")
