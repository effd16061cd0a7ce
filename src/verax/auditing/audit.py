"""``verax.audit``: which metric can be trusted, on cases whose truth is known or on a model of one's own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verax.attribution.base import Attribution
from verax.auditing.choices import (
    METHODS,
    cases_asked,
    methods_for,
    metrics_asked,
    replacements_asked,
    seeded,
    trials_asked,
)
from verax.auditing.finding import LeftOut
from verax.auditing.known_truth.base import Case
from verax.auditing.result import Audit
from verax.auditing.run import Piece, Run, Tell, pieces_of
from verax.auditing.subject import Subject, case_subject
from verax.core.arguments import checked_seed
from verax.core.warn import once_per_call
from verax.evaluation.engine import problem_facts
from verax.evaluation.evaluate import prepared
from verax.evaluation.explained_class import with_known_class
from verax.metrics.base import Kind
from verax.metrics.choose import chosen
from verax.problem.problem import Problem
from verax.scoring.class_scores import Columns
from verax.scoring.meter import Meter
from verax.statistics.intervals import LEVEL

OWN = "your model"
_FEWEST = 8  # inputs from which anything can be told


def audit(
    problem: Problem | Case | Sequence[Case | str] | None = None,
    attributions: Any = None,
    *,
    metrics: Any = None,
    replacements: Any = None,
    trials: Any = None,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
) -> Audit:
    """Find out which metric can be trusted.

    Without a problem, every metric is tried on small models whose true explanations are known: local metrics are judged
    by the local truth, baseline-oriented ones by the baseline truth. With a problem, the trials that need no truth are
    made on it: which metric, with how many inputs, tells these explanations from worse ones, and which cannot.

    A metric that passes tells good explanations from bad ones there. Reliability and consistency are agreement of a
    metric with itself, not truth. The thresholds are fields of the trials, in ``verax.auditing.trials``.

    Args:
        problem: A model of your own and some hundred rows; or cases whose truth is known, by name or as
            ``verax.auditing.Case`` objects; None for all that come with Verax.
        attributions: Explanations of your model by name: arrays or methods, as ``verax.evaluate`` takes them. By
            default gradients and Integrated Gradients of torch modules, Kernel SHAP and, for tables, LIME of others.
        metrics: Names, metric objects, or a dict that names them; by default all that are registered, and readings of
            DPC, Infidelity and effect correlation that behave differently.
        replacements: What removed features become, of ``verax.replacement``, or words for them; by default all of them
            for cases, and the baselines for a problem, with other rows and the conditional mean where it has a
            background. Metrics that say it themselves keep theirs.
        trials: Names such as ``"truth_wins"``, or objects with thresholds of your own; all by default.
        seed: Same seed, same draws.
        store: A folder. Every finished piece is kept there, and the same call goes on where an earlier one stopped.
        progress: Called with a line of text after every piece.

    Returns:
        An ``Audit``: ``sentences``, ``to_frame()``, ``save(path)``, ``blind_spots``, ``inputs_needed``, ``notes``.

    Example: PC cannot see a constant, DPC takes the truth for its negated inverse.
        >>> from verax.auditing import audit, cases
        >>> few = cases(inputs=16)[:1]
        >>> audit(few, metrics=["pc", "dpc"], replacements=["baseline"], trials=["truth_wins"]).blind_spots
        {'dpc': ['-1/a'], 'pc': ['a constant added']}
    """
    asked_about = problem if isinstance(problem, Problem) else None
    run = Run(trials_asked(trials, asked_about is not None), checked_seed(seed), LEVEL, _folder(store))
    background = asked_about is not None and asked_about.background is not None
    asked = metrics_asked(metrics)
    moves = replacements_asked(replacements, background, asked_about is not None)
    with once_per_call():
        if asked_about is None:
            if attributions is not None:
                raise ValueError("attributions: they are those of a model; pass a verax.Problem as well.")
            subjects = [case_subject(case, METHODS) for case in cases_asked(problem, run.seed)]
        else:
            subjects = [_own_subject(asked_about, attributions)]
        meters = [Meter(subject.problem.scorer.counts) for subject in subjects]
        pieces = [piece for subject in subjects for piece in _pieces(subject, asked, moves, run)]
        found = run.findings(pieces, progress or (lambda line: None))
        costs = [meter.total() for meter in meters]
        rows, seconds = sum(cost.rows.total for cost in costs), max(cost.seconds for cost in costs)
        blind = {name: metric.known_limitations for piece in pieces for name, metric in piece.metrics.items()}
        inputs = 0 if asked_about is None else len(asked_about)
        return Audit(
            tuple(found), tuple(run.left_out), run.trials, inputs, rows, seconds, LEVEL, blind, subjects[0].facts
        )


def _pieces(subject: Subject, metrics: Any, replacements: Sequence[Any], run: Run) -> list[Piece]:
    named = seeded(chosen(metrics, int(subject.counts.min())), metrics, run.seed)
    notes: list[LeftOut] = []
    pieces = list(pieces_of(subject, named, replacements, notes))
    run.left_out += notes
    return pieces


def _folder(store: Any) -> Path | None:
    if store is None:
        return None
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: expected a folder, got {type(store).__name__}.")
    folder = Path(store)
    if folder.is_file():
        raise ValueError(f"store: {folder} is a file; expected a folder for the pieces of the audit.")
    return folder


def _own_subject(problem: Problem, attributions: Any) -> Subject:
    """A user's model, with its explanations brought to one number per feature."""
    if len(problem) < _FEWEST:
        raise ValueError(f"inputs: expected at least {_FEWEST}, from which something can be told, got {len(problem)}.")
    whose = with_known_class(attributions, problem)
    attributions, problem = whose.attributions, whose.problem
    settled = problem.with_target(Columns(problem.classes))
    slopes = problem.scorer.differentiable and problem.inputs.is_floating_point()
    given = methods_for(problem.given, slopes, problem.background is not None) if attributions is None else attributions
    named = given if isinstance(given, Mapping) else {"attribution": given}
    rated = prepared(settled, named, ["pc"], lambda call: None).rated
    explanations = {
        name: rated.features.reduce(values.double(), slice(None)).cpu()
        for name, values in zip(rated.layout.names, rated.attributions, strict=True)
    }
    methods = _methods(given) if slopes else {}
    kinds: dict[str, Kind] = {
        name: "local" if method.local else "baseline" for name, method in _named_methods(given).items()
    }
    return Subject(OWN, settled, given=explanations, kinds=kinds, methods=methods, facts=problem_facts(problem))


def _named_methods(given: Any) -> dict[str, Attribution]:
    listed = given.items() if isinstance(given, Mapping) else ()
    return {str(name): one for name, one in listed if isinstance(one, Attribution)}


def _methods(given: Any) -> Mapping[Kind, Attribution]:
    """How to explain a changed model: as the user does, where that is a method of the kind."""
    found = _named_methods(given).values()
    local = next((one for one in found if one.local), METHODS["local"])
    return {"local": local, "baseline": next((one for one in found if not one.local), METHODS["baseline"])}
