"""Prediction Change, Directed Prediction Change and Local Prediction Change: readings of one guided experiment."""

from dataclasses import dataclass
from typing import ClassVar

from verax.core.arguments import checked_choice, checked_positive, settle
from verax.metrics.base import Kind
from verax.metrics.weighted_area import Curve, DirectedArea, Reading, Steps, WeightedArea
from verax.perturbation.block import Order
from verax.perturbation.removed_sets import Area, Experiment, Rule
from verax.problem.replacement import Nudge, Replacement

_PAPER = (
    "Iselborn, Dembinsky, Lucieri, Dengel: The Directed Prediction Change - Efficient and Trustworthy Fidelity "
    "Assessment for Local Feature Attribution Methods"
)
BLIND_TO_A_CONSTANT = (
    "It is blind to a constant added to all attributions, which leaves their order as it was."  # signed order
)
PREFERS_FAR_FEATURES = "It prefers slopes that are resized by how far each feature is from its baseline to the slopes."


@dataclass(frozen=True)
class PredictionChange(WeightedArea):
    r"""Prediction Change (PC): the drop of the class score as features go in the order of their attributions.

    With ``M`` and ``L`` the scores as the most and the least relevant features go first, at ``N = steps + 1`` points:
    ``sum_i (L_i - M_i) w_i / sum_{i>=2} w_i``, ``w_i = ((N - i + 1) / N)^3`` (the weighted area between perturbation
    curves, or Decaying Degradation Score, of Simic, Veas and Sabol). Rates baseline-oriented attributions; see
    ``DirectedPredictionChange`` for local ones.

    Args:
        order: ``"signed"``, by the attribution (what Theorem 1 of the paper needs), or ``"magnitude"``, by its size.
        steps: Number of perturbation steps, or ``"adaptive"``: the score at one feature per step is estimated, in steps
            that are refined where curves bend, until its error is below ``tolerance``; results
            then have ``error`` and ``steps_used``.
        curve: ``"cumulative"``, the ordinary perturbation curve, or ``"increments"``, for a sensitivity check.
        area: ``"between"`` the curves, or ``"morf"``: between the unperturbed score and the MoRF curve alone,
            ``sum_i (M_1 - M_i) w_i / sum_{i>=2} w_i``, from half the model rows.
        replacement: What removed features become, one of ``verax.replacement``; None for what the call says.
        tolerance: With adaptive steps, the error to stop at, in the unit of the tracked score; ignored with
            fixed steps.

    Known limitations: a constant added to all attributions leaves their order, and so PC, as it was.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> verax.evaluate(verax.Problem(model, x), x, [PredictionChange(steps=2)])["pc"].morf.shape
        torch.Size([8, 3])
    """

    order: Order = "signed"
    steps: Steps = 20
    curve: Curve = "cumulative"
    area: Area = "between"
    replacement: Replacement | None = None
    tolerance: float = 0.01

    name: ClassVar[str] = "pc"
    label: ClassVar[str] = "PC"
    asks: ClassVar[str] = "Does the score fall early if the largest attributions go first, and late if they go last?"
    kind: ClassVar[Kind] = "baseline"
    citation: ClassVar[str] = "Simic, Veas, Sabol: Perturbation effect: a metric to counter misleading validation"

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("signed", "magnitude"))
        super().__post_init__()

    @property
    def experiment(self) -> Experiment:
        return self.in_steps(self.order, "sum", self.area, self.replacement, self.tolerance)

    @property
    def known_limitations(self) -> str:
        if self.order == "magnitude":
            return "It gives an attribution and its negation the same score: only sizes order the features."
        return BLIND_TO_A_CONSTANT


