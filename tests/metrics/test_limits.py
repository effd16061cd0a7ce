"""Limits of games: equal to brute force over all orders and signs, and never beaten by a search."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import trapezoid
from torch import Tensor

import verax
from verax.metrics import (
    Comprehensiveness,
    Deletion,
    DirectedPredictionChange,
    GuidedMetric,
    GuidedScores,
    Insertion,
    PredictionChange,
    Sufficiency,
    SymmetricRelevanceGain,
)
from verax.metrics.limit_reading import ChainReading, has_limits
from verax.metrics.limits import beam_extremes, beam_rows, exact_extremes
from verax.metrics.weighted_area import AnyScores

ORDERS = {"none": "magnitude", "magnitude": "magnitude", "signed": "signed", "literal": "literal"}


def weighted(factor: str, area: str = "between", curve: str = "cumulative", steps: int = 20) -> GuidedMetric:
    """PC where no sign is put on changes, DPC elsewhere."""
    kind: Any = PredictionChange if factor == "none" else DirectedPredictionChange
    found: GuidedMetric = kind(ORDERS[factor], area=area, curve=curve, steps=steps)
    return found


def factor_of(metric: GuidedMetric) -> str:
    return metric.order if isinstance(metric, DirectedPredictionChange) else "none"


AREAS = [weighted(factor, area) for factor in ORDERS for area in ("between", "morf")]
INCREMENTS = [weighted(factor, area, "increments") for factor in ORDERS for area in ("between", "morf")]
VIEWS: list[GuidedMetric] = [
    Deletion(),
    Insertion(),
    SymmetricRelevanceGain(),
    Comprehensiveness(),
    Sufficiency(),
    Comprehensiveness(shares=(0.3, 1)),
    Sufficiency(shares=(0.3, 1)),
    Comprehensiveness(shares="every"),
    Sufficiency(shares="every"),
]
EVERY = AREAS + INCREMENTS + VIEWS
named = pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.short_form)


def games(features: int, inputs: int = 3) -> tuple[Tensor, Tensor]:
    """Random scores of all removed sets, and random directions."""
    generator = torch.Generator().manual_seed(features)
    scores = torch.randn(inputs, 2**features, generator=generator, dtype=torch.float64)
    return scores, torch.randint(-1, 2, (inputs, features), generator=generator).double()


def additive(features: int, inputs: int = 3) -> tuple[Tensor, Tensor]:
    """Scores to which every feature adds its own part."""
    worth, direction = torch.randn(2, inputs, features, generator=torch.Generator().manual_seed(1)).double()
    removed = (torch.arange(2**features)[:, None] >> torch.arange(features)) % 2
    return -worth @ removed.double().T, direction.sign()


def marks(factor: str, features: int) -> np.ndarray:
    """Signs of attributions by place: all of them in magnitude order, falling ones in signed order, zeros too."""
    if factor == "none":
        return np.ones((1, features))
    if factor == "magnitude":
        return np.array(list(itertools.product((1, -1), repeat=features)))
    falling = [sorted(one, reverse=True) for one in itertools.combinations_with_replacement((1, 0, -1), features)]
    return np.array(falling)


def all_scores(scores: np.ndarray, direction: np.ndarray, metric: GuidedMetric) -> np.ndarray:
    """The score of every order and sign of one input, from its curves as the definitions have them."""
    features = len(direction)
    orders = np.array(list(itertools.permutations(range(features))))
    sign = marks(factor_of(metric), features)[None]
    curves, changes = [], []
    for sequence, own in ((orders, sign), (orders[:, ::-1], sign[..., ::-1])):
        sets = np.concatenate((np.zeros((len(sequence), 1), int), np.cumsum(1 << sequence, axis=1)), axis=1)
        towards = direction[sequence][:, None]
        factor = {"none": 1, "magnitude": own * towards, "signed": abs(own) * towards, "literal": own * towards}
        changes.append(factor[factor_of(metric)] * np.diff(scores[sets])[:, None])
        start = np.broadcast_to(scores[0], (*changes[-1].shape[:2], 1))
        curves.append(np.concatenate((start, changes[-1]), axis=2).cumsum(2))
    if isinstance(metric, PredictionChange | DirectedPredictionChange):
        return area(metric, curves, changes)
    return view(metric, *curves)


def area(metric: PredictionChange | DirectedPredictionChange, curves: Any, changes: Any) -> np.ndarray:
    """The weighted area, by its definition."""
    if metric.curve == "increments":
        curves = [np.concatenate((np.zeros_like(one[..., :1]), one), axis=2) for one in changes]
    points = curves[0].shape[2]
    weights = ((points - np.arange(points)) / points) ** 3
    upper = curves[1] if metric.area == "between" else curves[0][..., :1]
    found: np.ndarray = ((upper - curves[0]) * weights).sum(2) / weights[1:].sum()
    return found


def view(metric: GuidedMetric, morf: np.ndarray, lerf: np.ndarray) -> np.ndarray:
    """Deletion and what is like it, by their definitions."""
    areas = [trapezoid(one, dx=1 / (one.shape[2] - 1), axis=2) for one in (morf, lerf)]
    match metric:
        case Deletion():
            return areas[0]
        case Insertion():
            return areas[1]
        case SymmetricRelevanceGain():
            return areas[1] - areas[0]
        case Comprehensiveness(shares="every"):
            return (morf[..., :1] - morf[..., 1:]).mean(2)
        case Sufficiency(shares="every"):
            return (lerf[..., :1] - lerf[..., 1:]).mean(2)
        case Comprehensiveness() | Sufficiency():
            gone = [math.ceil(share * (morf.shape[2] - 1) - 1e-9) for share in metric.shares]
            kept = isinstance(metric, Sufficiency)
            return np.mean([morf[..., 0] - (lerf[..., ::-1] if kept else morf)[..., at] for at in gone], axis=0)
    raise AssertionError(metric)


@named
@pytest.mark.parametrize("features", [1, 4, 5])
def test_limits_equal_brute_force(features: int, metric: GuidedMetric) -> None:
    scores, direction = games(features)
    found = exact_extremes(scores, direction, ChainReading.of(metric, features))
    for row in range(len(scores)):
        every = all_scores(scores[row].numpy(), direction[row].numpy(), metric)
        np.testing.assert_allclose(float(found.best[row]), every.max(), atol=1e-12)
        np.testing.assert_allclose(float(found.worst[row]), every.min(), atol=1e-12)


@pytest.mark.parametrize("metric", [*AREAS[:4], *VIEWS[:5]], ids=lambda metric: metric.short_form)
def test_limits_equal_brute_force_of_six_features(metric: GuidedMetric) -> None:
    scores, direction = games(6, inputs=1)
    every = all_scores(scores[0].numpy(), direction[0].numpy(), metric)
    found = exact_extremes(scores, direction, ChainReading.of(metric, 6))
    np.testing.assert_allclose([float(found.best), float(found.worst)], [every.max(), every.min()], atol=1e-12)


def test_limits_of_an_additive_game_are_sums_of_sorted_contributions() -> None:
    """What the features add, the largest first, and the smallest first, in closed form."""
    scores, _ = additive(6, inputs=1)
    worth = (scores[0, 0] - scores[0, 1 << torch.arange(6)]).sort(descending=True).values
    lost, least = worth.cumsum(0), worth.flip(0).cumsum(0)
    total = scores[0, 0]
    wanted = {
        Comprehensiveness(shares="every"): (lost.mean(), least.mean()),
        Sufficiency(shares="every"): (lost.mean(), least.mean()),
        Comprehensiveness(shares=(0.5, 1)): ((lost[2] + lost[5]) / 2, (least[2] + least[5]) / 2),
        Sufficiency(shares=(0.5, 1)): (lost[2] / 2, least[2] / 2),
        Deletion(): (total - (least.sum() - least[5] / 2) / 6, total - (lost.sum() - lost[5] / 2) / 6),
        Insertion(): (total - (least.sum() - least[5] / 2) / 6, total - (lost.sum() - lost[5] / 2) / 6),
        SymmetricRelevanceGain(): ((lost - least).sum() / 6, (least - lost).sum() / 6),
    }
    for metric, (highest, lowest) in wanted.items():
        found = exact_extremes(scores, torch.ones(1, 6), ChainReading.of(metric, 6))
        torch.testing.assert_close(found.best[0], highest, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.worst[0], lowest, rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", [*AREAS, *VIEWS], ids=lambda metric: metric.short_form)
def test_chance_is_the_mean_over_all_orders_and_signs(metric: GuidedMetric) -> None:
    scores, direction = games(4)
    found = exact_extremes(scores, direction, ChainReading.of(metric, 4))
    factor = factor_of(metric)
    for row in range(len(scores)):
        every = all_scores(scores[row].numpy(), direction[row].numpy(), metric)
        sign = marks(factor, 4)
        ways = np.ones(len(sign))
        if factor in ("signed", "literal"):  # each attribution is positive or negative alike, none is 0
            positive = (sign > 0).sum(1)
            binomial = np.array([1, 4, 6, 4, 1])
            ways = np.where((sign == 0).any(1), 0, binomial[positive])
        np.testing.assert_allclose(float(found.chance[row]), (every.mean(0) @ ways) / ways.sum(), atol=1e-12)
    if ChainReading.of(metric, 4).mirrored:
        assert found.chance.tolist() == [0, 0, 0]


@named
@pytest.mark.parametrize("sense", ["best", "worst"])
def test_an_attribution_attains_the_limit(sense: str, metric: GuidedMetric) -> None:
    scores, direction = games(5)
    factor = factor_of(metric)
    found = exact_extremes(scores, direction, ChainReading.of(metric, 5))
    values = found.attribution if sense == "best" else found.opposite
    for row, own in enumerate(values):
        key = own.abs() if factor == "magnitude" else own
        order = key.sort(descending=True, stable=True).indices.numpy()
        every = all_scores(scores[row].numpy(), direction[row].numpy(), metric)
        orders = np.array(list(itertools.permutations(range(5))))
        sign = np.sign(own.numpy())[order] if factor != "none" else np.ones(5)
        at = (orders == order).all(1).argmax(), (marks(factor, 5) == sign).all(1).argmax()
        np.testing.assert_allclose(every[at], float(getattr(found, sense)[row]), atol=1e-12)


def search(scores: Tensor, direction: Tensor, reading: ChainReading, width: int) -> tuple[Tensor, Tensor, int]:
    """What a beam search finds in a game, and how many sets it asked for."""
    asked = 0

    def score(removed: Tensor) -> Tensor:
        nonlocal asked
        asked += removed.shape[1]
        return scores.gather(1, (removed.long() << torch.arange(removed.shape[2])).sum(-1))

    found = beam_extremes(score, direction, reading, width)
    return found.best, found.worst, asked


@pytest.mark.parametrize("metric", [*AREAS, *VIEWS], ids=lambda metric: metric.short_form)
def test_a_search_is_never_above_the_limit(metric: GuidedMetric) -> None:
    scores, direction = games(6)
    reading = ChainReading.of(metric, 6)
    exact = exact_extremes(scores, direction, reading)
    for width in (1, 4):
        best, worst, asked = search(scores, direction, reading, width)
        assert (best <= exact.best + 1e-12).all()
        assert (worst >= exact.worst - 1e-12).all()
        assert asked <= width * beam_rows(6, reading)


@pytest.mark.parametrize("metric", [*AREAS[:4], *VIEWS[:3], *VIEWS[-2:]], ids=lambda metric: metric.short_form)
def test_a_search_finds_the_limit_of_additive_games(metric: GuidedMetric) -> None:
    scores, direction = additive(7)
    reading = ChainReading.of(metric, 7)
    exact = exact_extremes(scores, direction, reading)
    best, worst, asked = search(scores, direction, reading, 1)
    torch.testing.assert_close(best, exact.best)
    torch.testing.assert_close(worst, exact.worst)
    assert asked == beam_rows(7, reading)


# in signed order a search sets no attribution to zero
@pytest.mark.parametrize("metric", [*AREAS[:4], *VIEWS], ids=lambda metric: metric.short_form)
def test_a_search_as_wide_as_the_layers_misses_nothing(metric: GuidedMetric) -> None:
    scores, direction = games(5)
    reading = ChainReading.of(metric, 5)
    exact = exact_extremes(scores, direction, reading)
    best, worst, _ = search(scores, direction, reading, 1000)
    torch.testing.assert_close(best, exact.best)
    torch.testing.assert_close(worst, exact.worst)


def test_steps_of_several_features_count_alike() -> None:
    """PC in two steps of two features: the best of all pairs that may go first."""
    scores, direction = games(4, inputs=1)
    found = exact_extremes(scores, direction, ChainReading.of(weighted("none", "morf", steps=2), 4))
    weights = np.array([8, 1]) / 27
    values = scores[0].numpy()
    falls = [
        (weights @ (values[0] - values[[(1 << a) + (1 << b), 15]])) / weights.sum()
        for a, b in itertools.combinations(range(4), 2)
    ]
    np.testing.assert_allclose(float(found.best), max(falls), atol=1e-12)


@dataclass(frozen=True)
class Constant(PredictionChange):
    """Says the same of every attribution."""

    def reduce(self, scores: AnyScores) -> Tensor:
        return super().reduce(scores) * 0 + 1


@dataclass(frozen=True)
class Halved(Deletion):
    """A reduction of its own, and what its points weigh."""

    def weights(self, points: int) -> Tensor:
        return super().weights(points) / 2

    def reduce(self, scores: GuidedScores) -> Tensor:
        return super(Deletion, self).reduce(scores)


def test_a_metric_with_a_reduction_of_its_own_has_its_limits_or_none() -> None:
    assert not has_limits(Constant())
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    problem = verax.Problem(torch.nn.Linear(3, 2), x)
    with pytest.raises(ValueError, match="got 'pc' with a reduction of its own, which says no weights"):
        verax.limits(problem, [Constant()])
    halved, deletion = (verax.limits(problem, {"one": one})["one"] for one in (Halved(), Deletion()))
    torch.testing.assert_close(halved.best, deletion.best / 2)
    torch.testing.assert_close(Halved()(problem, halved.attribution).value, halved.best)
