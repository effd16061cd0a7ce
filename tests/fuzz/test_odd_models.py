"""Models that gradient methods cannot follow: a result, or one line that says so, never torch's own pages."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import calls
import verax
from verax.attribution import DeepLiftSHAP, Gradient, GuidedBackprop, IntegratedGradients, SmoothGrad

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


class Odd(nn.Module):
    """Two layers, the first of which is called in some unusual way."""

    def __init__(self, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.call, self.first, self.last = call, nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.call(self.first, x))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cells, self.last = nn.RNN(1, 5, nonlinearity=kind, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.cells(x[..., None])[0][:, -1])


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(10, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Any:
        return self.last(self.table(x).mean(1))


def spectral(norm: Any) -> nn.Module:
    return nn.Sequential(norm(nn.Linear(6, 5)), nn.ReLU(), nn.Linear(5, 2))


MODELS = {
    "embedding": Embedded,
    "recurrent with ReLUs": lambda: Recurrent("relu"),
    "vmap": lambda: Odd(lambda layer, x: torch.vmap(layer)(x)),
    "checkpoint": lambda: Odd(lambda layer, x: checkpoint(layer, x, use_reentrant=False)),  # type: ignore[no-any-return]
    "reentrant checkpoint": lambda: Odd(lambda layer, x: checkpoint(layer, x, use_reentrant=True)),  # type: ignore[no-any-return]
    "spectral norm": lambda: spectral(nn.utils.spectral_norm),
    "parametrised spectral norm": lambda: spectral(nn.utils.parametrizations.spectral_norm),
}
METHODS = (Gradient, SmoothGrad, IntegratedGradients, GuidedBackprop, DeepLiftSHAP)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", MODELS)
def test_methods_give_a_result_or_a_line(name: str, method: Any) -> None:
    try:
        found = method()(verax.Problem(MODELS[name](), X, background=X))
    except (ValueError, TypeError) as error:
        said = str(error)
    else:
        said = "" if found.isfinite().all() else "not finite"
    assert not said or said.startswith(("model:", "inputs:"))
    assert "\n" not in said


def test_a_model_of_whole_numbers_is_told_in_a_line() -> None:
    with pytest.raises(ValueError, match=r"^model: it failed on a batch of \d+ rows: .*Long.*\.$"):
        calls.prediction_change(Embedded(), X, X)


def test_what_cannot_be_compiled_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=broken))
    scorer = verax.Scorer(nn.Linear(6, 2), compile=True)
    with pytest.raises(ValueError, match=r"^model: it failed .*no compiler here.* leave compile out\.$") as found:
        calls.prediction_change(scorer, X, X)
    assert "\n" not in str(found.value)


@pytest.mark.filterwarnings("ignore:baselines. outside")
def test_categories_of_words_are_told_in_a_line() -> None:
    table = pd.DataFrame({"n": np.arange(40.0), "c": pd.Categorical(["a", "b"] * 20)})
    model = HistGradientBoostingClassifier(categorical_features="from_dtype").fit(table, np.arange(40) % 2)
    for inputs in (table, np.ones((40, 2))):
        with pytest.raises((ValueError, TypeError), match=r"^(model|inputs): ") as found:
            calls.prediction_change(model, inputs, np.ones((40, 2)))
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("baselines", [torch.mean, lambda x: x.mean(0), "mean", None, object(), {}])
def test_baselines_that_are_none(baselines: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^baselines: (expected|.mean. is one of the training data)"):
        calls.prediction_change(nn.Linear(6, 2), X, X, baselines=baselines)
