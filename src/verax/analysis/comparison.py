"""Is one attribution better than another? Paired over inputs."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from scipy.stats import t

from verax.analysis import canonical
from verax.analysis.matrices import LEVEL, Floats, Matrix, matrix
from verax.analysis.tables import higher_is_better

Choice = Literal["best", "median"]


@dataclass(frozen=True)
class Comparison:
    """Two configurations on the same inputs.

    Attributes:
        first: Canonical form of the first configuration.
        second: Canonical form of the second.
        metric: What was compared.
        difference: Mean of first minus second.
        low: Lower end of the 95 % interval of that mean (paired t interval).
        high: Upper end.
        share_first_better: Share of inputs where the first is strictly better. Lower is better for Infidelity.
        p_value: Of the paired t-test that there is no difference; NaN where it is undefined (one input).
        inputs: How many inputs were compared.
    """

    first: str
    second: str
    metric: str
    difference: float
    low: float
    high: float
    share_first_better: float
    p_value: float
    inputs: int

    @property
    def better(self) -> str | None:
        """The configuration that is better beyond the interval, or None."""
        if not (self.low > 0 or self.high < 0):
            return None
        return self.first if (self.difference > 0) == higher_is_better(self.metric) else self.second


def compare(scores: pl.DataFrame, model: str, first: str, second: str, metric: str = "dpc_magnitude") -> Comparison:
    """Compare two configurations of one model on the inputs of the study.

    Args:
        scores: The study's scores.
        model: Which model.
        first: Canonical form of a configuration.
        second: Canonical form of another.
        metric: Column to compare by.

    Example:
        >>> scores = pl.DataFrame({
        ...     "model": "m", "configuration": ["Gradient()"] * 3 + ["Random()"] * 3, "input": [0, 1, 2] * 2,
        ...     "dpc_magnitude": [0.5, 0.6, 0.7, 0.1, 0.1, 0.4],
        ... })
        >>> found = compare(scores, "m", "Gradient()", "Random()")
        >>> round(found.difference, 3), found.share_first_better, found.better
        (0.4, 1.0, 'Gradient()')
    """
    rows = scores.filter(pl.col("model") == model, pl.col("configuration").cast(pl.String).is_in([first, second]))
    found = matrix(rows, model, metric)
    for name in (first, second):
        if name not in found.configurations:
            raise ValueError(f"scores: model {model!r} has no values of {metric!r} for {name!r}.")
    a, b = found.values[found.places((first, second))]
    return _compared(first, second, metric, a, b)


def compare_methods(
    scores: pl.DataFrame,
    model: str,
    first: str,
    second: str,
    metric: str = "dpc_magnitude",
    choose: Choice = "best",
    seed: int = 0,
) -> Comparison:
    """Compare two methods by one configuration of each, chosen on half of the inputs, compared on the other half.

    The best of many configurations looks better than it is on the inputs that chose it; other inputs do not flatter
    it. The half that chooses is drawn at random, the smaller half where the number of inputs is odd. To compare parts
    of a method (say, Integrated Gradients without input multiplication), filter the scores first.

    Args:
        scores: The study's scores.
        model: Which model.
        first: Name of a method.
        second: Name of another.
        metric: Column to choose and to compare by.
        choose: ``"best"``: the configuration of the best mean; ``"median"``: the one in the middle (of an even number
            the better of the middle two), which stands for the method used without tuning.
        seed: Which inputs choose.

    Example:
        >>> scores = pl.DataFrame({
        ...     "model": "m", "input": [0, 1, 2, 3] * 3, "dpc_magnitude": [0.5] * 4 + [0.6, 0.7, 0.6, 0.7] + [0.1] * 4,
        ...     "configuration": ["SmoothGrad(sigma=1)"] * 4 + ["SmoothGrad(sigma=2)"] * 4 + ["Random(seed=0)"] * 4,
        ... })
        >>> found = compare_methods(scores, "m", "SmoothGrad", "Random")
        >>> found.first, found.better, found.inputs
        ('SmoothGrad(sigma=2)', 'SmoothGrad(sigma=2)', 2)
    """
    if choose not in ("best", "median"):
        raise ValueError(f'choose: expected "best" or "median", found {choose!r}.')
    found = matrix(scores, model, metric)
    count = len(found.inputs)
    if count < 2:
        raise ValueError(f"scores: choosing and comparing need two inputs of model {model!r}, found {count}.")
    order = np.random.default_rng(seed).permutation(count)
    chooses, compares = order[: count // 2], order[count // 2 :]
    a, b = (_chosen(found, name, chooses, higher_is_better(metric), choose) for name in (first, second))
    values = found.values[:, compares]
    return _compared(found.configurations[a], found.configurations[b], metric, values[a], values[b])


def _chosen(found: Matrix, method: str, inputs: np.ndarray, higher: bool, choose: Choice) -> int:
    places = [place for place, name in enumerate(found.configurations) if canonical.method(name) == method]
    if not places:
        raise ValueError(f"scores: no configuration of {method!r} has values.")
    means = found.values[places][:, inputs].mean(1)
    ranked = np.argsort(-means if higher else means, kind="stable")
    return places[int(ranked[0 if choose == "best" else (len(places) - 1) // 2])]


def _compared(first: str, second: str, metric: str, a: Floats, b: Floats) -> Comparison:
    difference = a - b
    mean, count = float(difference.mean()), len(difference)
    error = float(difference.std(ddof=1)) / count**0.5 if count > 1 else np.nan  # one input shows no spread
    reach = error * float(t.ppf((1 + LEVEL) / 2, count - 1))
    size = abs(mean) / error if error != 0 else np.inf if mean else 0.0
    p_value = 2 * float(t.sf(size, count - 1))
    wins = difference > 0 if higher_is_better(metric) else difference < 0
    return Comparison(first, second, metric, mean, mean - reach, mean + reach, float(wins.mean()), p_value, count)
