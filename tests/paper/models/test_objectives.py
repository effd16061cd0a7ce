"""Training for several classes and for values: losses, figures, and networks that return the labels' own unit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, roc_auc_score

from verax.data.base import Dataset, assembled
from verax.data.columns import read_labels
from verax.datasets import load_diabetes
from verax.models import load
from verax.paper.models import Linear
from verax.paper.models.objectives import SeveralClasses, TwoClasses, Values, objective_of
from verax.paper.models.recipes import Recipe
from verax.paper.models.shipped import architecture_for, train_shipped
from verax.paper.models.training import train
from verax.statistics.prediction_quality import class_figures, in_words

CHANCE = np.random.default_rng(0)
ROWS = CHANCE.normal(size=(90, 4))
KINDS = np.array(["low", "mid", "high"])[np.digitize(ROWS[:, 0] + 0.1 * ROWS[:, 1], [-0.4, 0.4])]
PRICES = 1000.0 + 50 * ROWS[:, 0] - 20 * ROWS[:, 2]
SHORT = Recipe(60, 32, 5e-2, 0.0)


def data(given: np.ndarray) -> Dataset:
    labels = read_labels(given, len(given), "labels")
    ids = [str(row) for row in range(len(given))]
    return assembled("own", ROWS, labels.values, ids, class_names=labels.class_names, task=labels.task)


def test_several_classes_are_learnt() -> None:
    found = data(KINDS)
    trained = train(architecture_for("linear", found), found, SHORT, device="cpu")
    inputs, labels = found.part("test")
    with torch.no_grad():
        chances = trained.module(inputs).softmax(1)
    assert chances.shape == (18, 3)
    wanted = roc_auc_score(labels, chances, multi_class="ovr", average="macro")
    assert trained.metrics["test"]["auroc"] == pytest.approx(wanted)
    assert trained.metrics["test"]["accuracy"] == pytest.approx((chances.argmax(1) == labels).double().mean().item())
    assert trained.metrics["test"]["auroc"] > 0.8
    assert trained.history[-1].words.startswith("validation AUROC 0.")


def test_values_are_learnt_in_their_own_unit(tmp_path: Path) -> None:
    """A linear model finds the line that the labels lie on."""
    found = data(PRICES)
    trained = train(architecture_for("linear", found), found, SHORT, device="cpu")
    inputs, labels = found.part("test")
    with torch.no_grad():
        values = trained.module(inputs)[:, 0]
    assert trained.metrics["test"]["r2"] == pytest.approx(r2_score(labels, values), abs=1e-6)
    assert trained.metrics["test"]["r2"] > 0.99
    assert trained.metrics["test"]["rmse"] == pytest.approx((values - labels).square().mean().sqrt().item(), abs=1e-3)
    assert 900 < float(values.mean()) < 1100
    assert max(epoch.score for epoch in trained.history) == trained.metrics["validation"]["r2"]


def test_a_saved_regressor_says_what_it_returns(tmp_path: Path) -> None:
    found = data(PRICES)
    trained = train_shipped("linear", found, tmp_path / "own.safetensors", epochs=3, device="cpu")
    saved = load(tmp_path / "own.safetensors")
    assert (saved.task, saved.returns, saved.class_names) == ("regression", "values", ())
    inputs, _ = found.part("test")
    torch.testing.assert_close(saved.module(inputs), trained.module(inputs))


def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """The figures of a regression survive in the checkpoint, and the last layer is scaled once."""
    found = data(PRICES)
    architecture = architecture_for("linear", found)
    whole = train(architecture, found, SHORT, device="cpu")

    def stop(epoch: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(architecture, found, SHORT, device="cpu", checkpoint=tmp_path / "run", progress=stop)
    resumed = train(architecture, found, SHORT, device="cpu", checkpoint=tmp_path / "run")
    for one, other in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_the_shipped_regressors_know_something(name: str, tmp_path: Path) -> None:
    found = load_diabetes()
    trained = train_shipped(name, found, tmp_path / "own.safetensors", device="cpu")
    inputs, labels = (part.numpy() for part in found.part("train"))
    test, wanted = (part.numpy() for part in found.part("test"))
    line = r2_score(wanted, LinearRegression().fit(inputs, labels).predict(test))
    assert trained.metrics["test"]["r2"] > line - 0.1


def test_losses_are_those_of_the_formulas() -> None:
    outputs, labels = torch.tensor([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]]), torch.tensor([0, 2])
    each = -outputs.log_softmax(1)[torch.arange(2), labels]
    weight = torch.tensor([1.0, 1.0, 3.0])
    loss = SeveralClasses().loss(outputs, labels, weight)
    assert loss.item() == pytest.approx(((each[0] + 3 * each[1]) / 2).item())
    assert SeveralClasses().right(outputs, labels) == 1
    values = Values(mean=10.0, std=2.0)
    assert values.loss(torch.tensor([[1.0], [0.0]]), torch.tensor([10.0, 14.0]), weight) == pytest.approx(2.5)


def test_figures_of_two_classes_are_the_same_either_way() -> None:
    logits, labels = torch.from_numpy(ROWS[:, :1]), torch.from_numpy((ROWS[:, 1] > 0).astype(int))
    chances = torch.cat([(-logits).sigmoid(), logits.sigmoid()], 1)
    assert class_figures(chances, labels) == pytest.approx(TwoClasses().figures(logits, labels))
    assert in_words({"r2": 0.5, "rmse": 2.0}) == "R^2 0.5000, root mean squared error 2.0000"


def test_labels_that_a_split_cannot_serve() -> None:
    rare = np.where(np.arange(90) == data(KINDS).split.test[0], "rare", KINDS)
    with pytest.raises(ValueError, match="'rare' is not: leave its few rows out, join it"):
        objective_of(data(rare))
    same = np.where(np.isin(np.arange(90), data(KINDS).split.train), 1.5, PRICES)
    with pytest.raises(ValueError, match="training rows with different labels"):
        train(Linear(4), data(same), SHORT)