@dataclass(frozen=True)
class DirectedPredictionChange(DirectedArea):
    """Directed Prediction Change (DPC): PC with each step's change signed by attribution and direction (eq. 13).

    ``DPC_t = sign(A_t) sign(D_t) (s(pi_t) - s(pi_{t-1}))``, where ``A_t`` is the sum of the attributions that step t
    removes and ``D_t`` that of ``x - baseline`` over the same features; the value is the weighted area between the
    curves ``C_t = C_{t-1} + DPC_t``, least and most relevant features first. Rates local attributions.

    Where it is computed: ranks in ``perturbation/block.py`` (``removal_order``); cut points there too (``cut_points``);
    curves in ``perturbation/guided.py`` (``guided_scores``); signs in ``perturbation/removed_sets.py``
    (``RemovedSets.signs``), put on the steps in ``metrics/weighted_area.py``
    (``DirectedArea.changes``); the area in ``metrics/areas.py`` (``weighted_abpc``).

    Known limitations: in signed order a constant added to all attributions leaves the score as it was. By magnitude,
    with one feature per step, ``a`` and ``-1/a`` have the same score for every model, so that a false explanation can
    win; ``docs/open-questions.md`` shows it on three features. ``verax.metrics.LocalPredictionChange`` has neither and
    is local; ``area="morf"`` mends the second.

    Args:
        order: The reading of the paper's definition. ``"signed"`` (default, most likely the paper's by a search whose
            rule was stated first, ``docs/results/reading-search.md``) removes by signed attribution and multiplies
            with ``|sign(A_t)| sign(D_t)``, sharing every model evaluation with PC; ``"magnitude"`` removes by size and
            multiplies with ``sign(A_t) sign(D_t)``; ``"literal"`` removes by signed attribution and multiplies with
            both signs: for audits only, it cannot distinguish ``a`` from ``-a``.
        steps: Number of perturbation steps, or ``"adaptive"``: the score at one feature per step is estimated, in steps
            that are refined where curves bend or directions conflict, until its error is below ``tolerance``; results
            then have ``error`` and ``steps_used``. All rules are equal then, except
            that for groups ``dot`` and ``coherent`` sum up what an attribution predicts.
        curve: ``"cumulative"`` (default) or ``"increments"``, for a sensitivity check.
        rule: How a step of many features is directed; at one feature per step all are equal. ``"sum"`` (default) is
            the paper's. ``"dot"`` takes ``sign(sum_i a_i (x_i - b_i))``, the change that the attribution predicts.
            ``"coherent"`` lets the features go first for which it predicts a drop, then those for which it predicts a
            rise, and counts both as predicted: with M the score in between,
            ``DPC_t = (M - s_{t-1}) - (s_t - M)``; up to twice the model rows, and values may exceed 1. With
            ``order="signed"`` they take ``|a_i|`` for ``a_i``.
        area: ``"between"`` the curves, or ``"morf"``: between the unperturbed score and the directed MoRF curve alone,
            ``sum_i (C_1 - C_i) w_i / sum_{i>=2} w_i``, from half the model rows.
        replacement: What removed features become, one of ``verax.replacement``; None for what the call says.
        tolerance: With adaptive steps, the error to stop at, in the unit of the tracked score; ignored with
            fixed steps.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> gradient = model.weight[1].expand(8, 4)
        >>> problem = verax.Problem(model, x, target=1)
        >>> results = verax.evaluate(problem, gradient, ["dpc", "pc"])
        >>> results.rows == results["pc"].rows  # one experiment serves both
        True
    """

    order: Reading = "signed"
    steps: Steps = 20
    curve: Curve = "cumulative"
    rule: Rule = "sum"
    area: Area = "between"
    replacement: Replacement | None = None
    tolerance: float = 0.01

    name: ClassVar[str] = "dpc"
    label: ClassVar[str] = "DPC"
    asks: ClassVar[str] = "Does the score move as the signs of the attributions say, most where they are largest?"
    citation: ClassVar[str] = _PAPER

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("magnitude", "signed", "literal"))
        checked_choice("rule", self.rule, ("sum", "dot", "coherent"))
        if self.order == "literal" and self.rule != "sum":
            raise ValueError(f'rule: the literal reading has the paper\'s rule "sum" alone, got {self.rule!r}.')
        super().__post_init__()

    @property
    def experiment(self) -> Experiment:
        order: Order = "magnitude" if self.order == "magnitude" else "signed"
        return self.in_steps(order, self.rule, self.area, self.replacement, self.tolerance)

    @property
    def reading(self) -> Reading:
        return self.order

    @property
    def known_limitations(self) -> str:
        if self.order == "literal":
            return "It cannot distinguish an attribution from its negation."
        if self.order == "signed":
            return f"{BLIND_TO_A_CONSTANT} {PREFERS_FAR_FEATURES}"
        if self.area == "between":
            return (
                "It gives an attribution a and its negated inverse -1/a the same score (one feature per step), so a "
                f"false explanation can win; lpc distinguishes them. {PREFERS_FAR_FEATURES}"
            )
        return PREFERS_FAR_FEATURES


