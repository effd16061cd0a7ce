"""The metrics one at a time: each call checks its arguments, then asks the engine for one metric."""

from typing import Any, NamedTuple

import torch

from verax.evaluation.engine import run
from verax.evaluation.explained_class import with_known_class
from verax.metrics.base import Metric
from verax.metrics.infidelity import Infidelity, InfidelityResult
from verax.metrics.infidelity_uncertainty import InfidelityUncertainty, UncertaintyResult
from verax.metrics.prediction_change import DirectedPredictionChange, PredictionChange
from verax.metrics.weighted_area import PredictionChangeResult, Reading, Steps
from verax.perturbation.draws import Effect, Perturbation
from verax.perturbation.order import Order
from verax.perturbation.removed_sets import Area, Rule
from verax.problem.given_attributions import fitted_attributions, plain_attributions
from verax.problem.inputs import inputs_of
from verax.problem.problem import problem
from verax.problem.replacement import ReplacementLike, checked_replacement
from verax.scoring.class_scores import Output
from verax.scoring.frames import column_order
from verax.scoring.scorer import scorer_of

_PAPER_STUDY = InfidelityUncertainty()


def prediction_change(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: Steps = 20,
    tolerance: float = 0.01,
    features: Any = "auto",
    order: Order = "signed",
    area: Area = "between",
    replacement: ReplacementLike = None,
    background: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> PredictionChangeResult:
    """Measure Prediction Change (PC): rates baseline-oriented attributions. Higher is better.

    Args:
        model: A torch module (returns logits), a scikit-learn classifier, or a ``verax.Scorer``.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch, or a ``verax.Inputs``, which brings its features and
            baselines; results come back in the same kind. Columns of a data frame are found by name, where the model
            knows names.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1; for groups there may be one value each, ``(N, groups)``.
        target: The class whose score is followed: predicted (``None``), a column number, a label as text, or one of
            them per row.
        baselines: What removed features become: a number, anything that broadcasts to the inputs, or ``"mean"``,
            ``"median"``, ``"mode"``, ``"zero"`` of the background.
        steps: Steps from the input to the baseline; ``"adaptive"`` refines them until the estimated error against one
            feature per step is below ``tolerance``.
        tolerance: With adaptive steps, the error to stop at, in the unit of the followed score.
        features: What one feature is: ``"element"``, ``"pixel"`` (all channels of a position), an array of group
            numbers (for all inputs or one each), or ``"auto"``: pixels for inputs ``(N, C, H, W)``, elements otherwise.
        order: Rank by ``"signed"`` attribution or by its ``"magnitude"``.
        area: ``"between"`` the curves, or ``"morf"``: above the MoRF curve alone, from half the model rows.
        replacement: What removed features become, one of ``verax.replacement``; their baselines by default.
        background: Rows of training data, for baselines that are a statistic of them.
        output: The score that is followed, ``"probability"`` or ``"logit"``.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Example:
        >>> import torch, verax
        >>> model = torch.nn.Linear(4, 2)
        >>> x = torch.randn(8, 4)
        >>> contribution = x * (model.weight[1] - model.weight[0])  # exact for class 1 of a linear model
        >>> result = verax.prediction_change(model, x, contribution, target=1)
        >>> result.value.shape, result.morf.shape, result.rows
        (torch.Size([8]), torch.Size([8, 5]), 64)
    """
    data = _Data(inputs, attributions, target, baselines, features, background)
    metric = PredictionChange(
        order, steps, area=area, replacement=checked_replacement(replacement), tolerance=tolerance
    )
    return _measured(model, data, metric, output, batch_size, device)  # type: ignore[no-any-return]


def directed_prediction_change(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    steps: Steps = 20,
    tolerance: float = 0.01,
    features: Any = "auto",
    order: Reading = "magnitude",
    rule: Rule = "sum",
    area: Area = "between",
    replacement: ReplacementLike = None,
    background: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> PredictionChangeResult:
    """Measure Directed Prediction Change (DPC): rates local attributions. Higher is better.

    Takes the arguments of ``prediction_change``, with another ``order``.

    Args:
        order: The reading of the definition: ``"magnitude"``, ``"signed"`` or ``"literal"``; see
            ``verax.metrics.DirectedPredictionChange``.
        rule: How a step of many features is directed: ``"sum"`` (the paper's), ``"dot"`` or ``"coherent"``.

    Example:
        >>> import torch, verax
        >>> weight = torch.tensor([[1.0, -2.0, 0.5, 3.0]])
        >>> model = torch.nn.Linear(4, 1, bias=False)
        >>> _ = model.weight.data.copy_(weight)
        >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
        >>> gradient = weight.expand(200, 4)
        >>> scorer = verax.Scorer(model, returns="logits")  # one output is the logit of class 1
        >>> result = verax.directed_prediction_change(scorer, x, {"w": gradient, "-w": -gradient}, target=1)
        >>> result.mean()["w"].low > 0 > result.mean()["-w"].high
        True
    """
    data = _Data(inputs, attributions, target, baselines, features, background)
    metric = DirectedPredictionChange(
        order, steps, rule=rule, area=area, replacement=checked_replacement(replacement), tolerance=tolerance
    )
    return _measured(model, data, metric, output, batch_size, device)  # type: ignore[no-any-return]


def infidelity(
    model: Any,
    inputs: Any,
    attributions: Any,
    *,
    target: Any = None,
    sigma: Any = 0.2,
    subset: int | None = None,
    samples: int = 640,
    normalize: bool = True,
    seed: int = 0,
    perturbation: Perturbation = "gaussian",
    effect: Effect | None = None,
    baselines: Any = 0.0,
    features: Any = "auto",
    background: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> InfidelityResult:
    """Measure Infidelity with its Monte-Carlo error. Lower is better.

    Takes the arguments of ``prediction_change``, and instead of ``steps`` and ``order``:

    Args:
        sigma: Standard deviation of the Gaussian perturbation.
        subset: Features perturbed in each draw; all by default.
        samples: Draws per input, shared by all attributions of the call.
        normalize: Fit the scale of each attribution first; without it, attributions on the logit scale are compared
            with changes of probabilities.
        seed: Same seed, same draws: in any process, batch, row order and on any device.
        perturbation: ``"gaussian"`` (local) or ``"baseline"`` (baseline-oriented: replaces a random subset).
        effect: ``"dot"`` takes attributions for slopes, ``"sum"`` for contributions; by default slopes where noise is
            added, contributions where features are replaced.

    Example:
        >>> import torch, verax
        >>> model = torch.nn.Linear(4, 2, dtype=torch.float64)
        >>> x = torch.randn(8, 4, dtype=torch.float64)
        >>> gradient = model.weight[1].expand(8, 4)
        >>> result = verax.infidelity(model, x, gradient, target=1, output="logit")
        >>> bool(result.value.max() < 1e-12), result.rows
        (True, 5128)
    """
    data = _Data(inputs, attributions, target, baselines, features, background)
    metric = Infidelity(sigma, subset, samples, normalize, seed, perturbation, effect)
    return _measured(model, data, metric, output, batch_size, device)  # type: ignore[no-any-return]


def infidelity_uncertainty(
    model: Any,
    inputs: Any,
    attributions: Any,
    study: InfidelityUncertainty = _PAPER_STUDY,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    features: Any = "auto",
    background: Any = None,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> UncertaintyResult:
    """Measure how uncertain Infidelity is at each number of draws: the paper's resampling study.

    Takes the arguments of ``prediction_change``, and:

    Args:
        study: What to resample; the paper's 64 resamples of 20 to 640 out of 640 draws by default.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> result = verax.infidelity_uncertainty(model, x, x)
        >>> result.mean_resampled[-1], result.mean_analytic[-1] > 0  # the whole pool has nothing left to vary
        (0.0, True)
    """
    data = _Data(inputs, attributions, target, baselines, features, background)
    return _measured(model, data, study, output, batch_size, device)  # type: ignore[no-any-return]


class _Data(NamedTuple):
    """What is measured, as the user gave it."""

    inputs: Any
    attributions: Any
    target: Any
    baselines: Any
    features: Any
    background: Any


def _measured(
    model: Any,
    data: _Data,
    metric: Metric,
    output: Output,
    batch_size: int | None,
    device: str | torch.device | None,
) -> Any:
    """Put columns in the model's order, check the data, and run one metric."""
    scorer = scorer_of(model)
    asked = inputs_of(data.inputs, data.features, data.baselines)
    order = column_order(scorer.feature_names, asked.values)
    ordered, background = asked.ordered(order), order("background", data.background)
    whose = with_known_class(data.attributions, data.target, scorer, ordered, background, batch_size, device)
    checked = problem(
        ordered,
        order("attributions", plain_attributions(fitted_attributions(whose.attributions, asked.fitted))),
        target=whose.target,
        background=background,
        takes_missing=scorer.takes_missing,
        remarks=whose.remarks,
    )
    return run(scorer, checked, {metric.name: metric}, output, batch_size, device)[metric.name]
