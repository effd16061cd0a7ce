"""The shipped way to a model: a recipe, resumable at every epoch."""

import dataclasses
from pathlib import Path

import pytest
import torch

from verax.data.catalogue import load_breast_cancer, load_digits
from verax.models import load
from verax.paper.models.recipes import RECIPES, Recipe, varied
from verax.paper.models.shipped import architecture_for, train_shipped
from verax.paper.models.training import train

PAIR = ("breast-cancer", "linear")
FIRST = Recipe(epochs=3, batch_size=64, learning_rate=0.02)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, PAIR, FIRST)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load(path).module.state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.usefixtures("short")
def test_it_is_plain_training_by_the_recipe(tmp_path: Path) -> None:
    data = load_breast_cancer()
    train_shipped("linear", data, tmp_path / "model.safetensors", seed=3)
    recipe = dataclasses.replace(FIRST, seed=3)
    plain = train(architecture_for("linear", data), data, recipe, device="cpu").module.state_dict()
    assert same(weights(tmp_path / "model.safetensors"), plain)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.usefixtures("short")
def test_epochs_replace_those_of_the_recipe(tmp_path: Path) -> None:
    train_shipped("linear", load_breast_cancer(), tmp_path / "tried.safetensors", epochs=1)
    assert load(tmp_path / "tried.safetensors").info["hyperparameters"]["epochs"] == 1


@pytest.mark.usefixtures("short")
def test_a_variant_of_the_recipe_is_followed_and_written_down(tmp_path: Path) -> None:
    data = load_breast_cancer()
    for variant in (None, "balanced"):
        train_shipped("linear", data, tmp_path / f"{variant}.safetensors", recipe=variant)
    plain, balanced = (load(tmp_path / f"{variant}.safetensors") for variant in (None, "balanced"))
    assert plain.info["hyperparameters"] == dataclasses.asdict(FIRST)
    assert balanced.info["hyperparameters"] == dataclasses.asdict(FIRST) | {"class_weight": True, "recipe": "balanced"}
    assert not same(plain.module.state_dict(), balanced.module.state_dict())


def test_the_less_regularised_recipe_is_for_perceptrons() -> None:
    recipe = varied(RECIPES["heloc", "mlp"], "mlp", "less-regularised")
    assert (recipe.weight_decay, recipe.noise, recipe.label_smoothing, recipe.average) == (1e-2, 0.1, 0.0, 0.0)
    assert varied(recipe, "mlp", None) is recipe
    assert not any(one.class_weight for one in RECIPES.values())  # the shipped ones are no variants
    with pytest.raises(ValueError, match=r"recipe: less-regularised is for mlp, got linear\."):
        varied(FIRST, "linear", "less-regularised")
    with pytest.raises(ValueError, match=r"recipe: expected one of 'less-regularised', 'balanced', got 'loose'"):
        varied(FIRST, "mlp", "loose")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("stop", [1, 2])
def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path, stop: int) -> None:
    class Killed(BaseException):
        pass

    seen = []

    def kill(epoch: object, recipe: object) -> None:
        seen.append(epoch)
        if len(seen) == stop:
            raise Killed

    data, path = load_breast_cancer(), tmp_path / "model.safetensors"
    with pytest.raises(Killed):
        train_shipped("linear", data, path, progress=kill)
    train_shipped("linear", data, path, progress=lambda epoch, recipe: seen.append(epoch))
    train_shipped("linear", data, tmp_path / "whole.safetensors")
    assert len(seen) == 3  # no epoch twice
    assert same(weights(path), weights(tmp_path / "whole.safetensors"))


@pytest.mark.usefixtures("short")
def test_a_wrong_name_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.safetensors"):
        train_shipped("linear", load_breast_cancer(), tmp_path / "m.pt", progress=lambda *told: pytest.fail("worked"))


def test_an_architecture_for_other_data_is_refused() -> None:
    with pytest.raises(ValueError, match="mlp is for tables"):
        architecture_for("mlp", load_digits())
    with pytest.raises(ValueError, match="inception is for images"):
        architecture_for("inception", load_breast_cancer())
