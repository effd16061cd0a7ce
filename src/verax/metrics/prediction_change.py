"""Prediction Change and Directed Prediction Change: two readings of one guided perturbation experiment."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.core.arguments import checked_choice, checked_count, settle
from verax.core.blocks import pieces
from verax.core.shapes import Float
from verax.metrics import areas
from verax.metrics.base import GuidedMetric, Kind
from verax.metrics.result import Context, GuidedResult
from verax.perturbation.guided import GuidedScores
from verax.perturbation.order import Order
from verax.perturbation.removed_sets import Experiment
from verax.problem.problem import Problem

Curve = Literal["cumulative", "increments"]
Reading = Literal["magnitude", "signed", "literal"]
_TOGETHER = 1 << 18  # points of curves that are reduced at once
_PAPER = (
    "Iselborn, Dembinsky, Lucieri, Dengel: The Directed Prediction Change - Efficient and Trustworthy Fidelity "
    "Assessment for Local Feature Attribution Methods"
)


class _WeightedArea(GuidedMetric):
    """The weighted area between the LeRF and the MoRF curve, whose steps may be signed: what PC and DPC share."""

    steps: int
    curve: Curve

    higher_is_better: ClassVar[bool] = True
    chance: ClassVar[float | None] = 0.0  # in a random order both curves have the same mean

    def factor(self, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 steps"] | None:
        """The sign put on each step's change; None for none."""
        return None

    def curves(self, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 points"]:
        """The two curves of some attributions: signed changes, summed up or as they are."""
        curves = scores.curves[which]
        factor = self.factor(scores, which)
        if factor is None and self.curve == "cumulative":
            return curves
        change = curves.diff(dim=-1)
        directed = change if factor is None else factor * change
        start = curves[..., :1]
        if self.curve == "increments":
            return torch.cat((torch.zeros_like(start), directed), dim=-1)
        return torch.cat((start, directed), dim=-1).cumsum(-1)

    def reduce(self, scores: GuidedScores) -> Float[Tensor, "k n"]:
        """The weighted area, some attributions at a time to bound memory."""
        values = []
        for which in pieces(len(scores.curves), max(1, _TOGETHER // scores.curves[0].numel())):
            curves = self.curves(scores, which)
            values.append(areas.weighted_abpc(curves[:, :, 1], curves[:, :, 0], scores.points))
        return torch.cat(values)

    def result(self, scores: GuidedScores, context: Context) -> "PredictionChangeResult":
        """The result of all inputs, with its curves and further areas."""
        return PredictionChangeResult(self, context, self.reduce(scores), scores)


@dataclass(frozen=True)
class PredictionChange(_WeightedArea):
    r"""Prediction Change (PC): the drop of the class score as features go in the order of their attributions.

    With ``M`` and ``L`` the scores as the most and the least relevant features go first, at ``N = steps + 1`` points:
    ``sum_i (L_i - M_i) w_i / sum_{i>=2} w_i``, ``w_i = ((N - i + 1) / N)^3`` (the weighted area between perturbation
    curves, or Decaying Degradation Score, of Simic, Veas and Sabol). Rates baseline-oriented attributions; see
    ``DirectedPredictionChange`` for local ones.

    Args:
        order: ``"signed"``, by the attribution (what Theorem 1 of the paper needs), or ``"magnitude"``, by its size.
        steps: Number of perturbation steps.
        curve: ``"cumulative"``, the ordinary perturbation curve, or ``"increments"``, for a sensitivity check.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> verax.evaluate(model, x, x, [PredictionChange(steps=2)])["pc"].morf.shape
        torch.Size([8, 3])
    """

    order: Order = "signed"
    steps: int = 20
    curve: Curve = "cumulative"

    name: ClassVar[str] = "pc"
    label: ClassVar[str] = "PC"
    asks: ClassVar[str] = "Does the score fall early if the largest attributions go first, and late if they go last?"
    kind: ClassVar[Kind] = "baseline"
    citation: ClassVar[str] = "Simic, Veas, Sabol: Perturbation effect: a metric to counter misleading validation"

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("signed", "magnitude"))
        checked_choice("curve", self.curve, ("cumulative", "increments"))
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""
        return Experiment(self.order, self.steps)


@dataclass(frozen=True)
class DirectedPredictionChange(_WeightedArea):
    """Directed Prediction Change (DPC): PC with each step's change signed by attribution and direction (eq. 13).

    ``DPC_t = sign(A_t) sign(D_t) (s(pi_t) - s(pi_{t-1}))``, where ``A_t`` is the sum of the attributions that step t
    removes and ``D_t`` that of ``x - baseline`` over the same features; the value is the weighted area between the
    curves ``C_t = C_{t-1} + DPC_t``, least and most relevant features first. Rates local attributions.

    Where it is computed: ranks in ``perturbation/order.py`` (``removal_order``); cut points there too (``cut_points``);
    curves in ``perturbation/guided.py`` (``guided_scores``); signs in ``perturbation/removed_sets.py``
    (``RemovedSets.signs``), put on the steps by ``factor`` below; the area in ``metrics/areas.py``
    (``weighted_abpc``).

    Args:
        order: The reading of the paper's definition. ``"magnitude"`` (default) removes by size and multiplies with
            ``sign(A_t) sign(D_t)``; ``"signed"`` removes by signed attribution and multiplies with
            ``|sign(A_t)| sign(D_t)``, sharing every model evaluation with PC; ``"literal"`` removes by signed
            attribution and multiplies with both signs: for audits only, it cannot tell ``a`` from ``-a``.
        steps: Number of perturbation steps.
        curve: ``"cumulative"`` (default) or ``"increments"``, for a sensitivity check.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> gradient = model.weight[1].expand(8, 4)
        >>> found = verax.evaluate(model, x, gradient, [DirectedPredictionChange("signed"), "pc"], target=1)
        >>> found.rows == found["pc"].rows  # one experiment serves both
        True
    """

    order: Reading = "magnitude"
    steps: int = 20
    curve: Curve = "cumulative"

    name: ClassVar[str] = "dpc"
    label: ClassVar[str] = "DPC"
    asks: ClassVar[str] = "Does the score move as the signs of the attributions say, most where they are largest?"
    kind: ClassVar[Kind] = "local"
    citation: ClassVar[str] = _PAPER

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("magnitude", "signed", "literal"))
        checked_choice("curve", self.curve, ("cumulative", "increments"))
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""
        return Experiment("magnitude" if self.order == "magnitude" else "signed", self.steps)

    def check(self, problem: Problem) -> None:
        """Codes have no direction: refuse where nothing else is, and say which features count 0."""
        codes = problem.given.codes
        if codes is None:
            return
        if bool(codes.all()):
            raise ValueError(
                "dpc: the inputs are codes, which have no direction (x - baseline), so DPC would be 0; use PC, or, for "
                "tokens, explain their embeddings."
            )
        features = problem.features.reduce(codes[None].double(), slice(0, 1))[0].nonzero()[:, 0].tolist()
        names = problem.given.names or tuple(map(str, range(problem.features.most)))
        warnings.warn(
            "DPC counts 0 for features that are codes and have no direction: "
            f"{', '.join(names[one] for one in features)}. PC and baseline Infidelity see them.",
            stacklevel=4,
        )

    def factor(self, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 steps"] | None:
        """The sign put on each step's change."""
        attribution, direction = scores.attribution_sign[which], scores.direction_sign[which]
        return (attribution.abs() if self.order == "signed" else attribution).to(scores.curves) * direction


@dataclass(frozen=True, repr=False)
class PredictionChangeResult(GuidedResult):
    """PC or DPC: ``value`` is the weighted area between the curves; higher is better."""

    @property
    def directed_morf(self) -> Any:
        """The MoRF curve that ``value`` comes from: for PC the scores, for DPC with every change signed."""
        return self._pack(self.curves()[:, :, 0])

    @property
    def directed_lerf(self) -> Any:
        """The LeRF curve that ``value`` comes from."""
        return self._pack(self.curves()[:, :, 1])

    @property
    def aupc_morf(self) -> Any:
        """Area under the MoRF curve of each input; lower is better."""
        return self._pack(areas.aupc(self.curves()[:, :, 0], self.guided.points))

    @property
    def aupc_lerf(self) -> Any:
        """Area under the LeRF curve of each input; higher is better."""
        return self._pack(areas.aupc(self.curves()[:, :, 1], self.guided.points))

    @property
    def abpc(self) -> Any:
        """Area between the curves of each input, every point alike; higher is better."""
        curves = self.curves()
        return self._pack(areas.abpc(curves[:, :, 1], curves[:, :, 0], self.guided.points))

    @property
    def pes(self) -> Any:
        """Perturbation Effect Size over the data set, one number per attribution."""
        return self._arrange(areas.pes(self.scores).tolist())

    @property
    def cmi(self) -> Any:
        """Consistency-Magnitude Index over the data set, one number per attribution."""
        return self._arrange(areas.cmi(self.scores).tolist())

    @property
    def curve_name(self) -> str:
        """What the curves show, as the title of an axis."""
        score = self.context.score
        directed = f"directed {score}" if isinstance(self.metric, DirectedPredictionChange) else score
        return f"change of the {directed}" if self.metric.curve == "increments" else directed

    def curves(self, which: slice = slice(None)) -> Float[Tensor, "k n 2 points"]:
        """The MoRF and LeRF curves of some attributions that ``value`` comes from."""
        found: Tensor = self.metric.curves(self.guided, which)
        return found

    def _further_columns(self) -> dict[str, list[float]]:
        return {"PES": areas.pes(self.scores).tolist(), "CMI": areas.cmi(self.scores).tolist()}
