"""What the paper says about HELOC, each statement with the rule by which a table of ours agrees with it.

Part of ``scripts/search_reading.py``. The rules were written before the search was run.

**Numbers.** The paper trained one model; our figure is the mean over seeds of the split and of training. A number holds
if ours is as near to it as one further seed would be: ``|mean - paper| <= reach``, where reach is half of Student's
95 % *prediction* interval over seeds, but at least 0.05 (10 % of a set's size), because details that the paper does not
give move every figure a little, and at most 0.15 (a third of a set's size), so that no combination holds by being
vague.

**Sentences.** A figure per seed that is above 0 where the sentence is true; it holds if Student's 95 % interval of its
mean over seeds is above 0. "Often" and "most" are shares, which hold if their mean is at least a half. A box is a
method's configurations, as in the paper's figures, of Integrated Gradients and DeepLiftSHAP those times inputs; boxes
are compared by their medians.

Scores that differ by rounding alone are equal in rank correlations and Pareto sets, as in the library (1e-8 of their
spread when the search was run, 1e-10 since). ``Means.exact`` takes them as they are, as the paper may have done: for a
second look, not for the choice.

**Axes.** The paper gives no values of PC, DPC and Infidelity; the ranges of its plots' axes are used up to a factor
of two, and only where the area's unknown normalisation cancels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from verax.statistics.intervals import t_quantile
from verax.statistics.ranks import Floats, spearman, tied
from verax.study.ranking import FRACTION, front
from verax.study.summary import method_of, with_other_input_factor

Rule = Literal["near", "near share", "above 0", "half", "factor of two"]
TIMES_INPUTS = ("IntegratedGradients", "DeepLiftSHAP")
EQUAL = 0.01  # of the gradient's lead over random: methods closer than this to it count as equal to it

Places = NDArray[np.intp]  # of configurations


@dataclass(frozen=True)
class Means:
    """Mean scores over inputs of one trained model, one number per configuration.

    Attributes:
        exact: Whether means that differ by rounding alone are ranked all the same.
    """

    configurations: tuple[str, ...]
    pc: Floats
    dpc: Floats
    infidelity: Floats
    norm: Floats
    exact: bool = False

    def compared(self, places: Places) -> tuple[Floats, Floats]:
        """DPC and Infidelity of some configurations, ready to be ranked."""
        scores = self.dpc[places], self.infidelity[places]
        dpc, infidelity = (_places_in_order(one) if self.exact else tied(one) for one in scores)
        return dpc, infidelity

    def box(self, method: str, *, times_inputs: bool = True) -> Places:
        """The places of a method's configurations, of Integrated Gradients and DeepLiftSHAP one kind."""
        kind = f"multiply_by_inputs={times_inputs}" if method in TIMES_INPUTS else ""
        chosen = [method_of(name) == method and kind in name for name in self.configurations]
        return np.flatnonzero(chosen)

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods but random, in their order."""
        return tuple(dict.fromkeys(name for name in map(method_of, self.configurations) if name != "Random"))

    def medians(self, scores: Floats) -> dict[str, float]:
        """The median of each box, random's among them."""
        return {name: float(np.median(scores[self.box(name)])) for name in (*self.methods, "Random")}

    @property
    def lime(self) -> Places:
        """The places of LIME's configurations."""
        return self.box("LimeTabular")

    @property
    def others(self) -> Places:
        """The places of the 44 configurations that are neither LIME nor random."""
        methods = map(method_of, self.configurations)
        return np.flatnonzero([name not in ("LimeTabular", "Random") for name in methods])


