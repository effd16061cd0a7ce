"""``verax.tune``: batches of proposals race against the best so far, until the budget is spent."""

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from verax.attribution.base import Modality
from verax.attribution.family import check_background
from verax.core.display import escape
from verax.core.warn import once_per_call
from verax.evaluation.engine import problem_facts
from verax.metrics.base import Kind
from verax.problem.problem import Problem, checked_problem
from verax.scoring.meter import Cost, Meter, Rows
from verax.tuning.measure import Bench
from verax.tuning.questions import TunedByQuestion, by_question
from verax.tuning.race import Candidate, estimated, rounds
from verax.tuning.result import Stopped, Tuned
from verax.tuning.space import Space, optuna, propose, space_of
from verax.tuning.store import SearchSettings, TrialsFile, checked_store, facts_of, shuffled_problem

BATCH = 16  # trials that are proposed together: they share model rows, and each batch learns from those before
_EVERY = 5.0  # seconds between two lines of progress within a batch
Tell = Callable[[str], None]


def tune(
    problem: Problem,
    methods: Any = None,
    metric: Any = None,
    *,
    question: Kind | None = None,
    trials: int = 200,
    seconds: float | None = None,
    seed: int = 0,
    store: str | os.PathLike[str] | None = None,
) -> Tuned | TunedByQuestion:
    """Find the attribution method and the settings that explain a model best, for each of two questions.

    *What would a small change of the input do* is decided by the effect correlation under noise, *what made the score
    what it is* by the effect correlation under removal. One search answers both and shares attributions.

    It needs Optuna: ``pip install 'verax[tune]'``, which brings what ``plot()`` needs as well.

    Optuna proposes configurations in batches. A batch is measured together with the best so far on few inputs, then on
    more and more, up to all. Who surely is no better than another one, by their differences on the same inputs, is
    dropped on the way; who may be better, but surely not by more than the tolerance, is not taken further: 2 % of the
    best score, by 95 % intervals that may be looked at in every round. They take for granted that no difference to come
    is larger than those seen. With several metrics all that are left go on. Configurations that need the same model
    evaluations share them.

    Args:
        problem: The model, the rows, and what is asked about them; rows are used in a random order. Methods that need
            gradients need a torch module, and those that compare with training rows need a background.
        methods: Names such as ``("lime", "SmoothGrad")``, or configurations of your own, or both. A method of the paper
            is taken with all settings of its grid, one that removes features with several budgets, a class of your own
            with its defaults. None for every method that can be used, but for the references Random and Edges.
        metric: To search by something else: a name such as ``"dpc"``, ``"pc"`` or ``"infidelity"``, which stands for
            the metric with its defaults, or a metric object. Of several, ``("dpc", "pc", "cost")``, all that no other
            beats are found; ``"cost"`` is the number of model rows per explained input. Objects that share a name have
            columns by their short form. Where a metric's ``sigma`` is ``"std"``, LIME by name is also tried with such
            noise.
        question: ``"local"`` (a small change) or ``"baseline"`` (what made the score), to ask one alone.
        trials: Configurations to try at most, those in the store included.
        seconds: Stop after so long: nothing starts that would take longer, at the pace of what was measured before. At
            least one batch is measured on its first inputs, however long that takes.
        seed: Same seed, same search.
        store: A ``.parquet`` file. After every batch it holds all trials; called again with the same arguments, the
            search goes on from there, also with more trials or more seconds.

    Returns:
        The results: ``tuned["local"].best`` and ``tuned["baseline"].best``, or ``tuned.best`` where the call names a
        question or a metric: ready to be called, and as ``.best.code`` to be pasted. With ``answer`` (what to
        believe, and whether it beats a random explanation), ``score``, ``equals``, ``table``, ``pareto``, ``plot()``.

    Lines on stderr, ten seconds apart, say how far it is. Interrupted with Ctrl-C, the search ends with the batches
    that were finished.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> problem = verax.Problem(torch.nn.Linear(4, 2), torch.randn(40, 4))
        >>> tuned = tune(problem, methods=("gradient", "vargrad", "random", "occlusion"), trials=10)
        >>> tuned["local"].best, type(tuned["baseline"].best).__name__
        (Gradient(), 'Occlusion')
        >>> print(tuned["local"].best.code)
        from verax.attribution import Gradient
        Gradient()
        >>> tuned.table.height, tuned["local"].best(problem).shape
        (10, torch.Size([40, 4]))
    """
    optuna()  # raises before any work where it is missing
    checked_problem(problem)
    return search(problem, methods, SearchSettings.checked(trials, seconds, seed, question, metric, problem), store)


def search(
    problem: Problem,
    methods: Any,
    settings: SearchSettings,
    store: str | os.PathLike[str] | None = None,
    tell: Tell | None = None,
) -> Tuned | TunedByQuestion:
    """As ``tune`` does; ``tell`` is called with a line of text after every batch, and every few seconds within one."""
    path = checked_store(store)
    with once_per_call():
        meter = Meter(problem.scorer.counts)
        shuffled, clean, place = shuffled_problem(problem, settings.seed)
        modality: Modality = "image" if problem.inputs.ndim == 4 else "tabular"
        check_background(problem)
        space = space_of(methods, modality, shuffled, settings.std)
        file = (
            None if path is None else TrialsFile(path, facts_of(settings, shuffled, space), clean, [*settings.metrics])
        )
        known = [] if file is None else file.read(space.configurations)
        show = _progress(tell)
        bench = Bench(shuffled, settings.metrics, space.configurations, place, show, settings.by_question)
        under_way = _Search(settings, space, bench, known, meter, problem_facts(problem))
        tuned = under_way.run(file, show)
        return by_question(tuned, bench) if settings.by_question else tuned


