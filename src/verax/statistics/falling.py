"""Whether a mean fell, asked again and again: a test whose false alarms stay rare over all looks together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from verax.statistics.intervals import t_quantile
from verax.statistics.totals import ScoreSums

_SHARES = tuple(0.9 * 0.5**power for power in range(8))  # of the largest stake that cannot lose all


@dataclass(frozen=True)
class FallTest:
    """Bets against a mean that is still that of the reference; if they win too much, it is not.

    A capital of 1 is split over all windows in which a fall may begin, ``1 / (t (t + 1))`` for window t, and over eight
    stakes ``s``. From its window on, each part is multiplied by ``1 + s (m - u)`` for every score, where u is the score
    within the range of the reference (0 to 1, clipped) and m a lower confidence bound of the reference's mean. While
    the mean of u, given all before, is at least m, the capital is a supermartingale that is never negative: it reaches
    ``1 / rate`` with a probability of at most ``rate``, ever (Ville's inequality; Waudby-Smith and Ramdas, Estimating
    means of bounded random variables by betting, 2024; e-detectors: Shin, Ramdas and Rinaldo, 2024). No distribution is
    assumed. Half of the rate goes to the bound m, which is Student's t and so takes a mean for about normal.

    Attributes:
        floor: The lowest score of the reference.
        ceiling: The highest.
        bound: The lower confidence bound m of its mean, in units of scores.
        rate: False alarms of the bets, at most; with those of the bound twice that.
        windows: Seen so far.
        capitals: Logarithm of the capital on each stake, before it is divided by their number.

    Example:
        >>> draws = np.random.default_rng(0)
        >>> test = FallTest.against(draws.normal(0.5, 0.1, 500), rate=0.05)
        >>> for mean in (0.5, 0.5, 0.4):
        ...     test = test.after(draws.normal(mean, 0.1, 200))
        ...     print(test.alarm)
        False
        False
        True
    """

    floor: float
    ceiling: float
    bound: float
    rate: float
    windows: int = 0
    capitals: tuple[float, ...] = (-math.inf,) * len(_SHARES)

    @classmethod
    def against(cls, reference: npt.NDArray[np.float64], rate: float) -> "FallTest":
        """The test against some reference scores, all at hand."""
        import torch  # noqa: PLC0415  # for the sums alone

        sums = ScoreSums.of(torch.from_numpy(reference))
        return cls.from_sums(sums, float(reference.min()), float(reference.max()), rate)

    @classmethod
    def from_sums(cls, sums: ScoreSums, floor: float, ceiling: float, rate: float) -> "FallTest":
        """The test against a reference of which sums and range are known.

        Args:
            sums: Of the scores of the reference.
            floor: Its lowest score.
            ceiling: Its highest.
            rate: False alarms, at most, over all windows that will ever come.
        """
        if not floor < ceiling:
            raise ValueError(
                f"reference: all {sums.count} scores are {floor:.4g}, so that no fall can be told from it."
            )
        reach = t_quantile(1 - rate / 2, sums.count - 1) * math.sqrt(sums.variance / sums.count)
        return cls(floor, ceiling, sums.mean - reach, rate / 2)

    def gains(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """What some scores add to the logarithm of each capital; those of parts of a window add up."""
        span = self.ceiling - self.floor
        bound = (self.bound - self.floor) / span
        within = (np.clip(scores, self.floor, self.ceiling) - self.floor) / span
        stakes = np.array(_SHARES) / (1 - bound)
        found: npt.NDArray[np.float64] = np.log1p(stakes[:, None] * (bound - within)).sum(1)
        return found

    def after(self, scores: npt.NDArray[np.float64]) -> "FallTest":
        """The test after one more window."""
        return self.after_gains(self.gains(scores).tolist())

    def after_gains(self, gains: Sequence[float]) -> "FallTest":
        """The same from the gains of the window's scores."""
        number = self.windows + 1
        fresh = -math.log(number * (number + 1))
        capitals = np.logaddexp(self.capitals, fresh) + np.asarray(gains)
        return replace(self, windows=number, capitals=tuple(capitals.tolist()))

    @property
    def log_evidence(self) -> float:
        """Logarithm of the capital: 0 at the beginning, the higher the surer that the mean fell."""
        running = float(np.logaddexp.reduce(self.capitals)) - math.log(len(self.capitals))
        return float(np.logaddexp(running, -math.log(self.windows + 1)))

    @property
    def alarm(self) -> bool:
        """Whether the evidence is too much for chance."""
        return self.log_evidence >= -math.log(self.rate)
