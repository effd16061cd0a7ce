"""What a search found for each question: the best method, and whether it beats a random explanation."""

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from verax.core.files import save_as
from verax.evaluation.verdicts import flat_share
from verax.metrics.base import Kind
from verax.scoring.meter import Meter
from verax.statistics.paired import paired_p_values
from verax.tuning.measure import Bench
from verax.tuning.result import BesideRandom, Stopped, Tuned

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False, eq=False)
class TunedByQuestion:
    """What ``verax.tune`` found for two questions in one search: ``tuned["local"]`` and ``tuned["baseline"]``.

    Attributes:
        whole: The search, with the scores of every trial under both metrics.
        searches: What was found for each question.
    """

    whole: Tuned
    searches: Mapping[Kind, Tuned]

    def __getitem__(self, question: Kind) -> Tuned:
        if question not in self.searches:
            raise KeyError(f"question: expected one of {', '.join(map(repr, self.searches))}, got {question!r}.")
        return self.searches[question]

    @property
    def answers(self) -> dict[Kind, str]:
        """What to believe, a sentence for each question."""
        return {question: tuned.answer for question, tuned in self.searches.items()}

    @property
    def best(self) -> Any:
        """Raises: there is one for each question."""
        raise ValueError(
            'best: this search answers two questions; use tuned["local"].best or tuned["baseline"].best, '
            'or pass question="local" or "baseline" to tune.'
        )

    @property
    def rows(self) -> int:
        """Model rows of the whole search, earlier runs included; forward and backward."""
        return self.whole.rows

    @property
    def seconds(self) -> float:
        """Its wall-clock time, earlier runs included."""
        return self.whole.seconds

    @property
    def stopped(self) -> Stopped:
        """Why it ended."""
        return self.whole.stopped

    @property
    def left_out(self) -> dict[str, str]:
        """Methods that were not named in the call and could not be used, with the reason."""
        return self.whole.left_out

    @property
    def table(self) -> "pl.DataFrame":
        """One row per trial, as ``Tuned.table`` describes, with both metrics; ``behind`` is that of the first one."""
        return self.whole.table

    def to_frame(self) -> "pl.DataFrame":
        """The table of all trials."""
        return self.table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trials, or a page about them, as ``Tuned.save`` does; the page has both answers."""
        save_as(path, self.to_frame, lambda: self.whole.page(str(self)))

    def plot(self) -> Any:
        """An Altair chart: the trials under one metric against the other."""
        return self.whole.plot()

    def __repr__(self) -> str:
        return "\n".join(
            [*(f"{tuned.summary()}\n" for tuned in self.searches.values()), *self.whole.cost_lines()],
        )

    def _repr_html_(self) -> str:
        summaries = "".join(f"<pre>{html.escape(tuned.summary())}</pre>" for tuned in self.searches.values())
        return f"{summaries}<pre>{html.escape(chr(10).join(self.whole.cost_lines()))}</pre>"


def by_question(whole: Tuned, bench: Bench) -> Tuned | TunedByQuestion:
    """What a search found for the questions that its metrics decide; alone where it was one."""
    meter = Meter(bench.problem.scorer.counts)
    random = bench.random(max(candidate.inputs for candidate in whole.candidates))
    spent = meter.total()
    whole = replace(whole, rows=whole.rows + spent.rows.total, seconds=whole.seconds + spent.seconds)
    by_kind: dict[Kind, Tuned] = {}
    for at, ((column, metric), (scores, unmoved)) in enumerate(zip(whole.metrics.items(), random, strict=True)):
        # all trials with the scores of this metric, alive where they may be the best under it
        rule, views = whole.rule.under(at), [candidate.under(at) for candidate in whole.candidates]
        best = rule.front([view for view in views if view.alive])[0]
        for view in views:
            view.alive = view.alive and (view is best or not rule.surely_no_better(view, best, view.inputs))
        tuned = replace(whole, candidates=views, metrics={column: metric}, rule=rule, question=metric.kind)
        reached, beside = tuned.winner.scores, scores[: tuned.winner.inputs]
        (p,) = paired_p_values(beside, reached)
        measured = sum(bool(view.inputs) for view in views)  # of which the winner is the best
        ahead = rule.signs[0] * float((reached[0] - beside).mean()) > 0
        beaten = ahead and p * measured <= 1 - rule.level
        by_kind[metric.kind] = replace(tuned, random=BesideRandom(beaten, flat_share(unmoved)))
    return next(iter(by_kind.values())) if len(by_kind) == 1 else TunedByQuestion(whole, by_kind)
