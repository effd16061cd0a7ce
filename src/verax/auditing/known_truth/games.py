"""Shapley values in closed form, of the two games that the cases are made of: products and pairs."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float


def product_shares(
    present: Float[Tensor, "n factors"], absent: Float[Tensor, "#n factors"]
) -> Float[Tensor, "n factors"]:
    """Shapley values of a product in which every factor is one of two numbers.

    The Shapley value is the integral of the game's multilinear extension along the diagonal (Owen 1972), here
    ``(p_i - q_i) * integral_0^1 prod_{j != i} (q_j + t (p_j - q_j)) dt``: a polynomial, which Gauss's rule integrates
    exactly.

    Args:
        present: Each factor with its feature there, ``p``.
        absent: Each factor with its feature replaced, ``q``.

    Example: a product of two is shared in halves where both replacements are 0.
        >>> product_shares(torch.tensor([[2.0, 3.0]]).double(), torch.zeros(1, 2).double())
        tensor([[3., 3.]], dtype=torch.float64)
    """
    factors = present.shape[1]
    points, weights = (torch.from_numpy(one) for one in np.polynomial.legendre.leggauss(factors // 2 + 1))
    change = present - absent
    between = absent[:, None] + (points[:, None] + 1) / 2 * change[:, None]  # (n, points, factors)
    others = [between[:, :, torch.arange(factors) != one].prod(2) @ weights / 2 for one in range(factors)]
    return change * torch.stack(others, dim=1)


def pair_shares(
    game: Callable[[Float[Tensor, "n two"]], Float[Tensor, " n"]],
    present: Float[Tensor, "n two"],
    absent: Float[Tensor, "#n two"],
) -> Float[Tensor, "n two"]:
    """Shapley values of any function of two features: the mean over the two orders in which they come."""
    absent = absent.expand_as(present)
    first = game(torch.stack((present[:, 0], absent[:, 1]), dim=1))
    second = game(torch.stack((absent[:, 0], present[:, 1]), dim=1))
    both, none = game(present), game(absent)
    return torch.stack((first - none + both - second, second - none + both - first), dim=1) / 2
