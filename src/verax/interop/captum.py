"""The metrics with Captum's calling convention: a forward function, one tensor or a tuple of them, one score per row.

Names and meaning of the arguments are Captum's, defaults are those of Verax. Captum itself is not needed.

All tensors of a tuple together are one input, and as in Captum every element is a feature unless ``feature_mask``
puts elements together. The tracked class score is that of ``target``; ``None`` stands for the predicted
class, or for the score itself where ``forward_func`` returns one score per row.

Captum's ``sensitivity_max`` is not here: it rates how far attributions move when inputs do, not whether they are
faithful. Call ``captum.metrics.sensitivity_max``.
"""

from typing import Any

import torch
from torch import Tensor, nn

from verax.core.shapes import Float
from verax.interop.flatten import FlatCall, flat_call
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, SensitivityN
from verax.metrics.base import Metric
from verax.metrics.weighted_area import Reading
from verax.perturbation.block import Order
from verax.perturbation.sampled import Effect, Perturbation
from verax.problem.attributed import attributed
from verax.problem.problem import Problem
from verax.scoring.adapters import Returns
from verax.scoring.class_scores import Output
from verax.scoring.scorer import Scorer

__all__ = ["directed_prediction_change", "infidelity", "prediction_change", "sensitivity_n"]


def prediction_change(
    forward_func: Any,
    inputs: Any,
    attributions: Any,
    baselines: Any = None,
    additional_forward_args: Any = None,
    target: Any = None,
    steps: int = 20,
    max_examples_per_batch: int | None = None,
    *,
    feature_mask: Any = None,
    order: Order = "signed",
    returns: Returns | None = None,
    output: Output = "probability",
) -> Float[Tensor, " n"]:
    """Measure Prediction Change (PC): rates baseline-oriented attributions. Higher is better.

    Args:
        forward_func: A module or a function that returns class scores ``(N, classes)``, or one score per row for a
            binary model. It is called with the tensors of ``inputs``, then ``additional_forward_args``.
        inputs: One tensor or a tuple of tensors, one row per example.
        attributions: As ``inputs``, in the same shapes.
        baselines: What removed features become: None (0), a number, a tensor, or a tuple with one of these per tensor.
        additional_forward_args: One further argument or a tuple of them. Tensors with one row per example follow
            their example; anything else is handed over as it is.
        target: A class for all rows, or one class per row.
        steps: Steps from the input to the baseline.
        max_examples_per_batch: Rows per call of ``forward_func``.
        feature_mask: Group numbers of the elements, ``(1 or N, ...)``, one tensor for each of ``inputs``.
        order: Rank by ``"signed"`` attribution or by its ``"magnitude"``.
        returns: Whether ``forward_func`` returns ``"logits"``, ``"probabilities"``, or ``"values"`` (a regression). A
            function must say; a module is taken to return logits.
        output: The score to track, ``"probability"`` or ``"logit"``.

    Returns:
        One score per example.

    Example:
        >>> import torch
        >>> from verax.interop import captum
        >>> model = torch.nn.Bilinear(3, 4, 2)
        >>> x = torch.randn(5, 3), torch.randn(5, 4)
        >>> captum.prediction_change(model, x, attributions=x, target=1).shape
        torch.Size([5])
    """
    call = flat_call(forward_func, inputs, attributions, baselines, additional_forward_args, target, feature_mask)
    return _scores(call, PredictionChange(order, steps), returns, output, max_examples_per_batch)


def directed_prediction_change(
    forward_func: Any,
    inputs: Any,
    attributions: Any,
    baselines: Any = None,
    additional_forward_args: Any = None,
    target: Any = None,
    steps: int = 20,
    max_examples_per_batch: int | None = None,
    *,
    feature_mask: Any = None,
    order: Reading = "signed",
    returns: Returns | None = None,
    output: Output = "probability",
) -> Float[Tensor, " n"]:
    """Measure Directed Prediction Change (DPC): rates local attributions. Higher is better.

    Takes the arguments of ``prediction_change``; ``order`` has one value more.

    Args:
        order: The reading of the definition: ``"signed"``, ``"magnitude"`` or ``"literal"``.

    Example:
        >>> import torch
        >>> from verax.interop import captum
        >>> weight, x = torch.tensor([1.0, -2.0, 0.5]), torch.randn(5, 3)
        >>> captum.directed_prediction_change(lambda x: x @ weight, x, weight.expand(5, 3), returns="logits").shape
        torch.Size([5])
    """
    call = flat_call(forward_func, inputs, attributions, baselines, additional_forward_args, target, feature_mask)
    return _scores(call, DirectedPredictionChange(order, steps), returns, output, max_examples_per_batch)


