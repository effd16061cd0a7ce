"""What a search found: a configuration that is ready to be used, a table of all trials, and a chart."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from verax.attribution import Attribution
from verax.comparing import LABELS
from verax.metrics.intervals import Estimate, estimates
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
_SHOWN = 5


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
        left_out: Methods that were not asked for by name and could not be used, with the reason.
    """

    candidates: Sequence[Candidate]
    metrics: Sequence[str]
    rule: Rule
    inputs: int
    rows: int
    seconds: float
    stopped: Stopped
    left_out: dict[str, str]

    @property
    def winner(self) -> Candidate:
        """The best trial: that of the front with the best first metric."""
        return self._front()[0]

    @property
    def best(self) -> Attribution:
        """The best configuration, ready to be called: ``result.best(model, inputs)``."""
        return self.winner.configuration

    @property
    def score(self) -> Estimate:
        """Its mean in the first metric, with an interval, over the inputs that it was measured on.

        It is the best of many, so that the mean is a little too good; on other inputs expect somewhat less.
        """
        return self._estimate(self.winner, 0)

    @property
    def equals(self) -> list[Attribution]:
        """Configurations that may be as good as the best or better, but hardly by more than the tolerance."""
        sign = -self.rule.signs[0]
        rest = sorted(self._alive(), key=lambda one: sign * one.values[0])
        return [one.configuration for one in rest if one is not self.winner]

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

        rows = [self._row(one) for one in self.candidates]
        return pl.DataFrame({name: _one_kind([row[name] for row in rows]) for name in rows[0]}, strict=False)

    @property
    def pareto(self) -> "pl.DataFrame":
        """The rows of the table that no other beats by its means, the best in the first metric first.

        With one metric that is the best one, or several that are exactly equal.
        """
        import polars as pl  # noqa: PLC0415

        order = [one.number for one in self._front()]
        own = self.table.filter(pl.col("trial").is_in(order))
        return own.sort(pl.col("trial").replace_strict({number: at for at, number in enumerate(order)}))

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
        return "model rows per input" if objective == "cost" else LABELS.get(objective, objective)

    def __repr__(self) -> str:
        best = self.winner
        shown = [f"{self.label(name)} {self._estimate(best, at)}" for at, name in enumerate(self.metrics)]
        states = [one.state(self.inputs) for one in self.candidates]
        counted = ", ".join(f"{states.count(word)} {word}" for word in dict.fromkeys(states))
        lines = [
            f"Best: {best.configuration.canonical}",
            f"{', '.join(shown)} on {best.inputs:,} of {self.inputs:,} inputs; {_cost(best)}",
            *self._others(),
            f"{len(self.candidates)} trials ({counted}); {WHY[self.stopped]}. "
            f"{self.rows:,} model rows, {self.seconds:.1f} s.",
            *(f"Left out: {name} ({reason.rstrip('.')})." for name, reason in self.left_out.items()),
        ]
        return "\n".join(lines)

    def _others(self) -> list[str]:
        """The front, or what is not told apart from the best."""
        if len(self.objectives) > 1:
            front = [f"  {self._means(one)}, {_cost(one)}: {one.configuration.canonical}" for one in self._front()]
            return [f"{len(front)} that no other beats:", *front]
        rest = [one.canonical for one in self.equals]
        if not rest:
            return []
        more = [f"  and {len(rest) - _SHOWN} more"] if len(rest) > _SHOWN else []
        return ["Not told apart from it:", *(f"  {name}" for name in rest[:_SHOWN]), *more]

    def _means(self, one: Candidate) -> str:
        means = zip(self.metrics, one.scores.mean(1).tolist(), strict=True)
        return ", ".join(f"{self.label(name)} {mean:.4g}" for name, mean in means)

    def _alive(self) -> list[Candidate]:
        return [one for one in self.candidates if one.alive]

    def _front(self) -> list[Candidate]:
        front = self.rule.front(self._alive())
        return front if len(self.objectives) > 1 else front[:1]

    def _estimate(self, one: Candidate, metric: int) -> Estimate:
        return estimates(one.scores[metric][None], "normal", self.rule.level, 2, 0)[0]

    def _row(self, one: Candidate) -> dict[str, Any]:
        row: dict[str, Any] = {"trial": one.number, "method": type(one.configuration).__name__}
        row |= {name: _plain(getattr(one.configuration, name, None)) for name in self._settings()}
        row |= {"state": one.state(self.inputs), "inputs": one.inputs}
        for at, name in enumerate(self.metrics):
            own = self._estimate(one, at) if one.inputs else None
            ends = (None, None, None) if own is None else (own.mean, own.low, own.high)
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        row |= self._behind(one)
        row |= {"cost": one.cost, "rows": one.rows, "seconds": one.seconds, "reason": one.reason or None}
        return row | {"configuration": one.configuration.canonical}

    def _behind(self, one: Candidate) -> dict[str, float | None]:
        count = min(one.inputs, self.winner.inputs)
        names = ("behind", "behind_low", "behind_high")
        if not count:
            return dict.fromkeys(names)
        found = self.rule.difference(self.winner, one, 0, count)
        return dict(zip(names, (found.mean, found.low, found.high), strict=True))

    def _settings(self) -> list[str]:
        """Settings in which trials differ."""
        values: dict[str, set[Any]] = {}
        for one in self.candidates:
            for field in fields(one.configuration):  # type: ignore[arg-type]  # configurations are dataclasses
                values.setdefault(field.name, set()).add(getattr(one.configuration, field.name))
        shared = len({type(one.configuration) for one in self.candidates}) == 1
        return [name for name, found in values.items() if len(found) > 1 or (not shared and name != "seed")]


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _one_kind(values: list[Any]) -> list[Any]:
    """A column: words where there is a word among numbers, as with ``background`` of DeepLiftSHAP."""
    if not any(isinstance(value, str) for value in values):
        return values
    return [None if value is None else str(value) for value in values]


def _cost(one: Candidate) -> str:
    return "an unknown number of model rows per input" if one.cost is None else f"{one.cost:,.0f} model rows per input"
