"""References: random attributions with the right statistics, edges as scikit-image finds them."""

import math
import sys

import jaxtyping
import numpy as np
import pytest
import skimage.feature
import skimage.filters
import torch
from scipy import ndimage, stats
from torch import nn

import verax
from attribution.networks import mlp, rows
from calls import attribute
from verax.attribution.base import families
from verax.attribution.references import Edges, Random

EDGES = [Edges("sobel", blur=blur) for blur in (0.0, 2.0, 4.0, 8.0)]
EDGES += [Edges("canny", smoothing, blur) for smoothing in (1.0, 2.0, 4.0) for blur in (0.0, 2.0, 4.0, 8.0)]


@pytest.fixture
def as_users_run_it(monkeypatch):
    """Without the checks that conftest switches on, which would answer before the library does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


class Sums(nn.Module):
    """Any image will do."""

    def forward(self, x):
        total = x.flatten(2).sum(2)[:, :1]
        return torch.cat([total, -total], dim=1)


@pytest.mark.parametrize("constant", [True, False])
def test_random_is_standard_normal(constant):
    x = rows(4, 25_000)
    found = Random(constant)(verax.Problem(Sums(), x[..., None])).double().squeeze(-1)
    values = found[0] if constant else found.flatten()
    assert abs(float(values.mean())) < 4 / math.sqrt(len(values))
    assert abs(float(values.var()) - 1) < 4 * math.sqrt(2 / len(values))
    assert stats.kstest(values.numpy(), "norm").pvalue > 0.001


def test_constant_is_one_vector_and_the_other_one_per_input():
    x = rows(5, 6)
    constant, own = Random(constant=True)(verax.Problem(mlp(), x)), Random()(verax.Problem(mlp(), x))
    assert all(torch.equal(row, constant[0]) for row in constant)
    assert len(torch.unique(own, dim=0)) == 5
    correlation = np.corrcoef(Random()(verax.Problem(Sums(), rows(5, 20_000)[..., None])).squeeze(-1).numpy())
    assert np.abs(correlation - np.eye(5)).max() < 4 / math.sqrt(20_000)


@pytest.mark.parametrize("constant", [True, False])
def test_random_is_keyed(constant):
    x, one, order = rows(6, 6), Random(constant), [3, 1, 5, 0, 2, 4]
    found = one(verax.Problem(mlp(), x))
    assert torch.equal(one(verax.Problem(mlp(), x, batch_size=1)), found)
    assert torch.equal(one(verax.Problem(mlp(), x[order])), found[order])
    assert torch.equal(one(verax.Problem(mlp(), x[4:])), found[4:])
    assert torch.equal(one(verax.Problem(mlp(seed=9), x, target=1)), found)  # of the data alone
    assert not torch.equal(Random(constant, seed=1)(verax.Problem(mlp(), x)), found)
    double = one(verax.Problem(mlp().double(), x.double()))
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), found)
    assert np.array_equal(one(verax.Problem(mlp(), x.numpy())), found.numpy())


def test_random_in_small_blocks(monkeypatch):
    x = rows(6, 6)
    both = [Random(True), Random(False), Random(seed=3)]
    wanted = attribute(both, mlp(), x)
    monkeypatch.setattr("verax.attribution.references.block_bytes", lambda device: 1)
    for name, found in attribute(both, mlp(), x).items():
        assert torch.equal(found, wanted[name])
    assert wanted.rows == len(x)


def direct(image, one):
    """The edges of one image, by hand."""
    grey = image.mean(0)
    if one.detector == "sobel":
        edges = skimage.filters.sobel(grey)
    else:
        edges = skimage.feature.canny(grey, sigma=one.smoothing).astype(float)
    return ndimage.gaussian_filter(edges, one.blur) if one.blur else edges


@pytest.mark.parametrize("channels", [1, 3])
def test_edges_equal_direct_calls(channels):
    x = nn.functional.interpolate(rows(2, channels, 4, 4, dtype=torch.float64), size=(32, 40))
    found = attribute(EDGES, Sums(), x)
    assert found.rows == 2
    for one in EDGES:
        values = found[one.canonical].numpy()
        assert values.shape == x.shape
        for row, image in enumerate(x.numpy()):
            np.testing.assert_allclose(values[row].sum(0), direct(image, one), rtol=1e-12, atol=1e-14)
            assert (values[row] == values[row][:1]).all()
        assert values.any()


def test_blurs_share_the_detector(monkeypatch):
    calls, original = [], skimage.feature.canny
    monkeypatch.setattr(skimage.feature, "canny", lambda *given, **how: calls.append(1) or original(*given, **how))
    x = rows(3, 3, 16, 16)
    together = attribute(EDGES, Sums(), x)
    assert len(calls) == 3 * 3
    assert len(families(EDGES)) == 4
    for one in EDGES:
        assert torch.equal(one(verax.Problem(Sums(), x)), together[one.canonical])


@pytest.mark.parametrize("one", EDGES[::5], ids=lambda one: one.canonical)
def test_edges_of_odd_images(one):
    model = verax.Scorer(Sums(), returns="logits")
    assert not one(verax.Problem(model, torch.full((1, 3, 9, 9), 0.3))).any()  # one colour
    for size in ((1, 1), (1, 5), (2, 2)):
        assert torch.isfinite(one(verax.Problem(model, rows(2, 3, *size)))).all()
    order = [2, 0, 1]
    x = rows(3, 3, 9, 9)
    assert torch.equal(one(verax.Problem(Sums(), x[order])), one(verax.Problem(Sums(), x))[order])


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Random(constant=1), "constant"),
        (lambda: Random(seed="0"), "seed"),
        (lambda: Edges("prewitt"), "detector"),
        (lambda: Edges("sobel", smoothing=1.0), "smoothing"),
        (lambda: Edges("canny"), "smoothing"),
        (lambda: Edges("canny", smoothing=0), "smoothing"),
        (lambda: Edges(blur=-1), "blur"),
    ],
)
def test_bad_settings_are_named(make, name):
    with pytest.raises(ValueError, match=name):
        make()


def test_edges_need_images_and_the_library(monkeypatch):
    with pytest.raises(ValueError, match=r"inputs: Edges needs images .* got shape \(2, 6\)"):
        Edges()(verax.Problem(mlp(), rows(2, 6)))
    monkeypatch.setitem(sys.modules, "skimage.filters", None)
    with pytest.raises(ImportError, match=r"scikit-image.*verax\[study\]"):
        Edges()(verax.Problem(Sums(), rows(1, 3, 4, 4)))


def test_what_they_say_of_themselves():
    assert Edges("canny", 1.0, 2.0).canonical == "Edges(detector='canny', smoothing=1.0, blur=2.0)"
    assert Random(True).canonical == "Random(constant=True, seed=0)"
    assert not Random().needs_gradients
    assert not Edges().needs_gradients
    assert Random().local
    assert Edges().local
    assert Edges.modalities == ("image",)
    assert Random.modalities == ("tabular", "image")
