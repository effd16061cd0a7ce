"""Measuring candidates: attributions that are computed together where that is cheaper, scores, and what they cost."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Attribution, Attributions, Place, Random
from verax.attribution.base import explain
from verax.core.shapes import Float
from verax.evaluation.engine import Call, check_call, run
from verax.evaluation.evaluate import prepared
from verax.evaluation.verdicts import flat_draws
from verax.metrics.base import Metric
from verax.problem.attributed import attributed
from verax.problem.problem import Problem
from verax.scoring.meter import Meter
from verax.tuning.race import Candidate, rounds
from verax.tuning.space import cost_of, groups

_KEPT_BYTES = 1 << 30  # of attributions that were computed along with others
_GROUP_BYTES = _KEPT_BYTES // 4


# a random explanation under one metric: a score for each input, and the share of small changes that leave the model's
# score of that input as it is; 0 where none are made
RandomScores = tuple[Float[Tensor, " n"], Float[Tensor, " n"]]


class Bench:
    """Measures candidates on the first rows of a problem."""

    def __init__(
        self,
        problem: Problem,
        metrics: Mapping[str, Metric],
        configurations: Sequence[Attribution],
        place: Place,
        tell: Callable[[str], None] = lambda line: None,
        beside_random: bool = False,
    ) -> None:
        self.problem, self.metrics, self.tell = problem, metrics, tell
        check_call(Call(attributed(problem, torch.zeros(()).expand(problem.inputs.shape)), metrics))
        first = problem[:1]
        together = groups(configurations, first, place)
        self.groups = {member: group for group in together for member in group}
        self.costs = {configuration: cost_of(configuration, first, place) for configuration in configurations}
        self.kept: OrderedDict[tuple[Attribution, int, int, int], Attributions] = OrderedDict()
        self.pace = Pace()
        self.beside_random = beside_random
        self._random: dict[int, list[RandomScores]] = {}  # of each round, by where it ends

    def new(self, number: int, batch: int, configuration: Attribution) -> Candidate:
        scores = torch.empty(len(self.metrics), 0, dtype=torch.float64)
        return Candidate(number, batch, configuration, scores, self.costs[configuration])

    def extend(self, candidates: Sequence[Candidate], count: int) -> None:
        """Measure candidates on all of the first inputs that they have not seen; those that cannot be, fail."""
        # round by round, also for who is late, so that what was computed along with others is kept for all
        for rows in self._rounds(count):
            if behind := _behind(candidates, rows):
                self._measure(behind, slice(behind[0].inputs, rows.stop))

    def random(self, count: int) -> list[RandomScores]:
        """What a random explanation scores on the first inputs, by metric."""
        parts = []
        for rows in self._rounds(count):
            if rows.stop not in self._random:  # a search that goes on has not measured them in this run
                self._rate({}, rows)
            parts.append(self._random[rows.stop])
        joined = (
            (torch.cat(values) for values in zip(*of_metric, strict=True)) for of_metric in zip(*parts, strict=True)
        )
        return [(scores, unmoved) for scores, unmoved in joined]

    def seconds(self, candidates: Sequence[Candidate], count: int) -> float:
        """Seconds that ``extend`` will take, at the pace so far; 0 where nothing was measured yet."""
        seconds = 0.0
        for rows in self._rounds(count):
            if behind := _behind(candidates, rows):
                groups = {leader: _dearest(members) for leader, members in self._by_leader(behind).items()}
                seconds += self.pace.seconds(groups, len(behind), rows.stop - rows.start)
        return seconds

    def _rounds(self, count: int) -> list[slice]:
        """The inputs that each round adds, up to so many in all."""
        ends = [size for size in rounds(len(self.problem)) if size <= count]
        return [slice(start, stop) for start, stop in pairwise((0, *ends))]

    def _by_leader(self, candidates: Sequence[Candidate]) -> dict[Attribution, list[Candidate]]:
        """Candidates whose attributions are computed together, by the first of their group."""
        by_leader: dict[Attribution, list[Candidate]] = {}
        for candidate in candidates:
            by_leader.setdefault(self.groups[candidate.configuration][0], []).append(candidate)
        return by_leader

    def _measure(self, candidates: list[Candidate], rows: slice) -> None:
        meter = Meter(self.problem.scorer.counts)
        attributions = self._attributions(candidates, rows)
        ready = [candidate for candidate in candidates if not candidate.reason]
        if ready:
            began = meter.total().seconds
            by_number = {str(candidate.number): attributions[candidate.configuration] for candidate in ready}
            scores = self._rate(by_number, rows)
            self.pace.rated(len(ready), rows.stop - rows.start, meter.total().seconds - began)
            self.tell(f"{', '.join(self.metrics)} of {len(ready)} candidates on inputs {rows.start + 1} to {rows.stop}")
            for candidate, further in zip(ready, scores, strict=True):
                candidate.scores = torch.cat((candidate.scores, further), dim=1)
        cost = meter.total()
        for candidate in candidates:
            candidate.rows += cost.rows.total / len(candidates)
            candidate.seconds += cost.seconds / len(candidates)

    def _rate(self, attributions: Mapping[str, Any], rows: slice) -> Float[Tensor, "k metrics n"]:
        """Scores of some inputs, beside a random explanation where the search needs one."""
        rated = {**attributions} | ({"random": Random()} if self.beside_random else {})
        call = prepared(self.problem[rows], rated, self.metrics, check_call)
        result = run(call._replace(rated=replace(call.rated, of_tracked=frozenset(rated))))
        scores = torch.stack([result[name].scores.double().cpu() for name in self.metrics], dim=1)
        if self.beside_random:
            self._random[rows.stop] = [
                (values, flat_draws(part)) for values, part in zip(scores[-1], result.values(), strict=True)
            ]
        return scores[: len(attributions)]

    def _attributions(self, candidates: list[Candidate], rows: slice) -> dict[Attribution, Any]:
        """Attributions of some inputs by configuration, those of a group computed together."""
        attributions: dict[Attribution, Any] = {}
        for leader, members in self._by_leader(candidates).items():
            try:
                computed = self._group(leader, members, rows)
            except (ValueError, TypeError) as error:  # what methods raise for a model or data that they are not for
                for candidate in members:
                    candidate.reason, candidate.alive = str(error), False
                continue
            self.tell(f"{type(leader).__name__} on inputs {rows.start + 1} to {rows.stop}")
            for candidate in members:
                values = computed[candidate.configuration.canonical]
                if not bool(torch.isfinite(torch.as_tensor(values)).all()):
                    candidate.reason, candidate.alive = "its attributions are not finite", False
                if candidate.cost is None:  # 1: the input itself, which was scored for all candidates before
                    candidate.cost = 1 + (computed.rows + computed.rows_backward) / (rows.stop - rows.start)
                attributions[candidate.configuration] = values
        return attributions

    def _group(self, leader: Attribution, candidates: list[Candidate], rows: slice) -> Attributions:
        """The attributions of all in a group that cost no more than these candidates; they are kept for later.

        Where they are large, those of the candidates alone. It depends on nothing but the candidates, so that a search
        that goes on after an interruption finds the same to the last digit.
        """
        dearest = max(candidate.cost or 0.0 for candidate in candidates)
        members = [member for member in self.groups[leader] if (self.costs[member] or 0.0) <= dearest]
        inputs = self.problem.inputs[rows]
        size = inputs[0].numel() * inputs.itemsize
        unknown = any(candidate.cost is None for candidate in candidates)
        if unknown or len(members) * len(inputs) * size > _GROUP_BYTES:
            return self._compute(leader, [candidate.configuration for candidate in candidates], dearest, rows)
        key = (members[0], len(members), rows.start, rows.stop)
        if key not in self.kept:
            self.kept[key] = self._compute(leader, members, dearest, rows)
        self.kept.move_to_end(key)
        while sum((stop - start) * count * size for _, count, start, stop in self.kept) > _KEPT_BYTES:
            self.kept.popitem(last=False)
        return self.kept[key]

    def _compute(
        self, leader: Attribution, members: Sequence[Attribution], dearest: float, rows: slice
    ) -> Attributions:
        computed = explain(self.problem[rows], members)
        inputs = rows.stop - rows.start
        cost = dearest or (computed.rows + computed.rows_backward) / inputs
        self.pace.explained(leader, cost, inputs, computed.seconds)
        return computed


def _behind(candidates: Sequence[Candidate], rows: slice) -> list[Candidate]:
    """Candidates that have not seen all inputs up to the end of some."""
    return [candidate for candidate in candidates if candidate.inputs < rows.stop and not candidate.reason]


def _dearest(candidates: Sequence[Candidate]) -> float | None:
    """Model rows per input of the most expensive one; None where one's are not known."""
    costs = [candidate.cost for candidate in candidates if candidate.cost is not None]
    return max(costs) if len(costs) == len(candidates) else None


