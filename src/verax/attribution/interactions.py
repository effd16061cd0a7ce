"""What coalitions say beyond a sum over features: interactions as a random function, its Shapley values and errors.

A game's values on coalitions and their complements, ``y(S) = (v(S) - v(not S)) / 2``, hold all that its Shapley values
depend on. With ``t_i = 1`` for kept and ``-1`` for removed features,

    ``y(t) = sum_A c_A prod_{i in A} t_i`` over sets ``A`` of odd size, and ``phi_i = sum_{A with i} 2 c_A / |A|``.

Kernel SHAP fits the sets of one feature. Here those of three, five, ... are a Gaussian process, whose covariance
``sum_A prod_{i in A} a_i t_i u_i`` has a closed form and so have its Shapley values. Generalised least squares with
this covariance, beside Kernel SHAP's weights for what no smooth interaction explains, gives estimates and standard
errors; without interactions it is Kernel SHAP's regression. The ``a_i`` and the noise have the largest restricted
likelihood (Patterson and Thompson 1971), as relevances of inputs have in other Gaussian processes (Neal 1996).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float

_REACHES = (0.03, 0.1, 0.2, 0.4, 0.7)  # the largest a_i: how quickly interactions of more features get smaller
_FIRST_NOISE, _NOISES = 1e-2, (1e-5, 1e-4, 1e-2, 1.0)  # variance of what is not smooth, of that which is
_LEAST = 0.02  # of the largest importance: no feature is thought to take no part
_TUNED_ON = 192  # coalitions, or twice the features
_ONE_BY_ONE = 96  # features up to which the reach of each is tuned by itself
_FOR_EACH = 4  # coalitions per feature from which they tell it
_STEPS, _RATE = 12, 0.35  # of that, in log-odds of reaches and logarithms of noise
_SMALLEST, _LARGEST = -12.0, 3.0  # of both
_GRID = 1 / 16  # both are rounded to multiples of it
_ONE_AT_LEAST = -5.0  # some interactions are left, whose variance can be made 1
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
        reach, noise = self._first_guess(additive)
        coalitions, features = self.signs.shape[1:]
        known = features <= _ONE_BY_ONE and coalitions >= _FOR_EACH * features
        return self._climbed(reach, noise) if known else (reach, noise)

    def _first_guess(
        self, additive: Float[Tensor, "b features"]
    ) -> tuple[Float[Tensor, "b features"], Float[Tensor, " b"]]:
        """The best of few: reaches all alike, or like what each feature does alone."""
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

    def _climbed(
        self, reach: Float[Tensor, "b features"], noise: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, "b features"], Float[Tensor, " b"]]:
        """Climb the likelihood by Adam's steps (Kingma and Ba 2015); the best place on the way."""
        place = torch.cat((torch.logit(reach), noise.log()[:, None]), dim=1)
        place = ((place / _GRID).round() * _GRID).clamp(_SMALLEST, _LARGEST)
        mean, square = torch.zeros_like(place), torch.zeros_like(place)
        best, best_place = noise.new_full(noise.shape, -torch.inf), place
        for step in range(1, _STEPS + 1):
            likelihood, slope = self._likelihood_and_slope(place[:, :-1].sigmoid(), place[:, -1].exp())
            best_place = torch.where((likelihood > best)[:, None], place, best_place)
            best = torch.maximum(likelihood, best)
            mean, square = 0.8 * mean + 0.2 * slope, 0.9 * square + 0.1 * slope.square()
            move = (mean / (1 - 0.8**step)) / ((square / (1 - 0.9**step)).sqrt() + _ROUNDING)
            place = ((place + _RATE * move) / _GRID).round() * _GRID  # rounding of other batches leads nowhere else
            place.clamp_(_SMALLEST, _LARGEST)
            place[:, :-1] += (_ONE_AT_LEAST - place[:, :-1].amax(1, keepdim=True)).clamp(min=0)
        return best_place[:, :-1].sigmoid(), best_place[:, -1].exp()

    def _likelihood_and_slope(
        self, reach: Float[Tensor, "b features"], noise: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b parameters"]]:
        """The logarithm, and how it grows with the log-odds of each reach and the logarithm of the noise.

        With ``P = C^-1 - C^-1 T (T' C^-1 T)^-1 T' C^-1`` of the covariance ``C`` of ``y``, it grows with ``C`` by
        ``(P y y' P f / y' P y - P) / 2`` for ``f`` degrees of freedom.
        """
        signs, freedom = self.signs, self.signs.shape[1] - self.signs.shape[2]
        away, scale = 1 - reach.square(), _scale(reach)[:, None]
        shrunk = scale * (0.5 * away.log().sum(1, keepdim=True)).exp()
        near = (signs * torch.atanh(reach)[:, None]) @ signs.mT
        interactions = shrunk[..., None] * near.sinh() - scale[..., None] * ((signs * reach[:, None]) @ signs.mT)
        lower, failed = torch.linalg.cholesky_ex(self._with_noise(interactions.clone(), noise))
        inverse = torch.cholesky_inverse(lower)
        of_signs = inverse @ signs
        slopes_lower, broken = torch.linalg.cholesky_ex(signs.mT @ of_signs)
        left = inverse - of_signs @ torch.cholesky_solve(of_signs.mT, slopes_lower)
        weighted = left @ self.wanted[..., None]
        rest = (self.wanted[:, None] @ weighted)[:, 0, 0]
        logs = [one.diagonal(dim1=1, dim2=2).log().sum(1) for one in (lower, slopes_lower)]
        likelihood = -freedom / 2 * rest.log() - logs[0] - logs[1]
        slope = (freedom / rest[:, None, None] * weighted @ weighted.mT - left) / 2
        of_noise = noise * (slope.diagonal(dim1=1, dim2=2) * self.noise).sum(1)
        slope.diagonal(dim1=1, dim2=2).zero_()  # the variance of interactions is 1 whatever their reach

        def between(matrix: Float[Tensor, "b n n"]) -> Float[Tensor, "b features"]:
            return ((matrix @ signs) * signs).sum(1)

        odds = (torch.log1p(way * reach).sum(1, keepdim=True).exp() / (1 + way * reach) for way in (1, -1))
        of_scale = scale * (sum(odds) / 2 - 1) * (slope * interactions).sum((1, 2))[:, None]
        grown = between(slope * near.cosh()) - reach * (slope * near.sinh()).sum((1, 2))[:, None]
        of_reach = shrunk * grown / away - scale * between(slope) - of_scale
        known = (failed == 0) & (broken == 0) & likelihood.isfinite()
        slopes = torch.cat((of_reach * reach * (1 - reach), of_noise[:, None]), dim=1)
        return torch.where(known, likelihood, -torch.inf), slopes.nan_to_num(0.0, 0.0, 0.0)

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
