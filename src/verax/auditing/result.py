"""What an audit found: three sentences, a table by metric, and every figure behind it."""

import html
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING, Any

from verax.auditing.audited_problem import replacement_of
from verax.auditing.finding import COLUMNS, Finding, LeftOut, finding_frame
from verax.auditing.trials.base import Trial
from verax.auditing.trials.damage import WORSE
from verax.core.display import TextTable, cost, counted, first_rows
from verax.core.files import save_as
from verax.metrics import LocalPredictionChange
from verax.metrics.about import fact_line

if TYPE_CHECKING:
    import polars as pl

_NOTES = 8  # lines about what was left out
_GOOD = 0.9  # share of false explanations that a metric which is to be used puts below the truth
_MOST = 3  # names in a sentence
_PLAIN = ("Baseline", "noise", replacement_of(LocalPredictionChange()))  # what metrics do where nothing is said
_VALID = ("truth_wins_on_average", "falls_with_damage", "smallest_damage_found", "peaks_at_truth", "randomised_model")
_RATES = {"local": "local explanations", "baseline": "baseline-oriented explanations"}


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """What ``verax.audit`` found; shown as three sentences and a table.

    Attributes:
        findings: Every figure.
        left_out: What was not tried, and why.
        trials: Those that were made; their ``passes`` say the thresholds.
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
            return _model_sentences(self.findings, self.inputs, self.known_limitations)
        return _best(self.findings), _blind(self.blind_spots, self.misled), _resolution(self.findings)

    @property
    def blind_spots(self) -> dict[str, list[str]]:
        """For each metric, the false explanations that it gives the truth's score on every input of most cases."""
        return _spots(self.findings, lambda finding: finding.ties > 0.99)

    @property
    def misled(self) -> dict[str, list[str]]:
        """For each metric, the false explanations that it surely puts above the truth on most inputs of most cases."""
        return _spots(self.findings, lambda finding: finding.high < 0.5 and finding.ties < 0.5)

    @property
    def counter_examples(self) -> dict[tuple[str, str, str], str]:
        """By metric, replacement and case: an explanation that the metric likes better than the truth, in words."""
        climbs = [finding for finding in self.findings if finding.trial == "peaks_at_truth" and finding.says]
        return {(finding.metric, finding.replacement, finding.case): finding.says for finding in climbs}

    @property
    def inputs_needed(self) -> dict[str, float]:
        """For each metric, the inputs that tell an explanation of one's own model from what is surely worse.

        Of several explanations the one that takes fewest; infinity where none differs significantly.
        """
        return {name: count for name, (count, _) in _fewest_inputs(self.findings).items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, a sentence each; the same reason is given once."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for omission in self.left_out:
            reasons.setdefault((omission.what, omission.why.rstrip(".")), []).append(omission.case)
        return tuple(f"Left out: {what} ({_cut(cases)}): {why}." for (what, why), cases in reasons.items())

    def to_frame(self) -> "pl.DataFrame":
        """One row per metric, replacement, case and trial, as a polars data frame.

        Columns: ``metric``, ``replacement``, ``case``, ``trial`` (its name, and after a colon what it was about),
        ``value`` with its interval ``low`` and ``high``, and ``passed``, null where a figure is not judged.
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
        for group in _by(self.findings, lambda finding: (finding.metric, finding.replacement)).values():
            judged = [(finding.family, finding.passed) for finding in group if finding.passed is not None]
            shares = [[passed for name, passed in judged if name == family] for family in families]
            cells = [f"{sum(share)}/{len(share)}" if share else "" for share in shares]
            first = group[0]
            count = needed.get(_name_of(first))
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


def _model_sentences(findings: Sequence[Finding], inputs: int, blind: Mapping[str, str]) -> tuple[str, str, str]:
    """What an audit of a user's model says."""
    needed = sorted((count, name, which) for name, (count, which) in _fewest_inputs(findings).items())
    if not needed:
        return _counts(findings)
    metrics = {_name_of(finding): finding.metric for finding in findings}
    able, unable = ([entry for entry in needed if (entry[0] <= inputs) is enough] for enough in (True, False))
    able.sort(key=lambda entry: bool(blind.get(metrics[entry[1]])))  # worth some inputs more
    many = counted(inputs, "input")
    if not able:
        use = (
            "No metric tells any of these explanations from random, permuted and negated ones with "
            f"{many}: pass more inputs or better explanations before you compare any."
        )
        return use, _nearest(*unable[0]), _cannot(unable)
    count, name, which = able[0]
    words = blind.get(metrics[name], "").rstrip(".")
    mind = f"; mind that {words[0].lower()}{words[1:]}" if words else ""
    use = (
        f"Use {name}: about {count:,.0f} of your {many} are enough for it to tell {which} from "
        f"random, permuted and negated explanations (paired test, power 95 %){mind}."
    )
    others = [entry for entry in able[1:] if metrics[entry[1]] == entry[1]] or able[1:]
    also = "No other metric does, so do not take another one for a second opinion."
    if others:
        listed = [f"{name} ({which}: {count:,.0f} inputs)" for count, name, which in others]
        also = f"For a second opinion take {_cut(listed)}."
    count, name, _ = able[-1]
    coarsest = f"with {many}; the coarsest is {name}, which takes {count:,.0f}"
    return use, also, _cannot(unable) if unable else f"None of the metrics fails here {coarsest}."


def _counts(findings: Sequence[Finding]) -> tuple[str, str, str]:
    """Where the trial tells_apart was left out."""
    passed = sorted((_share(_passed(group)), name, _passed(group)) for name, group in _by(findings, _name_of).items())
    ask = "Add the trial tells_apart to learn with how many inputs a metric finds significant differences."
    if not passed:
        return "Nothing could be tried.", "The notes say why.", ask
    (_, worst, few), (_, best, most) = passed[0], passed[-1]
    return f"{best} passed {most[0]} of {most[1]} trials, the most.", f"{worst} passed {few[0]} of {few[1]}.", ask


def _name_of(finding: Finding) -> str:
    """A metric with its replacement, where it is not the default one."""
    plain = finding.replacement in _PLAIN
    return finding.metric if plain else f"{finding.metric} with {finding.replacement}"


def _fewest_inputs(findings: Iterable[Finding]) -> dict[str, tuple[float, str]]:
    """For each metric the explanation that it tells from what is surely worse with the fewest inputs, and how many.

    A metric need not see something in every explanation: local ones say little about the way from the baseline, and the
    other way round. It takes infinity where the wrong one is above.
    """
    worse = [finding for finding in findings if finding.family == "tells_apart" and finding.against in WORSE]
    fewest: dict[str, tuple[float, str]] = {}
    for (name, which), group in _by(worse, lambda finding: (_name_of(finding), finding.explanation)).items():
        wrong = any((row.value <= row.inputs and not row.passed) or row.says for row in group)
        needed = math.inf if wrong else max(row.value for row in group)
        fewest[name] = min(fewest.get(name, (needed, which)), (needed, which))
    return fewest


def _nearest(count: float, name: str, which: str) -> str:
    if count == math.inf:
        return "More inputs will not help: every metric scores something worse as high as the explanations themselves."
    return f"The nearest to it is {name}, which would take about {count:,.0f} inputs to tell {which} from them."


def _cannot(unable: list[tuple[float, str, str]]) -> str:
    needs = (f"would need {count:,.0f} inputs" if count < math.inf else "cannot at all" for count, *_ in unable)
    listed = [f"{name} {words}" for (_, name, _), words in zip(unable, needs, strict=True)]
    return f"Do not decide by those that show no significant difference here: {_cut(listed)}."


def _best(findings: Sequence[Finding]) -> str:
    parts = []
    for kind, words in _RATES.items():
        groups = _by([finding for finding in findings if finding.kind == kind], _name_of).items()
        shares = {name: _passed(row for row in group if row.family == "truth_wins") for name, group in groups}
        others = {name: _passed(row for row in group if row.family in _VALID) for name, group in groups}
        if any(finding.kind == kind and finding.family == "truth_wins" for finding in findings):
            most = max(made for _, made in shares.values())
            widely = [name for name, (_, made) in shares.items() if 2 * made >= most]  # not on a single case
            name = max(widely, key=lambda name: (_share(shares[name]), _share(others[name]), shares[name][1]))
            won = f"puts the truth above {shares[name][0]} of {shares[name][1]} false ones"
            use = f"use {name}, which" if _share(shares[name]) >= _GOOD else f"use none of these: the best, {name},"
            parts.append(f"for {words} {use} {won}")
    if not parts:
        return "No metric was shown the truth beside false explanations; add the trial truth_wins."
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def _spots(findings: Sequence[Finding], fails: Callable[[Finding], bool]) -> dict[str, list[str]]:
    spots: dict[str, list[str]] = {}
    shown = [finding for finding in findings if finding.family == "truth_wins"]
    for metric, group in _by(shown, lambda finding: finding.metric).items():
        for false, rows in _by(group, lambda finding: finding.explanation).items():
            if 2 * sum(map(fails, rows)) > len(rows):
                spots.setdefault(metric, []).append(false)
    return spots


def _blind(blind: Mapping[str, list[str]], misled: Mapping[str, list[str]]) -> str:
    tied = dict.fromkeys(false for several in blind.values() for false in several)
    by_false = {false: [metric for metric, several in blind.items() if false in several] for false in tied}
    same = [f"{_cut(names, shown=4)} cannot tell the truth a from {false}" for false, names in by_false.items()]
    above = [f"{metric} puts {_cut(several)} above the truth" for metric, several in misled.items()]
    if not same and not above:
        return "No metric takes a false explanation for the truth in most cases."
    return f"Do not rely on one metric alone: {'; '.join([*same, *above])}."


def _resolution(findings: Sequence[Finding]) -> str:
    damage = [row for row in findings if row.family == "smallest_damage_found" and _name_of(row) == row.metric]
    if not damage:
        return "The smallest damage that each metric finds was not measured; add the trial falls_with_damage."
    inputs = max(finding.inputs for finding in damage)
    groups = _by(damage, _name_of).items()
    medians = sorted((median_low(finding.value for finding in group), name) for name, group in groups)
    finest = [name for value, name in medians if value == medians[0][0]]
    coarse = [name for value, name in medians if value > 0.5]
    head = f"{counted(inputs, 'input')} are enough to find a damage of {medians[0][0]:g} in the median case"
    tail = f"; take more for {_cut(coarse)}, to find one of 0.5" if coarse else ""
    return f"{head}, with {_cut(finest)}{tail}."


def _share(counts: tuple[int, int]) -> float:
    return counts[0] / counts[1]


def _passed(findings: Iterable[Finding]) -> tuple[int, int]:
    judged = [finding.passed for finding in findings if finding.passed is not None]
    return sum(judged), max(1, len(judged))


def _by(findings: Iterable[Finding], key: Callable[[Finding], Any]) -> dict[Any, list[Finding]]:
    """Findings by what they have in common, in the order in which it first occurs."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return groups


def _cut(words: Sequence[str], shown: int = _MOST) -> str:
    """The first words of a list, and how many more there are."""
    more = len(words) - shown
    return ", ".join([*words[:shown], *([f"{more} more"] if more > 0 else [])])
