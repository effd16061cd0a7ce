"""The result of a check: a line per requirement, as a table, as JSON, as JUnit's XML and as a page."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from verax.checking.outcome import Outcome
from verax.checking.requirement import Bound, Requirement
from verax.core.display import TextTable, cost, counted, digits_of_interval, significant
from verax.core.files import save_as, write_atomically
from verax.scoring.meter import Cost

if TYPE_CHECKING:
    import polars as pl


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

    def __str__(self) -> str:
        value, low, high = digits_of_interval((self.value, self.low, self.high), (self.high - self.low) / 2)
        where = "" if self.segment == "all" else f" ({self.segment})"
        said = f"{self.outcome}: {self.explanation}, {self.title}{where}: {value} [{low}, {high}]"
        said += f", {counted(self.inputs, 'input')}"
        more = "" if self.needed is None else f"; about {self.needed:,} inputs would decide"
        return f"{said}{more}{f'; {self.note}' if self.note else ''}"


@dataclass(frozen=True, repr=False)
class Check:
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
        outcomes = {one.outcome for one in self.requirements}
        return "failed" if "failed" in outcomes else "undecided" if "undecided" in outcomes else "passed"

    @property
    def rows(self) -> int:
        """Model rows of the whole check, those of methods included."""
        return self.cost.rows.forward

    def to_frame(self) -> "pl.DataFrame":
        """One row per requirement, explanation and segment, as a polars data frame with the fields of ``Checked``."""
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        return pl.DataFrame([asdict(one) for one in self.requirements], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """The outcome, and each line with what was required and why, as plain values."""
        lines = [
            asdict(one) | {"justification": self.required[one.requirement].justification} for one in self.requirements
        ]
        spent = {"rows": self.rows, "rows_backward": self.cost.rows.backward, "seconds": self.cost.seconds}
        return {"outcome": self.outcome, "requirements": lines, "facts": dict(self.facts), **spent}

    def junit(self, name: str = "verax check") -> bytes:
        """JUnit's XML, which CI systems show: a failure is a failure, what is undecided is an error.

        Args:
            name: Of the suite.
        """
        counts = {word: sum(one.outcome == word for one in self.requirements) for word in ("failed", "undecided")}
        suite = ElementTree.Element("testsuite", name=name, tests=str(len(self.requirements)))
        suite.set("failures", str(counts["failed"]))
        suite.set("errors", str(counts["undecided"]))
        for one in self.requirements:
            case = ElementTree.SubElement(suite, "testcase", classname=_printable(f"{name}.{one.explanation}"))
            case.set("name", _printable(one.title if one.segment == "all" else f"{one.title} ({one.segment})"))
            why = self.required[one.requirement].justification
            said = _printable(f"{one}\n{why}")
            if one.outcome == "passed":
                ElementTree.SubElement(case, "system-out").text = said
            else:
                kind = "failure" if one.outcome == "failed" else "error"
                ElementTree.SubElement(case, kind, message=_printable(str(one)), type=one.outcome).text = said
        root = ElementTree.Element("testsuites")
        root.append(suite)
        return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result: the ending of the path says how.

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
        for one in self.requirements:
            value, low, high = digits_of_interval((one.value, one.low, one.high), (one.high - one.low) / 2)
            needed = "" if one.needed is None else f"{one.needed:,}"
            bound = f"{one.direction} {significant(one.bound, 4)}"
            interval = f"{value} [{low}, {high}]"
            rows.append(
                (one.outcome, one.title, one.explanation, one.segment, interval, bound, f"{one.inputs:,}", needed)
            )
        head = ("outcome", "requirement", "explanation", "segment", "value", "threshold", "inputs", "inputs needed")
        notes = tuple(dict.fromkeys(one.note for one in self.requirements if one.note))
        return TextTable(head, tuple(rows), f"{self.outcome}; {cost(self.rows, self.cost.seconds)}", notes)

    def _page(self) -> str:
        from verax.report.result_pages import check_page  # noqa: PLC0415  # to keep ``import verax`` light

        return check_page(self)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def _printable(text: str) -> str:
    """Text without the signs that XML cannot hold."""
    return "".join(sign for sign in text if sign.isprintable() or sign in "\n\t")