@dataclass(frozen=True)
class LocalPredictionChange(DirectedArea):
    """Local Prediction Change (LPC): does the score move as attributions say when features are nudged, largest first?

    Features go in the order of ``|a|``; each moves by the same small amount towards its baseline instead of becoming
    it. Within a step the features whose nudge is predicted to lower the score go first, then those that are predicted
    to raise it, and both count as predicted. The value is the weighted area between the unperturbed score and the
    directed curve, ``sum_i (C_1 - C_i) w_i / sum_{i>=2} w_i``. It is
    ``DirectedPredictionChange("magnitude", rule="coherent", area="morf", replacement=Nudge(epsilon))``.

    With one feature per step and epsilon towards 0, the gradient (per standard deviation) attains the best possible
    value on every input of a differentiable model, and no other attribution of other order or signs does. Values shrink
    with epsilon: compare at one epsilon, or divide by the limits. On trees a small nudge changes nothing and every
    attribution scores 0.

    Args:
        steps: Number of perturbation steps, or ``"adaptive"``: the score at one feature per step is estimated, in steps
            that are refined where curves bend or directions conflict, until its error is below ``tolerance``; results
            then have ``error`` and ``steps_used``.
        epsilon: Size of the nudge of one element, in standard deviations of the call's background, or in units of
            standardised inputs. In single precision much smaller ones drown in rounding.
        tolerance: With adaptive steps, the error to stop at, for each epsilon: a tolerance of 0.01 allows values an
            error of ``0.01 * epsilon``. Ignored with fixed steps.

    Epsilon is taken as it is, however many elements a step moves: k of them go ``epsilon * sqrt(k)`` far together, and
    the end of the curve, where all d are nudged, is ``epsilon * sqrt(d)`` away (0.08 for 8 x 8 pixels at 0.01, 3.9 for
    224 x 224 in three channels: no longer local). Nothing warns of it, since only the model knows how far it is
    straight, and to measure it takes further rows. To check, halve epsilon: where the nudges are local,
    ``value / epsilon`` stays. Where it does not, let epsilon shrink with the square root of the elements.

    Example: the gradient of a linear model is above any other order of features and above its own negation.
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(6, 2, dtype=torch.float64), torch.randn(9, 6, dtype=torch.float64)
        >>> gradient = (model.weight[1] - model.weight[0]).expand(9, 6)
        >>> problem = verax.Problem(model, x, target=1)
        >>> results = verax.evaluate(problem, {"gradient": gradient, "inverse": -1 / gradient}, ["lpc"])
        >>> value = results["lpc"].value
        >>> bool((value["gradient"] > value["inverse"]).all()), results.rows
        (True, 108)
        >>> sizes = {str(epsilon): LocalPredictionChange(epsilon=epsilon) for epsilon in (0.01, 0.005)}
        >>> results = verax.evaluate(verax.Problem(model, x, target=1), gradient, sizes)  # is 0.01 local?
        >>> means = [results[name].value.mean() / float(name) for name in sizes]
        >>> bool((means[0] / means[1] - 1).abs() < 0.01)
        True
    """

    steps: Steps = 20
    epsilon: float = 0.01
    tolerance: float = 0.01

    name: ClassVar[str] = "lpc"
    label: ClassVar[str] = "LPC"
    asks: ClassVar[str] = "Does the score move as the attributions say if features are nudged, the largest first?"
    citation: ClassVar[str] = "Verax: its documentation, open questions of the Directed Prediction Change"
    reading: ClassVar[Reading] = "magnitude"

    def __post_init__(self) -> None:
        settle(self, epsilon=checked_positive("epsilon", self.epsilon))
        super().__post_init__()

    @property
    def experiment(self) -> Experiment:
        return self.in_steps("magnitude", "coherent", "morf", Nudge(self.epsilon), self.tolerance * self.epsilon)
