"""The models of ``adaptive_steps.py``: one half to set the constants of adaptive steps on, another to state them on.

The halves share data, but no kind of model: what is set on small networks and random forests is stated on other trees,
neighbours, support vectors, sines, attention and InceptionV1. Forests of few trees, single trees and neighbours have
curves that are stairs.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import common
import numpy as np
import torch
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor, nn

import verax
from verax.attribution import Gradient, Occlusion, SmoothGrad
from verax.datasets import load_breast_cancer, load_diabetes, load_digits
from verax.paper.models import InceptionV1

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """A model with its inputs, and attributions of them."""

    problem: verax.Problem
    attributions: Tensor


Cases = dict[str, Callable[[], Case]]


def setting_half(n: int) -> Cases:
    """What the constants of the error were chosen on."""
    return {
        "wine, tanh, 3 classes": lambda: with_gradients(*fitted_to_wine(3 * n)),
        "diabetes, values": lambda: with_gradients(*fitted_to_values(*diabetes(), 3 * n), returns="values"),
        "friedman, values": lambda: with_gradients(*fitted_to_values(*friedman(), 3 * n), returns="values"),
        "paper's MLP, 20 features": lambda: with_gradients(common.paper_mlp(), common.normal_inputs(4 * n)),
        "cancer, MLP": lambda: with_gradients(*trained_on_cancer(4 * n)),
        "digits, linear": lambda: with_gradients(*trained_on_digits(linear(64), 1, n)),
        "digits, CNN": lambda: with_gradients(*trained_on_digits(cnn(), 1, n)),
        "digits, deeper CNN, 10 classes": lambda: with_gradients(*fitted_to_digits(deeper_cnn(), n)),
        "digits 32 x 32, linear": lambda: with_gradients(*trained_on_digits(linear(1024), 4, n // 4)),
        "digits 32 x 32, CNN": lambda: with_gradients(*trained_on_digits(cnn(), 4, n // 4)),
        "random weights, 200 features": lambda: with_gradients(random_network(200), common.normal_inputs(n, 200)),
        "wine, forest, 3 classes": lambda: of_estimator(forest(50), *wine(), 3 * n),
        "wine, 10 trees, 3 classes": lambda: of_estimator(forest(10), *wine(), 3 * n),
        "cancer, forest": lambda: of_estimator(forest(50), *cancer(), 2 * n),
        "cancer, 10 trees": lambda: of_estimator(forest(10), *cancer(), 2 * n),
        "digits, forest, 10 classes": lambda: of_estimator(forest(30), *flat_digits(), n),
        "digits, 10 trees, 10 classes": lambda: of_estimator(forest(10), *flat_digits(), n),
        "digits, 3 trees, 10 classes": lambda: of_estimator(forest(3), *flat_digits(), n),
        "digits, 3 shallow trees, 10 classes": lambda: of_estimator(forest(3, depth=5), *flat_digits(), n),
    }


def stated_half(n: int) -> Cases:
    """What nothing was chosen on."""
    return {
        "wine, neighbours, 3 classes": lambda: of_estimator(KNeighborsClassifier(), *wine(), 3 * n),
        "diabetes, boosted trees, values": lambda: of_estimator(
            HistGradientBoostingRegressor(random_state=0), *diabetes(), 3 * n
        ),
        "cancer, 10 columns, support vectors": lambda: of_estimator(
            CalibratedClassifierCV(SVC(), ensemble=False), cancer()[0][:, :10], cancer()[1], 3 * n
        ),
        "cancer, one tree": lambda: of_estimator(DecisionTreeClassifier(random_state=0), *cancer(), 2 * n),
        "cancer, extra trees": lambda: of_estimator(ExtraTreesClassifier(20, random_state=0), *cancer(), 2 * n),
        "cancer, boosted trees": lambda: of_estimator(HistGradientBoostingClassifier(random_state=0), *cancer(), 2 * n),
        "digits, one tree, 10 classes": lambda: of_estimator(DecisionTreeClassifier(random_state=0), *flat_digits(), n),
        "digits, extra trees, 10 classes": lambda: of_estimator(
            ExtraTreesClassifier(30, random_state=0), *flat_digits(), n
        ),
        "digits, neighbours, 10 classes": lambda: of_estimator(KNeighborsClassifier(), *flat_digits(), n),
        "digits, attention, 10 classes": lambda: with_gradients(*fitted_to_digits(attention(8, 2), n)),
        "digits, InceptionV1, 10 classes": lambda: with_gradients(*fitted_to_digits(inception(), n, steps=100)),
        "random sines, 300 features": lambda: with_gradients(random_sines(300), common.normal_inputs(n // 2, 300)),
        "digits 32 x 32, attention": lambda: with_gradients(*fitted_to_digits(attention(32, 8), n // 4, larger=4)),
    }


def with_gradients(model: nn.Module, inputs: Tensor, returns: Any = "logits") -> Case:
    scorer = verax.Scorer(model.eval(), returns=returns)
    problem = verax.Problem(scorer, inputs)
    gradient, smooth = verax.explain(problem, (Gradient(), SmoothGrad(sigma=0.25))).values()
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(3))
    return Case(problem, torch.stack([gradient, gradient * inputs, smooth, noise]))


def of_estimator(model: Any, inputs: Tensor, labels: Tensor, n: int) -> Case:
    model.fit(inputs.double().numpy(), labels.numpy())
    rows = inputs[:n].double()
    problem = verax.Problem(model, rows)
    single = Occlusion()(problem)
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Case(problem, torch.stack([single, single * (1 + noise / 2), noise]))


def forest(trees: int, depth: int | None = None) -> RandomForestClassifier:
    return RandomForestClassifier(trees, max_depth=depth, random_state=0)


def cancer() -> tuple[Tensor, Tensor]:
    data = load_breast_cancer()
    return standardised(data.inputs), torch.tensor(np.asarray(data.labels))


def standardised(values: Any) -> Tensor:
    inputs = torch.tensor(np.asarray(values))
    return ((inputs - inputs.mean(0)) / inputs.std(0)).float()


def digits(larger: int = 1) -> Tensor:
    images = torch.tensor(np.asarray(load_digits().inputs)).float()
    return nn.functional.interpolate((images - images.mean(0)) / images.std(), scale_factor=larger, mode="bilinear")


def flat_digits() -> tuple[Tensor, Tensor]:
    return digits().flatten(1), ten_classes()


def ten_classes() -> Tensor:
    return torch.tensor(datasets.load_digits().target)


def trained_on_cancer(n: int) -> tuple[nn.Module, Tensor]:
    inputs, labels = cancer()
    layers = [nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    return trained(layers, inputs, labels), inputs[:n]


def trained_on_digits(layers: list[nn.Module], larger: int, n: int) -> tuple[nn.Module, Tensor]:
    images = digits(larger)
    return trained(layers, images, torch.tensor(np.asarray(load_digits().labels))), images[:n]


def fitted_to_digits(model: nn.Module, n: int, larger: int = 1, steps: int = 200) -> tuple[nn.Module, Tensor]:
    images = digits(larger)
    return fitted(model, images, ten_classes(), nn.functional.cross_entropy, steps), images[:n]


def wine() -> tuple[Tensor, Tensor]:
    """In a random order: the file is sorted by class."""
    data = datasets.load_wine()
    rows = torch.randperm(len(data.data), generator=torch.Generator().manual_seed(0))
    return standardised(data.data)[rows], torch.tensor(data.target)[rows]


def diabetes() -> tuple[Tensor, Tensor]:
    data = load_diabetes()
    return standardised(data.inputs), standardised(data.labels)


def friedman() -> tuple[Tensor, Tensor]:
    inputs, values = datasets.make_friedman1(600, 12, noise=0.1, random_state=0)
    return standardised(inputs), standardised(values)


def fitted_to_wine(n: int) -> tuple[nn.Module, Tensor]:
    inputs, labels = wine()
    with seeded_weights():
        model = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
    return fitted(model, inputs, labels, nn.functional.cross_entropy, 200), inputs[:n]


def fitted_to_values(inputs: Tensor, values: Tensor, n: int) -> tuple[nn.Module, Tensor]:
    with seeded_weights():
        model = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    return fitted(model, inputs, values[:, None], nn.functional.mse_loss, 200), inputs[:n]


def linear(features: int) -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(features, 1)]


def cnn() -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3)]
    return [*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 1)]


def deeper_cnn() -> nn.Module:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]

    with seeded_weights():
        layers = [*block(1, 16), *block(16, 32), nn.MaxPool2d(2), *block(32, 32), *block(32, 32)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def attention(size: int, patch: int) -> nn.Module:
    """A small transformer over patches of an image."""
    with seeded_weights():
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        tokens = (size // patch) ** 2
        return nn.Sequential(
            nn.Conv2d(1, 32, patch, stride=patch),
            nn.Flatten(2),
            Places(tokens),
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            nn.Flatten(),
            nn.Linear(32 * tokens, 10),
        )


class Places(nn.Module):
    """Tokens last to tokens first, with what tells their places apart."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(tokens, 32) / 4)

    def forward(self, maps: Tensor) -> Tensor:
        """Add the places."""
        return maps.transpose(1, 2) + self.places


