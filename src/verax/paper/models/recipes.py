"""Recipes: how a model is trained, and what the shipped models were trained with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from verax.core.arguments import (
    checked_choice,
    checked_count,
    checked_not_negative,
    checked_positive,
    checked_seed,
    settle,
)


@dataclass(frozen=True)
class Recipe:
    """How to train: AdamW with amsgrad, no decay of biases and batch norms.

    The loss is logistic for two classes, cross-entropy for more, squared error for a regression, whose R^2 stands where
    AUROC is named below.
    """

    epochs: int = 50  # passes over the training rows, at most
    batch_size: int = 256  # at most: all steps get equally many rows; the few left over, other ones each time, sit out
    learning_rate: float = 1e-3  # the highest one
    weight_decay: float = 1e-2
    schedule: Literal["constant", "cosine", "onecycle"] = "cosine"  # cosine falls to 0; onecycle rises from 1/25 before
    warmup: float = 0.0  # epochs in which the learning rate rises; for onecycle 0 means 30 % of all
    patience: int | None = None  # epochs without a better validation AUROC after which to stop; None for never
    keep: Literal["best", "last"] = "best"  # the epoch whose weights are the result; best by validation AUROC
    average: float = 0.0  # time constant, in epochs, of the moving average that is kept for the weights; 0 for none
    class_weight: bool = False  # whether both classes get the same total weight
    label_smoothing: float = 0.0  # labels become this much less certain
    noise: float = 0.0  # standard deviation of the noise on standardised features of a table
    augment: bool = False  # whether images are augmented with the ISIC 2020 winners' scheme
    augment_share: float = 1.0  # multiplies the probabilities of that scheme's parts, except flips and transposition
    clip: float | None = 1.0  # longest gradient; None for any
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 is mixed, as is auto on a CUDA device
    seed: int = 0  # of initial weights, order of rows, augmentation and dropout

    def __post_init__(self) -> None:
        checked_choice("schedule", self.schedule, ("constant", "cosine", "onecycle"))
        checked_choice("keep", self.keep, ("best", "last"))
        checked_choice("precision", self.precision, ("auto", "float32", "bfloat16"))
        for name in ("epochs", "batch_size"):
            settle(self, **{name: checked_count(name, getattr(self, name))})
        for name in ("weight_decay", "warmup", "average", "label_smoothing", "noise", "augment_share"):
            settle(self, **{name: checked_not_negative(name, getattr(self, name))})
        for name in ("label_smoothing", "augment_share"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {getattr(self, name)}.")
        settle(self, learning_rate=checked_positive("learning_rate", self.learning_rate), seed=checked_seed(self.seed))
        settle(self, patience=None if self.patience is None else checked_count("patience", self.patience))
        settle(self, clip=None if self.clip is None else checked_positive("clip", self.clip))


def rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step, counted from 0 over all epochs."""
    steps = recipe.epochs * steps_per_epoch
    rise = recipe.warmup * steps_per_epoch
    if recipe.schedule == "onecycle":
        rise = rise or 0.3 * steps
    if step < rise:
        lowest = 0.04 if recipe.schedule == "onecycle" else 0.0
        return recipe.learning_rate * (lowest + (1 - lowest) * (step + 1) / math.ceil(rise))
    if recipe.schedule == "constant":
        return recipe.learning_rate
    done = (step - rise) / max(1.0, steps - rise)
    return recipe.learning_rate * (1 + math.cos(math.pi * done)) / 2


# By data set and model: epochs, batch size, learning rate and weight decay, then what differs from the defaults.
RECIPES: dict[tuple[str, str], Recipe] = {
    ("heloc", "linear"): Recipe(40, 512, 6e-2, 4e-4, noise=0.2, patience=10),
    ("heloc", "mlp"): Recipe(30, 128, 6e-3, 0.8, patience=10, average=1.0, label_smoothing=0.15, noise=0.35),
    ("breast-cancer", "linear"): Recipe(40, 64, 2e-2, noise=0.1, patience=15),
    ("breast-cancer", "mlp"): Recipe(30, 64, 3e-3, noise=0.1, patience=15),
    ("diabetes", "linear"): Recipe(40, 64, 2e-2, patience=15),
    ("diabetes", "mlp"): Recipe(40, 64, 3e-3, 0.3, noise=0.3, patience=15, average=1.0),
    ("digits", "linear"): Recipe(40, 64, 1e-2, patience=10),
    ("digits", "inception"): Recipe(12, 64, 2e-3, warmup=1.0, patience=5),
    ("isic", "linear"): Recipe(40, 64, 2e-5, 3.0),
    ("isic", "inception"): Recipe(
        90, 128, 8e-4, 0.03, schedule="onecycle", patience=30, average=3.0, augment=True, augment_share=0.15
    ),
}

# By name, what another recipe for the same data set and model changes. The paper says neither how strongly it
# regularises nor whether it weights classes, and some of its figures hang on that.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "less-regularised": {
        "epochs": 50,
        "batch_size": 256,
        "learning_rate": 1e-3,  # chosen among several with an eye on the rank correlation over LIME's grid
        "weight_decay": 1e-2,
        "patience": None,
        "average": 0.0,
        "label_smoothing": 0.0,
        "noise": 0.1,
    },
    "balanced": {"class_weight": True},
}


_GENERAL_STEPS = 1000  # enough for a few dozen features, however few rows there are
_FEATURES = 64  # from here on, a linear model takes smaller steps: its logit moves by all weights at once


def general_recipe(model: str, rows: int, features: int) -> Recipe:
    """The recipe of a model on a data set that has none of its own, by the number of its training rows.

    A recipe counts epochs, but what makes a model converge is steps: few rows need many epochs.

    Example:
        >>> [general_recipe("mlp", rows, 12).epochs for rows in (200, 640, 100_000)]
        [250, 100, 40]
    """
    if model == "inception":
        return Recipe(50, 64, 2e-3, warmup=1.0)
    size = 64 if rows < 20_000 else 256
    epochs = min(300, max(40, math.ceil(_GENERAL_STEPS / math.ceil(rows / size))))
    if model == "linear":
        return Recipe(epochs, size, 2e-2 * min(1.0, _FEATURES / features))
    return Recipe(epochs, size, 3e-3)


def recipe_for(dataset: str, model: str) -> Recipe:
    """The shipped recipe of a model on a data set, or which ones there are."""
    if (dataset, model) not in RECIPES:
        models = [name for data, name in RECIPES if data == dataset]
        raise ValueError(f"model: there is no recipe for {model} on {dataset}; there are {', '.join(models)}.")
    return RECIPES[dataset, model]


def check_recipe(model: str, variant: str | None) -> None:
    """Raise for a variant that an architecture does not have."""
    varied(Recipe(), model, variant)


def varied(recipe: Recipe, model: str, variant: str | None) -> Recipe:
    """A model's recipe as a variant changes it; None leaves it as it is.

    Example:
        >>> varied(RECIPES["isic", "linear"], "linear", "balanced").class_weight
        True
    """
    if variant is None:
        return recipe
    checked_choice("recipe", variant, tuple(VARIANTS))
    if variant == "less-regularised" and model != "mlp":
        raise ValueError(f"recipe: less-regularised is for mlp, got {model}.")
    return replace(recipe, **VARIANTS[variant])
