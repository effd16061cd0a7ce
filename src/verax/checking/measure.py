"""What requirements need of some inputs: scores of metrics, limits and reasons, each measured once."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import torch

from verax.attribution import METHODS, Attribution, Random
from verax.checking.reason_metrics import ReasonMetric, reasons_for
from verax.checking.reasons import named_reasons
from verax.checking.requirement import Measure, Requirement
from verax.checking.stability import neighbours, overlap_with_neighbour
from verax.core.blocks import pieces
from verax.core.registry import from_dict, parse_short_form, unknown
from verax.core.shapes import Float, Int
from verax.evaluation.batches import of_rows
from verax.evaluation.engine import Call, check_call
from verax.evaluation.evaluate import evaluate
from verax.evaluation.explained_class import with_known_class
from verax.evaluation.limits import limits
from verax.evaluation.ranking import REFERENCE
from verax.metrics.about import class_counts
from verax.metrics.base import Metric
from verax.metrics.choose import fewest_features
from verax.metrics.limit_reading import LIMITED, has_limits
from verax.problem.attributed import attributed, fitted_attributions, plain_attributions
from verax.problem.problem import Problem
from verax.scoring.meter import Cost, Meter
from verax.scoring.meter import Rows as ModelRows
from verax.statistics.anytime import ScoreRange

BLOCK = 512  # inputs that are measured together, so that the model gets the same batches from any number of workers

Rows = Int[np.ndarray, " n"]


@dataclass(frozen=True)
class Block:
    """Inputs that are measured together."""

    rows: Rows  # their numbers
    neighbours: Rows  # the number of the nearest other input of the whole check; -1 where there is none, or none counts


@dataclass
class Measured:
    """What was measured of some inputs, in arrays, which processes can send; scores by the short form of a metric."""

    rows: Rows  # numbers of the inputs, in the order in which they were measured
    classes: Counter[int]  # how many inputs there were of each class that was tracked
    scores: dict[str, Float[np.ndarray, "a n"]] = field(default_factory=dict)  # one per attribution and input
    ranges: dict[str, ScoreRange] = field(default_factory=dict)  # where they can lie, as the tracked score allows
    # where the limit counts: the chance and the best of each input, NaN where not known; and whether they are exact
    limits: dict[str, Float[np.ndarray, "2 n"]] = field(default_factory=dict)
    exact: dict[str, bool] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    @classmethod
    def joined(cls, parts: Sequence["Measured"]) -> "Measured":
        """What was measured of the inputs of all parts; ranges are those of the first, before which nothing stopped."""
        first = parts[0]
        scores = {name: np.concatenate([part.scores[name] for part in parts], axis=1) for name in first.scores}
        limits = {name: np.concatenate([part.limits[name] for part in parts], axis=1) for name in first.limits}
        exact = {name: all(part.exact[name] for part in parts) for name in first.exact}
        classes = sum((part.classes for part in parts), Counter[int]())
        cost = sum((part.cost for part in parts), Cost())
        return cls(np.concatenate([part.rows for part in parts]), classes, scores, first.ranges, limits, exact, cost)


@dataclass(frozen=True)
class Plan:
    """Everything that is measured, checked before any work."""

    problem: Problem  # all inputs
    attributions: Mapping[str, Any]  # by name: arrays of all inputs and methods; also those that are compared with
    explanations: tuple[str, ...]  # names of those that requirements are about
    requirements: Mapping[int, Requirement]  # what must hold, by number, with metrics as they are measured here

    @property
    def measures(self) -> dict[str, Measure]:
        """Distinct metrics by their short form."""
        return {requirement.metric.short_form: requirement.metric for requirement in self.requirements.values()}

    def part(self, numbers: Iterable[int]) -> "Plan":
        """What some of the requirements need, and nothing else."""
        some = {number: self.requirements[number] for number in numbers}
        needed = {name for must in some.values() for name in (*self.about(must), *reference_of(must))}
        kept = {name: attribution for name, attribution in self.attributions.items() if name in needed}
        return replace(self, attributions=kept, requirements=some)

    def about(self, requirement: Requirement) -> tuple[str, ...]:
        """The explanations that a requirement is about."""
        return self.explanations if requirement.explanation is None else (requirement.explanation,)

    def blocks(self, rows: Rows) -> tuple[list[Block], Cost]:
        """Inputs in blocks that are measured together, with their neighbours where these count, and what that cost."""
        meter = Meter(self.problem.scorer.counts)
        beside = np.full(len(rows), -1)
        if any(_is_over_neighbours(measure) for measure in self.measures.values()):
            beside = neighbours(self.problem, torch.from_numpy(rows)).numpy()
        return [Block(rows[part], beside[part]) for part in pieces(len(rows), BLOCK)], meter.total()

    def measure(self, block: Block) -> Measured:
        """Measure some inputs."""
        problem, attributions = self._of(block.rows)
        measured = Measured(block.rows, Counter(class_counts(problem.classes)))
        metrics = {name: metric for name, metric in self.measures.items() if isinstance(metric, Metric)}
        if metrics:
            evaluation = evaluate(problem, attributions, metrics)
            measured.cost += Cost(ModelRows(evaluation.rows, evaluation.rows_backward), evaluation.seconds)
            for name, result in evaluation.items():
                measured.scores[name] = result.scores.detach().double().cpu().numpy()
                measured.ranges[name] = metrics[name].score_range(result.context.largest_change)
        alike: dict[tuple[Any, ...], list[ReasonMetric]] = {}  # totals of reasons that are found in one call
        for measure in self.measures.values():
            if _is_over_neighbours(measure):
                scores, cost = self._beside_neighbours(block, measure)
                measured.scores[measure.short_form] = scores
                measured.cost += cost
            elif isinstance(measure, ReasonMetric):
                alike.setdefault((measure.k, measure.tolerance, measure.direction), []).append(measure)
            if isinstance(measure, ReasonMetric):
                measured.ranges[measure.short_form] = measure.score_range(math.inf)
        for totals in alike.values():
            reasons = reasons_for(problem, attributions, totals)
            measured.scores |= {total.short_form: total.of(reasons).numpy() for total in totals}
            measured.cost += reasons.cost
        held = [requirement.metric for requirement in self.requirements.values() if requirement.held.kind == "limit"]
        if held:
            known = limits(problem, {metric.short_form: metric for metric in held})
            first = next(iter(known.values()))
            measured.cost += Cost(ModelRows(first.rows), first.seconds)
            for name, limit in known.items():
                measured.limits[name] = torch.stack((limit.random, limit.best_scores)).double().cpu().numpy()
                measured.exact[name] = limit.exact
        return measured

    def _of(self, rows: Rows) -> tuple[Problem, dict[str, Any]]:
        """Some inputs, and their attributions."""
        shape = tuple(self.problem.inputs.shape)
        return self.problem[rows], {name: of_rows(array, rows, shape) for name, array in self.attributions.items()}

    def _beside_neighbours(self, block: Block, metric: ReasonMetric) -> tuple[Float[np.ndarray, "a n"], Cost]:
        """The part of the reasons that each input shares with its neighbour, which may be of another block."""
        has, count = block.neighbours >= 0, len(block.rows)
        rows, place = np.unique(np.concatenate((block.rows, block.neighbours[has])), return_inverse=True)
        call, top, _ = named_reasons(*self._of(rows), metric.k, metric.direction)
        nearest = torch.full((count,), -1)
        nearest[torch.from_numpy(has)] = torch.from_numpy(place[count:])
        stays = [overlap_with_neighbour(named[place[:count]], named, nearest) for named in top]
        return torch.stack(stays).numpy(), call.spent


def _is_over_neighbours(measure: Measure) -> TypeGuard[ReasonMetric]:
    return isinstance(measure, ReasonMetric) and (measure.total, measure.over) == ("stability", "neighbours")


def planned(problem: Any, attributions: Any, requirements: tuple[Requirement, ...]) -> Plan:
    """Check what a check is given, before any work."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: expected a verax.Problem, got {type(problem).__name__}; make one of model and rows.")
    whose = with_known_class(attributions, problem, per_row=True)
    problem = whose.problem
    named = _named(problem, plain_attributions(fitted_attributions(whose.attributions, problem.rows.fitted)))
    others = {requirement.held.name for requirement in requirements if requirement.held.kind == "other"}
    explanations = tuple(name for name in named if name not in others)
    for number, requirement in enumerate(requirements):
        if requirement.explanation is not None and requirement.explanation not in named:
            raise ValueError(f"requirements[{number}].explanation: {unknown(requirement.explanation, named)}")
    if not explanations and not all(requirement.explanation for requirement in requirements):
        raise ValueError("attributions: all of them are compared with, so none is left to be checked; say explanation.")
    random = {requirement.seed for requirement in requirements if requirement.held.kind == "random"}
    added: dict[str, Any] = {_random_name(seed): Random(seed=seed) for seed in sorted(random)}
    for name in sorted(others - {*named}):
        try:
            added[name] = method_of(name)
        except (ValueError, TypeError) as error:
            raise ValueError(f"threshold: expected {', '.join(named)} or a method, got {error}") from None
    if twice := [name for name in added if name in named]:
        raise ValueError(f"attributions: {twice[0]!r} is the name of the reference; call yours otherwise.")
    fewest = fewest_features(problem)
    measured = [replace(requirement, metric=requirement.on(problem, fewest)) for requirement in requirements]
    plan = Plan(problem, named | added, explanations, dict(enumerate(measured)))
    _check(plan)
    return plan


