"""Outcomes, by where an interval lies, and the result of a check: a line per requirement, in all its forms."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from torch import Tensor

from verax.checking.requirement import Bound, Requirement
from verax.core.display import Shown, TextTable, cost, counted, digits_of_interval, significant
from verax.core.files import save_as, write_atomically
from verax.core.shapes import Float
from verax.metrics.about import IDENTITY, fact_line
from verax.scoring.meter import Cost
from verax.statistics.anytime import AnytimeSums, ScoreRange
from verax.statistics.intervals import Estimate, bounded_mean, estimates

if TYPE_CHECKING:
    import polars as pl


Outcome = Literal["passed", "failed", "undecided"]
_MOST = 1 << 17  # inputs that are counted on
_HALVINGS = 60  # of the range in which a share lies


@dataclass(frozen=True)
class Sample:
    """What was measured of some inputs, of which a mean decides."""

    values: Float[Tensor, " n"]  # one number per input
    range: ScoreRange  # where such numbers can lie
    whole: Float[Tensor, " n"] | None = None  # what they are parts of, where the ratio of both means is what counts

    def estimate(self, level: float, anytime: bool) -> Estimate:
        """The mean, or the ratio of means, with an interval."""
        if self.whole is None:
            return _mean(self.values, self.range, level, anytime)
        return _ratio(self, level, anytime)

    def interval(self, anytime: bool) -> str:
        """What kind of interval it has, in words."""
        if math.isinf(self.range.low) and not anytime:
            return "Student's t"
        held = "at any time of stopping" if anytime else "for any distribution"
        assumed = "" if self.range.certain else ", if no score lies outside the range assumed"
        return f"{held}{assumed}"


def _mean(values: Float[Tensor, " n"], known: ScoreRange, level: float, anytime: bool) -> Estimate:
    if not len(values):
        return Estimate(math.nan, math.nan, math.nan, math.nan)
    if anytime:
        return AnytimeSums.of(values, known).estimate(level)
    if math.isinf(known.low):
        return estimates(values[None], level=level)[0]
    held = known.holding(float(values.min()), float(values.max()))
    return bounded_mean(values, held.low, held.high, level)


def _ratio(sample: Sample, level: float, anytime: bool) -> Estimate:
    """All ratios r of which the mean of ``value - r whole`` may be 0, as Fieller's interval; from -1 to 1."""
    values, whole = sample.values, sample.whole
    assert whole is not None  # noqa: S101  # checked by the caller
    mean = float(values.mean() / whole.mean()) if len(values) and float(whole.mean()) > 0 else math.nan

    def side(ratio: float) -> int:
        """Whether the ratio is below the interval (1), in it (0) or above it (-1)."""
        difference = _mean(values - ratio * whole, _spread(sample.range, ratio), level, anytime)
        return int(difference.low > 0) - int(difference.high < 0)

    if math.isnan(mean) or math.isnan(_mean(values, sample.range, level, anytime).low):
        return Estimate(mean, math.nan, math.nan, math.nan)
    middle = min(1.0, max(-1.0, mean))
    low, high = _edge(side, middle, -1.0, 1), _edge(side, middle, 1.0, -1)
    return Estimate(mean, math.nan, min(mean, low), max(mean, high))


def _edge(side: Callable[[float], int], inside: float, outside: float, beyond: int) -> float:
    """Where the interval ends between a ratio in it and one that may be outside."""
    if side(outside) != beyond:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            break
        inside, outside = (inside, middle) if side(middle) == beyond else (middle, outside)
    return outside


def _spread(known: ScoreRange, ratio: float) -> ScoreRange:
    """The range of a part less a ratio of the whole, of which both lie within the width of the scores' range."""
    if math.isinf(known.low):
        return known
    width = known.high
    return replace(known, low=-width * (1 + max(0.0, ratio)), high=width * (1 + max(0.0, -ratio)))


def outcome_of(estimate: Estimate, bound: float, direction: Bound, strict: bool) -> Outcome:
    """Passed where the whole interval is on the right side of the bound, failed where it is on the wrong one.

    Example:
        >>> [outcome_of(Estimate(0.5, 0.1, 0.3, 0.7), bound, "at least", False) for bound in (0.2, 0.5, 0.8)]
        ['passed', 'undecided', 'failed']
    """
    low, high = (estimate.low - bound, estimate.high - bound)
    low, high = (low, high) if direction == "at least" else (-high, -low)
    if low > 0 or (low == 0 and not strict):
        return "passed"
    return "failed" if high < 0 or (high == 0 and strict) else "undecided"