class Pace:
    """Seconds of model rows of each group of methods, and of the metrics; read off every round that was measured.

    What will be computed together costs what its most expensive member does, once. Metrics may share model rows between
    candidates: fewer candidates than before are taken to cost as much, more of them in proportion.
    """

    def __init__(self) -> None:
        self._per_row: dict[Attribution, float] = {}  # by the first of each group
        self._dearest = 0.0  # rows per input of the most expensive group that was measured
        self._rated: tuple[int, float] | None = None  # candidates, and seconds per input

    def explained(self, leader: Attribution, rows: float, inputs: int, seconds: float) -> None:
        self._per_row[leader] = seconds / (max(rows, 1.0) * inputs)
        self._dearest = max(self._dearest, rows)

    def rated(self, candidates: int, inputs: int, seconds: float) -> None:
        self._rated = candidates, seconds / inputs

    def seconds(self, groups: Mapping[Attribution, float | None], candidates: int, inputs: int) -> float:
        """Seconds that further inputs will take."""
        if self._rated is None:
            return 0.0
        slowest = max(self._per_row.values(), default=0.0)
        explaining = sum(
            self._per_row.get(leader, slowest) * max(1.0, self._dearest if rows is None else rows)
            for leader, rows in groups.items()
        )
        before, rating = self._rated
        return inputs * (explaining + rating * max(1.0, candidates / before))
