"""Small examples of what modules of this folder share among themselves."""

import torch

from verax.perturbation.adaptive_curves import change_weights
from verax.perturbation.block import cut_points, ranks, removal_order, signs
from verax.perturbation.set_scores import sorted_keys, unpacked


def test_set_scores_sorted_keys():
    keys, owner, position = sorted_keys(torch.tensor([[5, 2, 7], [1, 0, 1]]), bits=3)
    assert keys.tolist() == [2, 5, 7, 0, 1, 1]
    assert (owner.tolist(), position.tolist()) == ([0, 0, 0, 1, 1, 1], [1, 0, 2, 4, 3, 5])


def test_set_scores_unpacked():
    assert repr(unpacked(torch.tensor([5, 2]), 3, torch.float32)) == "tensor([[1., 0., 1.],\n        [0., 1., 0.]])"


def test_feature_sums_signs():
    terms = torch.tensor([0.1, 0.2, -0.3]).double()
    sums, sizes = terms.sum(0, keepdim=True), terms.abs().sum(0, keepdim=True)
    assert (bool(sums == 0), signs(sums, sizes, sizes * torch.finfo(torch.float32).eps).tolist()) == (False, [0.0])


def test_block_removal_order():
    assert repr(removal_order(torch.tensor([[0.5, -2.0, 0.5, 1.0]]), "signed")) == "tensor([[3, 0, 2, 1]])"
    assert repr(removal_order(torch.tensor([[0.5, -2.0, 0.5, 1.0]]), "magnitude")) == "tensor([[1, 3, 0, 2]])"


def test_block_ranks():
    assert repr(ranks(torch.tensor([[3, 0, 2, 1]]))) == "tensor([[1, 3, 2, 0]], dtype=torch.int32)"


def test_block_cut_points():
    assert repr(cut_points(torch.tensor([7]), steps=3, most=7)) == "tensor([[0, 2, 4, 7]])"


def test_adaptive_curves_change_weights():
    assert repr(change_weights(torch.tensor([2]), 2, "increments") * 9) == "tensor([[8., 1.]], dtype=torch.float64)"
    assert repr(change_weights(torch.tensor([2]), 2, "cumulative") * 9) == "tensor([[9., 1.]], dtype=torch.float64)"
