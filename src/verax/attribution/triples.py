"""Few interactions of three features, beside a sum over features: searched for one after the other.

Games of trees have hardly any others that matter to Shapley values: pairs of a coalition and its complement hold none
of two features, as OddSHAP (Fumagalli et al. 2026) uses too. Products of three signs that go most along with what is
left join a regression, some at a time (orthogonal matching pursuit, Pati et al. 1993). Where hardly anything is left in
the end, the regression is the game.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Bool, Float, Int

_MOST_FEATURES = 64
_LEAST, _SEARCHED_ON = 64, 256  # coalitions among which interactions are searched for
_ROUNDS, _A_ROUND = 8, 40  # one interaction for so many coalitions, so often
_PROMISING = 0.3  # what the first half of the rounds may leave
_EXPLAINED = 1e-6  # of the variance that a sum over features leaves
_ENOUGH = 1e-8  # of it: the search is over
_NEGLIGIBLE = 1e-5  # of the largest interaction
_ROUNDING = 1e-11


@dataclass(frozen=True)
class Fit:
    """Shapley values and how far off they may be."""

    values: Float[Tensor, "b features"]  # one per feature; they sum to the difference of the ends
    errors: Float[Tensor, "b features"]  # standard errors; NaN where they are not known

    @classmethod
    def without_errors(cls, values: Float[Tensor, "b features"]) -> "Fit":
        """Values from too few coalitions to know how far off they are."""
        return cls(values, torch.full_like(values, torch.nan))


def fitted(signs: Float[Tensor, "b n features"], wanted: Float[Tensor, "b n"]) -> tuple[Fit, Bool[Tensor, " b"]]:
    """Shapley values of games of a sum and few interactions of three features, and which games are such."""
    count, features = signs.shape[1:]
    fit = Fit.without_errors(torch.zeros_like(signs[:, 0]))
    if not 3 <= features <= _MOST_FEATURES or count < max(_LEAST, 3 * features):
        return fit, torch.zeros_like(signs[:, 0, 0], dtype=torch.bool)
    rows = np.linspace(0, count - 1, min(count, _SEARCHED_ON)).round().astype(np.int64)
    some = torch.from_numpy(rows).to(signs.device)
    chosen, explained = _searched(signs[:, some], wanted[:, some])
    if explained.any():
        place = explained.nonzero()[:, 0]
        exact, still = _solved(signs[place], wanted[place], chosen[place])
        fit.values[place], fit.errors[place], explained[place] = exact.values, exact.errors, still
    return fit, explained


def _searched(
    signs: Float[Tensor, "b n features"], wanted: Float[Tensor, "b n"]
) -> tuple[Int[Tensor, "b chosen"], Bool[Tensor, " b"]]:
    """Numbers of the triples that go most along with what is left; negligible ones are -1."""
    count, features = signs.shape[1:]
    pairs, later = _pairs(features)
    both = (signs[:, :, pairs[0]] * signs[:, :, pairs[1]]).float().mT
    later, each = later.to(signs.device), max(1, count // _A_ROUND)
    chosen, design = wanted.new_zeros(len(signs), 0, dtype=torch.long), signs
    slopes = _regressed(design, wanted)[0]
    first = variance = _variance(design, slopes, wanted)
    hopeless = torch.zeros_like(first, dtype=torch.bool)
    for step in range(_ROUNDS):
        hopeless = hopeless | ((step >= _ROUNDS // 2) & (variance > _PROMISING * first))
        done = hopeless | (variance <= _ENOUGH * first)  # whatever others of the batch still need
        if bool(done.all()):
            break
        left = wanted - (design @ slopes[..., None])[..., 0]
        along = (both @ (signs * left[..., None]).float()).abs() * later
        along = along.flatten(1).scatter(1, chosen.clamp(min=0), -1.0)
        more = torch.where(done[:, None], -1, along.topk(each, dim=1).indices)
        chosen = torch.cat((chosen, more), dim=1)
        design = torch.cat((design, _products(signs, more)), dim=2)
        slopes = _regressed(design, wanted)[0]
        variance = _variance(design, slopes, wanted)
    sizes = slopes[:, features:].abs()
    if sizes.shape[1]:
        chosen = torch.where(sizes > _NEGLIGIBLE * sizes.amax(1, keepdim=True), chosen, -1)
    return chosen, ~hopeless & (variance <= _EXPLAINED * first)


def _solved(
    signs: Float[Tensor, "b n features"], wanted: Float[Tensor, "b n"], chosen: Int[Tensor, "b chosen"]
) -> tuple[Fit, Bool[Tensor, " b"]]:
    """Values and errors by all equations, and which games they explain."""
    features = signs.shape[2]
    chosen = chosen.sort(dim=1, descending=True).values
    chosen = chosen[:, : int((chosen >= 0).sum(1).max())]
    design = torch.cat((signs, _products(signs, chosen)), dim=2)
    slopes, inverse = _regressed(design, wanted)
    variance, before = _variance(design, slopes, wanted), _variance(signs, _regressed(signs, wanted)[0], wanted)
    members = torch.cat((2 * torch.eye(features), torch.zeros(features, chosen.shape[1])), dim=1).to(signs)
    members = members.repeat(len(signs), 1, 1)
    for place in _members(features, chosen):
        members[:, :, features:].scatter_(1, place[:, None], 2 / 3)
    members[:, :, features:] *= (chosen >= 0)[:, None]
    values = (members @ slopes[..., None])[..., 0]
    values = values + (2 * wanted[:, -1:] - values.sum(1, keepdim=True)) / features
    errors = ((members @ inverse) * members).sum(2) * variance[:, None]
    floor = 1e-9 * wanted[:, -1:].abs()  # rounding
    return Fit(values, errors.sqrt() + floor), variance <= _EXPLAINED * before


def _regressed(
    design: Float[Tensor, "b n p"], wanted: Float[Tensor, "b n"]
) -> tuple[Float[Tensor, "b p"], Float[Tensor, "b p p"]]:
    """Least squares, and the inverse of the products of the design, 0 for columns of zeros."""
    gram = design.mT @ design
    none = gram.diagonal(dim1=1, dim2=2) == 0
    gram.diagonal(dim1=1, dim2=2).add_(_ROUNDING * design.shape[1] + none.to(gram))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    return (inverse @ (design.mT @ wanted[..., None]))[..., 0], inverse


def _variance(
    design: Float[Tensor, "b n p"], slopes: Float[Tensor, "b p"], wanted: Float[Tensor, "b n"]
) -> Float[Tensor, " b"]:
    """What a regression leaves, for each degree of freedom."""
    left = wanted - (design @ slopes[..., None])[..., 0]
    return left.square().sum(1) / (design.shape[1] - (design[:, 0] != 0).sum(1))


def _products(signs: Float[Tensor, "b n features"], chosen: Int[Tensor, "b k"]) -> Float[Tensor, "b n k"]:
    """The products of three signs; zeros for the number -1."""
    product = (chosen >= 0).to(signs)[:, None].expand(-1, signs.shape[1], -1)
    for place in _members(signs.shape[2], chosen):
        product = product * signs.gather(2, place[:, None].expand(-1, signs.shape[1], -1))
    return product


def _members(features: int, chosen: Int[Tensor, "b k"]) -> list[Int[Tensor, "b k"]]:
    """The three features of each triple, by its number: of two features and of the third."""
    pairs, _ = _pairs(features)
    number = chosen.clamp(min=0)
    two = number // features
    return [pairs[0].to(chosen.device)[two], pairs[1].to(chosen.device)[two], number % features]


@lru_cache(maxsize=64)
def _pairs(features: int) -> tuple[Int[Tensor, "2 pairs"], Float[Tensor, "pairs features"]]:
    """All sets of two features, and 1 for every feature after both, 0 for the others."""
    pairs = torch.triu_indices(features, features, offset=1)
    return pairs, (torch.arange(features) > pairs[1][:, None]).float()
