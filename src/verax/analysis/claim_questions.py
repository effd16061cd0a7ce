"""The paper's claims as questions to a study: what is claimed, what decides it, and for which models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from verax.analysis import claim_rules_agreement as agreement
from verax.analysis import claim_rules_costs as costs
from verax.analysis import claim_rules_methods as methods
from verax.analysis.evidence import Answer, Evidence
from verax.analysis.paper import PAPER, SPEED_UP_MEAN, SPEED_UP_MEDIAN, PaperModel
from verax.analysis.tables import Tables


@dataclass(frozen=True)
class Question:
    """A claim about models.

    Attributes:
        number: The claim's number; 0 for the table of models.
        claim: What the paper says.
        ask: Answers it for one model.
        rule: How the verdict is decided, in words.
        paper: The paper's value for one of its models.
        linear_only: Whether it is about linear models.
        only: The models that it is about, where the paper names them.
    """

    number: int
    claim: str
    ask: Callable[[Evidence], Answer]
    rule: str
    paper: Callable[[PaperModel], str] = lambda _: "figure"
    linear_only: bool = False
    only: tuple[str, ...] = ()

    def concerns(self, name: str, *, linear: bool) -> bool:
        """Whether it is about a model of this name and kind."""
        return (not self.only or name in self.only) and (linear or not self.linear_only)


@dataclass(frozen=True)
class StudyQuestion:
    """A claim about a study as a whole; the attributes are those of ``Question``, ``paper`` is the value itself."""

    number: int
    claim: str
    ask: Callable[[Tables, Sequence[Evidence]], Answer]
    rule: str
    paper: str


_MEDIAN = "A method counts with the median over its configurations of their means over inputs. "
_INTERVAL = "the 95 % bootstrap interval over inputs"

QUESTIONS: tuple[Question | StudyQuestion, ...] = (
    Question(
        0,
        "AUROC on the test split",
        costs.auroc,
        "Within 1 percentage point of the paper's.",
        paper=lambda model: f"{model.auroc:.2%}",
        only=tuple(PAPER),
    ),
    Question(
        0,
        "Accuracy on the test split",
        costs.accuracy,
        "Within 2 percentage points of the paper's.",
        paper=lambda model: f"{model.accuracy:.2%}",
        only=tuple(PAPER),
    ),
    Question(
        1,
        "PC rates baseline-oriented methods above local ones",
        methods.pc_prefers_baseline,
        _MEDIAN
        + "IG and DeepLiftSHAP, both times inputs, are each above each local method (Random and Edges apart) by a "
        f"difference for which {_INTERVAL} is above 0.",
    ),
    Question(
        2,
        "PC rates the gradient about as high as a random attribution",
        methods.pc_gradient_like_random,
        _MEDIAN + "The gradient is nearer to random than half the distance from random to IG times inputs, at the "
        f"lower end of {_INTERVAL} as well.",
    ),
    *(
        Question(
            3,
            f"PC rates {name} with input multiplication above its pseudo-local variant",
            partial(methods.pc_prefers_multiplied, method=method),
            "The median over pairs that differ only in the multiplication of the difference of their means is above 0, "
            f"and so is {_INTERVAL}.",
        )
        for name, method in (("IG", "IntegratedGradients"), ("DeepLiftSHAP", "DeepLiftSHAP"))
    ),
    *(
        Question(
            4,
            f"DPC rates the pseudo-local variant of {name} above the one with input multiplication",
            partial(methods.dpc_prefers_local, method=method),
            "The median over pairs that differ only in the multiplication of the difference of their means is below 0, "
            f"and so is {_INTERVAL}.",
        )
        for name, method in (("IG", "IntegratedGradients"), ("DeepLiftSHAP", "DeepLiftSHAP"))
    ),
    StudyQuestion(
        4,
        "DPC's preference for pseudo-local variants is weaker on images",
        lambda _, evidences: methods.weaker_on_images(evidences),
        "The share of inputs on which the pseudo-local one of a pair scores higher, averaged over pairs and models, is "
        f"lower on image models than on tabular models, and {_INTERVAL} of the difference agrees.",
        "figure",
    ),
    Question(
        5,
        "DPC rates the gradient best on linear models",
        methods.dpc_gradient_best,
        _MEDIAN
        + f"For no other method does {_INTERVAL} reach further above the gradient than 1 % of the gradient's lead over "
        "random. (On a linear model several methods equal the gradient, hence the allowance.)",
        linear_only=True,
    ),
    Question(
        5,
        "DPC often rates DeepLiftSHAP below random",
        methods.shap_below_random,
        _MEDIAN + f"DeepLiftSHAP times inputs less Random is below 0, and so is {_INTERVAL}: at least half of the "
        "configurations are below random.",
        only=("HELOC-Linear",),
    ),
    Question(
        6,
        "Random is below most methods under DPC",
        methods.random_below_most,
        _MEDIAN + f"More than half of the methods (Edges apart) are above Random by a difference for which {_INTERVAL} "
        "is above 0.",
    ),
    Question(
        7,
        "Spearman correlation of DPC with local Infidelity, all methods but LIME",
        agreement.metrics_agree,
        f"Negative, as in the paper, and so is {_INTERVAL}.",
        paper=lambda model: f"{model.spearman:+.2f}",
    ),
    Question(
        8,
        "Spearman correlation of DPC with local Infidelity, LIME alone",
        agreement.metrics_agree_on_lime,
        f"The paper's sign, and {_INTERVAL} does not reach 0; where the paper's value is below 0.3 in size, the "
        "interval lies within -0.3 and 0.3; for other models than the paper's, negative.",
        paper=lambda model: f"{model.lime_spearman:+.2f}",
    ),
    Question(
        9,
        "The Pareto set of DPC and Infidelity over the LIME grid is small",
        agreement.pareto_set_small,
        "At most 5 % of the grid (the paper's largest is 2.9 %); a grid of fewer than 500 configurations is too small.",
        paper=lambda model: f"{model.pareto} of {model.lime_configurations}",
    ),
    Question(
        10,
        "LIME configurations with near-zero attributions are worst under Infidelity and near 0 under DPC",
        agreement.near_zero_worst,
        "Near zero: a mean norm below a tenth of the median of LIME's configurations. Of all pairs of one of them with "
        "one of the others, 90 % have the larger Infidelity in the one near zero; and half of them or more have at "
        "most a tenth of LIME's largest absolute DPC.",
    ),
    Question(
        11,
        "LIME with dataset-mean replacement scores high under Infidelity, with image-mean under DPC",
        agreement.replacements_differ,
        "Of the best 5 % of LIME's configurations more than half replace by the dataset mean under Infidelity (low "
        "values are good) and by the image mean under DPC, each in 95 % of the resamples of inputs.",
        only=("ISIC-Linear",),
    ),
    Question(
        12,
        "Most Infidelity values lie in a narrow band",
        costs.narrow_band,
        "The middle half of the configurations' means spans at most 10 % of their median.",
    ),
    Question(
        12,
        "Infidelity's Monte-Carlo deviation makes methods hard to tell apart at 20 to 640 draws",
        costs.methods_overlap,
        "At every number of draws at least half of the pairs of methods overlap: the bands of one standard deviation "
        "over resamples of draws around their means over inputs touch.",
    ),
    Question(
        13,
        "Model evaluations per attribution, Infidelity against DPC",
        costs.rows_per_attribution,
        "For one attribution alone Infidelity, with the paper's 640 draws or more, needs at least 16 times the rows.",
        paper=lambda _: "640 against 40: 16x",
    ),
    Question(
        14,
        "Wall clock, Infidelity against DPC",
        costs.wall_clock,
        "The ratio of seconds is at least half of the paper's mean ratio; seconds themselves are another machine's.",
        paper=lambda _: f"{SPEED_UP_MEAN:.2f}x mean, {SPEED_UP_MEDIAN:.2f}x median",
        only=("ISIC-Inception",),
    ),
    Question(
        15,
        "PC and DPC together need no further evaluations",
        costs.no_further_rows,
        "PC and DPC (ranked by magnitude, the reading of all other claims) need no more rows than DPC alone.",
        paper=lambda _: "text",
    ),
    Question(
        15,
        "PC and DPC together against two Infidelity runs",
        costs.two_infidelity_runs,
        "Two Infidelity runs need at least 10 times the rows, half of the paper's 20.",
        paper=lambda _: "about 20x",
    ),
    StudyQuestion(
        16,
        "DPC is deterministic",
        lambda tables, _: costs.deterministic(tables),
        "`verax verify` recomputed stored scores and found the same bits.",
        "text",
    ),
    Question(
        17,
        "Theorem 1: what satisfies Sensitivity-N is optimal under PC",
        methods.theorem_one,
        "On a linear model no configuration has a mean PC above that of IG from the mean baseline times inputs by more "
        "than 1 % of it. (IG starts at the mean of the background, PC ends at zero: the same where data are centred.)",
        paper=lambda _: "proof",
        linear_only=True,
    ),
)
