"""What coalitions say beyond a sum over features: interactions as a random function, its Shapley values and errors.

A game's values on coalitions and their complements, ``y(S) = (v(S) - v(not S)) / 2``, hold all that its Shapley values
depend on. Kernel SHAP fits them by a sum over features. Here what that leaves is one of two things. Few interactions of
three features, as trees have them, are searched for (``triples``). Otherwise the game is a Gaussian process with

    ``cov(v(t), v(u)) = exp(h sum_i (t_i + u_i)) prod_i (1 + a_i t_i u_i)``,  ``t_i = 1`` for kept, ``-1`` for removed,

whose Shapley values have a closed form. The reach ``a_i`` says how strongly feature ``i`` interacts, the tilt ``h`` how
much more the score varies where few features are left than where many are. Generalised least squares of a sum over
features with this covariance, and with Kernel SHAP's weights for what is not smooth, gives estimates and standard
errors. Reaches, tilt and noise have the largest restricted likelihood (Patterson and Thompson 1971), as relevances of
inputs have in other Gaussian processes (Neal 1996).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from verax.attribution import triples
from verax.attribution.triples import Fit
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float

_REACHES = (0.05, 0.2, 0.6)  # the largest a_i: how quickly interactions of more features get smaller
_TILTS = (0.0, 0.5)
_TILTED = 3.0  # what a tilt must add to the logarithm of the likelihood
_FIRST_NOISE, _NOISES = 1e-2, (1e-5, 1e-4, 1e-2, 1.0)  # variance of what is not smooth, of that which is
_LEAST = 0.02  # of the largest importance: no feature is thought to take no part
_GUESSED_ON, _TUNED_ON = 64, 128  # coalitions, or twice the features
_ONE_BY_ONE = 96  # features up to which the reach of each is tuned by itself
_FOR_EACH = 4  # coalitions per feature from which they tell it
_STEPS, _STRIDE, _DAMPING = 4, 1.5, 0.3  # of that, in log-odds of reaches, logarithms of noise and quarters of tilt
_SMALLEST, _LARGEST = -12.0, 3.0  # of log-odds and logarithms
_GRID = 1 / 16  # all are rounded to multiples of it
_QUARTER = 4.0
_STEEPEST = 6.0  # quarters of tilt
_AT_ONCE = 1024  # coalitions whose covariances are held together: more are fitted in parts
_ROOM = 1 << 18  # numbers of the covariances that are tried together
_ROUNDING = 1e-9
_EXACT = 1e-10  # of the scale of the scores: what a sum over features leaves where it is all there is


def fitted(
    half: Bool[Tensor, "b pairs features"],
    odd: Float[Tensor, "b pairs"],
    top: Float[Tensor, " b"],
    weights: Float[Tensor, " pairs"],
    additive: Float[Tensor, "b features"],
) -> Fit:
    """Shapley values of games from some coalitions and their complements."""
    pairs, features = half.shape[1:]
    size = 64 * (min(pairs, _AT_ONCE) ** 2 + pairs * features)
    fits = []
    for rows in pieces(len(half), max(1, block_bytes(half.device) // size)):
        signs = torch.where(half[rows], 1.0, -1.0).to(odd)
        game = _Regression(
            torch.cat((signs, torch.ones_like(signs[:, :1])), dim=1),
            torch.cat((odd[rows], top[rows, None]), dim=1),
            torch.cat((weights.mean() / weights, weights.new_zeros(1))),
        )
        fits.append(game.fitted(additive[rows]))
    return Fit(torch.cat([fit.values for fit in fits]), torch.cat([fit.errors for fit in fits]))


@dataclass(frozen=True)
class _Covariance:
    """Settings of the covariance, of each game."""

    reach: Float[Tensor, "b features"]
    tilt: Float[Tensor, " b"]
    noise: Float[Tensor, " b"]  # variance, of the mean variance of interactions

    def where(self, better: Bool[Tensor, " b"], other: "_Covariance") -> "_Covariance":
        """These where they are better, others elsewhere."""
        return _Covariance(
            torch.where(better[:, None], self.reach, other.reach),
            torch.where(better, self.tilt, other.tilt),
            torch.where(better, self.noise, other.noise),
        )

    @property
    def factor(self) -> Float[Tensor, " b"]:
        """The logarithm of what keeps exponentials within range."""
        return -torch.atanh(self.reach).sum(1)

    @property
    def of_products(self) -> Float[Tensor, " b"]:
        """The logarithm of what products of ``1 + a t u`` are divided by, to be twice the covariance of ``y``."""
        return self.factor - 0.5 * torch.log1p(-self.reach.square()).sum(1)

    @property
    def alone(self) -> Float[Tensor, " b"]:
        """Twice the variance of ``y`` by features alone, which the regression fits as it is."""
        return 2 * self.of_products.exp() * self.reach.sum(1)

    def contributions(self, signs: Float[Tensor, "b n features"]) -> Float[Tensor, "b n features"]:
        """Twice the covariance of ``y`` with the Shapley values.

        These are an integral, over the probability that others are kept, of what a feature adds on average; that is a
        product over features, each factor of which knows two signs.
        """
        nodes, weights = _nodes(signs.shape[2], signs)
        up, reach = self.tilt[:, None, None].exp(), self.reach[:, None]
        kept = (up * (1 + reach), up * (1 - reach))  # the covariance of a kept feature with itself kept, and removed
        removed = ((1 - reach) / up, (1 + reach) / up)
        near, far = (nodes * keep + (1 - nodes) * drop for keep, drop in zip(kept, removed, strict=True))
        of_near, of_far = (kept[0] - removed[0]) / near, (kept[1] - removed[1]) / far
        mean = (near.log() + far.log()).sum(2)[:, None] / 2 + self.of_products[:, None, None]
        odd = signs @ ((near.log() - far.log()) / 2 + self.tilt[:, None, None]).mT
        with_, without = (weights * (mean + odd).exp(), weights * (mean - odd).exp())
        return (with_ - without) @ ((of_near + of_far) / 2) + signs * ((with_ + without) @ ((of_near - of_far) / 2))

    def variances(self) -> Float[Tensor, "b features"]:
        """Twice the variance of the Shapley values."""
        nodes, weights = _nodes(min(self.reach.shape[1], 16), self.reach)
        first, second = nodes[:, None], nodes[None]
        up, reach = (2 * self.tilt).exp()[:, None, None, None], self.reach[:, None, None]
        both, neither, one = up * (1 + reach), (1 + reach) / up, 1 - reach
        products = first * second * both + (1 - first) * (1 - second) * neither
        products = products + (first * (1 - second) + second * (1 - first)) * one
        whole = (products.log().sum(3) + self.of_products[:, None, None]).exp() * weights[:, None] * weights
        added = 2 * (both + neither - 2 * one)
        return (whole[..., None] * added / products).sum((1, 2))


@dataclass(frozen=True)
class _Regression:
    """Generalised least squares of some games; the last equation is the game's ends, which hold without noise."""

    signs: Float[Tensor, "b n features"]
    wanted: Float[Tensor, "b n"]
    noise: Float[Tensor, " n"]

    def fitted(self, additive: Float[Tensor, "b features"]) -> Fit:
        """Estimates and standard errors, each game's by what explains it: a sum, few interactions, or a process."""
        left = self.wanted - (self.signs @ additive[..., None])[..., 0] / 2
        plain = left.square().mean(1) <= _EXACT**2 * self.wanted.square().mean(1)
        values, errors = additive.clone(), torch.zeros_like(additive)
        (rest,) = (~plain).nonzero(as_tuple=True)
        if not len(rest):
            return Fit(values, errors)
        few, explained = triples.fitted(self.signs[rest], self.wanted[rest])
        values[rest], errors[rest] = few.values, few.errors
        rest = rest[~explained]
        if len(rest):
            fits = [self._part(rest, part).solved(additive[rest]) for part in self._parts()]
            values[rest] = torch.stack([fit.values for fit in fits]).mean(0)
            errors[rest] = torch.stack([fit.errors for fit in fits]).square().mean(0).sqrt() / math.sqrt(len(fits))
        return Fit(values, errors)

    def _parts(self) -> list[Tensor]:
        """Equations that are fitted together; each part knows the ends."""
        pairs = len(self.noise) - 1
        count = -(-pairs // _AT_ONCE)
        numbers = torch.arange(pairs + 1, device=self.noise.device)
        return [torch.cat((numbers[part:pairs:count], numbers[pairs:])) for part in range(count)]

    def _part(self, games: Tensor | slice, equations: Tensor) -> "_Regression":
        return _Regression(self.signs[games][:, equations], self.wanted[games][:, equations], self.noise[equations])

    def solved(self, additive: Float[Tensor, "b features"]) -> Fit:
        """Estimates and standard errors by the covariance of the largest likelihood."""
        features = additive.shape[1]
        covariance = self.tuned(additive)
        matrix, scale = self._scaled(covariance)
        lower = torch.linalg.cholesky(self._with_noise(matrix, covariance.noise))
        of_values = covariance.contributions(self.signs) / scale
        held = torch.cat((self.signs, self.wanted[..., None], of_values), dim=2)
        held = torch.linalg.solve_triangular(lower, held, upper=False)
        signs, target, of_values = held[..., :features], held[..., features], held[..., features + 1 :]
        inverse = torch.linalg.inv(signs.mT @ signs)
        slopes = inverse @ (signs.mT @ target[..., None])
        left = target - (signs @ slopes)[..., 0]
        values = (2 * slopes + of_values.mT @ left[..., None])[..., 0]
        values = values + (2 * self.wanted[:, -1:] - values.sum(1, keepdim=True)) / features  # rounding alone
        open_slopes = 2 * torch.eye(features).to(signs) - signs.mT @ of_values
        variance = covariance.variances() / scale[..., 0] - of_values.square().sum(1)
        variance = variance.clamp(min=0) + (open_slopes * (inverse @ open_slopes)).sum(1)
        return Fit(values, (variance * (left.square().sum(1) / (left.shape[1] - features))[:, None]).sqrt())

    def _some(self, least: int) -> "_Regression":
        """Equations enough to settle the covariance by."""
        count, features = self.signs.shape[1:]
        sample_count = max(least, 2 * features)
        if count <= sample_count:
            return self
        rows = np.linspace(0, count - 1, sample_count).round().astype(np.int64)
        return self._part(slice(None), torch.from_numpy(rows).to(self.signs.device))

    def tuned(self, additive: Float[Tensor, "b features"]) -> _Covariance:
        """The covariance of the largest restricted likelihood."""
        guess = self._some(_GUESSED_ON).guessed(additive)
        coalitions, features = self.signs.shape[1:]
        known = features <= _ONE_BY_ONE and coalitions >= _FOR_EACH * features
        return self._some(_TUNED_ON).climbed(guess) if known else guess

    def guessed(self, additive: Float[Tensor, "b features"]) -> _Covariance:
        """The best of few: reaches all alike, or like what each feature does alone."""
        size = additive.abs()
        largest = size.amax(1, keepdim=True)
        like_alone = (size / largest.where(largest > 0, 1.0)).clamp(min=_LEAST)
        alike = torch.ones_like(size)
        zeros, first_noise = torch.zeros_like(size[:, 0]), torch.full_like(size[:, 0], _FIRST_NOISE)
        best = self._likeliest(
            [_Covariance(reach * alike, zeros + tilt, first_noise) for tilt in _TILTS for reach in _REACHES]
        )
        some = [_Covariance(reach * like_alone, best.tilt, first_noise) for reach in _REACHES]
        best = self._likeliest([best, *some])
        return self._likeliest([replace(best, noise=torch.full_like(zeros, noise)) for noise in _NOISES])

    def _likeliest(self, tried: list[_Covariance]) -> _Covariance:
        """The one of the largest likelihood, of each game; the first of equals."""
        count = len(self.signs)
        most, best = self.wanted.new_full((count,), -torch.inf), tried[0]
        for part in pieces(len(tried), max(1, _ROOM // (count * len(self.noise) ** 2))):
            some = tried[part]
            stacked = _Covariance(
                torch.cat([one.reach for one in some]),
                torch.cat([one.tilt for one in some]),
                torch.cat([one.noise for one in some]),
            )
            games = _Regression(self.signs.repeat(len(some), 1, 1), self.wanted.repeat(len(some), 1), self.noise)
            likelihoods = games._likelihood(stacked) - _TILTED * (stacked.tilt > 0)
            for likelihood, one in zip(likelihoods.reshape(-1, count), some, strict=True):
                best, most = one.where(likelihood > most, best), torch.maximum(likelihood, most)
        return best

    def climbed(self, guess: _Covariance) -> _Covariance:
        """Climb the likelihood by steps of the average information (Gilmour et al. 1995); the best place on the way."""
        place = torch.cat((torch.logit(guess.reach), guess.noise.log()[:, None], _QUARTER * guess.tilt[:, None]), dim=1)
        best, most = guess, guess.noise.new_full(guess.noise.shape, -torch.inf)
        for _ in range(_STEPS):
            place = (place / _GRID).round() * _GRID  # rounding of other batches leads nowhere else
            place[:, :-1].clamp_(_SMALLEST, _LARGEST)
            place[:, -1].clamp_(0.0, _STEEPEST)
            here = _Covariance(place[:, :-2].sigmoid(), place[:, -1] / _QUARTER, place[:, -2].exp())
            likelihood, slope, information = self._likelihood_and_slope(here)
            best, most = here.where(likelihood > most, best), torch.maximum(likelihood, most)
            information.diagonal(dim1=1, dim2=2).add_(_DAMPING)
            place = place + torch.linalg.solve(information, slope).clamp(-_STRIDE, _STRIDE)
        return best

    def _likelihood_and_slope(
        self, at: _Covariance
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b parameters"], Float[Tensor, "b parameters parameters"]]:
        """The logarithm, how it grows with log-odds of reaches, logarithms of noise and quarters of tilt, and how sure.

        With ``P = C^-1 - C^-1 T (T' C^-1 T)^-1 T' C^-1`` of the covariance ``C`` of ``y``, it grows with ``C`` by
        ``(P y y' P f / y' P y - P) / 2`` for ``f`` degrees of freedom. The average information is that of what each
        parameter moves, ``dC P y``, weighed by ``P``.
        """
        signs, count = self.signs, len(self.noise)
        freedom, size = count - signs.shape[2], signs.sum(2)
        even, odd = (at.tilt[:, None] * size).cosh(), (at.tilt[:, None] * size).sinh()
        near, far = self._exponentials(at)
        sinh, cosh = near - far, near + far
        matrix = even[:, None] * sinh * even[..., None] + odd[:, None] * cosh * odd[..., None]
        grown = even[:, None] * cosh * even[..., None] + odd[:, None] * sinh * odd[..., None]
        scale = matrix.diagonal(dim1=1, dim2=2).mean(1)[:, None] - at.alone[:, None]
        matrix /= scale[..., None]
        likelihood, left = self._projected(matrix, at.noise)
        weighted = left @ self.wanted[..., None]
        rest = (self.wanted[:, None] @ weighted)[:, 0]
        likelihood = likelihood - freedom / 2 * rest[:, 0].log()
        slope = (freedom / rest[..., None] * weighted @ weighted.mT - left) / 2
        noise, rates, size = at.noise[:, None] * self.noise, at.reach / (1 + at.reach), size / _QUARTER
        # how quickly the scale grows, in its own measure
        shares = at.reach * (1 - at.reach) / at.reach.sum(1, keepdim=True) + at.reach.square() / (1 + at.reach)
        of_reach = rates * grown.diagonal(dim1=1, dim2=2).mean(1, keepdim=True) - at.alone[:, None] * shares
        of_tilt = 2 * (size * even * odd * (sinh + cosh).diagonal(dim1=1, dim2=2)).mean(1, keepdim=True)
        grows = torch.cat((of_reach / scale, torch.zeros_like(scale), of_tilt / scale), dim=1)
        of_noise = (slope.diagonal(dim1=1, dim2=2) * noise).sum(1, keepdim=True)
        of_reach = rates * (((slope * grown) @ signs) * signs).sum(1)
        of_tilt = odd * ((slope * sinh) @ even[..., None])[..., 0] + even * ((slope * cosh) @ odd[..., None])[..., 0]
        of_tilt = 2 * (size * of_tilt).sum(1, keepdim=True)
        slopes = torch.cat((of_reach / scale, of_noise, of_tilt / scale), dim=1)
        slopes = slopes - (slope * matrix).sum((1, 2))[:, None] * grows
        by_sinh = sinh @ (torch.stack((even, size * even), dim=2) * weighted)
        by_cosh = cosh @ (torch.stack((odd, size * odd), dim=2) * weighted)
        by_tilt = size * (odd * by_sinh[..., 0] + even * by_cosh[..., 0])
        by_tilt = by_tilt + even * by_cosh[..., 1] + odd * by_sinh[..., 1]
        by_reach = rates[:, None] * signs * (grown @ (signs * weighted))
        moved = torch.cat((by_reach, noise[..., None] * weighted * scale[..., None], by_tilt[..., None]), dim=2)
        moved = moved / scale[..., None] - (matrix @ weighted) * grows[:, None]
        along = moved.mT @ weighted
        information = freedom / 2 / rest[..., None] * (moved.mT @ (left @ moved) - along @ along.mT / rest[..., None])
        known = likelihood.isfinite()
        slopes, information = (one.nan_to_num(0.0, 0.0, 0.0) for one in (slopes, information))
        return torch.where(known, likelihood, -torch.inf), slopes, information

    def _projected(
        self, covariance: Float[Tensor, "b n n"], noise: Float[Tensor, " b"]
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n n"]]:
        """The logarithms of the determinants in the likelihood, NaN where there are none, and ``P``."""
        lower, failed = torch.linalg.cholesky_ex(self._with_noise(covariance.clone(), noise))
        inverse = torch.cholesky_inverse(lower)
        of_signs = inverse @ self.signs
        slopes_lower, broken = torch.linalg.cholesky_ex(self.signs.mT @ of_signs)
        logs = [-one.diagonal(dim1=1, dim2=2).log().sum(1) for one in (lower, slopes_lower)]
        known = (failed == 0) & (broken == 0)
        left = inverse - of_signs @ torch.cholesky_solve(of_signs.mT, slopes_lower)
        return torch.where(known, logs[0] + logs[1], torch.nan), left

    def _likelihood(self, at: _Covariance) -> Float[Tensor, " b"]:
        """The logarithm, with the slopes and the scale left out."""
        features = self.signs.shape[2]
        lower, failed = torch.linalg.cholesky_ex(self._with_noise(self._scaled(at)[0], at.noise))
        held = torch.cat((self.signs, self.wanted[..., None]), dim=2)
        held = torch.linalg.solve_triangular(lower, held, upper=False)
        pivots, broken = torch.linalg.cholesky_ex(held.mT @ held)  # the last one: what the slopes leave
        pivots = pivots.diagonal(dim1=1, dim2=2).log()
        freedom = held.shape[1] - features
        likelihood = -freedom * pivots[:, -1] - lower.diagonal(dim1=1, dim2=2).log().sum(1) - pivots[:, :-1].sum(1)
        return torch.where((failed > 0) | (broken > 0) | likelihood.isnan(), -torch.inf, likelihood)

    def _exponentials(self, at: _Covariance) -> tuple[Float[Tensor, "b n n"], Float[Tensor, "b n n"]]:
        """Of how near coalitions are to each other, and to the others' complements."""
        factor = at.factor[:, None, None]
        near = ((self.signs * torch.atanh(at.reach)[:, None]) @ self.signs.mT).add_(factor).exp_()
        return near, (2 * factor).exp() / near.clamp(min=torch.finfo(near.dtype).tiny)

    def _scaled(self, at: _Covariance) -> tuple[Float[Tensor, "b n n"], Float[Tensor, "b 1 1"]]:
        """The covariance with mean variance 1, and what it was divided by."""
        tilted = at.tilt[:, None] * self.signs.sum(2)
        even, odd = (side[..., None] @ side[:, None] for side in (tilted.cosh(), tilted.sinh()))
        near, far = self._exponentials(at)
        matrix = near.mul_(even + odd).sub_(far.mul_(even - odd))
        scale = (matrix.diagonal(dim1=1, dim2=2).mean(1) - at.alone)[:, None, None]
        return matrix.div_(scale), scale

    def _with_noise(self, covariance: Float[Tensor, "b n n"], noise: Float[Tensor, " b"]) -> Float[Tensor, "b n n"]:
        covariance.diagonal(dim1=1, dim2=2).add_(noise[:, None] * self.noise + _ROUNDING)
        return covariance


def _nodes(features: int, like: Tensor) -> tuple[Float[Tensor, "nodes 1"], Float[Tensor, " nodes"]]:
    """Gauss and Legendre's places and weights from 0 to 1, exact for the products of so many features, up to 64."""
    places, weights = np.polynomial.legendre.leggauss(min(features // 2 + 1, 32))
    return torch.from_numpy((places + 1) / 2).to(like)[:, None], torch.from_numpy(weights / 2).to(like)
