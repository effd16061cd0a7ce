"""KernelShap: Shapley values by a regression on coalitions and their complements, interactions included."""

import functools
import math
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from verax.attribution.family import input_keys
from verax.attribution.interactions import fitted
from verax.attribution.shapley import Draws, ShapleyFamily, _Sampled
from verax.attribution.triples import Fit
from verax.core import noise, palette
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int
from verax.problem.problem import Problem

_LISTED = 1 << 14  # coalitions of one size that are drawn without repetition, from a list of all


@dataclass(frozen=True)
class KernelShap(_Sampled):
    """Shapley values of the logit over any features, by weighted regression (Lundberg and Lee 2017).

    ``argmin_phi sum_S w(|S|) (v(S) - v({}) - sum_{i in S} phi_i)^2`` under ``sum_i phi_i = v(all) - v({})``, where
    ``v(S)`` is the score with the features in ``S`` kept and all others at their baselines, and ``w(s)`` is
    ``(d - 1) / (C(d, s) s (d - s))``.

    Coalitions are drawn in pairs with their complements: first each feature alone, then each size equally often, which
    are the regression's leverage scores, and without repetition; a size of which all were drawn counts exactly. Where
    there are more pairs than features, what a sum over features misses is explained by few interactions of three
    features where these suffice, as in trees (pairs hold none of two features). Otherwise it is taken for a Gaussian
    process whose Shapley values have a closed form, and for noise with the weights above as far as it is not smooth.
    The values always sum to the difference of the scores of the input and of the baseline. With fewer coalitions than
    features, what they leave open is shared out evenly.

    Args:
        samples: Model rows per input, those of the input and of the baseline included. Budgets are prefixes: the first
            coalitions are the same whatever their number, so that many budgets together cost the rows of the largest.
            From ``2^d`` rows on, for ``d`` features, all coalitions are scored and the values are exact. Standard
            errors are in ``verax.explain(...).standard_errors``.
        seed: Coalitions are a function of the seed and the input's values.
        over: ``"baselines"``, or ``"background"``: a coalition's score is the mean over all rows of the background, as
            in shap (marginal, or interventional), and costs as many model rows.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(20, 2), torch.randn(3, 20)
        >>> found = KernelShap(samples=256)(verax.Problem(model, x, target=1, explained="logit", baselines=0.5))
        >>> bool(torch.allclose(found, model.weight[1] * (x - 0.5), atol=1e-5))
        True
    """

    label: ClassVar[str] = "Kernel SHAP"
    colour: ClassVar[str | None] = palette.INDIGO
    citation: ClassVar[str] = (
        "Lundberg, Lee: A unified approach to interpreting model predictions, NeurIPS 2017; paired: Covert, Lee: "
        "Improving KernelSHAP, AISTATS 2021; leverage scores: Musco, Witter: Provably accurate Shapley value "
        "estimation via leverage score sampling, ICLR 2025; few interactions of odd order: Fumagalli et al., 2026"
    )

    @property
    def family(self) -> "KernelShapFamily":
        """All budgets of a seed."""
        return KernelShapFamily(self.seed, self.over)


@dataclass(frozen=True)
class _Pairs(Draws):
    """Coalitions each followed by its complement; ``half`` are the first of each pair."""

    half: Bool[Tensor, "b pairs features"]
    sizes: Int[np.ndarray, " pairs"]


