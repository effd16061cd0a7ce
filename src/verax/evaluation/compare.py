"""Which attribution is the most faithful to a model, and is it told apart from the next one? Paired over inputs."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from verax.core.arguments import checked_level
from verax.evaluation.asked import Asked, asked, follows_replacement
from verax.evaluation.comparison import Comparison
from verax.evaluation.engine import check_call, run
from verax.evaluation.result import Evaluation
from verax.evaluation.survival import Elsewhere
from verax.metrics.base import GuidedMetric
from verax.metrics.choose import CallSettings, Metrics
from verax.metrics.weighted_area import Steps
from verax.perturbation.draws import Effect, Perturbation
from verax.problem.inputs import inputs_of
from verax.problem.replacement import Replacement, ReplacementLike, checked_replacement
from verax.scoring.class_scores import Output
from verax.scoring.meter import Cost


def compare(
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
    replacements: Any = (),
    limits: bool = False,
    distance: bool = False,
    output: Output = "probability",
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    level: float = 0.95,
) -> Comparison:
    """Rank attributions of one model by how faithful they are, and say which differences are real.

    Args:
        model: A torch module (returns logits), a classifier or regressor of scikit-learn, a path of an ONNX file, a
            ``verax.Scorer``.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch, or a ``verax.Inputs``, which brings its features and
            baselines.
        attributions: A dict of names to arrays like the inputs, or to methods such as
            ``verax.attribution.SmoothGrad()``, which are computed first.
        metrics: Names of metrics, metric objects from ``verax.metrics``, or a dict that names them. Names take the
            settings of this call, objects bring their own. By default PC, DPC and Infidelity; for tokens and other
            codes PC and Infidelity under removal.
        target: The class whose score is followed: predicted (``None``), one number, or one number per row.
        baselines: What removed features become: a number, anything that broadcasts to the inputs, or ``"mean"``,
            ``"median"``, ``"mode"``, ``"zero"`` of the background.
        features: What one feature is: ``"element"``, ``"pixel"``, an array of group numbers, or ``"auto"``.
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
        seed: Same seed, same draws; 0 by default.
        background: Rows of training data: for baselines and sigma that are measured by them, and for methods among
            the attributions that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        replacement: What removed features become, one of ``verax.replacement``; their baselines by default. Metrics
            that have a replacement of their own keep it.
        replacements: Others to rank under as well, in a list, or in a dict that names them: does the ranking survive?
            Metrics that add noise or have a replacement of their own are left out there, and so is DPC where features
            have no direction. Each costs about as many model rows again.
        limits: Whether to find what PC, DPC and LPC could be at best, too (see ``verax.limits``, which says what it
            costs); results then have ``limits`` and ``normalised``.
        distance: Whether to measure how far perturbed rows lie from the background, under every replacement (see
            ``verax.evaluate``, which says what it costs).
        output: The score that is followed, ``"probability"`` or ``"logit"``.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.
        level: Coverage of the intervals.

    Intervals say how far a number would move with other inputs of the same kind. Means have the interval of Student's
    t; differences of two attributions are paired, input by input, with the interval of the paired t-test,
    which is narrower wherever two attributions find the same inputs hard. Infidelity's Monte-Carlo error is part of the
    spread over inputs; all attributions share their draws, so that most of it cancels in a difference.

    Each interval is for one pair and is not corrected for looking at many: of 20 comparisons of equally good
    attributions, expect one to tell them apart by chance. Where that matters, raise ``level`` to ``1 - 0.05 / pairs``.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(50, 8)
        >>> found = verax.compare(model, x, {"random": torch.randn(50, 8), "x times gradient": x * (
        ...     model.weight[1] - model.weight[0])}, metrics=["pc"], target=1)
        >>> [one.name for one in found.ranking("pc")], found.pair("random", "x times gradient", "pc").word
        (['x times gradient', 'random'], 'worse')
        >>> found.best("pc")
        ['x times gradient']
        >>> two = {"x": x, "minus x": -x}  # does their ranking survive another replacement?
        >>> found = verax.compare(model, x, two, ["pc"], replacements=[verax.replacement.Toward(0.5)])
        >>> found.survival()[0].there, found.survival()[0].tau.mean
        ('Toward(epsilon=0.5)', 1.0)
    """
    if not isinstance(attributions, Mapping) or not all(isinstance(name, str) for name in attributions):
        found = "a dict with other keys" if isinstance(attributions, Mapping) else type(attributions).__name__
        raise TypeError(f"attributions: expected a dict of names to arrays, found {found}.")
    checked_level(level)
    others = _named(replacements)
    settings = CallSettings(steps, tolerance, sigma, subset, samples, normalize, perturbation, effect, seed).said

    def check(call: Asked) -> None:
        check_call(*call[:-1], limits, distance)
        if set(others) - {call.problem.replacement.short_form} and not any(
            map(follows_replacement, call.metrics.values())
        ):
            named = ", ".join(call.metrics)
            raise ValueError(f"replacements: {named} do not depend on what removed features become; add pc or dpc.")

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
        check=check,
    )
    here = call.problem.replacement.short_form
    others = {name: other for name, other in others.items() if name != here}
    evaluation = run(*call, limits=limits, distance=distance)
    elsewhere = tuple(_elsewhere(call, name, other, distance) for name, other in others.items())
    return Comparison(evaluation, level, here, elsewhere)


def _named(replacements: Any) -> dict[str, Replacement]:
    """Other replacements by name: their own, or what the call says."""
    if isinstance(replacements, Replacement | str) or callable(replacements) or not isinstance(replacements, Iterable):
        raise TypeError(f"replacements: expected a list of replacements or a dict, found {replacements!r}.")
    named = replacements.items() if isinstance(replacements, Mapping) else ((None, one) for one in replacements)
    found: dict[str, Replacement] = {}
    for name, one in named:
        checked = checked_replacement(one)
        if checked is None:
            raise TypeError("replacements: expected a replacement, found None; say verax.replacement.Baseline().")
        called = checked.short_form if name is None else str(name)
        if called in found:
            raise ValueError(f"replacements: two are called {called}; pass a dict of names to replacements.")
        found[called] = checked
    return found


def _elsewhere(call: Asked, name: str, replacement: Replacement, distance: bool) -> Elsewhere:
    """Measure what another replacement makes a difference to."""
    there = call.under(replacement)
    lost = {one: metric for one, metric in call.metrics.items() if one not in there.metrics}
    refused = {one: metric.refusal(there.problem) for one, metric in lost.items() if follows_replacement(metric)}
    guided = any(isinstance(metric, GuidedMetric) for metric in there.metrics.values())
    found = run(*there, distance=distance and guided) if there.metrics else Evaluation({}, Cost())
    return Elsewhere(name, found, refused)
