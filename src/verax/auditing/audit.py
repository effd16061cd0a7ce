"""``verax.audit``: which metric can be trusted, on cases whose truth is known or on a model of one's own."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax.attribution.base import Attribution, attribute
from verax.auditing.choices import (
    METHODS,
    cases_asked,
    methods_for,
    metrics_asked,
    replacements_asked,
    trials_asked,
)
from verax.auditing.finding import LeftOut
from verax.auditing.result import Audit
from verax.auditing.run import Piece, Run, Tell, pieces_of
from verax.auditing.subject import Subject, case_subject, classes_of
from verax.core.arguments import checked_level, checked_seed
from verax.core.arrays import as_tensor
from verax.core.warn import once_per_call
from verax.evaluation.explained_class import with_known_class
from verax.evaluation.identity import about_scorer
from verax.metrics.about import class_counts
from verax.metrics.base import Kind
from verax.metrics.choose import chosen
from verax.problem.checked_inputs import checked_inputs
from verax.problem.given_attributions import fitted_attributions, plain_attributions
from verax.problem.inputs import Inputs, inputs_of
from verax.problem.problem import problem
from verax.scoring.class_scores import Output, checked_output
from verax.scoring.frames import column_order
from verax.scoring.meter import Meter
from verax.scoring.scorer import Scorer, scorer_of
from verax.scoring.targets import Columns

OWN = "your model"
_FEWEST = 8  # inputs from which anything can be told


def audit(
    model: Any = None,
    inputs: Any = None,
    attributions: Any = None,
    *,
    metrics: Any = None,
    replacements: Any = None,
    cases: Any = None,
    trials: Any = None,
    background: Any = None,
    background_labels: Any = None,
    baselines: Any = 0.0,
    features: Any = "auto",
    target: Any = None,
    sigma: Any = None,
    output: Output = "probability",
    seed: int = 0,
    level: float = 0.95,
    out: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Audit:
    """Find out which metric can be trusted.

    Without a model, every metric is tried on small models whose true explanations are known: local metrics are judged
    by the local truth, baseline-oriented ones by the baseline truth. With a model, the trials that need no truth are
    made on it: which metric, with how many inputs, tells these explanations from worse ones, and which cannot.

    A metric that passes tells good explanations from bad ones there. Reliability and consistency are agreement of a
    metric with itself, not truth. The thresholds are fields of the trials, in ``verax.auditing.trials``.

    Args:
        model: A model of your own, as ``verax.evaluate`` takes it; None for the cases.
        inputs: Rows to explain, or a ``verax.Inputs``; some hundred are enough.
        attributions: Explanations of them by name: arrays or methods, as ``verax.evaluate`` takes them. By default
            gradients and Integrated Gradients of torch modules, Kernel SHAP and, for tables, LIME of other models.
        metrics: Names, metric objects, or a dict that names them; by default all that are registered, and readings of
            DPC, Infidelity and effect correlation that behave differently.
        replacements: What removed features become, of ``verax.replacement``, or words for them; by default all of them
            for cases, and the baselines for a model, with other rows and the conditional mean where it comes with a
            background. Metrics that say it themselves keep theirs.
        cases: Names or ``verax.auditing.Case`` objects; all that come with Verax by default.
        trials: Names such as ``"truth_wins"``, or objects with thresholds of your own; all by default.
        background: Rows of training data.
        background_labels: Their classes, for methods among the attributions that draw from each class alike.
        baselines: What removed features become: a number, or anything that broadcasts to the inputs.
        features: What one feature is; explanations are rated with one number per feature.
        target: The class whose score is followed: predicted (``None``), a number, a label, or one of them per row.
        sigma: Standard deviation of the noise of metrics that are named or taken by default: a number, or ``"std"`` for
            that of each column of the background.
        output: The score that is followed, ``"probability"`` or ``"logit"``; a regressor's value as it is.
        seed: Same seed, same draws.
        level: Coverage of the intervals, and of the paired tests.
        out: A folder. Every finished piece is kept there, and the same call goes on where an earlier one stopped.
        progress: Called with a line of text after every piece.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Returns:
        An ``Audit``: ``sentences``, ``to_frame()``, ``save(path)``, ``blind_spots``, ``inputs_needed``, ``notes``.

    Example: PC cannot see a constant, DPC takes the truth for its negated inverse.
        >>> from verax.auditing import audit, cases
        >>> few = cases(inputs=16)[:1]
        >>> audit(metrics=["pc", "dpc"], cases=few, replacements=["baseline"], trials=["truth_wins"]).blind_spots
        {'dpc': ['-1/a'], 'pc': ['a constant added']}
    """
    checked_level(level)
    checked_output(output)
    run = Run(trials_asked(trials, model is not None), checked_seed(seed), level, _folder(out))
    asked = metrics_asked(metrics, sigma)
    moves = replacements_asked(replacements, background is not None, model is not None)
    with once_per_call():
        if model is None:
            owned = {"inputs": inputs, "background": background, "background_labels": background_labels}
            for name, value in (owned | {"attributions": attributions}).items():
                if value is not None:
                    raise ValueError(f"{name}: they are those of a model; pass model=... as well.")
            subjects = [case_subject(case, METHODS) for case in cases_asked(cases, run.seed)]
        else:
            if cases is not None:
                raise ValueError("cases: they have models of their own; pass either a model or cases.")
            if inputs is None:
                raise ValueError("inputs: a model of your own needs rows to explain; pass inputs=... as well.")
            settings = (target, background, background_labels, output, batch_size, device)
            subjects = [_own_subject(model, inputs_of(inputs, features, baselines), attributions, *settings)]
        meters = [Meter(subject.scorer.counts) for subject in subjects]
        pieces = [piece for subject in subjects for piece in _pieces(subject, asked, moves, run, sigma)]
        found = run.findings(pieces, progress or (lambda line: None))
        costs = [meter.total() for meter in meters]
        own = len(subjects[0]) if model is not None else 0
        rows, seconds = sum(cost.rows.total for cost in costs), max(cost.seconds for cost in costs)
        blind = {name: metric.cannot_see for piece in pieces for name, metric in piece.metrics.items()}
        return Audit(tuple(found), tuple(run.left_out), run.trials, own, rows, seconds, level, blind, subjects[0].facts)


def _pieces(subject: Subject, metrics: Any, replacements: Sequence[Any], run: Run, sigma: Any) -> list[Piece]:
    named = chosen(metrics, {"seed": run.seed, "sigma": sigma}, int(subject.counts.min()))
    notes: list[LeftOut] = []
    pieces = list(pieces_of(subject, named, replacements, notes))
    run.left_out += notes
    return pieces


def _folder(out: Any) -> Path | None:
    if out is None:
        return None
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"out: expected a folder, found {type(out).__name__}.")
    folder = Path(out)
    if folder.is_file():
        raise ValueError(f"out: {folder} is a file; wanted is a folder for the pieces of the audit.")
    return folder


def _own_subject(
    model: Any,
    asked: Inputs,
    attributions: Any,
    target: Any,
    background: Any,
    labels: Any,
    output: Output,
    batch_size: int | None,
    device: Any,
) -> Subject:
    """A user's model, with its explanations brought to one number per feature."""
    scorer = scorer_of(model)
    order = column_order(scorer.feature_names, asked.values)
    rows, data = _plain(asked.ordered(order)), order("background", background)
    if len(rows) < _FEWEST:
        raise ValueError(f"inputs: expected at least {_FEWEST}, from which something can be told, found {len(rows)}.")
    whose = with_known_class(attributions, target, scorer, rows, data, batch_size, device)
    attributions, target = whose.attributions, whose.target
    classes, clean = classes_of(scorer, rows, target, data, output, batch_size, device)
    about = checked_inputs(rows, data, scorer.takes_missing)
    slopes = scorer.differentiable and about.values.is_floating_point()
    given = methods_for(about, slopes, data is not None) if attributions is None else attributions
    fitted = order("attributions", plain_attributions(fitted_attributions(given, asked.fitted)))
    settings: dict[str, Any] = {"target": Columns(classes), "background_labels": labels}
    settings |= {"batch_size": batch_size, "device": device}
    arrays = _arrays(fitted, scorer, rows, data, settings)
    checked = problem(rows, arrays, target=Columns(classes), background=data, takes_missing=scorer.takes_missing)
    explanations = {
        name: checked.features.reduce(values.double(), slice(None)).cpu()
        for name, values in zip(checked.layout.names, checked.attributions, strict=True)
    }
    methods = _methods(given) if slopes else {}
    kinds: dict[str, Kind] = {name: "local" if one.local else "baseline" for name, one in _named_methods(given).items()}
    return Subject(
        OWN,
        scorer,
        rows,
        data,
        classes,
        clean,
        output,
        given=explanations,
        kinds=kinds,
        methods=methods,
        batch_size=batch_size,
        device=device,
        facts=about_scorer(scorer, output, target is None, about.baseline_words).facts(class_counts(classes)),
    )


def _plain(rows: Inputs) -> Inputs:
    """Rows of a frame or a list as an array; their columns are in the model's order by now."""
    if isinstance(rows.values, Tensor):
        return rows
    return replace(rows, values=as_tensor("inputs", rows.values).numpy())


def _named_methods(given: Any) -> dict[str, Attribution]:
    listed = given.items() if isinstance(given, Mapping) else ()
    return {str(name): one for name, one in listed if isinstance(one, Attribution)}


def _methods(given: Any) -> Mapping[Kind, Attribution]:
    """How to explain a changed model: as the user does, where that is a method of the kind."""
    found = _named_methods(given).values()
    local = next((one for one in found if one.local), METHODS["local"])
    return {"local": local, "baseline": next((one for one in found if not one.local), METHODS["baseline"])}


def _arrays(given: Any, scorer: Scorer, rows: Inputs, background: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Attributions by name; methods are computed."""
    if not isinstance(given, Mapping):
        given = {"attribution": given}
    methods = [one for one in given.values() if isinstance(one, Attribution)]
    found = attribute(methods, scorer, rows, background=background, **settings) if methods else {}
    return {str(name): found[one.canonical] if isinstance(one, Attribution) else one for name, one in given.items()}
