"""What an audit found: three sentences, a table by metric, and every figure behind it."""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from verax.auditing.finding import COLUMNS, Finding, LeftOut, finding_frame
from verax.auditing.sentences import (
    blind_spots,
    by,
    case_sentences,
    cut,
    inputs_needed,
    misled,
    model_sentences,
    name_of,
)
from verax.auditing.trials.base import Trial
from verax.core.display import TextTable, cost, first_rows
from verax.core.files import save_as
from verax.metrics.about import fact_line

if TYPE_CHECKING:
    import polars as pl

_NOTES = 8  # lines about what was left out


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """What ``verax.audit`` found; shown as three sentences and a table.

    Attributes:
        findings: Every figure.
        left_out: What was not tried, and why.
        trials: What was asked; their ``passes`` say the thresholds.
        inputs: Inputs of one's own model; 0 for cases.
        rows: Model rows, those of earlier runs not counted.
        seconds: Wall-clock time.
        level: Coverage of the intervals.
        known_limitations: What metrics are known not to see, by name, as they say it themselves.
        facts: Of one's own model: which it is, the tracked class, the baseline and the date, in words.
    """

    findings: Sequence[Finding]
    left_out: Sequence[LeftOut]
    trials: Sequence[Trial]
    inputs: int
    rows: int
    seconds: float
    level: float
    known_limitations: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Three sentences to act on."""
        if self.inputs:
            return model_sentences(self.findings, self.inputs, self.known_limitations)
        return case_sentences(self.findings)

    @property
    def blind_spots(self) -> dict[str, list[str]]:
        """For each metric, the false explanations that it gives the truth's score on every input of most cases."""
        return blind_spots(self.findings)

    @property
    def misled(self) -> dict[str, list[str]]:
        """For each metric, the false explanations that it surely puts above the truth on most inputs of most cases."""
        return misled(self.findings)

    @property
    def counter_examples(self) -> dict[tuple[str, str, str], str]:
        """By metric, replacement and case: an explanation that the metric likes better than the truth, in words."""
        climbs = [finding for finding in self.findings if finding.trial == "peaks_at_truth" and finding.says]
        return {(finding.metric, finding.replacement, finding.case): finding.says for finding in climbs}

    @property
    def inputs_needed(self) -> dict[str, float]:
        """For each metric, the inputs that tell an explanation of one's own model from what is surely worse.

        Of several explanations the one that takes fewest; infinity where none is told.
        """
        return {name: count for name, (count, _) in inputs_needed(self.findings).items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, a sentence each; the same reason is given once."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for omission in self.left_out:
            reasons.setdefault((omission.what, omission.why.rstrip(".")), []).append(omission.case)
        return tuple(f"Left out: {what} ({cut(cases)}): {why}." for (what, why), cases in reasons.items())

    def to_frame(self) -> "pl.DataFrame":
        """One row per metric, replacement, case and trial, as a polars data frame.

        Columns: ``metric``, ``replacement``, ``case``, ``trial`` (its name, and after a colon what it was about),
        ``value`` with its interval ``low`` and ``high``, and ``passed``, null where nothing is asked of a figure.
        ``findings`` has more: kind, scale, inputs, ties, and what was found in words.
        """
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        names = [finding.trial for finding in self.findings]
        return finding_frame(self.findings).with_columns(pl.Series("trial", names, pl.String)).select(COLUMNS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table, or a page about it: the ending of the path says which.

        Args:
            path: Where to. ``.parquet``, ``.csv`` and ``.json`` hold the rows of ``to_frame()``; ``.html`` is a page
                with the sentences, the table, the thresholds and what failed, which needs no network.
        """
        save_as(path, self.to_frame, self._page)

    def table(self) -> TextTable:
        """By metric and replacement: how many trials of each family were passed, of those that were made."""
        families = list(dict.fromkeys(finding.family for finding in self.findings if finding.passed is not None))
        needed = self.inputs_needed if self.inputs else {}
        rows = []
        for group in by(self.findings, lambda finding: (finding.metric, finding.replacement)).values():
            judged = [(finding.family, finding.passed) for finding in group if finding.passed is not None]
            shares = [[passed for name, passed in judged if name == family] for family in families]
            cells = [f"{sum(share)}/{len(share)}" if share else "" for share in shares]
            first = group[0]
            count = needed.get(name_of(first))
            words = "" if count is None else "never" if count == float("inf") else f"{count:,.0f}"
            rows.append((first.metric, first.kind, first.replacement, *([words] if self.inputs else []), *cells))
        head = ("metric", "rates", "replacement", *(["inputs needed"] if self.inputs else []), *families)
        caption = f"Trials passed of those made, {100 * self.level:.4g} % intervals; {cost(self.rows, self.seconds)}"
        return TextTable(head, tuple(rows), caption, about=fact_line(self.facts))

    def _page(self) -> str:
        from verax.report.result_pages import audit_page  # noqa: PLC0415  # to keep ``import verax`` light

        return audit_page(self)

    def __repr__(self) -> str:
        notes = self.notes
        more = [f"... and {len(notes) - _NOTES} more left out; see .notes."] if len(notes) > _NOTES else []
        whole = self.table()
        table = replace(whole, rows=first_rows(whole.rows)) if whole.rows else whole
        return "\n".join([*self.sentences, "", table.text(), *notes[:_NOTES], *more])

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        return f"{paragraphs}{self.table().html()}"
