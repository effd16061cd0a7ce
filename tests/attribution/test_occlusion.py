"""Occlusion: one feature out, one feature in, against a plain loop."""

import jaxtyping
import pytest
import torch

import calls
import verax
from attribution.networks import convnet, mlp, rows
from calls import attribute
from verax.attribution import Occlusion, Place

KINDS = ["leave_one_out", "keep_one_in"]


def plain_loop(kind, model, x, baselines, groups, target):
    """Remove, or keep, the elements of one group after the other."""
    found = torch.zeros_like(x)
    with torch.no_grad():
        for at, (row, baseline, own) in enumerate(zip(x, baselines, groups, strict=True)):
            for name in own.unique():
                inside = own == name
                if kind == "leave_one_out":
                    pair = torch.stack((row, torch.where(inside, baseline, row)))
                else:
                    pair = torch.stack((torch.where(inside, row, baseline), baseline))
                more, less = model(pair)[:, target]
                found[at][inside] = (more - less) / inside.sum()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_elements(kind):
    model, x = mlp().double().eval(), rows(4, 6, dtype=torch.float64)
    baselines = rows(4, 6, seed=3, dtype=torch.float64)
    wanted = plain_loop(kind, model, x, baselines, torch.arange(6).expand(4, 6), 2)
    torch.testing.assert_close(Occlusion(kind)(calls.problem(model, x, target=2, baselines=baselines)), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_differ_by_input(kind):
    model, x = mlp().double().eval(), rows(3, 6, dtype=torch.float64)
    maps = torch.tensor([[0, 0, 1, 1, 5, 5], [0, 1, 2, 3, 4, 5], [9, 9, 9, 9, 9, 9]])
    wanted = plain_loop(kind, model, x, torch.zeros_like(x), maps, 1)
    for size in (None, 1, 4):
        torch.testing.assert_close(
            Occlusion(kind)(calls.problem(model, x, target=1, features=maps, batch_size=size)), wanted
        )


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_with_all_their_channels(kind):
    model, x = convnet(size=4).double().eval(), rows(2, 3, 4, 4, dtype=torch.float64)
    groups = torch.arange(16).reshape(4, 4).expand(2, 3, 4, 4)
    wanted = plain_loop(kind, model, x, torch.ones_like(x), groups, 0)
    torch.testing.assert_close(Occlusion(kind)(calls.problem(model, x, target=0, baselines=1.0)), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_linear_model_is_explained_by_its_weights(kind):
    model, x = torch.nn.Linear(6, 2).double(), rows(3, 6, dtype=torch.float64)
    found = Occlusion(kind)(calls.problem(model, x, target=1, baselines=0.5))
    torch.testing.assert_close(found, (model.weight[1] * (x - 0.5)).detach())


def test_cost():
    model, x = mlp().eval(), rows(3, 6)
    maps = torch.tensor([[0, 0, 1, 1, 5, 5], [0, 1, 2, 3, 4, 5], [9, 9, 9, 9, 9, 9]])
    both = [Occlusion(kind) for kind in KINDS]
    for features, each in (("auto", 18), (maps, 10)):
        problem = verax.Problem(model, x, features=features)
        assert attribute(both, model, x, features=features).rows == 3 + each + (each + 3)
        assert both[0].family.rows(both, problem, Place(torch.device("cpu"), 8)).forward == 2 * each + 3


def test_other_kinds_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would answer before the library does
    with pytest.raises(ValueError, match=r"^kind: expected one of 'leave_one_out', 'keep_one_in', got 'both'"):
        Occlusion("both")