def reference_of(requirement: Requirement) -> tuple[str, ...]:
    """The name of the explanation that a requirement compares with, if it does."""
    if requirement.held.kind == "random":
        return (_random_name(requirement.seed),)
    return (requirement.held.name,) if requirement.held.kind == "other" else ()


def _random_name(seed: int) -> str:
    return REFERENCE if seed == 0 else f"{REFERENCE}, seed {seed}"


def _named(problem: Problem, attributions: Any) -> dict[str, Any]:
    """Attributions by name, whatever their form."""
    if isinstance(attributions, Mapping):
        if not attributions or not all(isinstance(name, str) for name in attributions):
            raise TypeError("attributions: expected a dict of names to arrays or methods, got other keys or none.")
        return dict(attributions)
    if isinstance(attributions, Attribution):
        return {type(attributions).__name__: attributions}
    layout = attributed(problem, problem.order("attributions", attributions)).layout
    if layout.form == "one":
        return {"explanation": attributions}
    return {f"explanation {number}": array for number, array in enumerate(attributions)}


def method_of(words: str) -> Attribution:
    """The method that a short form means, such as ``KernelShap(samples=256)``; capital letters do not matter."""
    method_name, settings = parse_short_form(words)
    name = {known.lower(): known for known in METHODS}.get(method_name.lower(), method_name)
    try:
        method: Attribution = from_dict(METHODS.get(name), settings)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{words}: {error}") from None
    return method


