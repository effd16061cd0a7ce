"""Attributions of one model beside each other: verdicts and what to believe, rankings and paired differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from verax.core.display import TextTable, cost, counted
from verax.evaluation.ranking import (
    REFERENCE,
    AlternativeResult,
    Difference,
    RankingStability,
    best_first,
    differences,
    not_significantly_different,
    ranking_stabilities,
)
from verax.evaluation.result import Evaluation
from verax.evaluation.verdicts import Judgement, Verdict
from verax.metrics.base import Kind
from verax.metrics.choose import QUESTIONS, decider
from verax.metrics.result import GuidedResult, Result, Saved, save_numbers
from verax.statistics.intervals import Estimate

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Ranked(Estimate):
    """One line of a ranking: the mean of an attribution over inputs.

    Attributes:
        place: 1 for the best.
        name: The attribution.
        against_next: The paired difference to the next in the ranking; None for the last.
    """

    place: int
    name: str
    against_next: Difference | None


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Saved):
    """Attributions of one model compared on the same inputs; shown as a table.

    Attributes:
        evaluation: All results of the one pass that served every attribution and metric.
        level: Coverage of each interval.
        replacement: What removed features become, where metrics do not say it themselves; empty where it is not known.
        elsewhere: The results under other replacements, where there are some.
        unanswered: Why a question has no answer for such a problem.
    """

    evaluation: Evaluation
    level: float
    replacement: str = ""
    elsewhere: tuple[AlternativeResult, ...] = ()
    unanswered: Mapping[Kind, str] = field(default_factory=dict)

    @cached_property
    def judgements(self) -> dict[Kind, Judgement]:
        """For each question, the verdicts and what they rest on; none without a random explanation."""
        return self._judged(self.evaluation) if REFERENCE in self.names else {}

    @property
    def verdicts(self) -> dict[Kind, dict[str, Verdict]]:
        """For ``"local"`` and ``"baseline"`` a verdict on each explanation; none where there is no answer."""
        verdicts = {kind: judgement.verdicts for kind, judgement in self.judgements.items()}
        return {kind: verdicts.get(kind, {}) for kind in QUESTIONS if kind in verdicts or kind in self.unanswered}

    @property
    def answers(self) -> dict[Kind, str]:
        """For ``"local"`` and ``"baseline"`` what to believe, or why there is no answer: a sentence or two."""
        answers = {kind: judgement.answer for kind, judgement in self.judgements.items()}
        for kind in self.unanswered.keys() - answers:
            answers[kind] = f'For "{QUESTIONS[kind]}", there is no answer: {self.unanswered[kind]}.'
        return {kind: answers[kind] for kind in QUESTIONS if kind in answers}

    def saturation_words(self) -> str:
        """On how many inputs the model is sure, and how the verdicts look on its logit; empty where it is not sure."""
        sure = self.evaluation.saturation
        if sure is None:
            return ""
        share = f"the model is sure of {sure.share:.0%} of the inputs (a probability within 0.001 of 0 or 1)"
        hardly = "where perturbations hardly move a probability"
        if not sure.results:
            return f"output: {share}, {hardly}; it returns no logits, on which verdicts could be compared."
        sentences = []
        for kind, judgement in self._judged(sure.results).items():
            like = "As" if judgement.verdicts == self.verdicts[kind] else "Unlike"
            sentences.append(f"{judgement.answer} ({like} on the probability.)")
        return f'output: {share}, {hardly}. On the logit: {" ".join(sentences)} Follow it with output="logit".'

    def _judged(self, results: Mapping[str, Result]) -> dict[Kind, Judgement]:
        metrics = {name: result.metric for name, result in results.items()}
        return {
            kind: Judgement(kind, column, results[column], REFERENCE, self.level)
            for kind in QUESTIONS
            if (column := decider(metrics, kind)) is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The attributions, as they were given."""
        return self.evaluation.labels

    @property
    def metrics(self) -> tuple[str, ...]:
        """What was measured."""
        return tuple(self.evaluation)

    @property
    def inputs(self) -> int:
        """How many inputs were compared."""
        return self.evaluation.inputs

    @property
    def rows(self) -> int:
        """Model rows, those under other replacements and of methods that the call computed included."""
        return self.evaluation.rows + sum(other.evaluation.rows for other in self.elsewhere)

    @property
    def seconds(self) -> float:
        """Wall-clock time of the call, other replacements included."""
        return float(self.evaluation.seconds + sum(other.evaluation.seconds for other in self.elsewhere))

    def with_limits(self) -> "Comparison":
        """The same with how much of what is possible each attribution attains, under PC, DPC and LPC."""
        return replace(self, evaluation=self.evaluation.with_limits())

    def with_distance(self) -> "Comparison":
        """The same with how far perturbed rows lie from the background, under every replacement."""
        others = tuple(
            replace(other, evaluation=other.evaluation.with_distance()) if other.guided else other
            for other in self.elsewhere
        )
        return replace(self, evaluation=self.evaluation.with_distance(), elsewhere=others)

    def ranking(self, metric: str) -> list[Ranked]:
        """Attributions from best to worst mean, each with the paired difference to the next."""
        result = self._result(metric)
        means, order = result.listed_means(self.level), best_first(result)
        ranked = []
        for place, which in enumerate(order):
            name = self.names[which]
            after = self.pair(name, self.names[order[place + 1]], metric) if place + 1 < len(order) else None
            ranked.append(Ranked(**vars(means[which]), place=place + 1, name=name, against_next=after))
        return ranked

    def pair(self, first: str, second: str, metric: str) -> Difference:
        """Difference of two attributions, first minus second, with its paired t interval over inputs.

        Scores that differ by no more than rounding (a millionth, or 1e-8 of the spread of all means) count as equal.
        One input shows no spread, so that its interval is not a number.
        """
        result = self._result(metric)
        for name in (first, second):
            if name not in self.names:
                raise ValueError(f"attribution: expected one of {', '.join(map(repr, self.names))}, got {name!r}.")
        return differences(result, metric, first, [second], self.level)[0]

    def best(self, metric: str) -> list[str]:
        """The best attribution and all that are not significantly different from it, in the order of the ranking."""
        return [self.names[place] for place in not_significantly_different(self._result(metric), self.level)]

    def sentences(self, metric: str) -> list[str]:
        """The ranking in words: each attribution against the next."""
        pairs = (ranked.against_next for ranked in self.ranking(metric))
        return [f"{self.evaluation.label(metric)}: {pair}" for pair in pairs if pair is not None]

    def ranking_stability(self, metric: str | None = None) -> list[RankingStability]:
        """Whether the ranking survives each other replacement of the call, under one metric or under all."""
        chosen = self.evaluation if metric is None else {metric: self._result(metric)}
        stabilities = ranking_stabilities(self.evaluation, self.replacement, self.elsewhere, self.level)
        return [stability for stability in stabilities if stability.metric in chosen]

    def ranking_stability_frame(self) -> "pl.DataFrame":
        """One row for each metric and other replacement, as a polars data frame.

        Columns: ``metric``, ``here`` and ``there`` (the replacements), ``word``, ``tau`` with ``low`` and ``high``
        (Kendall's, of the two rankings), and of all pairs of attributions how many are ``significant`` here, and how
        many of those ``stay`` so or ``turn``.
        """
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        return pl.DataFrame([stability.facts() for stability in self.ranking_stability()])

    def elsewhere_words(self) -> list[str]:
        """The same in words, and which metrics cannot be measured under which replacement; nothing without others."""
        unsupported = [
            f"{self.evaluation.label(name)}: not measured under {other.replacement} ({why})"
            for other in self.elsewhere
            for name, why in other.unsupported.items()
        ]
        return [*map(str, self.ranking_stability()), *unsupported]

    def distance_words(self) -> list[str]:
        """How far perturbed rows lie from the data, under each replacement; nothing without ``with_distance``."""
        if not self.elsewhere:
            return self.evaluation.distance_words(self.level)
        under = {self.replacement: self.evaluation} | {other.replacement: other.evaluation for other in self.elsewhere}
        return [line for name, other in under.items() for line in other.distance_words(self.level, f" under {name}")]

    def possible(self, metric: str) -> list[str]:
        """In words how much of what is possible each attribution attains, best first; nothing without limits."""
        result = self._result(metric)
        if not isinstance(result, GuidedResult) or result.limits is None:
            return []
        label, most = self.evaluation.label(metric), "" if result.limits.exact else "at most "
        shares = dict(zip(self.names, result.shares(self.level), strict=True))
        return [
            f"{label}: {ranked.name} has {ranked.digits()[0]}, that is {most}{shares[ranked.name]} of what is possible"
            for ranked in self.ranking(metric)
        ]

    def blind_spots(self) -> tuple[str, ...]:
        """What each metric is blind to, where something is known of it."""
        limitations = ((name, result.metric.known_limitations) for name, result in self.evaluation.items())
        return tuple(f"{self.evaluation.label(name)}: {sentence}" for name, sentence in limitations if sentence)

    def cells(self) -> list[list[str]]:
        """The table as text, head first."""
        table = self.table()
        return [list(row) for row in (table.head, *table.rows)]

    def caption(self) -> str:
        """What the table shows."""
        return self.table().caption

    def table(self) -> TextTable:
        """Means with intervals; beside a metric that answers a question, on how many inputs each wins, and its verdict.

        In other columns the best is bold, and a star marks what is not significantly different from it.
        """
        plain = self.evaluation.table(self.level, after=f"; {cost(self.rows, self.seconds)}")
        deciding = {judgement.column: judgement for judgement in self.judgements.values()}
        if not deciding:
            return plain
        columns: list[list[str]] = [[plain.head[0], *(row[0] for row in plain.rows)]]
        best: set[tuple[int, int]] = set()
        for at, metric in enumerate(self.metrics, start=1):
            if metric in deciding:
                columns += deciding[metric].columns()
                continue
            best |= {(row, len(columns)) for row, column in plain.best if column == at}
            columns.append([plain.head[at], *(row[at] for row in plain.rows)])
        head, *rows = zip(*columns, strict=True)
        return replace(plain, head=head, rows=tuple(rows), caption=self._caption(), best=frozenset(best))

    def _caption(self) -> str:
        undecided = len(self.metrics) > len(self.judgements)
        star = "; *: not significantly different from the best, paired" if undecided else ""
        tests = f"paired t-tests at {100 * (1 - self.level):.2g} %"
        return (
            f"Means over {counted(self.inputs, 'input')} with {100 * self.level:.4g} % intervals{star}; wins: inputs "
            f"on which it is above the random one; verdicts: {tests}, corrected for "
            f"{counted(len(self.names) - 1, 'explanation')} (Holm); {cost(self.rows, self.seconds)}"
        )

    save = save_numbers

    def to_frame(self) -> "pl.DataFrame":
        """One row per attribution and input with the scores of all metrics, as ``Evaluation.to_frame`` describes.

        Where the call names other replacements, there are rows for each, with its name in the column ``replacement``;
        metrics that were not measured under it are null there.
        """
        frame = self.evaluation.to_frame()
        if not self.elsewhere:
            return frame
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        frames = {self.replacement: frame}
        frames |= {other.replacement: other.evaluation.to_frame() for other in self.elsewhere if other.evaluation}
        named = [scores.insert_column(3, pl.lit(name).alias("replacement")) for name, scores in frames.items()]
        return pl.concat(named, how="diagonal")

    def plot(self) -> Any:
        """Draw the ranking under each metric with intervals, best on top, up to 40 attributions.

        Returns:
            A matplotlib figure, which a notebook shows and ``savefig`` saves.
        """
        from verax.report.plots import rankings  # noqa: PLC0415  # to keep ``import verax`` light

        return rankings(self)

    def _table(self) -> TextTable:
        deciding = [judgement.column for judgement in self.judgements.values()]
        notes = [words] if (words := self.saturation_words()) else []
        for metric in self.metrics:
            notes += [*([] if metric in deciding else self.sentences(metric)), *self.possible(metric)]
        notes += [*self.elsewhere_words(), *self.distance_words()]
        notes += [*self.evaluation.cautions(), *self.blind_spots(), *self.evaluation.notes]
        return replace(self.table(), notes=tuple(notes), lead=tuple(self.answers.values()))

    def _page(self) -> str:
        from verax.report.comparison import comparison_page  # noqa: PLC0415  # to keep ``import verax`` light

        return comparison_page(self)

    def _result(self, metric: str) -> Result:
        if metric not in self.evaluation:
            raise ValueError(f"metric: expected one of {', '.join(map(repr, self.metrics))}, got {metric!r}.")
        result: Result = self.evaluation[metric]
        return result
