"""Mahalanobis distance from data, and what distance is usual among them."""

import numpy as np
import torch
from torch import Tensor

from verax.core.shapes import Float

FEWEST = 20  # rows that tell anything about others
FAR = 0.99  # quantile of the data's own distances


class Reference:
    """Rows of data by which distances are judged.

    ``D(z) = sqrt((z - m)^T C^-1 (z - m))``, with columns in standard deviations, and mean m and covariance C of every
    other row, shrunk as far as few rows ask for (Ledoit, Wolf: A well-conditioned estimator for large-dimensional
    covariance matrices, Journal of Multivariate Analysis, 2004). What is usual is measured on the rows between them,
    because rows are nearer to a covariance that was fitted to them than other rows are. Missing values count as the
    mean.

    Args:
        rows: The data, at least 20.

    Attributes:
        typical: Median distance of the data.
        far: The distance beyond which one row in a hundred of the data lies.

    Example: independent normal columns have the chi distribution.
        >>> rows = torch.randn(20000, 4, generator=torch.Generator().manual_seed(0))
        >>> reference = Reference(rows)
        >>> abs(reference.typical - 1.83) < 0.05, abs(reference.far - 3.64) < 0.05
        (True, True)
        >>> round(float(reference.distances(torch.tensor([[3.0, 0.0, 0.0, 0.0]]))), 1)
        3.0
    """

    def __init__(self, rows: Float[Tensor, "m p"]) -> None:
        from sklearn.covariance import ledoit_wolf  # noqa: PLC0415  # to keep ``import verax`` light

        rows = rows.double().cpu()
        self.mean = rows.nanmean(0)
        spread = (rows - self.mean).square().nanmean(0).sqrt()
        self.unit = torch.where(spread > 0, spread, 1.0)
        shaped = self._standardised(rows)
        covariance, _ = ledoit_wolf(shaped[::2].numpy())
        self.middle = shaped[::2].mean(0)
        self.precision = torch.from_numpy(np.linalg.pinv(np.atleast_2d(covariance), hermitian=True))
        own = self.distances(rows[1::2])
        self.typical, self.far = float(own.median()), float(own.quantile(FAR))

    def distances(self, rows: Float[Tensor, "n p"]) -> Float[Tensor, " n"]:
        """How far rows lie from the data."""
        away = self._standardised(rows.double().cpu()) - self.middle
        return ((away @ self.precision) * away).sum(1).clamp(min=0).sqrt()

    def _standardised(self, rows: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        return ((rows - self.mean) / self.unit).nan_to_num(0.0)
