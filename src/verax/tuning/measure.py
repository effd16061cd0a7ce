"""Measuring candidates: attributions that are computed together where that is cheaper, scores, and what they cost."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Attribution, Given, Place, attribute
from verax.engine import Metric
from verax.evaluation import evaluate
from verax.scoring import Scorer
from verax.shapes import Float
from verax.tuning.race import Candidate, rounds
from verax.tuning.space import cost_of, groups

_KEPT_BYTES = 1 << 30  # of attributions that were computed along with others
_GROUP_BYTES = _KEPT_BYTES // 4


@dataclass(frozen=True)
class Subject:
    """What is explained: a model and data, the inputs in the order in which they are used.

    Attributes:
        scorer: The model.
        inputs: As a tensor.
        native: The same, NumPy or torch as the user has them.
        target: The class of each input.
        background: Rows of the training data, or None.
        labels: Their classes, or None.
        baselines: What removed features become, for each input.
        batch_size: Rows per model call, or None.
        device: Where the model runs, or None.
    """

    scorer: Scorer
    inputs: Float[Tensor, "n *shape"]
    native: Any
    target: Tensor
    background: Tensor | None
    labels: Tensor | None
    baselines: Tensor
    batch_size: int | None
    device: Any

    @property
    def given(self) -> Given:
        """The data."""
        return Given(self.inputs, self.background, self.labels)


class Bench:
    """Measures candidates on the first inputs of a subject.

    Args:
        subject: What is explained.
        metrics: What is measured, by name.
        configurations: All that may be measured.
        place: Where the model runs.
    """

    def __init__(
        self, subject: Subject, metrics: dict[str, str | Metric], configurations: Sequence[Attribution], place: Place
    ) -> None:
        self.subject, self.metrics = subject, metrics
        first = Given(subject.inputs[:1], subject.background, subject.labels)
        self.groups = {one: group for group in groups(configurations, first, place) for one in group}
        self.costs = {one: cost_of(one, first, place) for one in configurations}
        self.kept: OrderedDict[tuple[Attribution, int, int, int], _Computed] = OrderedDict()

    def new(self, number: int, batch: int, configuration: Attribution) -> Candidate:
        """A candidate that was measured on nothing yet."""
        scores = torch.empty(len(self.metrics), 0, dtype=torch.float64)
        return Candidate(number, batch, configuration, scores, self.costs[configuration])

    def extend(self, candidates: Sequence[Candidate], count: int) -> None:
        """Measure candidates on all of the first inputs that they have not seen; those that cannot be, fail.

        It goes round by round, also for who is late, so that what was computed along with others is found again.
        """
        for stop in (size for size in rounds(len(self.subject.inputs)) if size <= count):
            behind = [one for one in candidates if one.inputs < stop and not one.reason]
            if behind:
                self._measure(behind, slice(behind[0].inputs, stop))

    def _measure(self, candidates: list[Candidate], rows: slice) -> None:
        before, clock = _spent(self.subject.scorer), time.perf_counter()
        found = self._attributions(candidates, rows)
        ready = [one for one in candidates if not one.reason]
        if ready:
            result = evaluate(
                self.subject.scorer,
                self.subject.native[rows],
                {str(one.number): found[one.configuration] for one in ready},
                self.metrics,
                target=self.subject.target[rows],
                baselines=self.subject.baselines[rows],
                batch_size=self.subject.batch_size,
                device=self.subject.device,
            )
            scores = torch.stack([result[name].scores.double().cpu() for name in self.metrics], dim=1)
            for one, own in zip(ready, scores, strict=True):
                one.scores = torch.cat((one.scores, own), dim=1)
        each = (_spent(self.subject.scorer) - before) / len(candidates)
        seconds = (time.perf_counter() - clock) / len(candidates)
        for one in candidates:
            one.rows += each
            one.seconds += seconds

    def _attributions(self, candidates: list[Candidate], rows: slice) -> dict[Attribution, Any]:
        """Attributions of some inputs by configuration, those of a group computed together."""
        found: dict[Attribution, Any] = {}
        leaders = dict.fromkeys(self.groups[one.configuration][0] for one in candidates)
        for leader in leaders:
            own = [one for one in candidates if self.groups[one.configuration][0] is leader]
            try:
                computed = self._group(leader, own, rows)
            except (ValueError, TypeError) as error:  # what methods raise for a model or data that they are not for
                for one in own:
                    one.reason, one.alive = str(error), False
                continue
            for one in own:
                values = computed.values[one.configuration.canonical]
                if not bool(torch.isfinite(torch.as_tensor(values)).all()):
                    one.reason, one.alive = "its attributions are not finite", False
                if one.cost is None:
                    one.cost = computed.rows / (rows.stop - rows.start)
                found[one.configuration] = values
        return found

    def _group(self, leader: Attribution, own: list[Candidate], rows: slice) -> "_Computed":
        """The attributions of all in a group that cost no more than these candidates; they are kept for later.

        Where they are large, those of the candidates alone. What is computed together depends on nothing but the
        candidates, so that a search that goes on after an interruption finds the same to the last digit.
        """
        dearest = max(one.cost or 0.0 for one in own)
        members = [one for one in self.groups[leader] if (self.costs[one] or 0.0) <= dearest]
        inputs = self.subject.inputs[rows]
        size = inputs[0].numel() * inputs.itemsize
        if len(members) * len(inputs) * size > _GROUP_BYTES or any(one.cost is None for one in own):
            return self._compute([one.configuration for one in own], rows)
        key = (members[0], len(members), rows.start, rows.stop)
        if key not in self.kept:
            self.kept[key] = self._compute(members, rows)
        self.kept.move_to_end(key)
        while sum(one.inputs * len(one.values) * size for one in self.kept.values()) > _KEPT_BYTES:
            self.kept.popitem(last=False)
        return self.kept[key]

    def _compute(self, members: Sequence[Attribution], rows: slice) -> "_Computed":
        subject = self.subject
        found = attribute(
            members,
            subject.scorer,
            subject.native[rows],
            target=subject.target[rows],
            background=subject.background,
            background_labels=subject.labels,
            batch_size=subject.batch_size,
            device=subject.device,
        )
        return _Computed(dict(found), found.rows + found.rows_backward, rows.stop - rows.start)


@dataclass(frozen=True)
class _Computed:
    """Attributions by canonical name, the rows that they took, and of how many inputs they are."""

    values: dict[str, Any] = field(repr=False)
    rows: int
    inputs: int


def _spent(scorer: Scorer) -> int:
    return scorer.rows + scorer.rows_backward
