"""Local Prediction Change: Directed Prediction Change with settings under which the gradient is the best answer."""

from dataclasses import dataclass
from typing import ClassVar

from verax.core.arguments import checked_positive, settle
from verax.metrics.weighted_area import DirectedArea, Reading, Steps, checked_steps
from verax.perturbation.removed_sets import Experiment
from verax.problem.replacement import Nudge


@dataclass(frozen=True)
class LocalPredictionChange(DirectedArea):
    """Local Prediction Change (LPC): does the score move as attributions say when features are nudged, largest first?

    Features go in the order of ``|a|``; each moves by the same small amount towards its baseline instead of becoming
    it. Within a step the features whose nudge is predicted to lower the score go first, then those that are predicted
    to raise it, and both count as predicted. The value is the weighted area between the unperturbed score and the
    directed curve, ``sum_i (C_1 - C_i) w_i / sum_{i>=2} w_i``. It is
    ``DirectedPredictionChange(rule="coherent", area="morf", replacement=Nudge(epsilon))``.

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
            error of ``0.01 * epsilon``. It says nothing where steps are fixed.

    Epsilon is taken as it is, however many elements a step moves: k of them go ``epsilon * sqrt(k)`` far together, and
    the end of the curve, where all d are nudged, is ``epsilon * sqrt(d)`` away (0.08 for 8 x 8 pixels at 0.01, 3.9 for
    224 x 224 in three channels: no longer local). Nothing warns of it, since only the model knows how far it is
    straight, and asking it takes rows of its own. To ask, halve epsilon: where the nudges are local,
    ``value / epsilon`` stays. Where it does not, let epsilon shrink with the square root of the elements.

    Example: the gradient of a linear model is above any other order of features and above its own negation.
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(6, 2, dtype=torch.float64), torch.randn(9, 6, dtype=torch.float64)
        >>> gradient = (model.weight[1] - model.weight[0]).expand(9, 6)
        >>> problem = verax.Problem(model, x, target=1)
        >>> found = verax.evaluate(problem, {"gradient": gradient, "inverse": -1 / gradient}, ["lpc"])
        >>> value = found["lpc"].value
        >>> bool((value["gradient"] > value["inverse"]).all()), found.rows
        (True, 108)
        >>> sizes = {str(epsilon): LocalPredictionChange(epsilon=epsilon) for epsilon in (0.01, 0.005)}
        >>> found = verax.evaluate(verax.Problem(model, x, target=1), gradient, sizes)  # is 0.01 local?
        >>> means = [found[name].value.mean() / float(name) for name in sizes]
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
        checked = {name: checked_positive(name, getattr(self, name)) for name in ("epsilon", "tolerance")}
        settle(self, steps=checked_steps(self.steps), **checked)

    @property
    def experiment(self) -> Experiment:
        """The guided experiment whose scores this metric reads."""
        return self.in_steps("magnitude", "coherent", "morf", Nudge(self.epsilon), self.tolerance * self.epsilon)
