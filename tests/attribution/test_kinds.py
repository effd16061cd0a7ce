"""What methods explain: the model near the input, or the way from a baseline."""

import pytest
import torch

from calls import attribute
from verax.attribution import METHODS, Attribution, Gradient, KernelShap, LimeGroups, LimeImage, Occlusion
from verax.attribution.names import ORIENTED, kind_of


@pytest.mark.parametrize("method", [LimeGroups(samples=64, alpha=1e-9), KernelShap(), Occlusion()])
def test_methods_that_remove_features_explain_the_way_from_the_baseline(method: Attribution) -> None:
    """A linear model's slopes know no baseline; what a removal does grows with the distance to it."""
    model, x = torch.nn.Linear(3, 2, bias=False), torch.tensor([[1.0, 2.0, 3.0]])
    found = [attribute([one], model, x, target=1, baselines=far) for one in (method, Gradient()) for far in (0.0, -1.0)]
    near, far, slope, same = (next(iter(one.values())) for one in found)
    assert torch.allclose(far / near, (x + 1) / x, atol=1e-3)
    assert torch.equal(slope, same)
    assert not method.local
    assert Gradient().local


def test_lime_on_segments_is_no_small_change() -> None:
    assert not LimeImage().local


def test_all_that_replace_features_are_drawn_as_one_kind() -> None:
    names = ["LimeGroups", "LimeImage", "KernelShap", "PermutationShap", "Occlusion", "TreeShap"]
    kinds = {name: kind_of(name, METHODS.get(name).local) for name in names}
    assert kinds == dict.fromkeys(names, ORIENTED)