@dataclass(frozen=True)
class Statement:
    """Something the paper says about one model.

    Attributes:
        counted: Whether it is among those by which combinations are ranked; the others are shown beside.
        paper: The paper's number, 0 for a sentence.
    """

    name: str
    model: str
    figure: Callable[[Means], float]
    rule: Rule
    paper: float = 0.0
    counted: bool = True

    def judged(self, seeds: Sequence[Means]) -> "Verdict":
        """Whether it holds in the tables of some seeds."""
        figures = np.array([self.figure(one) for one in seeds])
        mean, spread, count = float(figures.mean()), float(figures.std(ddof=1)), len(figures)
        student = t_quantile(0.975, count - 1)
        if self.rule == "above 0":
            holds = mean - student * spread / math.sqrt(count) > 0
        elif self.rule == "half":
            holds = mean >= 0.5
        elif self.rule == "factor of two":
            holds = abs(math.log2(mean / self.paper)) <= 1 if mean > 0 else False
        else:
            least, most = (0.05, 0.15) if self.rule == "near" else (0.1 * self.paper, self.paper / 3)
            reach = float(np.clip(student * spread * math.sqrt(1 + 1 / count), least, most))
            holds = abs(mean - self.paper) <= reach
        return Verdict(mean, student * spread / math.sqrt(count), bool(holds))


@dataclass(frozen=True)
class Verdict:
    """A statement's figure: its mean over seeds, half of its 95 % interval, and whether the statement holds."""

    mean: float
    half: float
    holds: bool


def _places_in_order(values: Floats) -> Floats:
    """0 for the smallest, 1 for the next: what is not equal is then at least 1 apart."""
    return np.unique(values, return_inverse=True)[1].astype(np.float64)


def rank_agreement(means: Means, places: Places) -> float:
    """Spearman correlation of DPC and Infidelity; what differs by rounding alone shares its rank."""
    return float(spearman(*means.compared(places)))


def pareto_size(means: Means, places: Places) -> float:
    """How many configurations no other one dominates; what differs by rounding alone is equal."""
    return float(front(*means.compared(places)).sum())


def gradient_best(means: Means) -> float:
    """The gradient is above each box, or equal to it, and the boxes that differ on a linear model reach half of it."""
    medians = means.medians(means.dpc)
    gradient = medians.pop("Gradient")
    equal = EQUAL * abs(gradient - medians["Random"])
    other = max(medians[name] for name in (*TIMES_INPUTS, "VarGrad", "Random"))
    return min(gradient - max(medians.values()) + equal, gradient - other - 0.5 * abs(gradient))


def shap_below_random(means: Means) -> float:
    """The share of DeepLiftSHAP's configurations that are below random's median."""
    return float((means.dpc[means.box("DeepLiftSHAP")] < means.medians(means.dpc)["Random"]).mean())


def gradient_like_random(means: Means) -> float:
    """How much nearer the gradient is to random than half of the way from random to Integrated Gradients, under PC."""
    medians = means.medians(means.pc)
    random = medians["Random"]
    return 0.5 * (medians["IntegratedGradients"] - random) - abs(medians["Gradient"] - random)


def baseline_oriented_best(means: Means) -> float:
    """How far Integrated Gradients and DeepLiftSHAP are both above each other box, under PC."""
    medians = means.medians(means.pc)
    return min(medians.pop(name) for name in TIMES_INPUTS) - max(medians.values())


def local_twin_above(means: Means, method: str) -> float:
    """How far configurations without input multiplication are above their twins with it, the median of pairs."""
    with_inputs = means.box(method)
    places = {name: at for at, name in enumerate(means.configurations)}
    twins = [places[str(with_other_input_factor(means.configurations[at]))] for at in with_inputs]
    return float(np.median(means.dpc[twins] - means.dpc[with_inputs]))


def methods_above_random(means: Means) -> float:
    """The share of boxes that are above random under DPC."""
    medians = means.medians(means.dpc)
    random = medians.pop("Random")
    return float(np.mean([value > random for value in medians.values()]))


def near_zero_worst(means: Means) -> float:
    """LIME's near-zero configurations have worse Infidelity in 90 % of pairs, and DPC within 10 % of LIME's largest.

    The smaller of the two margins; below 0 where there are no such configurations.
    """
    norm, dpc, infidelity = (values[means.lime] for values in (means.norm, np.abs(means.dpc), means.infidelity))
    near = norm < FRACTION * np.median(norm)
    if not near.any() or near.all():
        return -1.0
    worse = float((infidelity[near][:, None] > infidelity[~near][None]).mean())
    return min(worse - 0.9, 0.1 - float(np.median(dpc[near]) / dpc.max()))


