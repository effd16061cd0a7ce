"""The paper's grid: how many, which, and always in the same order."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import jaxtyping
import pytest

from attribution.networks import convnet, rows
from calls import attribute
from verax.attribution.base import Attribution, families
from verax.attribution.deeplift_shap import DeepLiftSHAP
from verax.attribution.grid import grid, removals
from verax.attribution.lime_image import LimeImage
from verax.attribution.lime_tabular import LimeTabular
from verax.attribution.references import Random

COUNTS = {
    "Gradient": 1,
    "GuidedBackprop": 1,
    "IntegratedGradients": 8,
    "SmoothGrad": 5,
    "VarGrad": 5,
    "DeepLiftSHAP": 24,
}
WANTED = {
    "tabular": COUNTS | {"LimeTabular": 729, "Random": 2},
    "image": COUNTS | {"LimeImage": 1536, "Random": 2, "Edges": 16},
}
DIGEST = """
import hashlib
from verax.attribution.grid import grid, removals
names = [one.canonical for modality in ("tabular", "image") for one in grid(modality)]
print(hashlib.sha256("\\n".join(names).encode()).hexdigest())
"""


@pytest.mark.parametrize(("modality", "total"), [("tabular", 775), ("image", 1598)])
def test_counts(modality, total):
    found = grid(modality)
    assert len(found) == total == sum(WANTED[modality].values())
    assert list(Counter(type(one).__name__ for one in found).items()) == list(WANTED[modality].items())  # and the order
    assert len({one.canonical for one in found}) == len(set(found)) == total
    assert all(isinstance(one, Attribution) and modality in one.modalities for one in found)


def test_the_paper_counts_two_less():
    everything = 2 * len(grid("tabular")) + 2 * len(grid("image"))
    assert everything == 4746
    assert everything - 2 == 4744
    assert "4,744" in grid.__doc__
    assert "4,746" in grid.__doc__


def test_the_order_is_the_same_in_every_process(capsys):
    environment = os.environ | {"PYTHONHASHSEED": "4711"}
    there = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, env=environment)
    exec(DIGEST, {})  # noqa: S102
    assert capsys.readouterr().out == there.stdout != ""
    assert grid("image") == grid("image")


def test_settings_are_those_of_the_paper():
    image = [one for one in grid("image") if isinstance(one, LimeImage)]
    assert len({one.alpha for one in image}) == 8
    assert len({one.kernel_width for one in image}) == 4
    assert len({one.segmenter for one in image}) == 16
    assert {one.samples for one in image} == {1024}
    assert len(families(image)) == 48
    tabular = [one for one in grid("tabular") if isinstance(one, LimeTabular)]
    assert len({one.alpha for one in tabular}) == len({one.kernel_width for one in tabular}) == 9
    assert {one.sigma for one in tabular} == {0.1, 0.5, 1.0}
    assert {one.samples for one in tabular} == {64, 256, 1024}
    for modality, samples in (("tabular", 1024), ("image", 128)):
        shap = [one for one in grid(modality) if isinstance(one, DeepLiftSHAP)]
        assert {one.samples for one in shap} == {samples}
        assert {one.background for one in shap} == {"random", *(tenth / 10 for tenth in range(11))}


def test_what_the_paper_leaves_open_can_be_chosen_and_stays_apart():
    scaled, plain = grid("tabular", scale_kernel=True), grid("tabular")
    assert [replace(one, scale_kernel=False) if isinstance(one, LimeTabular) else one for one in scaled] == plain
    assert len({one.canonical for one in plain + scaled}) == 775 + 729
    by_inputs, by_masks = grid("image", distance="inputs"), grid("image")
    assert [replace(one, distance="masks") if isinstance(one, LimeImage) else one for one in by_inputs] == by_masks
    assert len({one.canonical for one in by_inputs + by_masks}) == 1598 + 1536
    assert len(families([one for one in by_inputs + by_masks if isinstance(one, LimeImage)])) == 48


def test_further_random_attributions_come_after_those_of_the_paper():
    many = [one for one in grid("tabular", random_seeds=50) if isinstance(one, Random)]
    assert len(many) == len(set(many)) == 100
    assert many[:2] == [one for one in grid("tabular") if isinstance(one, Random)]
    assert grid("tabular", random_seeds=50)[:775] == grid("tabular")
    with pytest.raises(ValueError, match="random_seeds"):
        grid("tabular", random_seeds=0)


def test_image_lime_needs_48_sets_of_rows():
    corners = [one for one in grid("image") if isinstance(one, LimeImage) and one.alpha in (0.00055, 1.0)]
    few = [replace(one, samples=4) for one in corners if one.kernel_width in (0.125, 0.5)]
    x = rows(2, 3, 8, 8)
    found = attribute(few, convnet(size=8), x)
    assert len(found) == 48 * 4
    assert found.rows == len(x) * (48 * 4 + 1)


def test_an_unknown_modality_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match='modality: expected "tabular" or "image", got \'text\''):
        grid("text")


def test_methods_that_remove_features_are_offered_with_several_budgets_that_share_rows():
    tabular, image = removals("tabular"), removals("image")
    names = Counter(type(one).__name__ for one in tabular)
    assert names == {"Occlusion": 2, "KernelShap": 3, "PermutationShap": 3, "LimeGroups": 27, "TreeShap": 2}
    assert [one for one in tabular if type(one).__name__ != "TreeShap"] == image
    assert len(families(image)) == 4
    assert not any(one.needs_gradients or one in grid("tabular") for one in tabular)
