"""``verax.check``: does an explanation reach what was required of it? Passed, failed or undecided, by intervals."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.checking.measure import Block, Measured, Plan, Rows, planned, reference_of
from verax.checking.requirement import Requirement, requirements_of
from verax.checking.result import Check, Checked, Sample, inputs_to_decide, outcome_of
from verax.core.arrays import as_tensor
from verax.core.files import tensor_hash
from verax.core.noise import random_order
from verax.core.warn import once_per_call
from verax.evaluation.batches import looks
from verax.evaluation.engine import about_problem
from verax.problem.problem import Problem
from verax.scoring.meter import Cost
from verax.statistics.anytime import ScoreRange
from verax.statistics.paired import real_differences

Run = Callable[[Plan, Sequence[int], Iterable[Block]], Iterable[Measured]]


def check(problem: Problem, attributions: Any, requirements: Any) -> Check:
    """Check whether explanations reach what is required of them; an interval decides, not a mean.

    A requirement is passed if the whole interval is on the right side of its threshold, failed if it is on the wrong
    one, and otherwise undecided, with the number of inputs that would decide. A requirement that is false passes with a
    probability of at most ``(1 - level) / 2``, in each of its segments and over all of them; with
    ``until="decided"``, whenever the check stops.

    Intervals are for inputs like these. Of scores with bounds of their own (correlations, shares of reasons) they hold
    for any distribution; of others they are Student's t, which rare extreme scores make too short.

    Args:
        problem: The model, the rows, and what is asked about them.
        attributions: As in ``verax.evaluate``: arrays, or methods, which are computed.
        requirements: One ``verax.checking.Requirement`` or dict of its arguments, or a list of them.

    Example:
        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(200, 8)
        >>> problem = verax.Problem(model, x, target=1)
        >>> exact = x * (model.weight[1] - model.weight[0]).detach()
        >>> must = [{"metric": "pc", "threshold": "better than random", "justification": "else it says nothing"},
        ...     {"metric": "false_reasons(k=2)", "threshold": 0.05, "segments": "class"}]
        >>> checked = verax.check(problem, {"exact": exact}, must)
        >>> checked.outcome, [one.outcome for one in checked.requirements]
        ('passed', ['passed', 'passed', 'passed'])
    """
    plan = planned(problem, attributions, requirements_of(requirements))

    with once_per_call():
        return run_check(plan, lambda part, numbers, blocks: map(part.measure, blocks))


def run_check(plan: Plan, run: Run) -> Check:
    """Draw inputs, have them measured, and decide."""
    by_draw: dict[tuple[int | None, int, str | None], list[int]] = {}
    for number, requirement in plan.requirements.items():
        by_draw.setdefault((requirement.inputs, requirement.seed, requirement.until), []).append(number)
    lines: list[Checked] = []
    spent, classes = Cost(), Counter[int]()
    for draw, numbers in by_draw.items():
        part, parts = plan.part(numbers), list[Measured]()
        for look in _looks(len(plan.problem), *draw):
            blocks, cost = part.blocks(look)
            parts = [Measured.joined([*parts, *run(part, numbers, blocks)])]
            spent += cost
            if all(line.outcome != "undecided" for line in _checked(part, parts[0])):
                break
        lines += _checked(part, parts[0], final=True)
        spent += parts[0].cost
        classes = max(classes, parts[0].classes, key=Counter.total)
    every = tuple(sorted(lines, key=lambda line: line.requirement))
    return Check(every, tuple(plan.requirements.values()), spent, _facts(plan, classes))


def _looks(count: int, inputs: int | None, seed: int, until: str | None) -> Iterator[Rows]:
    """Inputs in a random order, all at once, or in growing blocks after each of which there is a look."""
    many = count if inputs is None else inputs
    order = random_order(torch.arange(many), count, seed).numpy()
    for look in looks(many, most=1 << 15) if until else [slice(0, many)]:
        yield np.sort(order[look])


def _checked(plan: Plan, measured: Measured, final: bool = False) -> Iterator[Checked]:
    """What is known of each requirement: one line per explanation and segment."""
    for number, requirement in plan.requirements.items():
        names: tuple[str, ...] = ("all",)
        places = np.zeros(len(measured.rows), dtype=int)
        if (divided := requirement.segments) is not None:
            names = tuple(f"{divided.words}: {name}" for name in divided.names(plan.problem))
            places = np.asarray(divided.places(plan.problem, measured.rows))
        for name in plan.about(requirement):
            sample, note = _sample(plan, measured, requirement, name)
            for place, segment in enumerate(names):
                which, level = torch.from_numpy(places == place), 1 - (1 - requirement.level) / len(names)
                line = partial(Checked, number, str(requirement), name, segment)
                yield _line(line, requirement, sample, which, level, note, final)


def _line(
    line: Callable[..., Checked],
    requirement: Requirement,
    sample: Sample,
    which: Tensor,
    level: float,
    note: str,
    final: bool,
) -> Checked:
    """The outcome among some of the inputs."""
    known = which & ~sample.values.isnan()
    sample = Sample(sample.values[known], sample.range, None if sample.whole is None else sample.whole[known])
    anytime, held = requirement.until is not None, requirement.held
    bound = {"number": held.value, "random": 0.0, "other": -held.value, "limit": held.value}[held.kind]
    direction = requirement.direction or "at least" if held.kind == "number" else "at least"
    decide = partial(outcome_of, bound=bound, direction=direction, strict=held.kind == "random")
    estimate = sample.estimate(level, anytime)
    outcome = "undecided" if note and decide(estimate) == "passed" else decide(estimate)
    open_ = final and outcome == "undecided" and not note
    missing = int(which.sum()) - int(known.sum())
    notes = (note, f"{missing:,} inputs could not be measured" * bool(missing), "no input" * (not known.any()))
    return line(
        outcome=outcome,
        value=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        bound=bound,
        direction=direction,
        inputs=int(known.sum()),
        needed=inputs_to_decide(sample, level, anytime, decide) if open_ else None,
        interval=sample.interval(anytime),
        note="; ".join(filter(None, notes)),
        digest=tensor_hash(sample.values),
    )


def _sample(plan: Plan, measured: Measured, requirement: Requirement, name: str) -> tuple[Sample, str]:
    """The numbers whose mean decides, and why they cannot say that it is passed."""
    metric, held = requirement.metric, requirement.held
    form, higher = metric.short_form, metric.higher_is_better
    scores = dict(zip(plan.attributions, torch.from_numpy(measured.scores[form]), strict=True))
    known = measured.ranges[form] if requirement.until else metric.score_range(math.inf)
    values = scores[name]
    if held.kind == "number":
        return Sample(values, known), ""
    between = ScoreRange(-known.width, known.width, known.certain) if known.width else ScoreRange()
    if held.kind == "limit":
        chance, best = torch.from_numpy(measured.limits[form])
        why = "" if measured.exact[form] else "limits are bounds from a search, so that it has at most this share"
        sense = 1 if higher else -1
        return Sample(sense * (values - chance), between, sense * (best - chance)), why
    other = scores[reference_of(requirement)[0]]
    first, second = (values, other) if higher else (other, values)
    return Sample(real_differences(first, second[None])[0], between), ""


def _facts(plan: Plan, classes: Mapping[int, int]) -> dict[str, str]:
    """What was checked, as far as the problem knows it: model, rows, arrays, methods."""
    problem, methods = plan.problem, {}
    facts = about_problem(problem).facts(dict(sorted(classes.items())))
    facts |= {"inputs": f"{len(problem):,}", "SHA-256 of the inputs": tensor_hash(problem.inputs)}
    for name, array in plan.attributions.items():
        if hasattr(array, "shape"):
            facts[f"SHA-256 of {name}"] = tensor_hash(as_tensor(f"attributions[{name!r}]", array))
        else:
            methods[f"method {name}"] = array.canonical
    return facts | methods
