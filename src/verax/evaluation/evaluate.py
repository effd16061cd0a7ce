"""Several metrics in one pass, on attributions that are given or computed on the way."""

from typing import Any

import torch

from verax.evaluation.asked import asked
from verax.evaluation.engine import check_call, run
from verax.evaluation.result import Evaluation
from verax.metrics.choose import CallSettings, Metrics
from verax.metrics.weighted_area import Steps
from verax.perturbation.draws import Effect, Perturbation
from verax.problem.inputs import inputs_of
from verax.problem.replacement import ReplacementLike
from verax.scoring.class_scores import Output


def evaluate(
    model: Any,
    inputs: Any,
    attributions: Any,
    metrics: Metrics | None = None,
    *,
    target: Any = None,
    baselines: Any = 0.0,
    features: Any = "auto",
    steps: Steps | None = None,
    tolerance: float | None = None,
    sigma: Any = None,
    subset: int | None = None,
    samples: int | None = None,
    normalize: bool | None = None,
    perturbation: Perturbation | None = None,
    effect: Effect | None = None,
    seed: int | None = None,
    background: Any = None,
    background_labels: Any = None,
    replacement: ReplacementLike = None,
    limits: bool = False,
    distance: bool = False,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Evaluation:
    """Measure several metrics in one pass; model evaluations that they share are done once.

    Args:
        model: A torch module (returns logits), a scikit-learn classifier, a path of an ONNX file, a ``verax.Scorer``:
            see ``docs/how-to/add-a-model.md`` for all that can be passed.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch, or a ``verax.Inputs``, which brings its features and
            baselines; results come back in the same kind. Columns of a data frame are found by name, where the model
            knows names.
        attributions: One array like the inputs, a stack ``(K, N, ...)``, or a dict of names to arrays. For images
            the channel axis may be missing or have length 1; for groups there may be one value each, ``(N, groups)``.
            In a dict, a method such as ``verax.attribution.SmoothGrad()`` is computed first.
        metrics: Names (``"pc"``, ``"dpc"``, ``"infidelity"``, ``"sensitivity_n"``, those of your own), metric objects
            from ``verax.metrics``, or a dict that names them. Names take the settings of this call, objects bring
            their own. By default PC, DPC and Infidelity; for tokens and other codes PC and Infidelity under removal.
        target: The class whose score is followed: predicted (``None``), a column number, a label as text, or one of
            them per row.
        baselines: What removed features become: a number, anything that broadcasts to the inputs, or ``"mean"``,
            ``"median"``, ``"mode"``, ``"zero"`` of the background.
        features: What one feature is: ``"element"``, ``"pixel"`` (all channels of a position), an array of group
            numbers (for all inputs or one each), or ``"auto"``: pixels for inputs ``(N, C, H, W)``, elements otherwise.
        steps: PC, DPC and LPC: steps from the input to the baseline, 20 by default; ``"adaptive"`` refines them until
            the estimated error against one feature per step is below ``tolerance``.
        tolerance: With adaptive steps, the error to stop at, in the unit of the followed score; 0.01 by default. It
            says nothing where steps are fixed.
        sigma: Infidelity and effect correlation: standard deviation of the Gaussian perturbation: a number, one per
            element of a row, or ``"std"`` for those of the background; 0.2 by default.
        subset: Infidelity and effect correlation: features perturbed in each draw; all by default.
        samples: Draws per input, shared by all attributions; by default 640 for Infidelity and effect correlation, 64
            for Sensitivity-N.
        normalize: Infidelity: fit the scale of each attribution first, which is the default.
        perturbation: Infidelity and effect correlation: ``"gaussian"`` (local, the default) or ``"baseline"``
            (replaces a random subset).
        effect: Infidelity and effect correlation: ``"dot"`` takes attributions for slopes, ``"sum"`` for
            contributions; by default slopes where noise is added, contributions where features are replaced.
        seed: Same seed, same draws: in any process, batch, row order and on any device; 0 by default.
        background: Rows of training data, for baselines and ``sigma`` that are a statistic of them, and for methods
            among the attributions that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        replacement: What removed features become, one of ``verax.replacement``; their baselines by default. Metrics
            that have a replacement of their own keep it.
        limits: Whether to find what PC, DPC and LPC could be at best, too (see ``verax.limits``, which says what it
            costs); results then have ``limits`` and ``normalised``.
        distance: Whether to measure, too, how far perturbed rows lie from the background, beside its own distances:
            Mahalanobis, of tables in the inputs, of networks in what reaches their last linear layer. ``distance`` of
            what comes back then has a median ratio and the share beyond the background's 99 % quantile. At most 128
            inputs and five points of each curve are looked at; a network scores those rows and the background once
            more, other models score none.
        output: The score that is followed, ``"probability"`` or ``"logit"``; a regressor's value is followed as it is.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Returns:
        A dict of results. A metric object is found under its name; where several share one, under its short form,
        such as ``"dpc(order='signed')"``.

    Example:
        >>> import torch, verax
        >>> from verax.metrics import DirectedPredictionChange
        >>> model, x = torch.nn.Linear(20, 2), torch.randn(3, 20)
        >>> found = verax.evaluate(model, x, x, metrics=("pc", DirectedPredictionChange(order="signed")))
        >>> sorted(found), found.rows  # one experiment serves both
        (['dpc', 'pc'], 120)
        >>> list(verax.evaluate(model, x, {"gradient": verax.attribution.Gradient()}, ["dpc"])["dpc"].value)
        ['gradient']
    """
    settings = CallSettings(steps, tolerance, sigma, subset, samples, normalize, perturbation, effect, seed).said
    call = asked(
        model,
        inputs_of(inputs, features, baselines),
        attributions,
        metrics,
        settings,
        target=target,
        background=background,
        background_labels=background_labels,
        replacement=replacement,
        output=output,
        batch_size=batch_size,
        device=device,
        check=lambda call: check_call(*call[:-1], limits, distance),
    )
    return run(*call, limits=limits, distance=distance)
