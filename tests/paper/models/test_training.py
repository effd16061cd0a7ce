"""Training: what is learnt, how a run goes on after a kill, and what is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from safetensors.torch import save as save_tensors
from sklearn.metrics import roc_auc_score

from verax.core.files import BLANK_CHECKSUM, has_valid_checksum, with_checksum
from verax.data.base import assembled
from verax.data.catalogue import load_breast_cancer, load_digits
from verax.models import save
from verax.paper.models import MLP, InceptionV1, Linear
from verax.paper.models.augmentation import Rows
from verax.paper.models.checkpoints import start_from
from verax.paper.models.recipes import RECIPES, Recipe, general_recipe, rate
from verax.paper.models.shipped import train_shipped
from verax.paper.models.training import Epoch, train
from verax.scoring.model_files.saved import CheckpointError
from verax.statistics.prediction_quality import auroc

SMALL = MLP(30, hidden=(8, 4))
SHORT = Recipe(epochs=4, batch_size=64, learning_rate=1e-2, noise=0.1)


@pytest.fixture(scope="module")
def table():
    return load_breast_cancer()


@pytest.fixture(scope="module")
def digits():
    return load_digits()


def weights(trained):
    return trained.module.state_dict()


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class Stop(Exception):
    """A kill."""


def stop_after(count):
    def progress(epoch):
        if epoch.number == count:
            raise Stop

    return progress


class TestAuroc:
    @pytest.mark.parametrize("levels", [3, 1_000_000])
    def test_is_scikit_learns(self, levels):
        draws = np.random.default_rng(0)
        scores, labels = draws.integers(0, levels, 500) / 7, draws.integers(0, 2, 500)
        found = auroc(torch.from_numpy(scores), torch.from_numpy(labels))
        assert found == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)

    def test_of_a_perfect_and_a_constant_score(self):
        labels = torch.tensor([0, 0, 1, 1])
        assert auroc(torch.tensor([0.1, 0.2, 0.3, 0.4]), labels) == 1
        assert auroc(torch.zeros(4), labels) == 0.5

    def test_needs_both_classes(self):
        with pytest.raises(ValueError, match="0 of class 1 and 3 of class 0"):
            auroc(torch.zeros(3), torch.zeros(3, dtype=torch.long))


class TestSchedule:
    def rates(self, **settings):
        recipe = Recipe(epochs=10, learning_rate=2.0, **settings)
        return [rate(recipe, step, 10) for step in range(100)]

    def test_constant(self):
        assert set(self.rates(schedule="constant")) == {2.0}

    def test_cosine_falls_to_nothing(self):
        found = self.rates(schedule="cosine")
        assert found[0] == 2.0
        assert found[50] == pytest.approx(1.0)
        assert found[99] == pytest.approx(1 + math.cos(math.pi * 0.99))
        assert found == sorted(found, reverse=True)

    def test_warmup_rises_by_equal_steps(self):
        found = self.rates(schedule="cosine", warmup=2.0)
        assert found[:20] == pytest.approx([2.0 * (step + 1) / 20 for step in range(20)])
        assert found[20] == 2.0
        assert found[60] == pytest.approx(1.0)

    def test_onecycle_rises_then_falls(self):
        found = self.rates(schedule="onecycle")
        assert found[0] < 0.15
        assert max(found) == pytest.approx(found[29]) == pytest.approx(2.0)
        assert found[30:] == sorted(found[30:], reverse=True)
        assert found[99] < 0.01

    def test_warmup_longer_than_the_run(self):
        assert max(self.rates(schedule="cosine", warmup=50.0)) == pytest.approx(0.4)


class TestLearning:
    @pytest.mark.parametrize("name", ["linear", "mlp"])
    def test_breast_cancer(self, table, name):
        architecture = Linear(30) if name == "linear" else MLP(30)
        found = train(architecture, table, RECIPES["breast-cancer", name], device="cpu")
        assert found.metrics["test"]["auroc"] > 0.97
        assert found.metrics["test"]["accuracy"] > 0.9
        assert not found.module.training

    @pytest.mark.parametrize("name", ["linear", "inception"])
    def test_digits(self, digits, name):
        architecture = Linear((1, 8, 8)) if name == "linear" else InceptionV1(channels=1)
        recipe = RECIPES["digits", name]
        short = recipe if name == "linear" else dataclasses.replace(recipe, epochs=2)
        assert train(architecture, digits, short, device="cpu").metrics["test"]["auroc"] > 0.8

    def test_metrics_are_those_of_the_module(self, table):
        found = train(SMALL, table, SHORT, device="cpu")
        for part in ("train", "validation", "test"):
            inputs, labels = table.part(part)
            with torch.no_grad():
                logits = found.module(inputs)[:, 0]
            assert found.metrics[part]["auroc"] == pytest.approx(roc_auc_score(labels, logits), abs=1e-4)
            right = ((logits > 0) == (labels == 1)).float().mean().item()
            assert found.metrics[part]["accuracy"] == pytest.approx(right, abs=0.01)

    def test_without_regularisation_the_training_rows_are_learnt_by_heart(self, table):
        recipe = Recipe(epochs=60, batch_size=64, learning_rate=5e-3, weight_decay=0.0, keep="last", clip=None)
        found = train(MLP(30, hidden=(32, 32), dropout=0.0), table, recipe, device="cpu")
        assert found.metrics["train"]["accuracy"] >= 0.999

    def test_keeps_the_best_or_the_last_weights(self, table):
        recipe = dataclasses.replace(SHORT, epochs=6, learning_rate=0.3, schedule="constant")
        best, last = (
            train(SMALL, table, dataclasses.replace(recipe, keep=keep), device="cpu") for keep in ("best", "last")
        )
        scores = [epoch.auroc for epoch in best.history]
        assert scores == [epoch.auroc for epoch in last.history]
        assert scores.index(max(scores)) < 5, "the run must end below its best for this test to say something"
        assert best.metrics["validation"]["auroc"] == max(scores)
        assert last.metrics["validation"]["auroc"] == scores[-1]

    def test_stops_when_nothing_gets_better(self, table):
        recipe = dataclasses.replace(SHORT, epochs=50, learning_rate=0.3, patience=2)
        found = train(SMALL, table, recipe, device="cpu")
        best = max(epoch.number for epoch in found.history if epoch.best)
        assert len(found.history) == best + 2 < 50

    def test_class_weights_make_the_rare_class_count(self, table):
        rare = np.flatnonzero(table.labels[table.split.train] == 1)[:12]
        common = np.flatnonzero(table.labels[table.split.train] == 0)
        split = dataclasses.replace(table.split, train=np.sort(table.split.train[np.concatenate([rare, common])]))
        uneven = dataclasses.replace(table, split=split)
        recipe = Recipe(epochs=3, batch_size=32, learning_rate=5e-3)
        shares = []
        for weighted in (False, True):
            found = train(Linear(30), uneven, dataclasses.replace(recipe, class_weight=weighted), device="cpu")
            with torch.no_grad():
                shares.append((found.module(table.part("test")[0]) > 0).float().mean().item())
        assert shares[1] > shares[0]

    def test_label_smoothing_tempers_the_logits(self, table):
        recipe = Recipe(epochs=30, batch_size=64, learning_rate=0.05, weight_decay=0.0, clip=None)
        sizes = []
        for smoothing in (0.0, 0.2):
            found = train(Linear(30), table, dataclasses.replace(recipe, label_smoothing=smoothing), device="cpu")
            with torch.no_grad():
                sizes.append(found.module(table.part("train")[0]).abs().mean().item())
        assert sizes[1] < sizes[0]

    def test_auxiliary_heads_and_augmented_images(self, digits):
        tiny = dataclasses.replace(digits, split=dataclasses.replace(digits.split, train=digits.split.train[:24]))
        recipe = Recipe(epochs=1, batch_size=12, augment=True)
        found = train(InceptionV1(channels=1, aux=True), tiny, recipe, device="cpu")
        assert math.isfinite(found.history[0].loss)

    def test_mixed_precision_on_request(self, table):
        found = train(SMALL, table, dataclasses.replace(SHORT, precision="bfloat16"), device="cpu")
        assert not same(weights(found), weights(train(SMALL, table, SHORT, device="cpu")))
        assert all(tensor.dtype in (torch.float32, torch.int64) for tensor in weights(found).values())

    def test_seed_decides_and_global_random_state_stays(self, table):
        before = torch.random.get_rng_state()
        first, second = (train(SMALL, table, SHORT, device="cpu") for _ in range(2))
        other = train(SMALL, table, dataclasses.replace(SHORT, seed=1), device="cpu")
        assert same(weights(first), weights(second))
        assert not same(weights(first), weights(other))
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_a_loss_that_is_no_number_is_reported(self, table, tmp_path):
        path = tmp_path / "broken.safetensors"
        save_file({name: weight * math.nan for name, weight in Linear(30).build().state_dict().items()}, path)
        with pytest.raises(FloatingPointError, match="nan in epoch 1; try a lower learning_rate"):
            train(Linear(30), table, SHORT, device="cpu", init=path)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_on_a_gpu(self, digits, tmp_path):
        recipe = Recipe(epochs=2, batch_size=64, augment=True)
        with pytest.raises(Stop):
            train(InceptionV1(channels=1), digits, recipe, checkpoint=tmp_path / "run", progress=stop_after(1))
        found = train(InceptionV1(channels=1), digits, recipe, checkpoint=tmp_path / "run")
        assert len(found.history) == 2
        assert {tensor.device.type for tensor in weights(found).values()} == {"cpu"}


class TestProgress:
    def test_tells_of_each_epoch(self, table):
        told = []
        found = train(SMALL, table, SHORT, device="cpu", progress=told.append)
        assert tuple(told) == found.history
        assert all(isinstance(epoch, Epoch) for epoch in told)
        assert [epoch.number for epoch in told] == [1, 2, 3, 4]
        assert told[0].best
        assert told[-1].loss < told[0].loss
        assert all(0 <= epoch.auroc <= 1 and 0 <= epoch.accuracy <= 1 and epoch.seconds > 0 for epoch in told)
        assert [epoch.learning_rate for epoch in told] == sorted((e.learning_rate for e in told), reverse=True)
        assert found.seconds == sum(epoch.seconds for epoch in told)


class TestResume:
    @pytest.mark.parametrize("kill", [1, 3, 4])
    def test_ends_as_if_it_had_never_stopped(self, table, tmp_path, kill):
        whole = train(SMALL, table, SHORT, device="cpu")
        path = tmp_path / "deep" / "run.checkpoint"
        with pytest.raises(Stop):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path, progress=stop_after(kill))
        told = []
        resumed = train(SMALL, table, SHORT, device="cpu", checkpoint=path, progress=told.append)
        assert [epoch.number for epoch in told] == list(range(kill + 1, 5))
        assert same(weights(resumed), weights(whole))
        assert resumed.metrics == whole.metrics
        assert [(e.loss, e.auroc, e.best) for e in resumed.history] == [
            (e.loss, e.auroc, e.best) for e in whole.history
        ]
        assert [file.name for file in path.parent.iterdir()] == ["run.checkpoint"]

    def test_of_augmented_images(self, digits, tmp_path):
        small = dataclasses.replace(digits, split=dataclasses.replace(digits.split, train=digits.split.train[:200]))
        recipe = Recipe(epochs=2, batch_size=64, augment=True)
        whole = train(Linear((1, 8, 8)), small, recipe, device="cpu")
        with pytest.raises(Stop):
            train(Linear((1, 8, 8)), small, recipe, device="cpu", checkpoint=tmp_path / "c", progress=stop_after(1))
        resumed = train(Linear((1, 8, 8)), small, recipe, device="cpu", checkpoint=tmp_path / "c")
        assert same(weights(resumed), weights(whole))

    def test_early_stopping_is_remembered(self, table, tmp_path):
        recipe = dataclasses.replace(SHORT, epochs=50, learning_rate=0.3, patience=2)
        first = train(SMALL, table, recipe, device="cpu", checkpoint=tmp_path / "c")
        again = train(SMALL, table, recipe, device="cpu", checkpoint=tmp_path / "c", progress=stop_after(1))
        assert again.history == first.history
        assert same(weights(again), weights(first))

    def test_a_checkpoint_of_another_run_is_refused(self, table, tmp_path):
        path = tmp_path / "c"
        train(SMALL, table, SHORT, device="cpu", checkpoint=path)
        recipe = dataclasses.replace(SHORT, learning_rate=0.5)
        with pytest.raises(ValueError, match=r"recipe.learning_rate is 0.01 there and 0.5 here"):
            train(SMALL, table, recipe, device="cpu", checkpoint=path)
        with pytest.raises(ValueError, match=r"architecture.settings.hidden is \[8, 4\] there and \[8\] here"):
            train(MLP(30, hidden=(8,)), table, SHORT, device="cpu", checkpoint=path)
        with pytest.raises(ValueError, match=r"dataset\.split"):
            train(SMALL, load_breast_cancer(seed=1), SHORT, device="cpu", checkpoint=path)
        other = dataclasses.replace(table, fingerprint="0")
        with pytest.raises(ValueError, match=r"dataset\.fingerprint"):
            train(SMALL, other, SHORT, device="cpu", checkpoint=path)

    def test_what_is_no_checkpoint_is_refused(self, table, tmp_path):
        path = tmp_path / "c"
        path.write_bytes(b"nonsense")
        with pytest.raises(CheckpointError, match=r"c is damaged, or no checkpoint of a run; delete it"):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path)
        save_file({"a": torch.zeros(2)}, path)
        with pytest.raises(CheckpointError, match="no checkpoint of a run"):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path)
        path.write_bytes(with_checksum(save_tensors({"a": torch.zeros(2)}, {"seal": BLANK_CHECKSUM})))
        with pytest.raises(CheckpointError, match="no checkpoint of a run"):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path)

    def test_no_damage_of_a_checkpoint_goes_unseen(self, table, tmp_path):
        """One flipped bit in any part of the file, weights and moments included, and it is not learnt from."""
        path = tmp_path / "c"
        with pytest.raises(Stop):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path, progress=stop_after(1))
        whole = path.read_bytes()
        assert has_valid_checksum(whole)
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 1 << (place % 8)
            assert not has_valid_checksum(bytes(changed)), place
        for damaged in (whole[:-10], whole + b"\0", bytes(changed), b""):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError, match="damaged"):
                train(SMALL, table, SHORT, device="cpu", checkpoint=path)
            assert path.read_bytes() == damaged

    def test_a_checkpoint_that_lacks_something_is_refused(self, table, tmp_path):
        path = tmp_path / "c"
        train(SMALL, table, SHORT, device="cpu", checkpoint=path)
        whole = path.read_bytes()
        header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"]
        tensors = load_file(path)
        some = {name: tensors[name] for name in tensors if name != "best.fc.bias"}
        path.write_bytes(with_checksum(save_tensors(some, header)))
        with pytest.raises(CheckpointError, match=r"(?s)damaged .*fc\.bias"):
            train(SMALL, table, SHORT, device="cpu", checkpoint=path)


class TestThreads:
    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_weights_do_not_depend_on_the_number_of_threads(self, table, threads):
        """The paper's network, whose sums are long enough to be shared by threads; three epochs are enough."""
        recipe = dataclasses.replace(RECIPES["breast-cancer", "mlp"], epochs=3)
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(threads)
            found = train(MLP(30), table, recipe, device="cpu")
            assert torch.get_num_threads() == threads
            torch.set_num_threads(1)
            assert same(weights(found), weights(train(MLP(30), table, recipe, device="cpu")))
        finally:
            torch.set_num_threads(before)