def span(means: Means, scores: Floats) -> float:
    """From the lowest to the highest configuration of all boxes, as the paper's axes have to show them."""
    shown = scores[np.concatenate([means.box(name) for name in (*means.methods, "Random")])]
    return float(shown.max() - shown.min())


def span_ratio(means: Means) -> float:
    """How long the axis of DPC is to be, as a share of PC's: the unknown normalisation of the area cancels."""
    return span(means, means.dpc) / span(means, means.pc)


def none_above_zero(means: Means) -> float:
    """A tenth of DPC's span less its highest value: the paper's axis for HELOC-Linear ends at 0."""
    shown = np.concatenate([means.box(name) for name in (*means.methods, "Random")])
    return 0.1 * span(means, means.dpc) - float(means.dpc[shown].max())


def worst_infidelity(means: Means) -> float:
    """LIME's largest."""
    return float(means.infidelity[means.lime].max())


def _both(name: str, figure: Callable[[Means], float], *, counted: bool, rule: Rule = "above 0") -> list[Statement]:
    return [Statement(name, model, figure, rule, counted=counted) for model in ("linear", "mlp")]


STATEMENTS: tuple[Statement, ...] = (
    Statement("Spearman, 44", "linear", lambda m: rank_agreement(m, m.others), "near", -0.71),
    Statement("Spearman, 44", "mlp", lambda m: rank_agreement(m, m.others), "near", -0.42),
    Statement("Spearman, LIME", "linear", lambda m: rank_agreement(m, m.lime), "near", -0.83),
    Statement("Spearman, LIME", "mlp", lambda m: rank_agreement(m, m.lime), "near", 0.70),
    Statement("Pareto set, LIME", "linear", lambda m: pareto_size(m, m.lime), "near share", 9),
    Statement("Pareto set, LIME", "mlp", lambda m: pareto_size(m, m.lime), "near share", 21),
    Statement("Pareto set, 44", "linear", lambda m: pareto_size(m, m.others), "near share", 23),
    Statement("Pareto set, 44", "mlp", lambda m: pareto_size(m, m.others), "near share", 17),
    Statement("DPC: gradient substantially best", "linear", gradient_best, "above 0"),
    Statement("DPC: DeepLiftSHAP often below random", "linear", shap_below_random, "half"),
    *_both("PC: gradient like random", gradient_like_random, counted=True),
    *_both("PC: IG and DeepLiftSHAP best", baseline_oriented_best, counted=True),
    *_both("DPC: IG alone above IG x input", lambda m: local_twin_above(m, "IntegratedGradients"), counted=False),
    *_both("DPC: DeepLiftSHAP alone above x input", lambda m: local_twin_above(m, "DeepLiftSHAP"), counted=False),
    *_both("DPC: most methods above random", methods_above_random, counted=False, rule="half"),
    *_both("LIME near zero: worst Infidelity, DPC near 0", near_zero_worst, counted=False),
    Statement("axis: LIME's worst Infidelity", "linear", worst_infidelity, "factor of two", 2e-4, False),
    Statement("axis: LIME's worst Infidelity", "mlp", worst_infidelity, "factor of two", 1.5e-4, False),
    Statement("axis: DPC's span over PC's", "linear", span_ratio, "factor of two", 6e-4 / 8e-3, False),
    Statement("axis: DPC's span over PC's", "mlp", span_ratio, "factor of two", 8e-4 / 4e-3, False),
    Statement("axis: DPC not above 0", "linear", none_above_zero, "above 0", counted=False),
)  # fmt: skip


def judge(tables: Mapping[str, Sequence[Means]]) -> list[Verdict]:
    """The verdicts on all statements.

    Args:
        tables: For each model, ``"linear"`` and ``"mlp"``, the means of at least two seeds.
    """
    return [statement.judged(tables[statement.model]) for statement in STATEMENTS]


def count(verdicts: Sequence[Verdict], *, counted: bool) -> int:
    """How many statements hold, of those that are counted or of the others."""
    pairs = zip(STATEMENTS, verdicts, strict=True)
    return sum(verdict.holds for statement, verdict in pairs if statement.counted == counted)
