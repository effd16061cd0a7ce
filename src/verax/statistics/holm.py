"""Holm's correction: several tests at once, with the chance of any false alarm held at one level."""

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value as it counts among several; whoever is below ``alpha`` then, is so at that family-wise level.

    ``max over smaller ones of min(1, (m - rank) p)``; a p-value that is not known counts as 1.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics, 1979.

    Example:
        >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    known = [1.0 if math.isnan(p) else p for p in p_values]
    corrected, highest = [1.0] * len(known), 0.0
    for rank, place in enumerate(sorted(range(len(known)), key=known.__getitem__)):
        highest = max(highest, min(1.0, (len(known) - rank) * known[place]))
        corrected[place] = highest
    return corrected