def inception() -> nn.Module:
    return InceptionV1(channels=1, outputs=10).build(seed=0)


def random_network(features: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    seeded(model, torch.Generator().manual_seed(1), 1.4)
    return model


class Sine(nn.Module):
    """An activation that no ReLU resembles."""

    def forward(self, values: Tensor) -> Tensor:
        """Wave."""
        return values.sin()


def random_sines(features: int) -> nn.Module:
    model = nn.Sequential(nn.Linear(features, 64), Sine(), nn.Linear(64, 64), Sine(), nn.Linear(64, 1))
    seeded(model, torch.Generator().manual_seed(1), 1.5)
    return model


def trained(layers: list[nn.Module], inputs: Tensor, labels: Tensor) -> nn.Module:
    """A few seconds of training for two classes, from seeded weights."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(*layers)
    seeded(model, generator, 1.0)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-3)
    for _ in range(300):
        rows = torch.randint(len(inputs), (128,), generator=generator)
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[rows])[:, 0], labels[rows].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def fitted(model: nn.Module, inputs: Tensor, wanted: Tensor, loss: Loss, steps: int) -> nn.Module:
    """A few seconds of training of a network that has its weights."""
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(inputs), (64,), generator=generator)
        optimiser.zero_grad()
        loss(model(inputs[rows]), wanted[rows]).backward()
        optimiser.step()
    return model.eval()


@contextlib.contextmanager
def seeded_weights() -> Iterator[None]:
    """New layers get the same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def seeded(model: nn.Module, generator: torch.Generator, scale: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            fan = parameter[0].numel() if parameter.ndim > 1 else len(parameter)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale / fan**0.5)