def _progress(tell: Tell | None) -> Callable[..., None]:
    """What shows a line at the end of a batch, or within one: to whom the call names, or on stderr, but rarely."""
    last = time.monotonic()

    def show(line: str, within: bool = True) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < (2 * _EVERY if tell is None else _EVERY if within else 0.0):
            return
        last = now
        line = f"... {line}" if within else line
        if tell is not None:
            tell(line)
        else:
            sys.stderr.write(escape(f"tune: {line}") + "\n")

    return show


@dataclass
class _Search:
    """A search under way: all candidates so far, and what it cost, earlier runs included."""

    settings: SearchSettings
    space: Space
    bench: Bench
    candidates: list[Candidate]
    meter: Meter
    facts: Mapping[str, str]

    def __post_init__(self) -> None:
        self.inputs = len(self.bench.problem)
        rows, seconds = (math.fsum(getattr(each, name) for each in self.candidates) for name in ("rows", "seconds"))
        self.earlier = Cost(Rows(round(rows)), seconds)

    def run(self, file: TrialsFile | None, show: Callable[..., None]) -> Tuned:
        stopped: Stopped | None = self._stopped()
        while stopped is None:
            finished = [replace(candidate) for candidate in self.candidates]  # a batch changes those that race along
            try:
                if not self._batch():
                    stopped = "seconds"
                    break
                if file is not None:
                    file.write(self.candidates)
            except KeyboardInterrupt:
                self.candidates = finished
                if not self._alive():
                    raise
                stopped = "interrupted"
            else:
                show(self._line(), within=False)
                stopped = self._stopped()
        if not self._alive():
            raise ValueError(f"methods: no configuration could be computed. {self.candidates[0].reason}")
        cost, about = self._cost(), (self.settings.metrics, self.settings.rule, self.inputs)
        return Tuned(self.candidates, *about, cost.rows.total, cost.seconds, stopped, self.space.left_out, self.facts)

    def _batch(self) -> bool:
        """Propose some, race them against those that are left from earlier ones, and note how good each is.

        Returns whether there was time for any.
        """
        reference, new = self._leader(), self._proposed()
        while new and self.candidates and self._late(self.bench.seconds(new, rounds(self.inputs)[0])):
            new.pop()  # there is no time for as many on the first inputs
        if not new:
            return False
        self.candidates = [*self.candidates, *new]
        self._race()
        reference = reference or self._leader()
        if reference is None:
            return True
        for candidate in (reference, *new):
            if not candidate.values and not candidate.reason:
                cost = [candidate.cost] if self.settings.rule.cost and candidate.cost else []
                candidate.values = estimated(candidate, reference) + cost
        return True

    def _proposed(self) -> list[Candidate]:
        done, rule = len(self.candidates), self.settings.rule
        batch = 1 + max((candidate.batch for candidate in self.candidates), default=-1)
        directions = ["maximize" if sign > 0 else "minimize" for sign in rule.signs]
        proposals = propose(
            self.space.configurations,
            [(candidate.configuration, candidate.values) for candidate in self.candidates if candidate.values],
            {candidate.configuration for candidate in self.candidates},
            [*directions, *(["minimize"] if rule.cost else [])],
            min(BATCH, self.settings.trials - done),
            f"{self.settings.seed}/{batch}",
        )
        return [self.bench.new(done + at, batch, configuration) for at, configuration in enumerate(proposals)]

    def _race(self) -> None:
        """Measure those that may be the best on more and more inputs, and drop who surely is no better."""
        rule, racing = self.settings.rule, self._alive()
        for count in rounds(self.inputs):
            behind = [candidate for candidate in racing if candidate.inputs < count]
            if all(candidate.inputs for candidate in behind) and self._late(self.bench.seconds(behind, count)):
                return
            self.bench.extend(racing, count)
            left = rule.survivors([candidate for candidate in racing if candidate.alive], count)
            for candidate in racing:
                candidate.alive = candidate in left
            racing = rule.undecided(left[0], self._alive(), count) if left else []
            if len(racing) < 2:
                return

    def _alive(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.alive]

    def _leader(self) -> Candidate | None:
        alive = [candidate for candidate in self._alive() if candidate.inputs]
        return self.settings.rule.front(alive)[0] if alive else None

    def _stopped(self) -> Stopped | None:
        if len(self.candidates) >= self.settings.trials:
            return "trials"
        if len(self.candidates) == len(self.space.configurations):
            return "exhausted"
        return "seconds" if self.candidates and self._late(0.0) else None

    def _late(self, further: float) -> bool:
        """Whether the time would be over after so many seconds more."""
        return self.meter.total().seconds + further >= self.settings.seconds

    def _cost(self) -> Cost:
        return self.earlier + self.meter.total()

    def _line(self) -> str:
        leader, cost = self._leader(), self._cost()
        spent = f"{len(self.candidates)} trials, {cost.rows.total:,} model rows, {cost.seconds:.0f} s"
        if leader is None:
            return spent
        name, mean = next(iter(self.settings.metrics)), float(leader.scores[0].mean())
        return f"{spent}: {name} {mean:.4g} on {leader.inputs:,} inputs by {leader.configuration.canonical}"
