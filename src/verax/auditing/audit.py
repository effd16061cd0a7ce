"""``verax.audit``: which metric can be trusted, on cases whose truth is known or on a user's model."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from verax.attribution.base import Attribution
from verax.auditing.audited_problem import (
    KINDS,
    AuditContext,
    AuditedProblem,
    Bench,
    case_subject,
    replacement_of,
    unsupported_reason,
    unsupported_replacement,
)
from verax.auditing.choices import (
    METHODS,
    chosen_cases,
    chosen_metrics,
    chosen_replacements,
    chosen_trials,
    methods_for,
    seeded,
)
from verax.auditing.finding import Finding, LeftOut, Piece
from verax.auditing.known_truth.base import Case
from verax.auditing.result import Audit
from verax.auditing.trials.base import Trial
from verax.core.arguments import checked_seed
from verax.core.shapes import Float
from verax.core.warn import once_per_call
from verax.evaluation.engine import problem_facts
from verax.evaluation.evaluate import prepared
from verax.evaluation.explained_class import with_known_class
from verax.metrics.base import Kind, Metric
from verax.metrics.choose import chosen
from verax.problem.problem import Problem, held_ready
from verax.problem.replacement import BASELINE, Replacement
from verax.scoring.class_scores import ClassNumbers
from verax.scoring.meter import Meter
from verax.statistics.intervals import LEVEL

Tell = Callable[[str], None]
_EVERY = 5.0  # seconds between two lines of progress within a piece


def _benches(
    subject: AuditedProblem, metrics: Mapping[str, Metric], replacements: Sequence[Replacement], left_out: list[LeftOut]
) -> Iterator[Bench]:
    """The metrics that are tried on a subject, by replacement; what cannot be measured is noted.

    Metrics that say themselves what removed features become are measured once, along with the first replacement.
    """
    rated = {name: metric for name, metric in metrics.items() if not subject.truths or metric.kind in subject.truths}
    for name, metric in metrics.items():
        if name not in rated:
            left_out.append(LeftOut(name, subject.name, f"its {metric.kind} truth is not known"))
    for number, replacement in enumerate(replacements):
        if why := unsupported_replacement(replacement, subject):
            left_out.append(LeftOut(replacement.short_form, subject.name, why))
        fitting = {}
        for name, metric in rated.items():
            alone = replacement_of(metric)
            if (alone and number) or (why and not alone):
                continue
            if reason := unsupported_reason(metric, subject, replacement):
                what = name if alone else f"{name} with {replacement.short_form}"
                left_out.append(LeftOut(what, subject.name, reason))
            else:
                fitting[name] = metric
        if fitting:
            yield Bench(subject, fitting, BASELINE if why else replacement)


def _contexts(
    bench: Bench, trials: Sequence[Trial], seed: int, left_out: list[LeftOut]
) -> Iterator[tuple[AuditContext, list[Trial]]]:
    """For each kind of metrics, what is known and which trials can be made."""
    subject = bench.subject
    for kind in KINDS:
        if not any(metric.kind == kind for metric in bench.metrics.values()):
            continue
        truth = subject.truths.get(kind)
        known = None if truth is None else truth.attribution.double()
        context = AuditContext(subject, kind, known, seed, LEVEL)
        possible = []
        for trial in trials:
            if trial.needs_truth is None and known is not None:
                continue
            why = "it needs the true explanation" if trial.needs_truth and known is None else trial.left_out(context)
            omission = LeftOut(trial.name, subject.name, why)
            if not why:
                possible.append(trial)
            elif omission not in left_out:
                left_out.append(omission)
        yield context, possible


def _findings(bench: Bench, context: AuditContext, trials: Sequence[Trial]) -> Iterator[Finding]:
    """All trials of one kind of metrics, their explanations scored in one pass."""
    subject, kind = bench.subject, context.kind
    bench = replace(bench, metrics={name: metric for name, metric in bench.metrics.items() if metric.kind == kind})
    together: dict[str, Float[Tensor, "n features"]] = {}
    for trial in trials:
        together |= trial.explanations(context)
    scores = bench.scores(together) if together else {}
    truth = subject.truths.get(kind)
    for trial in trials:
        for name, outcome in trial.outcomes(context, together, scores, bench):
            yield Finding(
                metric=name,
                replacement=replacement_of(bench.metrics[name]) or bench.replacement.short_form,
                case=subject.name,
                family=outcome.family,
                explanation=outcome.explanation,
                against=outcome.against,
                value=float(outcome.value.mean),
                low=float(outcome.value.low),
                high=float(outcome.value.high),
                passed=None if outcome.passed is None else bool(outcome.passed),
                kind=kind,
                scale=None if truth is None else truth.scale,
                inputs=outcome.inputs,
                ties=float(outcome.ties),
                says=outcome.says,
            )


_OWN = "your model"
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
        progress: Called with a line of text after every piece, and every few seconds while a model of your own runs.

    Returns:
        An ``Audit``: ``sentences``, ``to_frame()``, ``save(path)``, ``blind_spots``, ``inputs_needed``, ``notes``.

    Example: PC and DPC in its default order are blind to a constant.
        >>> from verax.auditing import audit, cases
        >>> few = cases(inputs=16)[:1]
        >>> audit(few, metrics=["pc", "dpc"], replacements=["baseline"], trials=["truth_wins"]).blind_spots
        {'dpc': ['a constant added'], 'pc': ['a constant added']}
    """
    own_problem = problem if isinstance(problem, Problem) else None
    made, seed, folder = chosen_trials(trials, own_problem is not None), checked_seed(seed), _folder(store)
    rated = chosen_metrics(metrics)
    background = own_problem is not None and own_problem.background is not None
    moves = chosen_replacements(replacements, background, own_problem is not None)
    tell = progress or (lambda line: None)
    with once_per_call(), _watched(own_problem, tell), contextlib.ExitStack() as stack:
        if own_problem is not None:
            meters = [Meter(own_problem.scorer.counts)]  # before methods are computed
            subjects = [_own_subject(stack.enter_context(held_ready(own_problem)), attributions)]
        elif attributions is not None:
            raise ValueError("attributions: they are those of a model; pass a verax.Problem as well.")
        else:
            subjects = [case_subject(case, METHODS) for case in chosen_cases(problem, seed)]
            meters = [Meter(subject.problem.scorer.counts) for subject in subjects]
            held = (stack.enter_context(held_ready(subject.problem)) for subject in subjects)
            subjects = [replace(subject, problem=ready) for subject, ready in zip(subjects, held, strict=True)]
        left_out: list[LeftOut] = []
        benches: list[Bench] = []
        for subject in subjects:
            named = seeded(chosen(rated, int(subject.counts.min())), rated, seed)
            benches += _benches(subject, named, moves, left_out)
        findings: list[Finding] = []
        for number, bench in enumerate(benches, start=1):
            contexts = list(_contexts(bench, made, seed, left_out))
            piece = None if folder is None else Piece(folder, bench, made, seed, LEVEL)
            kept = None if piece is None else piece.read()
            rows = [row for context in contexts for row in _findings(bench, *context)] if kept is None else kept
            if piece is not None and kept is None:
                piece.write(rows)
            findings += rows
            label = f"{bench.subject.name}, {bench.replacement.short_form}"
            tell(f"{number} of {len(benches)}: {label}{'' if kept is None else ' (kept)'}")
        limitations = {name: metric.known_limitations for bench in benches for name, metric in bench.metrics.items()}
        costs = [meter.total() for meter in meters]
        return Audit(
            findings=tuple(findings),
            left_out=tuple(left_out),
            trials=made,
            inputs=0 if own_problem is None else len(own_problem),
            rows=sum(cost.rows.total for cost in costs),
            seconds=max(cost.seconds for cost in costs),
            level=LEVEL,
            known_limitations=limitations,
            facts=subjects[0].facts,
        )