class TestGeneralRecipe:
    """A data set that has no recipe of its own."""

    @pytest.fixture(scope="class")
    @staticmethod
    def own():
        """Eight hundred rows of twelve features, five of which decide."""
        draws = np.random.default_rng(1)
        inputs = draws.normal(size=(800, 12))
        clear = inputs @ (draws.normal(size=12) * (np.arange(12) < 5)) + draws.normal(size=800) / 2
        return assembled(
            "own", inputs, (clear > 0).astype(np.int64), tuple(map(str, range(800))), class_names=("0", "1")
        )

    @pytest.mark.parametrize(("name", "at_least"), [("linear", 0.95), ("mlp", 0.93)])
    def test_converges_on_a_small_table(self, own, name, at_least, tmp_path):
        found = train_shipped(name, own, tmp_path / "own.safetensors", device="cpu")
        assert found.metrics["test"]["auroc"] > at_least

    @pytest.mark.parametrize("name", ["linear", "mlp"])
    @pytest.mark.parametrize("rows", [50, 640, 5_000, 19_999, 20_000, 1_000_000])
    def test_takes_enough_steps(self, name, rows):
        recipe = general_recipe(name, rows, 12)
        steps = recipe.epochs * math.ceil(rows / recipe.batch_size)
        assert steps >= 300
        assert steps >= 1000 or recipe.epochs == 300

    def test_many_weights_take_small_steps(self):
        assert general_recipe("linear", 800, 12).learning_rate == 2e-2
        assert general_recipe("linear", 800, 6400).learning_rate == pytest.approx(2e-4)


