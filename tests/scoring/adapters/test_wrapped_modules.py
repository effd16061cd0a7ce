"""Functions around a module in training mode are warned of, however they hold it, and are not called for it."""

import functools
import warnings

import pytest
import torch
from torch import nn

import calls
import verax

NETWORK = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))


class Holder:
    def __init__(self, module):
        self.module = module

    def predict_batch(self, x):
        return self.module(x)

    def __call__(self, x):
        return self.module(x)


def closure(module):
    return lambda x: 2 * module(x)


def default(module):
    def score(x, module=module):
        return module(x)

    return score


def partial(module):
    def score(module, x):
        return module(x)

    return functools.partial(score, module)


def wrapped(module):
    inner = closure(module)

    @functools.wraps(inner)
    def score(x):
        return inner(x)

    return score


WAYS = [
    closure,
    default,
    partial,
    wrapped,
    Holder,
    lambda module: Holder(module).predict_batch,
    lambda module: module.forward,
    lambda module: functools.partial(closure(module)),
]


def uses_a_global(x):
    return NETWORK(x)


def network(*parts):
    return nn.Sequential(nn.Linear(3, 2), *parts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", [nn.Dropout(0.5), nn.BatchNorm1d(2)], ids=["dropout", "batch norm"])
def test_training_mode_is_warned_of(way, part):
    module = network(part).train()
    module[0].register_forward_hook(lambda *arguments: pytest.fail("it was called"))
    with pytest.warns(UserWarning, match=rf"in training mode: its {type(part).__name__} 1 makes.*\.eval\(\)"):
        verax.Scorer(way(module), returns="logits")


@pytest.mark.parametrize("way", WAYS)
def test_what_has_one_mode_or_is_in_evaluation_mode_is_not(way):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verax.Scorer(way(network(nn.Dropout(0.5)).eval()), returns="logits")
        verax.Scorer(way(network(nn.ReLU()).train()), returns="logits")


def test_a_global_name_is_found(monkeypatch):
    with pytest.warns(UserWarning, match="in training mode"):
        verax.Scorer(uses_a_global, returns="logits")
    monkeypatch.setitem(globals(), "NETWORK", NETWORK.eval())
    verax.Scorer(uses_a_global, returns="logits")
    NETWORK.train()


def test_a_module_itself_is_switched_and_not_warned_of():
    module, x = network(nn.Dropout(0.5)).train(), torch.ones(4, 3)
    first, again = (calls.prediction_change(module, x, x, target=0).value for _ in range(2))
    assert torch.equal(first, again)
    assert module.training


def test_a_name_without_a_value_and_callables_without_code_are_fine():
    def score(x):
        return later(x)

    verax.Scorer(score, returns="logits")
    verax.Scorer(torch.relu, returns="logits")
    later = torch.relu
