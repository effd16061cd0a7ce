"""Captum's and Quantus' own test fixtures: infidelity and pixel flipping.

Models, inputs and perturbations are those of their tests, and so are the numbers that these expect. The cases are
written anew from what the tests state; the models are those of the installed packages.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import outside
import quantus
import torch
from captum.attr import DeepLift, FeatureAblation, IntegratedGradients, Saliency
from captum.metrics import infidelity
from captum.testing.helpers import basic_models
from quantus.helpers.model.models import ConvNet1D, LeNet
from torch import Tensor, nn

import verax
from verax.core import noise
from verax.metrics import Effects, Infidelity, PredictionChange

SIGMA, DRAWS = 0.2, 200
PERTURBATIONS = 4  # of each fixture of Captum's, as its tests take a few
FIXED = {
    "ones": torch.ones(1, 3),
    "one of three": torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]),
    "two of three": torch.tensor([[0.0, 1, 1], [1, 1, 0], [1, 0, 1]]),
}
SHAPES = {"LeNet": (1, 28, 28), "ConvNet1D": (3, 100)}
TOGETHER = {"LeNet": (28, 98, 196), "ConvNet1D": (5, 10, 25)}  # elements that Quantus flips in a step


@dataclass(frozen=True)
class Case:
    """A check of Captum's tests.

    Attributes:
        name: Model and attribution.
        model: From rows to the score that is followed.
        rows: What is explained.
        attributions: What is rated.
        perturbation: ``"small"``, the same small number for every element, ``"to ones"``, all elements go to 1, or
            which elements go to 0.
        expected: What Captum's test expects, of all rows or of each.
    """

    name: str
    model: Callable[[Tensor], Tensor]
    rows: Tensor
    attributions: Tensor
    perturbation: str
    expected: Any

    def perturbed(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The perturbation of each row, one draw after another, and the rows without it."""
        if self.perturbation == "small":
            by = torch.full_like(rows, 0.0009)
            if rows.shape[1:] == (2,):  # two inputs of one number each, of which the second moves further
                by[:, 1] = 0.0121
            return by, rows - by
        if self.perturbation == "to ones":
            return torch.ones_like(rows), torch.ones_like(rows)
        fixed = FIXED[self.perturbation].to(rows)
        wide = rows.shape[1] // fixed.shape[1]
        kept = 1 - fixed.repeat(len(rows) // len(fixed), wide)
        return 1 - kept, kept * rows


def cases() -> list[Case]:
    """The checks of Captum's tests that rest on numbers, in float64."""
    return [*_of_two_inputs(), _of_arguments(), _of_images(), *_of_many_outputs(), *_of_sensitivity()]


def _of_two_inputs() -> list[Case]:
    model = basic_models.BasicModel2()
    found = []
    for count in (1, 3, 20):
        rows = torch.tensor([[3.0, 1.0]], dtype=torch.float64).repeat(count, 1)
        parts = IntegratedGradients(model).attribute(tuple(rows.T))
        slopes = torch.stack(parts, dim=1) / rows
        name = f"BasicModel2, {count} rows, integrated gradients / input"
        found.append(Case(name, lambda rows: model(*rows.T), rows, slopes, "small", 0.0000316))
    return found


def _of_arguments() -> Case:
    model, args = basic_models.BasicModel4_MultiArgs(), torch.tensor([[1.0, 3.0, 4.0]], dtype=torch.float64)
    rows = torch.tensor([[1.5, 2.0, 3.3, 3.0, 3.5, 2.2]], dtype=torch.float64)

    def score(rows: Tensor) -> Tensor:
        found: Tensor = model(rows[:, :3], rows[:, 3:], args)
        return found

    attributions = IntegratedGradients(score).attribute(rows)
    return Case("BasicModel4, integrated gradients", score, rows, attributions, "ones", 0.0)


def _of_images() -> Case:
    model = basic_models.BasicModel_ConvNet_One_Conv().double()
    rows = torch.arange(1, 17).double().repeat(20, 1).view(20, 1, 4, 4)
    slopes = DeepLift(model).attribute(rows, target=torch.ones(20, dtype=torch.long)) / rows
    name = "BasicModel_ConvNet_One_Conv, 20 rows, DeepLift / input"
    return Case(name, lambda rows: model(rows)[:, 1], rows, slopes.detach(), "small", 0.0)


def _of_many_outputs() -> list[Case]:
    """Slopes, and integrated gradients from ones to rows that go there: their distance from the score is squared."""
    model = basic_models.BasicModel_MultiLayer().double()
    rows, targets = torch.arange(1, 13).double().view(4, 3), [(0, 1, 1), (0, 1, 1), (1, 1, 1), (0, 1, 1)]
    added = rows.clone()

    def score(rows: Tensor) -> Tensor:
        repeats = len(rows) // len(targets)
        first, second, third = torch.tensor(targets).repeat_interleave(repeats, dim=0).T
        outputs = model(rows, added.repeat_interleave(repeats, dim=0), True)
        found: Tensor = outputs[torch.arange(len(rows)), first, second, third]
        return found

    slopes = Saliency(model).attribute(rows, target=targets, additional_forward_args=(added, True))
    integrated = IntegratedGradients(model).attribute(
        rows, torch.ones_like(rows), target=targets, additional_forward_args=(added, True)
    )
    name = "BasicModel_MultiLayer, three target numbers"
    squared = torch.tensor([0.10686, 0.0, 0.0, 0.0], dtype=torch.float64)
    return [
        Case(f"{name}, saliency", score, rows, slopes.detach(), "small", 0.0),
        Case(f"{name}, integrated gradients from ones", score, rows, integrated.detach(), "to ones", squared),
    ]


def _of_sensitivity() -> list[Case]:
    model = basic_models.BasicModel_MultiLayer().double()
    rows = torch.tensor([[1.0, 2.5, 3.3]], dtype=torch.float64)
    methods = {"integrated gradients": IntegratedGradients(model), "ablation": FeatureAblation(model)}
    return [
        Case(f"BasicModel_MultiLayer, {name}", lambda rows: model(rows)[:, 0], rows, values.detach(), which, 0.0)
        for name, values in ((name, method.attribute(rows, target=0)) for name, method in methods.items())
        for which in ("one of three", "two of three", "ones")
    ]


def measure(data: Path) -> dict[str, Any]:
    """Compare infidelity and curves; no data of the folder are needed."""
    checked = [_check(case, normalize) for case in cases() for normalize in (False, True)]
    return {"infidelity": checked + _same_draws(), "pixel_flipping": [_curves(name) for name in SHAPES]}


def _check(case: Case, normalize: bool) -> dict[str, Any]:
    """Their number, ours from the same perturbations, and what their test expects."""
    samples = 3 * PERTURBATIONS
    theirs = infidelity(
        case.model,
        case.perturbed,
        case.rows,
        case.attributions,
        n_perturb_samples=samples,
        normalize=normalize,
    )
    repeated = case.rows.repeat_interleave(samples, dim=0)
    by, without = case.perturbed(repeated)
    moved = by.flatten(1) * case.attributions.repeat_interleave(samples, dim=0).flatten(1)
    predicted = moved.sum(1).view(1, len(case.rows), samples).double()
    actual = (case.model(repeated) - case.model(without)).view(len(case.rows), samples).detach().double()
    metric = Infidelity(samples=samples, normalize=normalize)
    draws: Any = metric.draws
    ours = metric.reduce(Effects(draws, slice(0, len(case.rows)), predicted, actual))[0]
    # ours is divided by one less than the draws where a scale is fitted to them
    ours = ours * (samples - 1) / samples if normalize else ours
    return {
        "case": f"{case.name}, {case.perturbation}",
        "normalised": normalize,
        "values": len(case.rows),
        "difference": float((ours - theirs).abs().max()),
        "from_expected": None if normalize else float((ours - case.expected).abs().max()),
    }


def _same_draws() -> list[dict[str, Any]]:
    """The whole call of Verax on two of the models, and Captum's on the very same Gaussian draws."""
    image = basic_models.BasicModel_ConvNet_One_Conv().double()
    layers = basic_models.BasicModel_MultiLayer().double()
    inputs = {
        "BasicModel_ConvNet_One_Conv": (image, torch.arange(1, 17).double().repeat(4, 1).view(4, 1, 4, 4)),
        "BasicModel_MultiLayer": (layers, torch.arange(1, 13).double().view(4, 3)),
    }
    return [_drawn(name, *one, normalize) for name, one in inputs.items() for normalize in (False, True)]


def _drawn(name: str, model: nn.Module, rows: Tensor, normalize: bool) -> dict[str, Any]:
    slopes = Saliency(model).attribute(rows, target=1).detach()
    problem = verax.Problem(verax.Scorer(model, returns="values"), rows, target=1, features="element")
    metric = Infidelity(sigma=SIGMA, samples=DRAWS, normalize=normalize)
    ours = metric(problem, slopes).value
    elements = rows[0].numel()
    drawn = SIGMA * noise.normals(noise.input_keys(rows, 0, "gaussian"), 0, DRAWS, elements, rows.dtype)
    by = drawn.flatten(0, 1).view(-1, *rows.shape[1:])
    theirs = infidelity(
        model,
        lambda repeated: (by, repeated - by),
        rows,
        slopes,
        target=1,
        n_perturb_samples=DRAWS,
        normalize=normalize,
    )
    ours = ours * (DRAWS - 1) / DRAWS if normalize else ours
    return {
        "case": f"{name}, saliency, Gaussian draws of Verax",
        "normalised": normalize,
        "values": len(rows),
        "difference": float((ours - theirs).abs().max()),
        "from_expected": None,
    }


class InDouble(nn.Module):
    """A network that computes in float64 whatever it gets: Quantus hands on float32 rows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.double()

    def forward(self, rows: Tensor) -> Tensor:
        """Score rows."""
        found: Tensor = self.model(rows.double())
        return found


def _curves(name: str) -> dict[str, Any]:
    """Curves of a network of Quantus' fixtures, most and least relevant first, of probabilities and logits."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    shape = SHAPES[name]
    model = InDouble(LeNet() if name == "LeNet" else ConvNet1D(3, 10)).eval()
    rows = rng.normal(size=(8, *shape)).astype(np.float32).astype(np.float64)
    target = rng.integers(0, 10, 8)
    values = rng.normal(size=(7, *rows.shape))
    elements, furthest, count = rows[0].size, 0.0, 0
    for output in ("probability", "logit"):
        problem = verax.Problem(
            verax.Scorer(model, returns="logits"), rows, target=target, output=output, features="element"
        )
        for together in TOGETHER[name]:
            found = verax.evaluate(problem, values, {"pc": PredictionChange(steps=elements // together)})["pc"]
            for curves, sign in ((found.morf, 1), (found.lerf, -1)):
                for ours, attributions in zip(curves, sign * values, strict=True):
                    theirs = _pixel_flipping(model, rows, attributions, target, together, output)
                    furthest = max(furthest, float(np.abs(ours[:, 1:] - theirs).max()))
                    count += len(rows)
    return {"model": name, "elements": elements, "curves": count, "difference": furthest}


def _pixel_flipping(model: nn.Module, rows: Any, attributions: Any, target: Any, together: int, output: str) -> Any:
    metric = quantus.PixelFlipping(
        features_in_step=together, perturb_baseline=0.0, abs=False, normalise=False, disable_warnings=True
    )
    found = metric(
        model,
        rows,
        target,
        attributions,
        channel_first=True,
        softmax=output == "probability",
        device="cpu",
        batch_size=len(rows),
    )
    return np.array(found)


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """The checks of both packages."""
    checks = [
        [
            one["case"],
            "yes" if one["normalised"] else "no",
            str(one["values"]),
            f"{one['difference']:.1e}",
            "" if one["from_expected"] is None else f"{one['from_expected']:.1e}",
        ]
        for one in measured["infidelity"]
    ]
    curves = [
        [one["model"], str(one["elements"]), f"{one['curves']:,}", f"{one['difference']:.1e}"]
        for one in measured["pixel_flipping"]
    ]
    return {
        "infidelity": outside.markdown(
            ["check", "normalised", "values", "furthest from Captum", "furthest from the number in its test"], checks
        ),
        "pixel_flipping": outside.markdown(["network", "elements", "curves", "furthest from Quantus"], curves),
    }