def inputs_to_decide(sample: Sample, level: float, anytime: bool, decide: Callable[[Estimate], Outcome]) -> int | None:
    """How many inputs in all would decide if further ones score like these; None if more than 131,072 were needed."""
    count = len(sample.values)

    def decided(many: int) -> bool:
        times = -(-many // max(1, count))
        values = sample.values.repeat(times)[:many]
        whole = None if sample.whole is None else sample.whole.repeat(times)[:many]
        shifted = replace(sample, values=values, whole=whole)
        return decide(shifted.estimate(level, anytime)) != "undecided"

    low, high = count, 2 * count
    while 0 < high <= _MOST and not decided(high):
        low, high = high, 2 * high
    if not 0 < high <= _MOST:
        return None
    while high - low > max(1, low // 20):
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class Checked:
    """One requirement of one explanation in one segment.

    Attributes:
        requirement: The number of the requirement, from 0.
        title: The requirement in words.
        explanation: The name of the explanation.
        segment: The segment, ``"all"`` where there are none.
        outcome: ``"passed"``, ``"failed"`` or ``"undecided"``.
        value: The mean score; how much better than another explanation; or the share of the limit.
        low: Where its interval begins.
        high: Where it ends.
        bound: What the interval is held against.
        direction: Which side of it is right.
        inputs: How many inputs there were.
        needed: How many would decide, if further ones score like these; None where it is decided, or no number would.
        interval: When the interval holds.
        note: What else a reader must know.
        digest: A hash of the numbers whose mean it is.
    """

    requirement: int
    title: str
    explanation: str
    segment: str
    outcome: Outcome
    value: float
    low: float
    high: float
    bound: float
    direction: Bound
    inputs: int
    needed: int | None
    interval: str
    note: str
    digest: str

    @property
    def _figure(self) -> str:
        """The value with its interval."""
        value, low, high = digits_of_interval((self.value, self.low, self.high), (self.high - self.low) / 2)
        return f"{value} [{low}, {high}]"

    def __str__(self) -> str:
        where = "" if self.segment == "all" else f" ({self.segment})"
        text = f"{self.outcome}: {self.explanation}, {self.title}{where}: {self._figure}"
        text += f", {counted(self.inputs, 'input')}"
        more = "" if self.needed is None else f"; about {self.needed:,} inputs would decide"
        return f"{text}{more}{f'; {self.note}' if self.note else ''}"


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """What a check found; shown as a table.

    Attributes:
        requirements: A line for each requirement, explanation and segment.
        required: The requirements as they were stated.
        cost: What all of it cost.
        facts: What was checked, by name.
    """

    requirements: tuple[Checked, ...]
    required: tuple[Requirement, ...]
    cost: Cost
    facts: Mapping[str, str]

    @property
    def outcome(self) -> Outcome:
        """Failed where any line is, else undecided where any is, else passed."""
        outcomes = {line.outcome for line in self.requirements}
        return "failed" if "failed" in outcomes else "undecided" if "undecided" in outcomes else "passed"

    @property
    def rows(self) -> int:
        """Model rows of the whole check, those of methods included."""
        return self.cost.rows.forward

    def to_frame(self) -> "pl.DataFrame":
        """One row per requirement, explanation and segment, as a polars data frame with the fields of ``Checked``."""
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        return pl.DataFrame([asdict(line) for line in self.requirements], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """The outcome, and each line with what was required and why, as plain values."""
        why = [requirement.justification for requirement in self.required]
        lines = [asdict(line) | {"justification": why[line.requirement]} for line in self.requirements]
        spent = {"rows": self.rows, "rows_backward": self.cost.rows.backward, "seconds": self.cost.seconds}
        return {"outcome": self.outcome, "requirements": lines, "facts": dict(self.facts), **spent}

    def junit(self, name: str = "verax check") -> bytes:
        """JUnit's XML, which CI systems show: a failure is a failure, what is undecided is an error.

        Args:
            name: Of the suite.
        """
        root = ElementTree.Element("testsuites")
        outcomes = [line.outcome for line in self.requirements]
        counts = {"tests": len(outcomes), "failures": outcomes.count("failed"), "errors": outcomes.count("undecided")}
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": name, **{word: str(many) for word, many in counts.items()}}
        )
        for line in self.requirements:
            title = line.title if line.segment == "all" else f"{line.title} ({line.segment})"
            names = {"classname": _printable(f"{name}.{line.explanation}"), "name": _printable(title)}
            case = ElementTree.SubElement(suite, "testcase", names)
            text = _printable(f"{line}\n{self.required[line.requirement].justification}")
            if line.outcome == "passed":
                ElementTree.SubElement(case, "system-out").text = text
            else:
                kind = "failure" if line.outcome == "failed" else "error"
                about = {"message": _printable(str(line)), "type": line.outcome}
                ElementTree.SubElement(case, kind, about).text = text
        return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result: the ending of the path decides how.

        Args:
            path: Where to. ``.html`` is the page for an auditor, ``.xml`` JUnit's XML; ``.parquet``, ``.csv`` and
                ``.json`` hold the rows of ``to_frame()``.
        """
        if Path(path).suffix.lower() == ".xml":
            write_atomically(Path(path), self.junit())
        else:
            save_as(path, self.to_frame, self._page)

    def table(self) -> TextTable:
        """A line per requirement, explanation and segment."""
        rows = []
        for line in self.requirements:
            needed = "" if line.needed is None else f"{line.needed:,}"
            bound = f"{line.direction} {significant(line.bound, 4)}"
            what = (line.outcome, line.title, line.explanation, line.segment)
            rows.append((*what, line._figure, bound, f"{line.inputs:,}", needed))
        head = ("outcome", "requirement", "explanation", "segment", "value", "threshold", "inputs", "inputs needed")
        notes = tuple(dict.fromkeys(line.note for line in self.requirements if line.note))
        caption = f"{self.outcome}; {cost(self.rows, self.cost.seconds)}"
        return TextTable(head, tuple(rows), caption, notes, about=self.about)

    @property
    def about(self) -> str:
        """Model, tracked class, baseline and date, in a line."""
        return fact_line({name: self.facts[name] for name in IDENTITY if name in self.facts})

    def _page(self) -> str:
        from verax.report.result_pages import check_page  # noqa: PLC0415  # to keep ``import verax`` light

        return check_page(self)

    _table = table  # what is shown


def _printable(text: str) -> str:
    """Text without the signs that XML cannot hold."""
    return "".join(sign for sign in text if sign.isprintable() or sign in "\n\t")