class TestInit:
    def test_starts_from_a_saved_model(self, table, tmp_path):
        first = train(SMALL, table, SHORT, device="cpu")
        path = tmp_path / "model.safetensors"
        save(path, first.module, SMALL, dataset=table, hyperparameters={}, metrics=first.metrics, seed=0)
        quiet = Recipe(epochs=1, batch_size=64, learning_rate=1e-12)
        found = train(SMALL, table, quiet, device="cpu", init=path)
        for name, weight in first.module.named_parameters():
            torch.testing.assert_close(found.module.get_parameter(name), weight, atol=1e-6, rtol=0)

    def test_starts_from_googlenet_with_a_thousand_classes(self, digits, tmp_path):
        network = InceptionV1(channels=1, outputs=1000).build(seed=3)
        path = tmp_path / "googlenet.pth"
        torch.save(network.state_dict(), path)
        tiny = dataclasses.replace(digits, split=dataclasses.replace(digits.split, train=digits.split.train[:16]))
        recipe = Recipe(epochs=1, batch_size=16, learning_rate=1e-12)
        found = train(InceptionV1(channels=1), tiny, recipe, device="cpu", init=path)
        torch.testing.assert_close(weights(found)["conv1.conv.weight"], network.state_dict()["conv1.conv.weight"])

    def test_is_part_of_the_runs_identity(self, table, tmp_path):
        path = tmp_path / "model.safetensors"
        save_file(SMALL.build(seed=5).state_dict(), path)
        train(SMALL, table, SHORT, device="cpu", init=path, checkpoint=tmp_path / "c")
        with pytest.raises(ValueError, match="init"):
            train(SMALL, table, SHORT, device="cpu", checkpoint=tmp_path / "c")

    def test_refuses_what_does_not_fit_or_is_not_there(self, table, tmp_path):
        path = tmp_path / "model.safetensors"
        save_file(MLP(30, hidden=(5,)).build(seed=5).state_dict(), path)
        with pytest.raises(ValueError, match=r"init: .*does not fit"):
            train(SMALL, table, SHORT, device="cpu", init=path)
        with pytest.raises(ValueError, match="init: no file"):
            train(SMALL, table, SHORT, device="cpu", init=tmp_path / "none")

    def test_runs_no_code_from_a_file(self, table, tmp_path):
        path = tmp_path / "model.pth"
        torch.save(SMALL.build(seed=0), path)
        with pytest.raises(ValueError, match="read safely"):
            train(SMALL, table, SHORT, device="cpu", init=path)


