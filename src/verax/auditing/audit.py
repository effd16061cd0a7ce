"""``verax.audit``: which metric can be trusted, on cases whose truth is known or on a model of one's own."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    own_replacement,
    unsupported_reason,
    unsupported_replacement,
)
from verax.auditing.choices import (
    METHODS,
    cases_asked,
    methods_for,
    metrics_asked,
    replacements_asked,
    seeded,
    trials_asked,
)
from verax.auditing.finding import Finding, LeftOut, piece_key, read_piece, write_piece
from verax.auditing.known_truth.base import Case
from verax.auditing.result import Audit
from verax.auditing.trials.base import Outcome, Trial
from verax.core.arguments import checked_seed
from verax.core.shapes import Float
from verax.core.warn import once_per_call
from verax.evaluation.engine import problem_facts
from verax.evaluation.evaluate import prepared
from verax.evaluation.explained_class import with_known_class
from verax.metrics.base import Kind, Metric
from verax.metrics.choose import chosen
from verax.problem.problem import Problem
from verax.problem.replacement import BASELINE, Replacement
from verax.scoring.class_scores import Columns
from verax.scoring.meter import Meter
from verax.statistics.intervals import LEVEL

Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Piece:
    """A subject with one replacement, and the metrics that are tried on it."""

    subject: AuditedProblem
    replacement: Replacement
    metrics: Mapping[str, Metric]

    @property
    def label(self) -> str:
        """What is shown while it is made."""
        return f"{self.subject.name}, {self.replacement.short_form}"


def pieces_of(
    subject: AuditedProblem, metrics: Mapping[str, Metric], replacements: Sequence[Replacement], left_out: list[LeftOut]
) -> Iterator[Piece]:
    """The pieces of a subject; what cannot be measured is noted.

    Metrics that say themselves what removed features become are measured once, along with the first replacement.
    """
    rated = {
        name: rated_metric
        for name, rated_metric in metrics.items()
        if not subject.truths or rated_metric.kind in subject.truths
    }
    unrated = [name for name in metrics if name not in rated]
    left_out += [LeftOut(name, subject.name, f"its {metrics[name].kind} truth is not known") for name in unrated]
    first = True
    for replacement in replacements:
        why = unsupported_replacement(replacement, subject)
        if why:
            left_out.append(LeftOut(replacement.short_form, subject.name, why))
        chosen = {}
        for name, metric in rated.items():
            held = own_replacement(metric)
            if (held and not first) or (why and not held):
                continue
            if words := unsupported_reason(metric, subject, replacement):
                what = name if held else f"{name} with {replacement.short_form}"
                left_out.append(LeftOut(what, subject.name, words))
                continue
            chosen[name] = metric
        first = False
        if chosen:
            yield Piece(subject, BASELINE if why else replacement, chosen)


class Run:
    """An audit under way."""

    def __init__(self, trials: Sequence[Trial], seed: int, level: float, folder: Path | None) -> None:
        self.trials, self.seed, self.level, self.folder = trials, seed, level, folder
        self.left_out: list[LeftOut] = []

    def findings(self, pieces: Sequence[Piece], tell: Tell) -> list[Finding]:
        """Make all pieces that are not there yet."""
        findings: list[Finding] = []
        for number, piece in enumerate(pieces, start=1):
            key = piece_key(piece.subject, piece.replacement, piece.metrics, self.trials, self.seed, self.level)
            grounds = self._grounds(piece)
            made = None if self.folder is None else read_piece(self.folder, key)
            kept = made is not None
            if made is None:
                made = [finding for ground, trials in grounds for finding in self._made(piece, ground, trials)]
                if self.folder is not None:
                    write_piece(self.folder, key, made)
            findings += made
            tell(f"{number} of {len(pieces)}: {piece.label}{' (kept)' if kept else ''}")
        return findings

    def _grounds(self, piece: Piece) -> list[tuple[AuditContext, list[Trial]]]:
        """For each kind of metrics, what is known and which trials can be made."""
        grounds = []
        for kind in KINDS:
            if not any(metric.kind == kind for metric in piece.metrics.values()):
                continue
            truth = piece.subject.truths.get(kind)
            known = None if truth is None else truth.attribution.double()
            ground = AuditContext(piece.subject, kind, known, self.seed, self.level)
            trials = []
            for trial in self.trials:
                if trial.needs_truth is None and known is not None:
                    continue
                why = "it needs the true explanation" if trial.needs_truth and known is None else trial.left_out(ground)
                if why:
                    self._note(LeftOut(trial.name, piece.subject.name, why))
                else:
                    trials.append(trial)
            grounds.append((ground, trials))
        return grounds

    def _note(self, left_out: LeftOut) -> None:
        if left_out not in self.left_out:
            self.left_out.append(left_out)

    def _made(self, piece: Piece, ground: AuditContext, trials: Sequence[Trial]) -> Iterator[Finding]:
        """All trials of one kind of metrics, their explanations scored in one pass."""
        metrics = {name: metric for name, metric in piece.metrics.items() if metric.kind == ground.kind}
        bench = Bench(piece.subject, metrics, piece.replacement)
        together: dict[str, Float[Tensor, "n features"]] = {}
        for trial in trials:
            together |= trial.explanations(ground)
        scores = bench.scores(together) if together else {}
        for trial in trials:
            for name, outcome in trial.outcomes(ground, together, scores, bench):
                replacement = own_replacement(metrics[name]) or piece.replacement.short_form
                yield _finding(name, replacement, piece.subject, ground.kind, outcome)


def _finding(metric: str, replacement: str, subject: AuditedProblem, kind: Kind, outcome: Outcome) -> Finding:
    value = outcome.value
    truth = subject.truths.get(kind)
    return Finding(
        metric=metric,
        replacement=replacement,
        case=subject.name,
        trial=outcome.trial,
        value=float(value.mean),
        low=float(value.low),
        high=float(value.high),
        passed=None if outcome.passed is None else bool(outcome.passed),
        kind=kind,
        scale=None if truth is None else truth.scale,
        inputs=outcome.inputs,
        ties=float(outcome.ties),
        says=outcome.says,
    )


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

    Example: PC and DPC in its default order cannot see a constant.
        >>> from verax.auditing import audit, cases
        >>> few = cases(inputs=16)[:1]
        >>> audit(few, metrics=["pc", "dpc"], replacements=["baseline"], trials=["truth_wins"]).blind_spots
        {'dpc': ['a constant added'], 'pc': ['a constant added']}
    """
    asked_about = problem if isinstance(problem, Problem) else None
    run = Run(trials_asked(trials, asked_about is not None), checked_seed(seed), LEVEL, _folder(store))
    background = asked_about is not None and asked_about.background is not None
    rated = metrics_asked(metrics)
    moves = replacements_asked(replacements, background, asked_about is not None)
    with once_per_call():
        if asked_about is None:
            if attributions is not None:
                raise ValueError("attributions: they are those of a model; pass a verax.Problem as well.")
            subjects = [case_subject(case, METHODS) for case in cases_asked(problem, run.seed)]
        else:
            subjects = [_own_subject(asked_about, attributions)]
        meters = [Meter(subject.problem.scorer.counts) for subject in subjects]
        pieces = [piece for subject in subjects for piece in _pieces(subject, rated, moves, run)]
        findings = run.findings(pieces, progress or (lambda line: None))
        costs = [meter.total() for meter in meters]
        rows, seconds = sum(cost.rows.total for cost in costs), max(cost.seconds for cost in costs)
        blind = {name: metric.known_limitations for piece in pieces for name, metric in piece.metrics.items()}
        inputs = 0 if asked_about is None else len(asked_about)
        return Audit(
            tuple(findings), tuple(run.left_out), run.trials, inputs, rows, seconds, LEVEL, blind, subjects[0].facts
        )


