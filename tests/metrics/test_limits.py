"""Limits of games: equal to brute force over all orders and signs, and never beaten by a search."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from verax.metrics.limit_beam import beam_extremes, beam_rows
from verax.metrics.limit_reading import ChainReading
from verax.metrics.limits import exact_extremes

FACTORS = ("none", "magnitude", "signed", "literal")
READINGS = [ChainReading(factor, area) for factor in FACTORS for area in ("between", "morf")]
MORE = [ChainReading(factor, area, "increments") for factor in FACTORS for area in ("between", "morf")]


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


def marks(reading: ChainReading, features: int) -> np.ndarray:
    """Signs of attributions by place: all of them in magnitude order, falling ones in signed order, zeros too."""
    if reading.factor == "none":
        return np.ones((1, features))
    if reading.factor == "magnitude":
        return np.array(list(itertools.product((1, -1), repeat=features)))
    falling = [sorted(one, reverse=True) for one in itertools.combinations_with_replacement((1, 0, -1), features)]
    return np.array(falling)


def all_scores(scores: np.ndarray, direction: np.ndarray, reading: ChainReading) -> np.ndarray:
    """The score of every order and sign of one input, from its curves as the definitions have them."""
    features = len(direction)
    orders = np.array(list(itertools.permutations(range(features))))
    sign = marks(reading, features)[None]
    curves = []
    for sequence, own in ((orders, sign), (orders[:, ::-1], sign[..., ::-1])):
        sets = np.concatenate((np.zeros((len(sequence), 1), int), np.cumsum(1 << sequence, axis=1)), axis=1)
        towards = direction[sequence][:, None]
        factor = {"none": 1, "magnitude": own * towards, "signed": abs(own) * towards, "literal": own * towards}
        changes = factor[reading.factor] * np.diff(scores[sets])[:, None]
        start = np.broadcast_to(scores[0] if reading.curve == "cumulative" else 0.0, (*changes.shape[:2], 1))
        curve = np.concatenate((start, changes), axis=2)
        curves.append(curve.cumsum(2) if reading.curve == "cumulative" else curve)
    points = features + 1
    weights = ((points - np.arange(points)) / points) ** 3
    upper = curves[1] if reading.area == "between" else curves[0][..., :1]
    return ((upper - curves[0]) * weights).sum(2) / weights[1:].sum()


@pytest.mark.parametrize("reading", READINGS + MORE, ids=str)
@pytest.mark.parametrize("features", [1, 4, 5])
def test_limits_equal_brute_force(features: int, reading: ChainReading) -> None:
    scores, direction = games(features)
    found = exact_extremes(scores, direction, reading)
    for row in range(len(scores)):
        every = all_scores(scores[row].numpy(), direction[row].numpy(), reading)
        np.testing.assert_allclose(float(found.best[row]), every.max(), atol=1e-12)
        np.testing.assert_allclose(float(found.worst[row]), every.min(), atol=1e-12)


@pytest.mark.parametrize("area", ["between", "morf"])
@pytest.mark.parametrize("factor", ["none", "magnitude"])
def test_limits_equal_brute_force_of_six_features(factor: str, area: str) -> None:
    reading = ChainReading(factor, area)  # type: ignore[arg-type]
    scores, direction = games(6, inputs=1)
    every = all_scores(scores[0].numpy(), direction[0].numpy(), reading)
    found = exact_extremes(scores, direction, reading)
    np.testing.assert_allclose([float(found.best), float(found.worst)], [every.max(), every.min()], atol=1e-12)


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_chance_is_the_mean_over_all_orders_and_signs(reading: ChainReading) -> None:
    scores, direction = games(4)
    found = exact_extremes(scores, direction, reading)
    for row in range(len(scores)):
        every = all_scores(scores[row].numpy(), direction[row].numpy(), reading)
        sign = marks(reading, 4)
        ways = np.ones(len(sign))
        if reading.factor in ("signed", "literal"):  # each attribution is positive or negative alike, none is 0
            positive = (sign > 0).sum(1)
            binomial = np.array([1, 4, 6, 4, 1])
            ways = np.where((sign == 0).any(1), 0, binomial[positive])
        np.testing.assert_allclose(float(found.chance[row]), (every.mean(0) @ ways) / ways.sum(), atol=1e-12)
    if reading.mirrored:
        assert found.chance.tolist() == [0, 0, 0]


@pytest.mark.parametrize("reading", READINGS + MORE, ids=str)
@pytest.mark.parametrize("sense", ["best", "worst"])
def test_an_attribution_attains_the_limit(sense: str, reading: ChainReading) -> None:
    scores, direction = games(5)
    found = exact_extremes(scores, direction, reading)
    values = found.attribution if sense == "best" else found.opposite
    for row, own in enumerate(values):
        key = own.abs() if reading.factor == "magnitude" else own
        order = key.sort(descending=True, stable=True).indices.numpy()
        every = all_scores(scores[row].numpy(), direction[row].numpy(), reading)
        orders = np.array(list(itertools.permutations(range(5))))
        sign = np.sign(own.numpy())[order] if reading.factor != "none" else np.ones(5)
        at = (orders == order).all(1).argmax(), (marks(reading, 5) == sign).all(1).argmax()
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


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_a_search_is_never_above_the_limit(reading: ChainReading) -> None:
    scores, direction = games(6)
    exact = exact_extremes(scores, direction, reading)
    for width in (1, 4):
        best, worst, asked = search(scores, direction, reading, width)
        assert (best <= exact.best + 1e-12).all()
        assert (worst >= exact.worst - 1e-12).all()
        assert asked <= width * beam_rows(6, reading)


@pytest.mark.parametrize("area", ["between", "morf"])
@pytest.mark.parametrize("factor", ["none", "magnitude"])
def test_a_search_finds_the_limit_of_additive_games(factor: str, area: str) -> None:
    reading = ChainReading(factor, area)  # type: ignore[arg-type]
    scores, direction = additive(7)
    exact = exact_extremes(scores, direction, reading)
    best, worst, asked = search(scores, direction, reading, 1)
    torch.testing.assert_close(best, exact.best)
    torch.testing.assert_close(worst, exact.worst)
    assert asked == beam_rows(7, reading)


@pytest.mark.parametrize("reading", READINGS[:4], ids=str)  # in signed order a search sets no attribution to zero
def test_a_search_as_wide_as_the_layers_misses_nothing(reading: ChainReading) -> None:
    scores, direction = games(5)
    exact = exact_extremes(scores, direction, reading)
    best, worst, _ = search(scores, direction, reading, 1000)
    torch.testing.assert_close(best, exact.best)
    torch.testing.assert_close(worst, exact.worst)


def test_steps_of_several_features_count_alike() -> None:
    """PC in two steps of two features: the best of all pairs that may go first."""
    scores, direction = games(4, inputs=1)
    found = exact_extremes(scores, direction, ChainReading("none", "morf", steps=2))
    weights = np.array([8, 1]) / 27
    values = scores[0].numpy()
    falls = [
        (weights @ (values[0] - values[[(1 << a) + (1 << b), 15]])) / weights.sum()
        for a, b in itertools.combinations(range(4), 2)
    ]
    np.testing.assert_allclose(float(found.best), max(falls), atol=1e-12)