@contextlib.contextmanager
def _watched(problem: Problem | None, tell: Tell) -> Iterator[None]:
    """Tell every few seconds how many rows a user's model has scored."""
    if problem is None:
        yield
        return
    counts = problem.scorer.counts
    rows, start = counts.rows, time.monotonic()
    last = start

    def after_batch() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY:
            last = now
            tell(f"{_OWN}: {counts.rows - rows:,} model rows, {now - start:.0f} s")

    counts.after_batch = after_batch
    try:
        yield
    finally:
        counts.after_batch = None


def _folder(store: Any) -> Path | None:
    if store is None:
        return None
    if not isinstance(store, str | os.PathLike):
        raise TypeError(f"store: expected a folder, got {type(store).__name__}.")
    folder = Path(store)
    if folder.is_file():
        raise ValueError(f"store: {folder} is a file; expected a folder for the pieces of the audit.")
    return folder


def _own_subject(problem: Problem, attributions: Any) -> AuditedProblem:
    """A user's model, with its explanations brought to one number per feature."""
    if len(problem) < _FEWEST:
        raise ValueError(f"inputs: expected at least {_FEWEST}, since fewer show no difference, got {len(problem)}.")
    whose = with_known_class(attributions, problem)
    explained, problem = whose.attributions, whose.problem
    settled = problem.with_target(ClassNumbers(problem.classes))
    slopes = problem.scorer.differentiable and problem.inputs.is_floating_point()
    if explained is None:
        explained = methods_for(problem.given, slopes, problem.background is not None)
    named = explained if isinstance(explained, Mapping) else {"attribution": explained}
    rated = prepared(settled, named, ["pc"], lambda call: None).rated
    explanations = {
        name: rated.features.reduce(values.double(), slice(None)).cpu()
        for name, values in zip(rated.layout.names, rated.attributions, strict=True)
    }
    methods = {str(name): method for name, method in named.items() if isinstance(method, Attribution)}
    kinds: dict[str, Kind] = {name: "local" if method.local else "baseline" for name, method in methods.items()}
    # how to explain a changed model: as the user does, where that is a method of the kind
    again = {
        kind: next((method for name, method in methods.items() if kinds[name] == kind), METHODS[kind]) for kind in KINDS
    }
    facts = problem_facts(problem)
    return AuditedProblem(_OWN, settled, {}, explanations, kinds, again if slopes else {}, facts)