def infidelity(
    forward_func: Any,
    inputs: Any,
    attributions: Any,
    baselines: Any = None,
    additional_forward_args: Any = None,
    target: Any = None,
    n_perturb_samples: int = 640,
    max_examples_per_batch: int | None = None,
    normalize: bool = True,
    *,
    feature_mask: Any = None,
    sigma: float = 0.2,
    subset: int | None = None,
    perturbation: Perturbation = "gaussian",
    effect: Effect | None = None,
    seed: int = 0,
    returns: Returns | None = None,
    output: Output = "probability",
) -> Float[Tensor, " n"]:
    """Measure Infidelity. Lower is better.

    Takes the arguments of ``captum.metrics.infidelity`` but for ``perturb_func``, in whose place stand ``sigma``,
    ``subset`` and ``perturbation``, and those of ``prediction_change``.

    Args:
        n_perturb_samples: Draws per example.
        normalize: Fit the scale of each attribution first.
        sigma: Standard deviation of the Gaussian perturbation.
        subset: Features perturbed in each draw; all by default.
        perturbation: ``"gaussian"`` (local) or ``"baseline"`` (baseline-oriented: replaces a random subset).
        effect: ``"dot"`` takes attributions for slopes, ``"sum"`` for contributions; by default slopes where noise is
            added, contributions where features are replaced.
        seed: Same seed, same draws, whatever the batches.

    Example:
        >>> import torch
        >>> from verax.interop import captum
        >>> model = torch.nn.Linear(4, 2, dtype=torch.float64)
        >>> x = torch.randn(8, 4, dtype=torch.float64)
        >>> bool(captum.infidelity(model, x, model.weight[1].expand(8, 4), target=1, output="logit").max() < 1e-12)
        True
    """
    call = flat_call(forward_func, inputs, attributions, baselines, additional_forward_args, target, feature_mask)
    metric = Infidelity(sigma, subset, n_perturb_samples, normalize, seed, perturbation, effect)
    return _scores(call, metric, returns, output, max_examples_per_batch)


def sensitivity_n(
    forward_func: Any,
    inputs: Any,
    attributions: Any,
    baselines: Any = None,
    additional_forward_args: Any = None,
    target: Any = None,
    n_perturb_samples: int = 64,
    max_examples_per_batch: int | None = None,
    *,
    feature_mask: Any = None,
    sizes: tuple[int, ...] | None = None,
    seed: int = 0,
    returns: Returns | None = None,
    output: Output = "probability",
) -> Float[Tensor, " n"]:
    """Measure the error of Sensitivity-N. Lower is better.

    Takes the arguments of ``prediction_change``, and:

    Args:
        n_perturb_samples: Random subsets per example and size.
        sizes: The subset sizes N; by default those of 1, 2, 4 and 8 that there are features for.
        seed: Same seed, same subsets.

    Example:
        >>> import torch
        >>> from verax.interop import captum
        >>> model = torch.nn.Linear(4, 2, dtype=torch.float64)
        >>> x = torch.randn(8, 4, dtype=torch.float64)
        >>> bool(captum.sensitivity_n(model, x, x * model.weight[1], target=1, output="logit").max() < 1e-12)
        True
    """
    call = flat_call(forward_func, inputs, attributions, baselines, additional_forward_args, target, feature_mask)
    settings = {"samples": n_perturb_samples, "seed": seed} | ({"sizes": sizes} if sizes else {})
    metric = SensitivityN.named(settings, call.fewest_features)
    return _scores(call, metric, returns, output, max_examples_per_batch)


def _scores(
    call: FlatCall, metric: Metric, returns: Returns | None, output: Output, batch_size: int | None
) -> Float[Tensor, " n"]:
    """Run a metric on all rows."""
    if returns is None and not isinstance(call.model.forward_func, nn.Module):
        advice = 'pass returns="logits", returns="probabilities", or returns="values" for a regression'
        raise ValueError(f"returns: a function does not say what it returns; {advice}.")
    problem = Problem(
        Scorer(call.model, returns=returns),
        call.inputs,
        target=call.target,
        output=output,
        features=call.features,
        baselines=call.baselines,
        model_kwargs=call.model_kwargs,
        batch_size=batch_size,
    )
    attributed(problem, call.attributions)  # stops what is wrong with the arguments
    values: Tensor = metric(_with_class(problem, returns), call.attributions).value
    return values


def _with_class(problem: Problem, returns: Returns | None) -> Problem:
    """Turn Captum's number of an output into a class: the only output of a binary model is 0 there and class 1 here.

    The only value of a regression is 0 in both.
    """
    first = problem[:1]
    with first.session() as session:
        outputs = session.clean_outputs(first.inputs).outputs.shape[1]
    if outputs != 1:
        return problem
    if problem.target is not None and torch.as_tensor(problem.target).any():
        raise ValueError(f"target: forward_func returns one score per row, output 0 alone; got {problem.target}.")
    return problem.with_target(None if returns == "values" else 1)
