"""Spaces and proposals: every configuration can be reached, none comes twice, and good regions are found."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeRegressor

import verax
from calls import attribute
from tuning.conftest import LIME, SIX
from verax.attribution import (
    Edges,
    KernelShap,
    LimeGroups,
    LimeImage,
    LimeTabular,
    Occlusion,
    PermutationShap,
    Place,
    TreeShap,
    grid,
)
from verax.tuning.space import Choice, choices, cost_of, groups, propose, space_of


def problem_of(*shape, gradients=True, background=True, labels=True, features="auto", model=None):
    """A problem of two rows, whose model is never run."""
    if model is None:
        model = torch.nn.Linear(6, 2) if gradients else verax.Scorer(lambda rows: rows, returns="logits")
    rows, classes = torch.zeros(8, *shape), torch.arange(8) % 2
    known = {"background": rows, "background_labels": classes if labels else None} if background else {}
    return verax.Problem(model, torch.zeros(2, *shape), features=features, **known)


GIVEN = problem_of(6)
PLACE = Place(torch.device("cpu"), 64)


def leaves(choice):
    if not isinstance(choice, Choice):
        return [choice]
    return [leaf for option in choice.options.values() for leaf in leaves(option)]


def names(choice):
    if not isinstance(choice, Choice):
        return []
    return [(choice.name, tuple(choice.words))] + [name for option in choice.options.values() for name in names(option)]


@pytest.mark.parametrize("configurations", [grid("tabular"), grid("image"), SIX, LIME, SIX[:1]])
def test_choices_lead_to_every_configuration_once(configurations):
    found = leaves(choices(configurations))
    assert len(found) == len(configurations)
    assert set(found) == set(configurations)


@pytest.mark.parametrize("configurations", [grid("tabular"), grid("image"), SIX])
def test_a_name_always_offers_the_same_values(configurations):
    found = set(names(choices(configurations)))
    assert len({name for name, _ in found}) == len(found)


def test_numbers_are_in_order_and_words_are_not():
    uneven = choices([LimeTabular(samples=8), LimeTabular(samples=4), LimeTabular(samples=32)])
    assert uneven.ordered
    assert uneven.words == ["4", "8", "32"]
    assert not choices([Edges(), Edges("canny", 1.0)]).ordered


def test_proposals_are_new_and_go_on_to_the_last():
    tried = set()
    for at in range(8):
        found = propose(LIME, [(one, [float(one.samples)]) for one in tried], tried, ["maximize"], 8, str(at))
        assert len(found) == len(set(found)) == min(8, len(LIME) - len(tried))
        assert not tried & set(found)
        tried |= set(found)
    assert tried == set(LIME)
    assert propose(LIME, [], tried, ["maximize"], 8, "") == []


def test_proposals_depend_on_the_key_and_the_history_alone():
    known = [(one, [float(at)]) for at, one in enumerate(LIME[:20])]
    first, again, other = (propose(LIME, known, set(LIME[:20]), ["maximize"], 8, key) for key in "aab")
    assert first == again
    assert first != other


def test_proposals_go_where_it_is_better():
    space = [LimeTabular(float(alpha), float(width)) for alpha, width in product(range(1, 21), range(1, 21))]
    known = [(one, [-((one.alpha - 15) ** 2) - (one.kernel_width - 5) ** 2]) for one in space[::13]]
    found = propose(space, known, {one for one, _ in known}, ["maximize"], 16, "key")
    near = sum((one.alpha - 15) ** 2 + (one.kernel_width - 5) ** 2 for one in found) / len(found)
    usual = sum((one.alpha - 15) ** 2 + (one.kernel_width - 5) ** 2 for one in space) / len(space)
    assert near < usual / 2


@pytest.mark.parametrize("modality", ["tabular", "image"])
def test_groups_hold_every_configuration_once(modality):
    shape = (6,) if modality == "tabular" else (1, 8, 8)
    problem = problem_of(*shape)[:1]
    every = grid(modality)
    found = [one for group in groups(every, problem, PLACE) for one in group]
    assert sorted(one.canonical for one in found) == sorted(one.canonical for one in every)


def test_groups_cost_no_more_than_their_dearest_where_samples_are_prefixes():
    for group in groups(LIME, GIVEN, PLACE):
        together = group[0].family.rows(group, GIVEN, PLACE)
        assert together == group[0].family.rows(group[:1], GIVEN, PLACE)
        assert len({one.sigma for one in group}) == 1


def test_the_cost_is_what_explaining_one_input_takes():
    model = torch.nn.Linear(6, 2)
    for one in SIX:
        found = attribute([one], model, torch.zeros(1, 6))
        assert cost_of(one, problem_of(6, background=False)[:1], PLACE) == found.rows + found.rows_backward


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("lime", "LimeTabular"),
        ("LIME", "LimeTabular"),
        ("integrated_gradients", "IntegratedGradients"),
        ("Smooth-Grad", "SmoothGrad"),
        ("guided backpropagation", "GuidedBackprop"),
    ],
)
def test_names_are_read_in_any_spelling(name, method):
    assert {type(one).__name__ for one in space_of(name, "tabular", GIVEN).configurations} == {method}


def test_lime_means_that_for_the_data():
    images = problem_of(3, 8, 8, gradients=False, background=False)
    assert {type(one) for one in space_of(("lime",), "image", images).configurations} == {LimeImage}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smothgrad", "expected .* got 'smothgrad'; did you mean 'SmoothGrad'"),
        ("lmie", "expected .*lime, .* got 'lmie'; did you mean 'lime'"),
        ("abc", "expected .*SmoothGrad, .* or a configuration, got 'abc'"),
        ("edges", "Edges is not for tabular data"),
        ("LimeImage", "LimeImage is not for tabular data"),
    ],
)
def test_names_that_do_not_fit_are_refused(name, message):
    with pytest.raises(ValueError, match=f"methods: {message}"):
        space_of(name, "tabular", GIVEN)


def test_all_methods_that_can_be_used_by_default():
    everything = space_of(None, "tabular", GIVEN)
    assert len(everything.configurations) == 772 + 35
    assert list(everything.left_out) == ["GuidedBackprop", "TreeShap"]
    trees = DecisionTreeRegressor().fit(np.eye(6), np.arange(6.0))
    black_box = space_of(None, "tabular", problem_of(6, model=trees, background=False))
    without = {LimeTabular, LimeGroups, Occlusion, KernelShap, PermutationShap, TreeShap}
    assert {type(one) for one in black_box.configurations} == without
    assert len(black_box.left_out) == 7
    assert black_box.left_out["TreeShap"].startswith("background: TreeShap(interventional=True)")
    unlabelled = space_of(None, "tabular", problem_of(6, labels=False))
    assert len(unlabelled.configurations) == 772 - 22 + 35


def test_a_method_is_taken_with_all_its_budgets():
    found = space_of("kernel shap", "tabular", GIVEN).configurations
    assert [one.samples for one in found] == [64, 256, 1024]
    assert len({one.family for one in found}) == 1
    assert len(groups(found, GIVEN, PLACE)) == 1


def test_trees_are_for_trees_alone():
    assert "reads trees" in space_of(None, "tabular", GIVEN).left_out["TreeShap"]
    with pytest.raises(ValueError, match=r"^methods: TreeShap cannot be used. model: TreeShap reads trees"):
        space_of("TreeShap", "tabular", GIVEN)


def test_pixels_are_too_many_to_be_removed_unless_one_says_so():
    pixels, segments = (
        problem_of(3, 40, 40, gradients=False, background=False, features=features)
        for features in ("auto", torch.arange(1600).reshape(40, 40) // 400)
    )
    left_out = space_of(None, "image", pixels).left_out
    assert "1,600 features; pass groups" in left_out["Occlusion"]
    assert "Occlusion" in {type(one).__name__ for one in space_of("Occlusion", "image", pixels).configurations}
    assert "Occlusion" not in space_of(None, "image", segments).left_out
