"""What coalitions say beyond a sum over features: interactions as a random function, its Shapley values and errors.

A game's values on coalitions and their complements, ``y(S) = (v(S) - v(not S)) / 2``, hold all that its Shapley values
depend on. With ``t_i = 1`` for kept and ``-1`` for removed features,

    ``y(t) = sum_A c_A prod_{i in A} t_i`` over sets ``A`` of odd size, and ``phi_i = sum_{A with i} 2 c_A / |A|``.

Kernel SHAP fits the sets of one feature. Here those of three, five, ... are a Gaussian process, whose covariance
``sum_A prod_{i in A} a_i t_i u_i`` has a closed form and so have its Shapley values. Generalised least squares with
this covariance, beside Kernel SHAP's weights for what no smooth interaction explains, gives estimates and standard
errors; without interactions it is Kernel SHAP's regression.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float

_REACHES = (0.1, 0.4)  # the largest a_i: how quickly interactions of more features get smaller
_FIRST_NOISE, _NOISES = 1e-2, (1e-4, 1e-2, 1.0)  # variance of what is not smooth, of that which is
_LEAST = 0.02  # of the largest importance: no feature is thought to take no part
_TUNED_ON = 192  # coalitions, or twice the features
_AT_ONCE = 2048  # coalitions whose covariances are held together: more are fitted in parts
_ROUNDING = 1e-9
_EXACT = 1e-10  # of the scale of the scores: what a sum over features leaves where it is all there is


@dataclass(frozen=True)
class Fit:
    """Shapley values and how far off they may be."""

    values: Float[Tensor, "b features"]  # one per feature; they sum to the difference of the ends
    errors: Float[Tensor, "b features"]  # standard errors; NaN where they are not known

    @classmethod
    def without_errors(cls, values: Float[Tensor, "b features"]) -> "Fit":
        """Values from too few coalitions to know how far off they are."""
        return cls(values, torch.full_like(values, torch.nan))


def fitted(
    half: Bool[Tensor, "b pairs features"],
    odd: Float[Tensor, "b pairs"],
    top: Float[Tensor, " b"],
    weights: Float[Tensor, " pairs"],
    additive: Float[Tensor, "b features"],
) -> Fit:
    """Shapley values of games from some coalitions and their complements."""
    pairs = half.shape[1]
    parts = -(-pairs // _AT_ONCE)
    size = 8 * (-(-pairs // parts)) ** 2
    parts_fitted = []
    for rows in pieces(len(half), max(1, block_bytes(half.device) // (8 * size))):
        fits = [
            _Regression.of(half[rows, part::parts], odd[rows, part::parts], top[rows], weights[part::parts]).solved(
                additive[rows]
            )
            for part in range(parts)
        ]
        values = torch.stack([fit.values for fit in fits]).mean(0)
        errors = torch.stack([fit.errors for fit in fits]).square().mean(0).sqrt() / math.sqrt(parts)
        parts_fitted.append((values, errors))
    return Fit(torch.cat([values for values, _ in parts_fitted]), torch.cat([errors for _, errors in parts_fitted]))


@dataclass(frozen=True)
class _Regression:
    """Generalised least squares of some games; the last equation is the game's ends, which hold without noise."""

    signs: Float[Tensor, "b n features"]
    wanted: Float[Tensor, "b n"]
    noise: Float[Tensor, " n"]

    @classmethod
    def of(
        cls,
        half: Bool[Tensor, "b pairs features"],
        odd: Float[Tensor, "b pairs"],
        top: Float[Tensor, " b"],
        weights: Float[Tensor, " pairs"],
    ) -> "_Regression":
        signs = torch.where(half, 1.0, -1.0).to(odd)
        return cls(
            torch.cat((signs, torch.ones_like(signs[:, :1])), dim=1),
            torch.cat((odd, top[:, None]), dim=1),
            torch.cat((weights.mean() / weights, weights.new_zeros(1))),
        )

    def solved(self, additive: Float[Tensor, "b features"]) -> Fit:
        """Estimates and standard errors; those of the plain regression where a sum over features is all there is."""
        features = additive.shape[1]
        left = self.wanted - (self.signs @ additive[..., None])[..., 0] / 2
        plain = left.square().mean(1) <= _EXACT**2 * self.wanted.square().mean(1)
        reach, noise = self._some().tuned(additive)
        of_values = _contributions(self.signs, reach)
        lower = torch.linalg.cholesky(self._with_noise(self._covariance(reach), noise))
        held = torch.cat((self.signs, self.wanted[..., None], of_values), dim=2)
        held = torch.linalg.solve_triangular(lower, held, upper=False)
        signs, target, of_values = held[..., :features], held[..., features], held[..., features + 1 :]
        inverse = torch.linalg.inv(signs.mT @ signs)
        slopes = inverse @ (signs.mT @ target[..., None])
        left = target - (signs @ slopes)[..., 0]
        values = (2 * slopes + of_values.mT @ left[..., None])[..., 0]
        values = values + (2 * self.wanted[:, -1:] - values.sum(1, keepdim=True)) / features  # rounding alone
        open_slopes = 2 * torch.eye(features).to(signs) - signs.mT @ of_values
        variance = _variances(reach) - of_values.square().sum(1)
        variance = variance.clamp(min=0) + (open_slopes * (inverse @ open_slopes)).sum(1)
        errors = (variance * (left.square().sum(1) / (left.shape[1] - features))[:, None]).sqrt()
        return Fit(torch.where(plain[:, None], additive, values), torch.where(plain[:, None], 0.0, errors))

    def _some(self) -> "_Regression":
        """Equations enough to settle the covariance by."""
        count, features = self.signs.shape[1:]
        sample_count = max(_TUNED_ON, 2 * features)
        if count <= sample_count:
            return self
        rows = torch.from_numpy(np.linspace(0, count - 1, sample_count).round().astype(np.int64)).to(self.signs.device)
        return _Regression(self.signs[:, rows], self.wanted[:, rows], self.noise[rows])

    def tuned(self, additive: Float[Tensor, "b features"]) -> tuple[Float[Tensor, "b features"], Float[Tensor, " b"]]:
        """The reach of each feature's interactions and the noise of the largest restricted likelihood."""
        size = additive.abs()
        largest = size.amax(1, keepdim=True)
        like_alone = (size / largest.where(largest > 0, 1.0)).clamp(min=_LEAST)
        best, reach = self.wanted.new_full((len(size),), -torch.inf), _REACHES[0] * like_alone
        for shape in (torch.ones_like(size), like_alone):
            for most in _REACHES:
                likelihood = self._likelihood(self._covariance(most * shape), best.new_full(best.shape, _FIRST_NOISE))
                reach = torch.where((likelihood > best)[:, None], most * shape, reach)
                best = torch.maximum(likelihood, best)
        covariance = self._covariance(reach)
        noises = self.noise.new_tensor(_NOISES)
        tried = [self._likelihood(covariance, noise.expand(len(size))) for noise in noises]
        return reach, noises[torch.stack(tried).argmax(0)]

    def _likelihood(self, covariance: Float[Tensor, "b n n"], noise: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
        """The logarithm, with the slopes and the scale left out."""
        features = self.signs.shape[2]
        lower, failed = torch.linalg.cholesky_ex(self._with_noise(covariance, noise))
        held = torch.cat((self.signs, self.wanted[..., None]), dim=2)
        held = torch.linalg.solve_triangular(lower, held, upper=False)
        pivots, broken = torch.linalg.cholesky_ex(held.mT @ held)  # the last one: what the slopes leave
        pivots = pivots.diagonal(dim1=1, dim2=2).log()
        freedom = held.shape[1] - features
        likelihood = -freedom * pivots[:, -1] - lower.diagonal(dim1=1, dim2=2).log().sum(1) - pivots[:, :-1].sum(1)
        return torch.where((failed > 0) | (broken > 0) | likelihood.isnan(), -torch.inf, likelihood)

    def _covariance(self, reach: Float[Tensor, "b features"]) -> Float[Tensor, "b n n"]:
        """Of odd interactions of three features or more, with variance 1."""
        scale, alone = _scale(reach)[:, None, None], self.signs * reach[:, None]
        covariance = (self.signs * torch.atanh(reach)[:, None]) @ self.signs.mT
        covariance.sinh_().mul_((0.5 * torch.log1p(-reach.square()).sum(1)).exp()[:, None, None] * scale)
        return covariance.baddbmm_(alone * scale, self.signs.mT, alpha=-1)  # in place: there may be many

    def _with_noise(self, covariance: Float[Tensor, "b n n"], noise: Float[Tensor, " b"]) -> Float[Tensor, "b n n"]:
        covariance.diagonal(dim1=1, dim2=2).copy_(1 + noise[:, None] * self.noise + _ROUNDING)
        return covariance


def _scale(reach: Float[Tensor, "b features"]) -> Float[Tensor, " b"]:
    """What makes the variance of interactions 1, the same of all coalitions."""
    both = (torch.log1p(reach).sum(1).exp() - torch.log1p(-reach).sum(1).exp()) / 2
    return 1 / (both - reach.sum(1))


def _contributions(
    signs: Float[Tensor, "b n features"], reach: Float[Tensor, "b features"]
) -> Float[Tensor, "b n features"]:
    """The covariance of interactions with their Shapley values.

    ``sum_{A with i} 2 / |A| prod_{j in A} a_j t_j`` over sets of 3, 5, ... features is an integral over ``x`` from 0 to
    1 of ``prod_{j in A} x a_j t_j / x``, and a product of sums for each ``x``.
    """
    sums = -2 * reach[:, None] * signs  # sets of one feature are fitted, not random
    for place, weight in _nodes(reach.shape[1]):
        near = place * reach
        even = 0.5 * torch.log1p(-near.square()).sum(1)[:, None]
        odd = (signs @ torch.atanh(near)[..., None])[..., 0]
        share = near[:, None] * signs
        with_, without = (even + odd).exp()[..., None] / (1 + share), (even - odd).exp()[..., None] / (1 - share)
        sums = sums + weight * reach[:, None] * signs * (with_ + without)
    return sums * _scale(reach)[:, None, None]


def _variances(reach: Float[Tensor, "b features"]) -> Float[Tensor, "b features"]:
    """The variance of the Shapley values of interactions: ``sum_{A with i} 4 / |A|^2 prod_{j in A} a_j``."""
    places, weights = (torch.tensor(array).to(reach) for array in zip(*_nodes(min(reach.shape[1], 16)), strict=True))
    near = (places[:, None] * places).flatten()[:, None, None] * reach
    products = [(torch.log1p(array).sum(2, keepdim=True).exp() / (1 + array)) for array in (near, -near)]
    mean = torch.einsum("p,pbf->bf", (weights[:, None] * weights).flatten(), products[0] + products[1])
    return 2 * reach * (mean - 2) * _scale(reach)[:, None]


def _nodes(features: int) -> list[tuple[float, float]]:
    """Gauss and Legendre's places and weights from 0 to 1, exact for the products of so many features, up to 64."""
    places, weights = np.polynomial.legendre.leggauss(min(features // 2 + 1, 32))
    return [((place + 1) / 2, weight / 2) for place, weight in zip(places.tolist(), weights.tolist(), strict=True)]
