"""What a search found: configurations that are ready to be used, a table of all trials, and a chart."""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from verax.attribution import Attribution
from verax.core.display import TextTable, significant
from verax.core.files import save_as
from verax.evaluation.verdicts import flat_words
from verax.metrics.about import fact_line
from verax.metrics.base import Kind, Metric
from verax.metrics.choose import QUESTIONS
from verax.statistics.intervals import Estimate, estimates
from verax.tuning.race import Candidate, Rule

if TYPE_CHECKING:
    import polars as pl

Stopped = Literal["trials", "seconds", "exhausted", "interrupted"]
WHY = {
    "trials": "all trials were made",
    "seconds": "the time was up",
    "exhausted": "there is nothing left to try",
    "interrupted": "it was interrupted",
}
_PLAIN = bool | int | float | str | None  # kinds of values that a column holds as they are
_SHOWN = 5
_TABLE_ROWS = 10  # of the table in a notebook


@dataclass(frozen=True)
class BesideRandom:
    """The best trial beside a random explanation.

    Attributes:
        beaten: Whether the best is significantly better, corrected for the number of trials.
        flat: Under noise, the share of draws that leave the score as it is, where it is most of them; else 0.
    """

    beaten: bool
    flat: float = 0.0


@dataclass(frozen=True, repr=False, eq=False)
class Tuned:
    """What ``verax.tune`` found; shown as a summary.

    Attributes:
        candidates: All trials, in the order in which they were proposed.
        metrics: What was measured, by the names of the table's columns.
        rule: How they were compared.
        inputs: How many inputs there were.
        rows: Model rows of the whole search, earlier runs included; forward and backward.
        seconds: Its wall-clock time, earlier runs included.
        stopped: Why it ended: ``"trials"``, ``"seconds"``, ``"exhausted"`` (nothing left to try) or ``"interrupted"``.
        left_out: Methods that were not named in the call and could not be used, with the reason.
        facts: Model, tracked class, baseline and date, in words.
        question: ``"local"`` or ``"baseline"``; None where the call named a metric.
        random: How the best compares with a random explanation, where the search answers a question.
    """

    candidates: Sequence[Candidate]
    metrics: Mapping[str, Metric]
    rule: Rule
    inputs: int
    rows: int
    seconds: float
    stopped: Stopped
    left_out: dict[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)
    question: Kind | None = None
    random: BesideRandom | None = None

    def __getitem__(self, question: Kind) -> "Tuned":
        answered = {self.question} - {None} or {metric.kind for metric in self.metrics.values()}
        if answered != {question}:
            raise KeyError(
                f"question: this search answers {' and '.join(sorted(map(repr, answered)))}, got {question!r}."
            )
        return self

    @property
    def answers(self) -> dict[Kind, str]:
        """What to believe, by question; empty where the call named a metric."""
        return {} if self.question is None else {self.question: self.answer}

    @property
    def answer(self) -> str:
        """What to believe, a sentence; empty where the call named a metric."""
        if self.question is None or self.random is None:
            return ""
        best, score = self.best.canonical, f"{self.label(next(iter(self.metrics)))} {self.score}"
        than = "significantly better than a random explanation"
        if self.random.flat:
            belief = f"there is no answer: {flat_words(self.random.flat)}"
        elif self.winner.inputs < 2:
            belief = "there is no answer: one input shows no significant difference; pass several"
        elif not self.random.beaten:
            belief = f"believe none of those tried: none is {than} (the highest is {best}: {score})"
        else:
            belief = f"believe {best} ({score}, {than})"
        return f'For "{QUESTIONS[self.question]}", {belief}.'

    @property
    def winner(self) -> Candidate:
        """The best trial: that of the front with the best first metric."""
        return self._front()[0]

    @property
    def best(self) -> Attribution:
        """The best configuration, ready to be called, ``tuned.best(problem)``, and to be given to ``verax.explain``."""
        return self.winner.configuration

    @property
    def code(self) -> str:
        """The import line and the constructor call of the best configuration, to be pasted."""
        return self.best.code

    @property
    def score(self) -> Estimate:
        """Its mean in the first metric, with an interval, over the inputs that it was measured on.

        It is the best of many, so that the mean is a little too good; on other inputs expect somewhat less.
        """
        return self._estimate(self.winner, 0)

    @property
    def equals(self) -> list[Attribution]:
        """Configurations whose first metric is not significantly behind the best's, on the inputs that both have."""
        winner = self.winner
        rivals = (candidate for candidate in self._ranked() if candidate.alive and candidate is not winner)
        return [candidate.configuration for candidate in rivals if not self._behind(candidate, winner).low > 0]

    @property
    def table(self) -> "pl.DataFrame":
        """One row per trial, in the order in which they were proposed.

        ``trial``, ``method`` and the settings in which trials differ; ``state`` (``"complete"``: measured on all
        inputs; ``"pruned"``: surely no better than another; ``"leading"``: may be the best, and no more inputs were
        needed or allowed; ``"failed"``, with the ``reason``); ``inputs`` used; each metric's mean and interval on these
        inputs; ``behind``: how far the first metric is behind the best on the same inputs, with its paired interval;
        ``cost``: model rows per input of the configuration alone; ``rows`` and ``seconds`` that the search spent on
        it, with an even share of what trials had in common; and the ``configuration`` in full.
        """
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        settings, winner = self._settings(), self.winner
        rows = [self._row(candidate, settings, winner) for candidate in self.candidates]
        return pl.DataFrame({name: _one_kind([row[name] for row in rows]) for name in rows[0]}, strict=False)

    def to_frame(self) -> "pl.DataFrame":
        """The table of all trials; ``table`` says what its columns are."""
        return self.table

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trials, or a page about them: the ending of the path says which.

        Args:
            path: Where to. ``.parquet``, ``.csv`` and ``.json`` hold the rows of ``to_frame()``; ``.html`` is a page
                with the best configuration, the chart and the table, which needs no network.
        """
        save_as(path, self.to_frame, self.page)

    def page(self, summary: str = "") -> str:
        """The page that ``save`` writes, which begins with a summary; by default its own."""
        from verax.report.result_pages import tuning_page  # noqa: PLC0415  # needs Altair

        return tuning_page(self, summary or str(self))

    @property
    def pareto(self) -> "pl.DataFrame":
        """The rows of the table that no other beats by its means, the best in the first metric first.

        With one metric that is the best one, or several that are exactly equal.
        """
        import polars as pl  # noqa: PLC0415

        places = {candidate.number: at for at, candidate in enumerate(self._front())}
        rows = self.table.filter(pl.col("trial").is_in(list(places)))
        return rows.sort(pl.col("trial").replace_strict(places))

    def plot(self) -> Any:
        """An Altair chart: the trials one after the other with their intervals, or, of two objectives, the front."""
        from verax.tuning.plot import chart  # noqa: PLC0415  # needs Altair

        return chart(self)

    @property
    def objectives(self) -> list[str]:
        """The columns of the table that the search was about."""
        return [*self.metrics, *(["cost"] if self.rule.cost else [])]

    def label(self, objective: str) -> str:
        """An objective, to be read."""
        if objective not in self.metrics:
            return "model rows per input"
        return self.metrics[objective].label_as(objective)

    def summary(self) -> str:
        """What was found, with the code of the best."""
        best = self.winner
        means = [f"{self.label(name)} {self._estimate(best, at)}" for at, name in enumerate(self.metrics)]
        limitation = self.best.known_limitation
        lines = [
            *filter(None, (self.answer,)),
            f"Best: {best.configuration.canonical}",
            f"{', '.join(means)} on {best.inputs:,} of {self.inputs:,} inputs; {_cost(best)}",
            *([f"Caution: {type(self.best).__name__} {limitation}."] if limitation else []),
            *self._others(),
            *("", *self.code.splitlines()),
        ]
        return "\n".join(lines)

    def cost_lines(self) -> list[str]:
        """How many trials there were, why the search ended, what it cost, and what was left out."""
        states = [candidate.state(self.inputs) for candidate in self.candidates]
        counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return [
            f"{len(self.candidates)} trials ({counted}); {WHY[self.stopped]}. "
            f"{self.rows:,} model rows, {self.seconds:.1f} s.",
            *(f"{line}." for line in (fact_line(self.facts),) if line),
            *(f"Left out: {name} ({reason.rstrip('.')})." for name, reason in self.left_out.items()),
        ]

    def __repr__(self) -> str:
        return "\n".join([self.summary(), "", *self.cost_lines()])

    def _repr_html_(self) -> str:
        best, *lines = str(self).replace(f"\n{self.code}\n", "").splitlines()
        head = ("trial", *map(self.label, self.metrics), "inputs", "state", "configuration")
        shown = [self.winner, *(candidate for candidate in self._ranked() if candidate is not self.winner)]
        rows = []
        for trial in shown[:_TABLE_ROWS]:
            means = (str(self._estimate(trial, at)) for at in range(len(self.metrics)))
            state = trial.state(self.inputs)
            rows.append((str(trial.number), *means, f"{trial.inputs:,}", state, trial.configuration.canonical))
        caption = f"{len(rows)} of {len(self.candidates)} trials, the best first; all of them: .table"
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in (best, *lines) if line)
        return f"{paragraphs}<pre>{html.escape(self.code)}</pre>{TextTable(head, tuple(rows), caption).html()}"

    def _others(self) -> list[str]:
        """The front, or what is not significantly different from the best."""
        if len(self.objectives) > 1:
            lines = []
            for candidate in self._front():
                means = zip(self.metrics, candidate.scores.mean(1).tolist(), strict=True)
                figures = [*(f"{self.label(name)} {significant(mean, 4)}" for name, mean in means), _cost(candidate)]
                lines.append(f"  {', '.join(figures)}: {candidate.configuration.canonical}")
            return [f"{len(lines)} that no other beats:", *lines]
        names = [configuration.canonical for configuration in self.equals]
        if not names:
            return []
        more = [f"  and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return ["Not significantly different from it:", *(f"  {name}" for name in names[:_SHOWN]), *more]

    def _ranked(self) -> list[Candidate]:
        """All that were measured, the best first by what they would have on the same inputs."""
        sign, measured = -self.rule.signs[0], [trial for trial in self.candidates if trial.values]
        return sorted(measured, key=lambda candidate: sign * candidate.values[0])

    def _front(self) -> list[Candidate]:
        front = self.rule.front([candidate for candidate in self.candidates if candidate.alive])
        return front if len(self.objectives) > 1 else front[:1]

    def _estimate(self, candidate: Candidate, metric: int) -> Estimate:
        return estimates(candidate.scores[metric][None], level=self.rule.level)[0]

    def _behind(self, candidate: Candidate, winner: Candidate) -> Estimate:
        return self.rule.difference(winner, candidate, 0, min(candidate.inputs, winner.inputs))

    def _row(self, candidate: Candidate, settings: Sequence[str], winner: Candidate) -> dict[str, Any]:
        configuration = candidate.configuration
        row: dict[str, Any] = {"trial": candidate.number, "method": type(configuration).__name__}
        values = {name: getattr(configuration, name, None) for name in settings}
        row |= {name: value if isinstance(value, _PLAIN) else str(value) for name, value in values.items()}
        row |= {"state": candidate.state(self.inputs), "inputs": candidate.inputs}
        for at, name in enumerate(self.metrics):
            row |= _interval(name, self._estimate(candidate, at) if candidate.inputs else None)
        row |= _interval("behind", self._behind(candidate, winner) if min(candidate.inputs, winner.inputs) else None)
        row |= {"cost": candidate.cost, "rows": candidate.rows, "seconds": candidate.seconds}
        return row | {"reason": candidate.reason or None, "configuration": configuration.canonical}

    def _settings(self) -> list[str]:
        values: dict[str, set[Any]] = {}
        for candidate in self.candidates:
            for setting in fields(candidate.configuration):
                values.setdefault(setting.name, set()).add(getattr(candidate.configuration, setting.name))
        shared = len({type(candidate.configuration) for candidate in self.candidates}) == 1
        return [name for name, used in values.items() if len(used) > 1 or (not shared and name != "seed")]


def _interval(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    ends = (None, None, None) if estimate is None else (estimate.mean, estimate.low, estimate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _one_kind(values: list[Any]) -> list[Any]:
    """A column: words where there is a word among numbers, as with ``background`` of DeepLiftSHAP."""
    words = any(isinstance(value, str) for value in values)
    return [str(value) if words and value is not None else value for value in values]


def _cost(candidate: Candidate) -> str:
    rows = "an unknown number of" if candidate.cost is None else f"{candidate.cost:,.0f}"
    return f"{rows} model rows per input"
