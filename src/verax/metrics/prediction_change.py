"""Prediction Change and Directed Prediction Change: two readings of one guided perturbation experiment."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.arguments import checked_choice, checked_count, settle
from verax.metrics import areas
from verax.metrics.result import Context, Result
from verax.perturbation.block import pieces
from verax.perturbation.guided import GuidedScores
from verax.perturbation.order import Order
from verax.perturbation.plan import Experiment
from verax.shapes import Float

Curve = Literal["cumulative", "increments"]
Reading = Literal["magnitude", "signed", "literal"]
_TOGETHER = 1 << 18  # points of curves that are reduced at once


@dataclass(frozen=True)
class PredictionChange:
    """Prediction Change (PC): the drop of the class score as features go in the order of their attributions.

    Rates baseline-oriented attributions; see ``DirectedPredictionChange`` for local ones.

    Args:
        order: ``"signed"``, by the attribution (what Theorem 1 of the paper needs), or ``"magnitude"``, by its size.
        steps: Number of perturbation steps.
        curve: ``"cumulative"``, the ordinary perturbation curve, or ``"increments"``, for a sensitivity check.
    """

    order: Order = "signed"
    steps: int = 20
    curve: Curve = "cumulative"

    name: ClassVar[str] = "pc"
    higher_is_better: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    needs_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("signed", "magnitude"))
        checked_choice("curve", self.curve, ("cumulative", "increments"))
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""
        return Experiment(self.order, self.steps)

    def factor(self, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 steps"] | None:
        """The sign put on each step's change: none."""
        return None


@dataclass(frozen=True)
class DirectedPredictionChange:
    """Directed Prediction Change (DPC): PC with each step's change signed by attribution and direction (eq. 13).

    Rates local attributions: the exact gradient of a linear model is best. In step t, ``A_t`` is the sum of the
    attributions removed and ``D_t`` the sum of ``x - baseline`` over the same features.

    Args:
        order: The reading of the paper's definition. ``"magnitude"`` (default) removes by size and multiplies with
            ``sign(A_t) sign(D_t)``; ``"signed"`` removes by signed attribution and multiplies with
            ``|sign(A_t)| sign(D_t)``, sharing every model evaluation with PC; ``"literal"`` removes by signed
            attribution and multiplies with both signs: for audits only, it cannot tell ``a`` from ``-a``.
        steps: Number of perturbation steps.
        curve: ``"cumulative"`` (default) or ``"increments"``, for a sensitivity check.
    """

    order: Reading = "magnitude"
    steps: int = 20
    curve: Curve = "cumulative"

    name: ClassVar[str] = "dpc"
    higher_is_better: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    needs_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_choice("order", self.order, ("magnitude", "signed", "literal"))
        checked_choice("curve", self.curve, ("cumulative", "increments"))
        settle(self, steps=checked_count("steps", self.steps))

    @property
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""
        return Experiment("magnitude" if self.order == "magnitude" else "signed", self.steps)

    def factor(self, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 steps"] | None:
        """The sign put on each step's change."""
        attribution, direction = scores.attribution_sign[which], scores.direction_sign[which]
        return (attribution.abs() if self.order == "signed" else attribution).to(scores.curves) * direction


GuidedMetric = PredictionChange | DirectedPredictionChange


@dataclass(frozen=True, repr=False)
class GuidedResult(Result):
    """PC or DPC: ``value`` is the weighted area between the curves; higher is better.

    Attributes:
        guided: The experiment that was read.
    """

    guided: GuidedScores

    @property
    def steps(self) -> int:
        """Steps taken: as asked, or one per feature where there are fewer features."""
        return self.guided.curves.shape[-1] - 1

    @property
    def morf(self) -> Any:
        """Class scores as the most relevant features go first, ``(..., N, steps + 1)``.

        Where inputs differ in their number of features, shorter curves are padded with their last point.
        """
        return self._pack(self.guided.curves[:, :, 0])

    @property
    def lerf(self) -> Any:
        """Class scores as the least relevant features go first, ``(..., N, steps + 1)``."""
        return self._pack(self.guided.curves[:, :, 1])

    @property
    def directed_morf(self) -> Any:
        """The MoRF curve that ``value`` comes from: for PC the class scores, for DPC with every change signed."""
        return self._pack(self._curves()[:, :, 0])

    @property
    def directed_lerf(self) -> Any:
        """The LeRF curve that ``value`` comes from."""
        return self._pack(self._curves()[:, :, 1])

    @property
    def aupc_morf(self) -> Any:
        """Area under the MoRF curve of each input; lower is better."""
        return self._pack(areas.aupc(self._curves()[:, :, 0], self.guided.points))

    @property
    def aupc_lerf(self) -> Any:
        """Area under the LeRF curve of each input; higher is better."""
        return self._pack(areas.aupc(self._curves()[:, :, 1], self.guided.points))

    @property
    def abpc(self) -> Any:
        """Area between the curves of each input, every point alike; higher is better."""
        curves = self._curves()
        return self._pack(areas.abpc(curves[:, :, 1], curves[:, :, 0], self.guided.points))

    @property
    def pes(self) -> Any:
        """Perturbation Effect Size over the data set, one number per attribution."""
        return self._arrange(areas.pes(self.scores).tolist())

    @property
    def cmi(self) -> Any:
        """Consistency-Magnitude Index over the data set, one number per attribution."""
        return self._arrange(areas.cmi(self.scores).tolist())

    def plot(self) -> Any:
        """Draw the mean curves that ``value`` comes from, with their quartiles: a panel per attribution, up to 12."""
        from verax.display.plots import curves  # noqa: PLC0415  # to keep ``import verax`` light

        return curves(self)

    def _further_columns(self) -> dict[str, list[float]]:
        return {"PES": areas.pes(self.scores).tolist(), "CMI": areas.cmi(self.scores).tolist()}

    def _curves(self) -> Float[Tensor, "k n 2 points"]:
        return metric_curves(self.metric, self.guided, slice(None))


def metric_curves(metric: GuidedMetric, scores: GuidedScores, which: slice) -> Float[Tensor, "k n 2 points"]:
    """The two curves of some attributions under a metric: signed changes, summed up or as they are."""
    curves = scores.curves[which]
    factor = metric.factor(scores, which)
    if factor is None and metric.curve == "cumulative":
        return curves
    change = curves.diff(dim=-1)
    directed = change if factor is None else factor * change
    start = curves[..., :1]
    if metric.curve == "increments":
        return torch.cat((torch.zeros_like(start), directed), dim=-1)
    return torch.cat((start, directed), dim=-1).cumsum(-1)


def guided_result(metric: GuidedMetric, guided: GuidedScores, context: Context) -> GuidedResult:
    """Reduce an experiment to a metric, some attributions at a time to bound memory."""
    together = max(1, _TOGETHER // guided.curves[0].numel())
    values = []
    for which in pieces(len(guided.curves), together):
        curves = metric_curves(metric, guided, which)
        values.append(areas.weighted_abpc(curves[:, :, 1], curves[:, :, 0], guided.points))
    return GuidedResult(metric, context, torch.cat(values), guided)
