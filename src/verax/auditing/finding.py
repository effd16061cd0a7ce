"""What a trial found of a metric on a case, what was left out, and one sealed Parquet file for each finished piece.

A piece is a subject with one replacement. Its file is named by a hash of all that it depends on and by one of its own
content: files of other audits are ignored; damaged ones are named and computed again.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verax.auditing.audited_problem import Bench
from verax.auditing.trials.base import Named, Trial
from verax.core.files import Sealed, digest, stable_form, table_bytes, tensor_hash, write_atomically
from verax.core.packages import __version__
from verax.core.warn import warn
from verax.metrics.base import Kind

if TYPE_CHECKING:
    import polars as pl


COLUMNS = ("metric", "replacement", "case", "trial", "value", "low", "high", "passed")


@dataclass(frozen=True)
class Finding(Named):
    """One row of an audit.

    Attributes:
        metric: Its name, with settings where several share one.
        replacement: What removed features became.
        case: What it was tried on.
        family: The name of the trial, or of one of its figures.
        explanation: Of which explanation, or which figure; empty for the truth.
        against: What it was compared with, where that is another explanation.
        value: The figure.
        low: Where its interval begins.
        high: Where it ends.
        passed: Whether it is good enough; None where the figure is not judged.
        kind: What the metric rates, and which truth it was judged by.
        scale: Size of the neighbourhood in which that truth holds; None for the limit of small ones.
        inputs: Inputs that it was found on.
        ties: Share of them on which both explanations got the same score.
        says: What was found, in words, where the figure does not say it.
    """

    metric: str
    replacement: str
    case: str
    family: str
    explanation: str
    against: str
    value: float
    low: float
    high: float
    passed: bool | None
    kind: Kind
    scale: float | None
    inputs: int
    ties: float
    says: str


@dataclass(frozen=True)
class LeftOut:
    """What was not tried.

    Attributes:
        what: A metric, a replacement or a trial.
        case: Where.
        why: The reason, a sentence.
    """

    what: str
    case: str
    why: str


_FORMAT = 2  # raise it when the file or a trial changes


class Piece:
    """The file of a subject with one replacement, named by a hash of all that it depends on and one of its content."""

    def __init__(self, folder: Path, bench: Bench, trials: Sequence[Trial], seed: int, level: float) -> None:
        subject, problem = bench.subject, bench.subject.problem
        truths = [truth.attribution for truth in subject.truths.values()]
        self.folder = folder / "pieces"
        self.key = digest(
            format=_FORMAT,
            version=__version__,
            case=subject.name,
            inputs=tensor_hash(problem.inputs, problem.baselines.contiguous(), subject.counts.contiguous()),
            explanations=tensor_hash(*truths, *subject.explanations.values()),
            names=[*subject.truths, *subject.explanations],
            model=tensor_hash(problem.classes.cpu(), problem.scores().double().cpu()),
            background="" if problem.background is None else tensor_hash(problem.background),
            output=problem.output,
            replacement=stable_form(bench.replacement),
            metrics=[(name, stable_form(metric), metric.version) for name, metric in bench.metrics.items()],
            trials=[stable_form(trial) for trial in trials],
            methods=[f"{kind} {method.canonical}" for kind, method in subject.methods.items()],
            seed=seed,
            level=level,
        )[:32]

    def read(self) -> list[Finding] | None:
        """The findings; None where there is no file, or a damaged one, which is removed with a warning."""
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        for path in sorted(self.folder.glob(f"{self.key}.*.parquet")):
            content = Sealed.read(path)
            if content is not None:
                return findings_of(pl.read_parquet(io.BytesIO(content)))
            warn(f"out: {path} is damaged; it is removed, and its content is computed again.")
            path.unlink(missing_ok=True)
        return None

    def write(self, findings: Iterable[Finding]) -> None:
        content = table_bytes(finding_frame(findings), ".parquet")
        write_atomically(self.folder / Sealed.name(self.key, content, ".parquet"), content)


def finding_frame(findings: Iterable[Finding]) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415

    types: dict[str, Any] = {"passed": pl.Boolean, "inputs": pl.Int64}
    types |= dict.fromkeys(("value", "low", "high", "scale", "ties"), pl.Float64)
    schema = {field.name: types.get(field.name, pl.String) for field in fields(Finding)}
    return pl.DataFrame([vars(finding) for finding in findings], schema=schema)


def findings_of(frame: "pl.DataFrame") -> list[Finding]:
    return [Finding(**row) for row in frame.iter_rows(named=True)]
