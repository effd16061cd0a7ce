"""Runs an audit: pieces of a subject with one replacement, each trial on all metrics that can be measured there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from verax.auditing.bench import Bench, own_replacement, refusal, unfit
from verax.auditing.finding import Finding, LeftOut
from verax.auditing.store import piece_key, read_piece, write_piece
from verax.auditing.subject import KINDS, Ground, Subject
from verax.auditing.trials.base import Outcome, Trial
from verax.core.shapes import Float
from verax.metrics.base import Kind, Metric
from verax.problem.replacement import BASELINE, Replacement

Tell = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Piece:
    """A subject with one replacement, and the metrics that are tried on it."""

    subject: Subject
    replacement: Replacement
    metrics: Mapping[str, Metric]

    @property
    def label(self) -> str:
        """What is shown while it is made."""
        return f"{self.subject.name}, {self.replacement.short_form}"


def pieces_of(
    subject: Subject, metrics: Mapping[str, Metric], replacements: Sequence[Replacement], left_out: list[LeftOut]
) -> Iterator[Piece]:
    """The pieces of a subject; what cannot be measured is noted.

    Metrics that say themselves what removed features become are measured once, along with the first replacement.

    Args:
        subject: What they are tried on.
        metrics: By name.
        replacements: What removed features become.
        left_out: Takes what is not tried.
    """
    rated = {name: one for name, one in metrics.items() if not subject.truths or one.kind in subject.truths}
    unrated = [name for name in metrics if name not in rated]
    left_out += [LeftOut(name, subject.name, f"its {metrics[name].kind} truth is not known") for name in unrated]
    first = True
    for replacement in replacements:
        why = unfit(replacement, subject)
        if why:
            left_out.append(LeftOut(replacement.short_form, subject.name, why))
        chosen = {}
        for name, metric in rated.items():
            own = own_replacement(metric)
            if (own and not first) or (why and not own):
                continue
            if words := refusal(metric, subject, replacement):
                what = name if own else f"{name} with {replacement.short_form}"
                left_out.append(LeftOut(what, subject.name, words))
                continue
            chosen[name] = metric
        first = False
        if chosen:
            yield Piece(subject, BASELINE if why else replacement, chosen)


class Run:
    """An audit under way.

    Args:
        trials: What is asked.
        seed: Of all draws.
        level: Coverage of the intervals.
        folder: Where finished pieces are kept; None for nowhere.
    """

    def __init__(self, trials: Sequence[Trial], seed: int, level: float, folder: Path | None) -> None:
        self.trials, self.seed, self.level, self.folder = trials, seed, level, folder
        self.left_out: list[LeftOut] = []

    def findings(self, pieces: Sequence[Piece], tell: Tell) -> list[Finding]:
        """Make all pieces that are not there yet."""
        found: list[Finding] = []
        for number, piece in enumerate(pieces, start=1):
            key = piece_key(piece.subject, piece.replacement, piece.metrics, self.trials, self.seed, self.level)
            grounds = self._grounds(piece)
            made = None if self.folder is None else read_piece(self.folder, key)
            kept = made is not None
            if made is None:
                made = [one for ground, trials in grounds for one in self._made(piece, ground, trials)]
                if self.folder is not None:
                    write_piece(self.folder, key, made)
            found += made
            tell(f"{number} of {len(pieces)}: {piece.label}{' (kept)' if kept else ''}")
        return found

    def _grounds(self, piece: Piece) -> list[tuple[Ground, list[Trial]]]:
        """For each kind of metrics, what is known and which trials can be made."""
        grounds = []
        for kind in KINDS:
            if not any(metric.kind == kind for metric in piece.metrics.values()):
                continue
            truth = piece.subject.truths.get(kind)
            known = None if truth is None else truth.attribution.double()
            ground = Ground(piece.subject, kind, known, self.seed, self.level)
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

    def _made(self, piece: Piece, ground: Ground, trials: Sequence[Trial]) -> Iterator[Finding]:
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


def _finding(metric: str, replacement: str, subject: Subject, kind: Kind, outcome: Outcome) -> Finding:
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