@dataclass(frozen=True)
class KernelShapFamily(ShapleyFamily):
    """One draw of pairs; every budget fits the scores of its first ones."""

    version: ClassVar[int] = 4

    def used(self, features: int, samples: int) -> int:
        """As many pairs as fit beside the input and the baseline."""
        return 2 * ((samples - 2) // 2)

    def draws(self, problem: Problem, which: Int[Tensor, " b"], features: int, count: int) -> _Pairs:
        """Draw pairs, each size in its turn."""
        sizes = size_sequence(features, count // 2)
        half = self._drawn(problem, which, features, sizes)

        def kept(at: Int[Tensor, " rows"], number: Int[Tensor, " rows"]) -> Bool[Tensor, "rows features"]:
            return half[at, number // 2] ^ (number % 2 == 1)[:, None]

        return _Pairs(kept, count, half, sizes)

    def _drawn(
        self, problem: Problem, which: Int[Tensor, " b"], features: int, sizes: Int[np.ndarray, " pairs"]
    ) -> Bool[Tensor, "b pairs features"]:
        device = which.device
        half = torch.empty(len(which), len(sizes), features, dtype=torch.bool, device=device)
        keys = input_keys(problem, which, self.seed, "kernel-shap order")
        ways = pairs_by_size(features)
        listed = [size for size in np.unique(sizes).tolist() if ways[size - 1] <= _LISTED]
        for size in listed:
            (places,) = np.nonzero(sizes == size)
            every = _list_of(features, size).to(device)
            order = noise.drawn_words(keys, size, 1, len(every))[:, 0].argsort(dim=1, stable=True)
            half[:, torch.from_numpy(places).to(device)] = every[order[:, : len(places)]]
        keys = input_keys(problem, which, self.seed, "kernel-shap")
        (places,) = np.nonzero(~np.isin(sizes, listed))
        for part in pieces(len(places), max(1, block_bytes(device) // (32 * max(1, features) * len(which)))):
            at = torch.from_numpy(places[part]).to(device)
            chosen = torch.from_numpy(sizes[places[part]]).to(device)
            half[:, at] = _subsets(noise.drawn_words(keys, part.start, len(at), features), chosen)
        return half

    def estimates(
        self, draws: _Pairs, scores: Float[Tensor, "b used"], ends: Float[Tensor, "b 2"], features: int
    ) -> Fit:
        """Fit what the scores of a budget say beyond an even share: a sum over features, then interactions."""
        even = (ends[:, 1:] - ends[:, :1]) / features
        pairs = scores.shape[1] // 2
        if not pairs:
            return Fit.without_errors(even.expand(-1, features))
        sizes = draws.sizes[:pairs]
        weights, size = (torch.from_numpy(array).to(scores) for array in (pair_weights(features, sizes), sizes))
        odd, half = (scores[:, 0::2] - scores[:, 1::2]) / 2, draws.half[:, :pairs]
        return fit_of_pairs(half, size, odd, weights, ends)


def fit_of_pairs(
    half: Bool[Tensor, "b pairs features"],
    size: Float[Tensor, " pairs"],
    odd: Float[Tensor, "b pairs"],
    weights: Float[Tensor, " pairs"],
    ends: Float[Tensor, "b 2"],
) -> Fit:
    """Shapley values from coalitions and half of how far they score above their complements."""
    pairs, features = half.shape[1:]
    even = (ends[:, 1:] - ends[:, :1]) / features
    # A pair's two equations differ in sign alone, once the even share is taken off: their mean is one equation.
    solution = _fitted(half, size, odd + (features / 2 - size) * even, weights)
    additive = even + solution - solution.mean(1, keepdim=True)
    if pairs <= features:
        return Fit.without_errors(additive)
    return fitted(half, odd, (ends[:, 1] - ends[:, 0]) / 2, weights, additive)


def pairs_by_size(features: int) -> list[int]:
    """Pairs of a coalition of 1, 2, ... features, up to half of all, and its complement; huge numbers are cut."""
    lengths: list[int] = []
    for size in range(1, features // 2 + 1):
        large = bool(lengths) and lengths[-1] > 1 << 40  # from there on they only grow
        ways = lengths[-1] if large else math.comb(features, size) // (2 if 2 * size == features else 1)
        lengths.append(ways)
    return lengths


@functools.lru_cache(maxsize=64)
def size_sequence(features: int, pairs: int) -> Int[np.ndarray, " pairs"]:
    """The size of each pair: first all of one feature, then every size in its turn until all its coalitions were there.

    Coalitions of all sizes equally often are those of the regression's leverage scores. Those of one feature come
    first, because few coalitions of other sizes leave many of the regression's slopes almost open. The beginning is the
    same whatever the number of pairs.

    Example:
        >>> size_sequence(6, 16).tolist()
        [1, 1, 1, 1, 1, 1, 2, 3, 2, 2, 3, 2, 2, 3, 2, 2]
    """
    size = np.arange(1, features // 2 + 1)
    turns = np.where(2 * size == features, 2, 1)  # of half the features there are half as many pairs
    most = np.minimum(np.array(pairs_by_size(features), dtype=np.int64), pairs)
    sizes = np.repeat(size, most)
    turn = (np.arange(len(sizes)) - np.repeat(np.cumsum(most) - most, most) + 0.5) * turns.repeat(most)
    order = np.lexsort((sizes, np.where(sizes == 1, 0, turn)))
    return np.asarray(sizes[order][:pairs])


def pair_weights(features: int, sizes: Int[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
    """Weights of pairs: those of one size share the weight that the regression gives to all of this size."""
    drawn = np.bincount(sizes, minlength=features // 2 + 1)
    size = np.arange(1, features // 2 + 1)
    mass = 1 / (size * (features - size))  # the kernel's weight of all pairs of each size, up to a factor
    weights: np.ndarray = np.where(2 * size == features, mass / 2, mass)[sizes - 1] / drawn[sizes]
    return weights


@functools.lru_cache(maxsize=64)
def _list_of(features: int, size: int) -> Bool[Tensor, "coalitions features"]:
    """All coalitions of a size; of those with half of all features the ones with the first, one of each pair."""
    sets = [members for members in combinations(range(features), size) if 2 * size != features or members[0] == 0]
    return torch.zeros(len(sets), features, dtype=torch.bool).scatter_(1, torch.tensor(sets), True)


def _subsets(lots: Int[Tensor, "b n features"], sizes: Int[Tensor, " n"]) -> Bool[Tensor, "b n features"]:
    """The features with the smallest lots, of each draw so many."""
    order = lots.argsort(dim=-1, stable=True)
    first = torch.arange(lots.shape[-1], device=lots.device) < sizes[:, None]
    return torch.zeros_like(lots, dtype=torch.bool).scatter_(-1, order, first.expand_as(order))


def _fitted(
    half: Bool[Tensor, "b pairs features"],
    size: Float[Tensor, " pairs"],
    surplus: Float[Tensor, "b pairs"],
    weights: Float[Tensor, " pairs"],
) -> Float[Tensor, "b features"]:
    """The shortest of the best fits, in whichever of the two dimensions is the smaller; values sum to 0."""
    count, pairs, features = half.shape
    root = weights.sqrt()

    def design(part: slice) -> Float[Tensor, "b pairs part"]:
        return (half[:, :, part].to(root.dtype) - (size / features)[:, None]) * root[:, None]

    target = (surplus * root)[..., None]
    if pairs >= features:
        rows = design(slice(None))
        return torch.matmul(torch.linalg.pinv(rows.mT @ rows, hermitian=True), rows.mT @ target)[..., 0]
    parts = list(pieces(features, max(1, block_bytes(half.device) // (16 * count * pairs))))
    gram = surplus.new_zeros(count, pairs, pairs)
    for part in parts:  # never all features at once: images have many
        rows = design(part)
        gram += rows @ rows.mT
    solved = torch.linalg.pinv(gram, hermitian=True) @ target
    return torch.cat([(design(part).mT @ solved)[..., 0] for part in parts], dim=1)
