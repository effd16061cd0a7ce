"""The tables of ``scripts/search_reading.py``: combinations ranked, readings side by side."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paper_statements import STATEMENTS, Statement, Verdict, count

from verax.metrics.weighted_area import Reading

READINGS: tuple[Reading, ...] = ("magnitude", "signed", "literal")
SHARED = ("signed", "literal")  # the readings whose experiment is PC's
HEADS = ("reading", "Infidelity", "k", "kernel width", "MLP")
Row = tuple[str, ...]
LARGEST = {"near": 0.15, "near share": 1 / 3}  # reach of a number; the second is a share of it


@dataclass(frozen=True)
class Combination:
    """What the paper leaves open, settled, with the verdicts on its statements.

    Attributes:
        ranked: Whether it takes part; others are shown beside.
    """

    reading: str
    kind: str
    subset: int | None
    kernel: str
    recipe: str
    verdicts: tuple[Verdict, ...]
    ranked: bool = True

    @property
    def cells(self) -> tuple[str, ...]:
        """What tells it from others."""
        return self.reading, self.kind, str(self.subset or "all"), self.kernel, self.recipe

    @property
    def order(self) -> tuple[int, bool, int, float]:
        """What combinations are ranked by, the larger the better."""
        counts = count(self.verdicts, counted=True), count(self.verdicts, counted=False)
        return counts[0], self.reading in SHARED, counts[1], -self.distance

    @property
    def distance(self) -> float:
        """Of the eight numbers, each in units of the most that it may be away."""
        pairs = zip(STATEMENTS, self.verdicts, strict=True)
        return sum(abs(v.mean - s.paper) / most(s) for s, v in pairs if s.rule in LARGEST)


def most(statement: Statement) -> float:
    """The most that a number may be away."""
    return LARGEST[statement.rule] * (1 if statement.rule == "near" else statement.paper)


def as_csv(found: Sequence[Combination]) -> str:
    """A row per combination: the counts, then figure, half of its interval, distance and verdict of each statement."""
    text = io.StringIO(newline="")
    rows = [_record(one) for one in found]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _record(one: Combination) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(HEADS, one.cells, strict=True))
    row |= {"ranked": one.ranked, "shares PC's experiment": one.order[1]}
    row |= {"hold": one.order[0], "hold besides": one.order[2], "distance": f"{one.distance:.3f}"}
    for statement, verdict in zip(STATEMENTS, one.verdicts, strict=True):
        head = f"{statement.name}, {statement.model}"
        row |= {head: f"{verdict.mean:.6g}", f"{head}: half interval": f"{verdict.half:.3g}"}
        if statement.paper:
            row[f"{head}: less paper's"] = f"{verdict.mean - statement.paper:.6g}"
        row[f"{head}: holds"] = verdict.holds
    return row


def tables(found: Sequence[Combination], exact: Sequence[Combination]) -> dict[str, list[Row]]:
    """What stands beside all combinations, by the names of the files: tables whose first row is the head.

    Args:
        found: Combinations, the best first.
        exact: The same where scores that differ by rounding alone are ranked.
    """
    ranked = [one for one in found if one.ranked]
    return {
        "statements": statements(best_of_each(ranked)),
        "exact": statements(best_of_each([one for one in exact if one.ranked]), numbers=True),
        "choices": choices(found),
    }


def outcome(found: Sequence[Combination]) -> list[str]:
    """Who wins by the rule, and what no combination gives: a line each."""
    ranked = [one for one in found if one.ranked]
    winner = ranked[0]
    level = [one for one in ranked if one.order[0] == winner.order[0]]
    return [
        f"By the rule {winner.reading}: {winner.order[0]} of {sum(one.counted for one in STATEMENTS)} counted "
        f"statements hold with {', '.join(winner.cells[1:])}.",
        f"As many hold in {len(level)} of {len(ranked)} combinations, of the readings {', '.join(_readings(level))}.",
        f"None gives: {'; '.join(nowhere(ranked))}.",
    ]


def rows_csv(rows: Sequence[Row]) -> str:
    """A table as CSV."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def best_of_each(ranked: Sequence[Combination]) -> list[Combination]:
    """The first combination of each reading."""
    return [next(one for one in ranked if one.reading == name) for name in READINGS if name in _readings(ranked)]


def nowhere(ranked: Sequence[Combination]) -> list[str]:
    """The statements that hold in no combination."""
    places = range(len(STATEMENTS))
    return [_name(STATEMENTS[at]) for at in places if not any(one.verdicts[at].holds for one in ranked)]


def _readings(found: Sequence[Combination]) -> list[str]:
    return list(dict.fromkeys(one.reading for one in found))


def _name(statement: Statement) -> str:
    paper = f" ({statement.paper:.3g})" if statement.paper else ""
    return f"{statement.name}, {statement.model}{paper}"


def _cell(verdict: Verdict) -> str:
    text = f"{verdict.mean:.3g} ± {verdict.half:.2g}"
    return f"{text} (holds)" if verdict.holds else text


def statements(best: Sequence[Combination], *, numbers: bool = False) -> list[Row]:
    """Means over seeds with half of their 95 % interval, a column per combination; or those of the numbers alone."""
    rows: list[Row] = [("statement", *(", ".join(one.cells) for one in best))]
    for at, statement in enumerate(STATEMENTS):
        if numbers and statement.rule not in LARGEST:
            continue
        mark = "" if statement.counted else " (not counted)"
        rows.append((_name(statement) + mark, *(_cell(one.verdicts[at]) for one in best)))
    for counted, label in ((True, "counted statements that hold"), (False, "others that hold")):
        rows.append((label, *(str(count(one.verdicts, counted=counted)) for one in best)))
    rows.append(("distance of the eight numbers", *(f"{one.distance:.1f}" for one in best)))
    rows.append(("PC and DPC from one experiment", *("yes" if one.order[1] else "no" for one in best)))
    return rows


def choices(found: Sequence[Combination]) -> list[Row]:
    """The most statements that hold, by reading and by each other choice; in brackets what is not ranked."""
    readings = _readings(found)
    readings.sort(key=lambda name: READINGS.index(name) if name in READINGS else len(READINGS))
    rows: list[Row] = [("choice", *readings)]
    for place, head in enumerate(HEADS[1:], start=1):
        for value in sorted({one.cells[place] for one in found}):
            counts = []
            for reading in readings:
                own = [one for one in found if one.reading == reading and one.cells[place] == value]
                ranked = [one.order[0] for one in own if one.ranked]
                counts.append(str(max(ranked)) if ranked else f"({max(one.order[0] for one in own)})")
            rows.append((f"{head}: {value}", *counts))
    return rows