class TestRows:
    def test_are_the_parts_of_the_data_set(self, table, digits):
        for dataset in (table, digits):
            rows = Rows(dataset, "validation", torch.device("cpu"))
            inputs, labels = dataset.part("validation")
            torch.testing.assert_close(rows.inputs(torch.arange(len(rows))), inputs)
            assert torch.equal(rows.labels, labels)

    def test_pixels_may_be_a_memory_map(self, digits, tmp_path):
        np.save(tmp_path / "pixels.npy", digits.inputs)
        mapped = dataclasses.replace(digits, inputs=np.load(tmp_path / "pixels.npy", mmap_mode="r"))
        rows = Rows(mapped, "test", torch.device("cpu"))
        assert rows.kept is None
        torch.testing.assert_close(rows.inputs(torch.arange(5)), digits.part("test", 5)[0])


class TestRecipe:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("epochs", 0),
            ("batch_size", -1),
            ("learning_rate", 0.0),
            ("weight_decay", -1.0),
            ("label_smoothing", 1.5),
            ("augment_share", 2.0),
            ("average", -1.0),
            ("noise", math.nan),
            ("patience", 0),
            ("clip", 0.0),
        ],
    )
    def test_refuses(self, name, value):
        with pytest.raises(ValueError, match=name):
            Recipe(**{name: value})

    def test_shipped_ones(self):
        pairs = [(data, model) for data in ("heloc", "breast-cancer", "diabetes") for model in ("linear", "mlp")]
        assert set(RECIPES) == {
            *pairs,
            *((data, model) for data in ("isic", "digits") for model in ("linear", "inception")),
        }
        assert RECIPES["isic", "inception"].augment

    def test_one_class_only_is_refused(self, table):
        alone = dataclasses.replace(table, labels=np.ones_like(table.labels))
        with pytest.raises(ValueError, match=r"both classes, 0 and 1, among the train rows; got \[1\]"):
            train(SMALL, alone, SHORT, device="cpu")


class Launch:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("suffix", [".pt", ".pth"])
def test_weights_to_start_from_run_nothing(tmp_path, suffix):
    torch.save({"weight": Launch(tmp_path / "ran")}, tmp_path / f"weights{suffix}")
    with pytest.raises(ValueError, match=r"init: .* holds no weights that can be read safely"):
        start_from(tmp_path / f"weights{suffix}", torch.nn.Linear(2, 2))
    assert not (tmp_path / "ran").exists()
