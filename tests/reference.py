"""Slow reference: the formulas of the definitions as plain loops, for one input and one attribution at a time.

Written from the definitions alone and sharing no code with the package. Inputs, baselines and attributions are flat
NumPy rows; ``groups`` gives the group number of every element; ``score`` maps one row to the score of its class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Row = Any
Score = Callable[[Row], float]


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def feature_of_element(groups: Sequence[int]) -> list[int]:
    """Features are numbered by ascending group number; -1 for elements that are never removed."""
    names = sorted({int(group) for group in groups if group >= 0})
    return [names.index(int(group)) if group >= 0 else -1 for group in groups]


def feature_sums(values: Row, groups: Sequence[int]) -> list[float]:
    features = feature_of_element(groups)
    sums = [0.0] * (max(features) + 1)
    for value, feature in zip(values, features, strict=True):
        if feature >= 0:
            sums[feature] += float(value)
    return sums


def ranking(sums: Sequence[float], order: str) -> list[int]:
    """Most important first; Python's sort is stable, so ties keep the order of the features."""
    return sorted(range(len(sums)), key=lambda feature: -abs(sums[feature]) if order == "magnitude" else -sums[feature])


def steps_taken(steps: int, features: int) -> int:
    return min(steps, features)


@dataclass
class Curve:
    """One perturbation curve: the removed sets, their rows and scores, and what each step removed."""

    rows: list[Row]
    scores: list[float]
    attribution: list[float]
    direction: list[float]


def perturbation_curve(
    score: Score, x: Row, baseline: Row, attribution: Row, groups: Sequence[int], sequence: Sequence[int], steps: int
) -> Curve:
    features = feature_of_element(groups)
    amount, distance = feature_sums(attribution, groups), feature_sums(x - baseline, groups)
    cuts = [(t * len(sequence)) // steps for t in range(steps + 1)]
    rows = []
    for cut in cuts:
        row = x.copy()
        for element, feature in enumerate(features):
            if feature in sequence[:cut]:
                row[element] = baseline[element]
        rows.append(row)
    removed = [sequence[start:stop] for start, stop in pairwise(cuts)]
    return Curve(
        rows,
        [score(row) for row in rows],
        [sum(amount[feature] for feature in step) for step in removed],
        [sum(distance[feature] for feature in step) for step in removed],
    )


def guided(
    score: Score, x: Row, baseline: Row, attribution: Row, groups: Sequence[int], order: str, steps: int
) -> tuple[Curve, Curve]:
    """The MoRF curve and the LeRF curve, which is its exact reverse."""
    sequence = ranking(feature_sums(attribution, groups), order)
    morf = perturbation_curve(score, x, baseline, attribution, groups, sequence, steps)
    lerf = perturbation_curve(score, x, baseline, attribution, groups, sequence[::-1], steps)
    return morf, lerf


def signed_changes(curve: Curve, reading: str) -> list[float]:
    """``PC_t`` for reading ``"pc"``, else ``DPC_t``."""
    changes = []
    for t in range(1, len(curve.scores)):
        change = curve.scores[t] - curve.scores[t - 1]
        attribution, direction = sign(curve.attribution[t - 1]), sign(curve.direction[t - 1])
        if reading == "signed":
            change *= abs(attribution) * direction
        elif reading in ("magnitude", "literal"):
            change *= attribution * direction
        changes.append(change)
    return changes


def metric_curve(curve: Curve, reading: str, form: str) -> list[float]:
    changes = signed_changes(curve, reading)
    if form == "increments":
        return [0.0, *changes]
    points = [curve.scores[0]]
    for change in changes:
        points.append(points[-1] + change)
    return points


def predicted_drops(x: Row, baseline: Row, attribution: Row, groups: Sequence[int], order: str) -> list[float]:
    """What each feature's attribution predicts for its removal; the signed order has the attribution's sign already."""
    if order == "magnitude":
        return feature_sums(attribution * (x - baseline), groups)
    amounts, distances = feature_sums(attribution, groups), feature_sums(x - baseline, groups)
    return [abs(amount) * distance for amount, distance in zip(amounts, distances, strict=True)]


def ruled_changes(
    score: Score,
    x: Row,
    baseline: Row,
    attribution: Row,
    groups: Sequence[int],
    order: str,
    steps: int,
    rule: str,
    last_first: bool,
) -> list[float]:
    """``DPC_t`` under the rules "dot" and "coherent", one step and one removed feature after the other."""
    drops = predicted_drops(x, baseline, attribution, groups, order)
    sequence = ranking(feature_sums(attribution, groups), order)[:: -1 if last_first else 1]
    owner = feature_of_element(groups)
    row, changes = x.copy(), []

    def without(gone: Sequence[int]) -> float:
        nonlocal row
        row = np.array([b if f in gone else r for r, b, f in zip(row, baseline, owner, strict=True)])
        return score(row)

    before = score(x)
    for t in range(steps):
        step = sequence[(t * len(sequence)) // steps : ((t + 1) * len(sequence)) // steps]
        if rule == "dot":
            after = without(step)
            changes.append(sign(sum(drops[feature] for feature in step)) * (after - before))
        else:
            fallen = without([feature for feature in step if drops[feature] > 0])
            risen = without([feature for feature in step if drops[feature] < 0])
            changes.append((fallen - before) - (risen - fallen))
            after = without(step)
        before = after
    return changes


def weighted_drop(curve: Sequence[float]) -> float:
    """The weighted area between a curve's first point and the curve."""
    return weighted_abpc([curve[0]] * len(curve), curve)


def weighted_abpc(lerf: Sequence[float], morf: Sequence[float]) -> float:
    count = len(lerf)
    weights = [((count - i + 1) / count) ** 3 for i in range(1, count + 1)]
    total = 0.0
    for upper, lower, weight in zip(lerf, morf, weights, strict=True):
        total += (upper - lower) * weight
    return total / sum(weights[1:])


def infidelity(
    score: Score, x: Row, perturbed: Sequence[Row], attribution: Row, normalize: bool, effect: str = "dot"
) -> float:
    """Infidelity from given perturbed copies of the input; each element is a feature."""
    predicted = []
    for row in perturbed:
        moves = [float(u - v) if effect == "dot" else float(u != v) for u, v in zip(x, row, strict=True)]
        predicted.append(sum(move * float(a) for move, a in zip(moves, attribution, strict=True)))
    actual = [score(x) - score(row) for row in perturbed]
    beta, free = 1.0, len(actual)
    if normalize:
        square = sum(p * p for p in predicted)
        beta = sum(p * s for p, s in zip(predicted, actual, strict=True)) / (square if square != 0 else 1.0)
        beta, free = max(beta, 0.0), free - 1
    return sum((beta * p - s) ** 2 for p, s in zip(predicted, actual, strict=True)) / free


@dataclass
class TwoLayers:
    """Weights of a small classifier, ``softmax(outer tanh(inner x))``, and its scores in NumPy."""

    inner: Row
    outer: Row

    @classmethod
    def random(cls, rng: np.random.Generator, elements: int, hidden: int = 6, classes: int = 3) -> "TwoLayers":
        return cls(
            rng.normal(size=(hidden, elements)) / elements**0.5,
            rng.normal(size=(classes, hidden)),
        )

    def probabilities(self, row: Row) -> Row:
        logits = self.outer @ np.tanh(self.inner @ row.ravel())
        exponentials = np.exp(logits - logits.max())
        return exponentials / exponentials.sum()

    def score(self, target: int) -> Score:
        return lambda row: float(self.probabilities(row)[target])
