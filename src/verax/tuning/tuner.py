"""``verax.tune``: batches of proposals race against the best so far, until the budget is spent."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from verax.attribution.base import Modality
from verax.tuning import search
from verax.tuning import store as stores
from verax.tuning.asked import Plan, checked_store, facts_of, subject_of
from verax.tuning.measure import Bench, Subject
from verax.tuning.race import Candidate, estimated, rounds
from verax.tuning.result import Stopped, Tuned
from verax.tuning.space import Space, space_of

BATCH = 16  # trials that are proposed together: they share model rows, and each batch learns from those before
Tell = Callable[[str], None]


def tune(
    model: Any,
    inputs: Any,
    methods: Any = None,
    *,
    background: Any = None,
    background_labels: Any = None,
    metric: Any = "dpc",
    trials: int = 200,
    seconds: float | None = None,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
    tolerance: float = 0.02,
    level: float = 0.95,
    target: Any = None,
    baselines: Any = 0.0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    progress: Tell | None = None,
) -> Tuned:
    """Find the attribution method and the settings that are most faithful to a model.

    Optuna proposes configurations of the paper's grid in batches. A batch is measured together with the best so far on
    few inputs, then on more and more, up to all. Who surely is no better than another one, by the paired
    interval of the difference on the same inputs, is dropped on the way; who may be better, but surely not by more than
    the tolerance, is not taken further. Configurations that need the same model evaluations share them.

    Args:
        model: What ``verax.evaluate`` takes. Methods that need gradients need a torch module.
        inputs: Rows to explain, ``(N, ...)``. They are used in a random order.
        methods: Names such as ``("lime", "SmoothGrad")``, taken with all settings of the grid, or configurations of
            your own, or both. None for every method that can be used, but for the references Random and Edges.
        background: Rows of the training data. Without, methods that need them are left out.
        background_labels: Their classes, for DeepLiftSHAP with a stratified background.
        metric: ``"dpc"``, ``"pc"``, ``"infidelity"`` or a metric object. Of several, ``("dpc", "pc", "cost")``, all
            that no other beats are found; ``"cost"`` is the number of model rows per explained input.
        trials: Configurations to try at most, those in the store included.
        seconds: Start no further round after so long; at least one batch is measured on its first inputs.
        seed: Same seed, same search.
        store: A ``.parquet`` file. After every batch it holds all trials; called again with the same arguments, the
            search goes on from there, also with more trials or more seconds.
        tolerance: An advantage that is not worth further model rows, as a share of the best score. With 0, trials that
            cannot be told apart go on to all inputs. It is for one metric; with several, all that are left go on.
        level: Coverage of the intervals.
        target: The class to explain: predicted (``None``), one number, or one per row.
        baselines: What removed features become in PC and DPC.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.
        progress: Called with a line of text after every batch.

    Returns:
        What was found: ``best`` (ready to be called), ``score``, ``equals``, ``table``, ``pareto``, ``plot()``.

    Interrupted with Ctrl-C, the search ends with the batches that were finished.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(40, 4)
        >>> found = tune(model, x, methods=("gradient", "vargrad", "random"), trials=8)
        >>> found.best
        Gradient()
        >>> found.table.height, found.best(model, x).shape
        (8, torch.Size([40, 4]))
    """
    began = time.perf_counter()
    search.optuna()  # refused before any work where it is missing
    plan = Plan.checked(trials, seconds, seed, tolerance, level, metric)
    path = checked_store(store)
    subject, clean, place = subject_of(
        model, inputs, background, background_labels, target, baselines, plan.seed, batch_size, device
    )
    modality: Modality = "image" if subject.inputs.ndim == 4 else "tabular"
    space = space_of(methods, modality, subject.given, subject.scorer.adapter.module is not None)
    asked = stores.Asked(facts_of(plan, subject, space, target), clean)
    known = stores.read(path, asked, space.configurations, list(plan.metrics)) if path and path.exists() else []
    bench = Bench(subject, plan.metrics, space.configurations, place)

    def save(found: list[Candidate]) -> None:
        if path is not None:
            stores.write(path, asked, found, list(plan.metrics))

    return _Search(plan, subject, space, bench, known, began).run(save, progress or (lambda line: None))


class _Search:
    """A search under way: all candidates so far, and the one that the others are compared with."""

    def __init__(
        self, plan: Plan, subject: Subject, space: Space, bench: Bench, known: list[Candidate], began: float
    ) -> None:
        self.plan, self.space, self.bench = plan, space, bench
        self.candidates = list(known)
        self.inputs = len(subject.inputs)
        self.began = began
        self.scorer = subject.scorer
        self.before = (self._rows() - self.inputs, sum(one.seconds for one in known), sum(one.rows for one in known))

    def run(self, save: Callable[[list[Candidate]], None], tell: Tell) -> Tuned:
        """Try batch after batch."""
        stopped: Stopped | None = self._stopped()
        while stopped is None:
            finished = [replace(one) for one in self.candidates]  # a batch changes those that race along
            try:
                self._batch()
                save(self.candidates)
            except KeyboardInterrupt:
                self.candidates = finished
                if not self._alive():
                    raise
                stopped = "interrupted"
                break
            tell(self._line())
            stopped = self._stopped()
        if not self._alive():
            raise ValueError(f"methods: no configuration could be computed. {self.candidates[0].reason}")
        rows, seconds = self._spent()
        plan = self.plan
        return Tuned(
            self.candidates, list(plan.metrics), plan.rule, self.inputs, rows, seconds, stopped, self.space.left_out
        )

    def _batch(self) -> None:
        """Propose some, race them against those that are left from earlier ones, and note how good each is."""
        reference = self._leader()
        new = self._proposed()
        self.candidates = [*self.candidates, *new]
        self._race()
        reference = reference or self._leader()
        if reference is None:
            return
        for one in (reference, *new):
            if not one.values and not one.reason:
                one.values = estimated(one, reference) + ([one.cost] if self.plan.rule.cost and one.cost else [])

    def _proposed(self) -> list[Candidate]:
        done, rule = len(self.candidates), self.plan.rule
        batch = 1 + max((one.batch for one in self.candidates), default=-1)
        directions = ["maximize" if sign > 0 else "minimize" for sign in rule.signs]
        found = search.propose(
            self.space.configurations,
            [(one.configuration, one.values) for one in self.candidates if one.values],
            {one.configuration for one in self.candidates},
            [*directions, *(["minimize"] if rule.cost else [])],
            min(BATCH, self.plan.trials - done),
            f"{self.plan.seed}/{batch}",
        )
        return [self.bench.new(done + at, batch, one) for at, one in enumerate(found)]

    def _race(self) -> None:
        """Measure those that may be the best on more and more inputs, and drop who surely is no better."""
        rule, racing = self.plan.rule, self._alive()
        for count in rounds(self.inputs):
            self.bench.extend(racing, count)
            left = rule.survivors([one for one in racing if one.alive], count)
            for one in racing:
                one.alive = one in left
            racing = rule.undecided(left[0], self._alive(), count) if left else []
            if len(racing) < 2 or self._late():
                return

    def _alive(self) -> list[Candidate]:
        return [one for one in self.candidates if one.alive]

    def _leader(self) -> Candidate | None:
        alive = [one for one in self._alive() if one.inputs]
        return self.plan.rule.front(alive)[0] if alive else None

    def _stopped(self) -> Stopped | None:
        if len(self.candidates) >= self.plan.trials:
            return "trials"
        if len(self.candidates) == len(self.space.configurations):
            return "exhausted"
        return "seconds" if self._late() and self.candidates else None

    def _late(self) -> bool:
        return time.perf_counter() - self.began >= self.plan.seconds

    def _rows(self) -> int:
        return self.scorer.rows + self.scorer.rows_backward

    def _spent(self) -> tuple[int, float]:
        """Model rows, those of the unperturbed inputs included, and seconds, with those of earlier runs."""
        rows, seconds, earlier = self.before
        return round(earlier) + self._rows() - rows, seconds + time.perf_counter() - self.began

    def _line(self) -> str:
        leader = self._leader()
        rows, seconds = self._spent()
        spent = f"{len(self.candidates)} trials, {rows:,} model rows, {seconds:.0f} s"
        if leader is None:
            return spent
        name, mean = next(iter(self.plan.metrics)), float(leader.scores[0].mean())
        return f"{spent}: {name} {mean:.4g} on {leader.inputs:,} inputs by {leader.configuration.canonical}"
