"""What the coherent rule is for: at 20 steps it ranks attributions of an image model as one pixel per step does."""

from dataclasses import replace

import pytest
import torch

import calls
import verax
from calls import attribute
from verax.attribution import Gradient, IntegratedGradients
from verax.datasets import load_digits
from verax.metrics import DirectedPredictionChange
from verax.paper.models.recipes import recipe_for
from verax.paper.models.shipped import architecture_for
from verax.paper.models.training import train

Means = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def means() -> Means:
    """Mean DPC of three attributions of Digits-Linear, trained for a fifth of its epochs."""
    dataset = load_digits()
    recipe = replace(recipe_for("digits", "linear"), epochs=8)
    model = verax.Scorer(
        train(architecture_for("linear", dataset), dataset, recipe, device="cpu").module, returns="logits"
    )
    x, _ = dataset.part("test", 32)
    background, _ = dataset.part("train", 64)
    gradient, contribution = attribute(
        (Gradient(), IntegratedGradients("mean")), model, x, background=background
    ).values()
    attributions = {"gradient": gradient, "gradient x input": gradient * x, "IG x input": contribution}
    metrics = {"one pixel each": DirectedPredictionChange(steps=64)}
    metrics |= {rule: DirectedPredictionChange(rule=rule) for rule in ("sum", "coherent")}
    metrics["adaptive"] = DirectedPredictionChange(steps="adaptive", tolerance=0.02)
    found = calls.evaluate(model, x, attributions, metrics)
    return {name: {key: float(one.mean()) for key, one in result.value.items()} for name, result in found.items()}


@pytest.mark.parametrize("steps", ["coherent", "one pixel each", "adaptive"])
def test_the_gradient_is_first(means: Means, steps: str) -> None:
    assert means[steps]["gradient"] > means[steps]["gradient x input"] + 0.1
    assert means[steps]["gradient"] > means[steps]["IG x input"] + 0.1


def test_its_lead_is_lost_where_steps_of_many_pixels_sum_up_directions(means: Means) -> None:
    others = ("gradient x input", "IG x input")
    lead = {rule: means[rule]["gradient"] - max(means[rule][name] for name in others) for rule in ("sum", "coherent")}
    assert lead["sum"] < 0.1 < lead["coherent"]


def test_adaptive_steps_give_the_means_of_one_pixel_each(means: Means) -> None:
    torch.testing.assert_close(means["adaptive"], means["one pixel each"], atol=0.02, rtol=0)
