"""Wilcoxon's signed-rank test of paired scores."""

from torch import Tensor

from verax.core.shapes import Float


def signed_rank_p(differences: Float[Tensor, " n"]) -> float:
    """The p-value of Wilcoxon's signed-rank test that paired differences are spread evenly around 0, two-sided.

    Differences of 0 do not count; where all are 0 nothing speaks against it and the value is 1.

    Args:
        differences: One per input.

    Example:
        >>> import torch
        >>> round(signed_rank_p(torch.arange(1.0, 7.0)), 4), signed_rank_p(torch.zeros(5))
        (0.0312, 1.0)
    """
    from scipy.stats import wilcoxon  # noqa: PLC0415  # to keep ``import verax`` light

    values = differences.double().cpu()
    moved = values[values != 0]
    return 1.0 if len(moved) == 0 else float(wilcoxon(moved.numpy()).pvalue)
