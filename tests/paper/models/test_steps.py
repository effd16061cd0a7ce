"""Steps of training: the moving average of weights, and batches that do not fit the memory."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from verax.data.catalogue import load_breast_cancer
from verax.paper.models import MLP, InceptionV1, Linear, checkpoints
from verax.paper.models.recipes import Recipe
from verax.paper.models.steps import Learner, copied, lay_out
from verax.paper.models.training import train

RECIPE = Recipe(epochs=3, batch_size=64, learning_rate=1e-2)


class Stop(Exception):
    """A kill."""


class Small(nn.Module):
    """A network on a device that cannot hold many rows at once."""

    def __init__(self, inner: nn.Module, most: int) -> None:
        super().__init__()
        self.inner, self.most, self.seen = inner, most, []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(inputs))
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return self.inner(inputs)


@dataclasses.dataclass(frozen=True)
class Hungry(Linear):
    """Linear, for few rows at once."""

    most: int = 1

    def network(self) -> nn.Module:
        return Small(super().network(), self.most)


def learner(module: nn.Module, recipe: Recipe = RECIPE, steps: int = 4) -> Learner:
    return Learner(module, recipe, torch.ones(2), steps)


def batch(rows: int = 24, features: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(0)
    return torch.randn(rows, features, generator=draws), torch.randint(0, 2, (rows,), generator=draws)


class TestAverage:
    def test_follows_weights_and_batch_norms_with_its_time_constant(self):
        found = learner(MLP(5, hidden=(4,)).build(), dataclasses.replace(RECIPE, average=1.25))  # decay 1 - 1 / 5
        wanted = {name: value.double() for name, value in copy.deepcopy(found.module.state_dict()).items()}
        for _ in range(7):
            found.learn(*batch(), learning_rate=0.05)
            for name, value in found.module.state_dict().items():
                wanted[name] = 0.8 * wanted[name] + 0.2 * value.double()
        state = found.result.state_dict()
        for name in ("linear1.weight", "norm1.weight", "norm1.running_mean", "norm1.running_var", "fc.bias"):
            torch.testing.assert_close(state[name].double(), wanted[name], atol=1e-6, rtol=1e-5)
            assert not torch.equal(state[name], found.module.state_dict()[name])

    def test_of_less_than_a_step_is_the_network_itself(self):
        found = learner(Linear(5).build(), dataclasses.replace(RECIPE, average=0.01))
        found.learn(*batch(), learning_rate=0.05)
        assert found.result is not found.module
        assert torch.equal(found.result.get_parameter("fc.weight"), found.module.get_parameter("fc.weight"))

    def test_is_what_is_validated_and_returned(self):
        data = load_breast_cancer()
        plain, averaged = (
            train(MLP(30, hidden=(8,)), data, dataclasses.replace(RECIPE, average=average, keep="last"), device="cpu")
            for average in (0.0, 2.0)
        )
        assert [epoch.loss for epoch in plain.history] == [epoch.loss for epoch in averaged.history]
        assert [epoch.auroc for epoch in plain.history] != [epoch.auroc for epoch in averaged.history]
        assert averaged.metrics["validation"]["auroc"] == averaged.history[-1].auroc
        inputs, _ = data.part("test", 4)
        assert not torch.equal(plain.module(inputs), averaged.module(inputs))

    def test_goes_on_after_a_kill(self, tmp_path):
        data, recipe = load_breast_cancer(), dataclasses.replace(RECIPE, average=2.0)
        whole = train(MLP(30, hidden=(8,)), data, recipe, device="cpu")

        def stop(epoch):
            if epoch.number == 2:
                raise Stop

        with pytest.raises(Stop):
            train(MLP(30, hidden=(8,)), data, recipe, device="cpu", checkpoint=tmp_path / "c", progress=stop)
        resumed = train(MLP(30, hidden=(8,)), data, recipe, device="cpu", checkpoint=tmp_path / "c")
        assert [epoch.auroc for epoch in resumed.history] == [epoch.auroc for epoch in whole.history]
        for name, tensor in whole.module.state_dict().items():
            assert torch.equal(resumed.module.state_dict()[name], tensor)


def test_a_checkpoint_keeps_the_optimizers_memory_layout(tmp_path):
    first, second = (learner(InceptionV1(channels=1).build()) for _ in range(2))
    for one in (first, second):
        lay_out(one.module, torch.channels_last)
    first.learn(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1]), 1e-3)
    checkpoints.write_run(tmp_path / "c", {}, first, copied(first.module), [])
    checkpoints.read_run(tmp_path / "c", {}, second)
    for one, other in zip(first.module.parameters(), second.module.parameters(), strict=True):
        for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            moment = second.optimizer.state[other][name]
            assert moment.stride() == other.stride()
            assert torch.equal(moment, first.optimizer.state[one][name])


class TestMemory:
    @pytest.mark.parametrize(("most", "pieces"), [(24, 1), (12, 2), (11, 4), (3, 8)])
    def test_pieces_take_the_same_step(self, most, pieces):
        recipe = dataclasses.replace(RECIPE, label_smoothing=0.1)
        whole, cut = learner(Linear(5).build(), recipe), learner(Small(Linear(5).build(), most), recipe)
        for _ in range(3):
            torch.testing.assert_close(cut.learn(*batch(), 0.05), whole.learn(*batch(), 0.05))
        assert cut.pieces == pieces
        assert max(cut.module.seen[-pieces:]) <= most, "it must remember how many rows fit"
        torch.testing.assert_close(cut.module.inner.get_parameter("fc.weight"), whole.module.get_parameter("fc.weight"))

    def test_too_small_for_two_rows_says_so(self):
        with pytest.raises(MemoryError, match="memory of cpu is too small to learn from 3 rows at once"):
            learner(Small(Linear(5).build(), 1)).learn(*batch(), 0.05)

    def test_other_errors_pass(self):
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            learner(Linear(4).build()).learn(*batch(), 0.05)

    def test_a_whole_run(self):
        data = load_breast_cancer()
        whole = train(Linear(30), data, RECIPE, device="cpu")
        cut = train(Hungry(30, most=20), data, RECIPE, device="cpu")
        torch.testing.assert_close(cut.module.inner.get_parameter("fc.weight"), whole.module.get_parameter("fc.weight"))
        assert cut.metrics["test"]["auroc"] == pytest.approx(whole.metrics["test"]["auroc"], abs=1e-3)

    def test_a_run_that_cannot_even_validate(self):
        with pytest.raises(MemoryError, match="too small"):
            train(Hungry(30, most=0), load_breast_cancer(), RECIPE, device="cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestRecordedKernels:
    def test_take_the_same_steps_as_single_ones(self, monkeypatch):
        inputs, labels = (tensor.cuda() for tensor in batch())
        recipe = dataclasses.replace(RECIPE, precision="float32")
        found = []
        for recorded in (True, False):
            if not recorded:
                monkeypatch.setattr(Learner, "_record", lambda self, inputs: None)
            module = MLP(5, hidden=(8,), dropout=0.0).build().cuda()
            own = Learner(module, recipe, torch.ones(2, device="cuda"), 4)
            sums = [own.learn(inputs, labels, 0.05) for _ in range(5)]
            assert ("forward" in vars(module)) == recorded
            own.release()
            assert "forward" not in vars(module)
            found.append((torch.stack(sums), module.state_dict()))
        torch.testing.assert_close(found[0][0], found[1][0])
        for name, tensor in found[0][1].items():
            torch.testing.assert_close(tensor, found[1][1][name], atol=1e-5, rtol=1e-4)