def _check(plan: Plan) -> None:
    """Raise for what cannot be measured."""
    problem = plan.problem
    zeros = torch.zeros(()).expand(problem.inputs.shape)  # in the place of methods; they take no memory
    arrays = {name: zeros if isinstance(item, Attribution) else item for name, item in plan.attributions.items()}
    rated = attributed(problem, problem.order("attributions", arrays))
    if metrics := {name: metric for name, metric in plan.measures.items() if isinstance(metric, Metric)}:
        check_call(Call(rated, metrics))
    for number, requirement in plan.requirements.items():
        where, metric, inputs = f"requirements[{number}]", requirement.metric, requirement.inputs
        if inputs is not None and inputs > len(problem):
            raise ValueError(f"{where}.inputs: expected at most the {len(problem)} there are, got {inputs}.")
        if requirement.held.kind == "limit" and not has_limits(metric):
            raise ValueError(f"{where}.threshold: limits are {LIMITED}, got {metric.name}.")
        if isinstance(metric, ReasonMetric) and metric.total == "stability":
            _check_stability(plan, requirement, where)
        if requirement.segments is not None:
            requirement.segments.names(problem)


def _check_stability(plan: Plan, requirement: Requirement, where: str) -> None:
    over = requirement.metric.over
    arrays = [name for name in plan.about(requirement) if not isinstance(plan.attributions[name], Attribution)]
    if over != "neighbours" and arrays:
        raise ValueError(
            f"{where}.metric: stability over {over} needs a method, which can be computed again, got an array for "
            f"{arrays[0]!r}; say over=neighbours."
        )
    if over == "background" and plan.problem.background is None:
        raise ValueError(f"{where}.metric: stability over the background needs one; pass background=train_inputs.")