def _pieces(subject: AuditedProblem, metrics: Any, replacements: Sequence[Any], run: Run) -> list[Piece]:
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


def _own_subject(problem: Problem, attributions: Any) -> AuditedProblem:
    """A user's model, with its explanations brought to one number per feature."""
    if len(problem) < _FEWEST:
        raise ValueError(f"inputs: expected at least {_FEWEST}, from which something can be told, got {len(problem)}.")
    whose = with_known_class(attributions, problem)
    attributions, problem = whose.attributions, whose.problem
    settled = problem.with_target(Columns(problem.classes))
    slopes = problem.scorer.differentiable and problem.inputs.is_floating_point()
    explained = (
        methods_for(problem.given, slopes, problem.background is not None) if attributions is None else attributions
    )
    named = explained if isinstance(explained, Mapping) else {"attribution": explained}
    rated = prepared(settled, named, ["pc"], lambda call: None).rated
    explanations = {
        name: rated.features.reduce(values.double(), slice(None)).cpu()
        for name, values in zip(rated.layout.names, rated.attributions, strict=True)
    }
    methods = _methods(explained) if slopes else {}
    kinds: dict[str, Kind] = {
        name: "local" if method.local else "baseline" for name, method in _named_methods(explained).items()
    }
    return AuditedProblem(OWN, settled, given=explanations, kinds=kinds, methods=methods, facts=problem_facts(problem))


def _named_methods(given: Any) -> dict[str, Attribution]:
    listed = given.items() if isinstance(given, Mapping) else ()
    return {str(name): method for name, method in listed if isinstance(method, Attribution)}


def _methods(given: Any) -> Mapping[Kind, Attribution]:
    """How to explain a changed model: as the user does, where that is a method of the kind."""
    named = _named_methods(given).values()
    local = next((method for method in named if method.local), METHODS["local"])
    return {"local": local, "baseline": next((method for method in named if not method.local), METHODS["baseline"])}
