"""Every attribution method against the contract."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from contract.attribution_contract import CHECKS, Case, image, tabular
from contract.own import from_page, is_of_the_package
from verax.attribution import (
    METHODS,
    AttentionRollout,
    Attribution,
    DeepLiftSHAP,
    Edges,
    Gradient,
    GuidedBackprop,
    IntegratedGradients,
    KernelShap,
    LimeGroups,
    LimeImage,
    LimeTabular,
    Occlusion,
    PermutationShap,
    Quickshift,
    Random,
    Slic,
    SmoothGrad,
    TreeShap,
    VarGrad,
)

NO_BACKGROUND = {"over": ()}  # means over one are held in tests/attribution/test_shapley.py
(LeaveOneOut,) = from_page("write-an-attribution", "LeaveOneOut")

CASES = (
    tabular(Gradient()),
    image(Gradient()),
    tabular(GuidedBackprop(), parity="neither"),
    image(GuidedBackprop(), parity="neither"),
    tabular(IntegratedGradients(points=8), background=True),
    tabular(IntegratedGradients("median", multiply_by_inputs=False, points=8), background=True),
    image(IntegratedGradients("max", points=4), background=True),
    tabular(SmoothGrad(samples=6)),
    tabular(VarGrad(samples=6), parity="even"),
    image(SmoothGrad(sigma=0.5, samples=3)),
    image(VarGrad(sigma=0.5, samples=3), parity="even"),
    tabular(DeepLiftSHAP(samples=8), labels=True, others={"background": (0.25, 1.0)}),
    tabular(DeepLiftSHAP(0.5, samples=8), labels=True, others={"background": (0.25, "random")}),
    image(DeepLiftSHAP(samples=4), labels=True, others={"background": (0.25, 1.0)}),
    tabular(LimeTabular(samples=32)),
    image(
        LimeImage(segmenter=Slic(n_segments=6), samples=16),
        others={"segmenter": (Quickshift(max_dist=4.0), Slic(n_segments=16)), "pixel_mean": (), "pixel_std": ()},
    ),
    tabular(Random(), parity="even"),
    tabular(Random(constant=True), parity="even"),
    image(Random(), parity="even"),
    image(Edges(blur=2.0), parity="even", others={"detector": (), "smoothing": ()}),
    image(Edges("canny", smoothing=1.0), parity="even", others={"detector": (), "smoothing": (2.0,)}),
    tabular(Occlusion()),
    image(Occlusion("keep_one_in")),
    tabular(KernelShap(samples=24), others={"samples": (4, 64), **NO_BACKGROUND}),
    image(KernelShap(samples=24), others={"samples": (12,), **NO_BACKGROUND}),
    tabular(PermutationShap(samples=12), others={"samples": (4, 64), **NO_BACKGROUND}),
    image(PermutationShap(samples=24), others={"samples": (12,), **NO_BACKGROUND}),
    tabular(LimeGroups(samples=16)),
    image(LimeGroups(samples=16)),
    tabular(LeaveOneOut()),
)
OTHERS = {TreeShap, AttentionRollout}  # for trees and for ids alone; their own tests hold them to the same


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_contract(case: Case, check: Callable[[Case], None]) -> None:
    check(case)


ELSEWHERE = """
import sys
sys.path.append(sys.argv[1])
from contract.attribution_contract import pythons_random_numbers_stay
from contract.test_attributions import CASES, everything
for one in everything():
    print(one.canonical)
print([case for case in CASES if not pythons_random_numbers_stay(case)])
"""


def everything() -> list[Attribution]:
    return [one for case in CASES for one in (case.configuration, *case.variants())]


@pytest.fixture(scope="module")
def elsewhere() -> list[str]:
    """What another process prints: all canonical forms, and the cases that draw from Python's random numbers."""
    command = [sys.executable, "-c", ELSEWHERE, str(Path(__file__).parents[1])]
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_canonical_forms_are_the_same_in_every_process(elsewhere: list[str]) -> None:
    assert elsewhere[:-1] == [one.canonical for one in everything()]


def test_pythons_random_numbers_are_untouched(elsewhere: list[str]) -> None:
    assert elsewhere[-1] == "[]"


def test_every_method_of_the_package_is_in_the_contract_with_a_complete_record() -> None:
    shipped = {kind for kind in METHODS.values() if is_of_the_package(kind)}
    assert shipped - OTHERS == {type(case.configuration) for case in CASES} & shipped
    for kind in shipped:
        assert kind.label
        assert kind.colour
        assert kind.reference or kind.citation
        assert set(kind.worth_showing or ()) <= {field.name for field in fields(kind)}


def test_labels_and_titles_are_what_people_read() -> None:
    assert LimeTabular().label == LimeImage().label == "LIME"
    assert IntegratedGradients("max").title == "Integrated Gradients (baseline max, multiply_by_inputs True)"
    assert LeaveOneOut(0.5).title == "Leave one out (value 0.5)"
    assert [kind.__name__ for kind in METHODS.values() if kind.reference] == ["Random", "Edges"]
