"""Image LIME: equal to a plain loop over samples, and cheap for many configurations."""

import math
from dataclasses import replace

import jaxtyping
import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

import calls
import verax
from attribution.networks import convnet, rows
from attribution.test_segmentation import direct
from calls import attribute
from verax.attribution.base import families
from verax.attribution.lime_image import LimeImage, SegmentedImages, colours, masks
from verax.attribution.segmentation import PixelScale, Quickshift, Slic, segmentations
from verax.core import noise
from verax.scoring.inference import Runner

SIZE = 12
SEGMENTERS = [Quickshift(5.0), Quickshift(10.0, 1.0), Slic(8), Slic(6, 1.0)]
REPLACEMENTS = ["segment", "image", "dataset"]
SETTINGS = [(alpha, width) for alpha in (0.00055, 0.1, 1.0) for width in (0.125, 0.5)]


@pytest.fixture
def as_users_run_it(monkeypatch):
    """Without the checks that conftest switches on, which would answer before the library does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def images(count=2, channels=3, size=SIZE, dtype=torch.float64):
    """Patches with a little noise; the numbers are those of float32, whatever the dtype."""
    coarse = nn.functional.interpolate(rows(count, channels, 3, 3), size=(size, size))
    return (coarse + rows(count, channels, size, size, seed=2) / 10).to(dtype)


def model(channels=3, size=SIZE):
    return convnet(channels=channels, size=size).double()


def linear(channels, size, seed=5):
    layer = nn.Linear(channels * size * size, 2, bias=False).double()
    layer.weight.data = rows(*layer.weight.shape, seed=seed, dtype=torch.float64)
    return nn.Sequential(nn.Flatten(), layer)


def hidden(image, segments, segment, replacement):
    """The colour of one switched-off segment."""
    if replacement == "dataset":
        return np.zeros(len(image))
    where = segments == segment if replacement == "segment" else np.ones_like(segments, dtype=bool)
    return np.array([channel[where].mean() for channel in image])


def far(one, other):
    """Cosine distance; 1 to what is 0 everywhere."""
    norm = np.linalg.norm(one) * np.linalg.norm(other)
    return 1 - (one * other).sum() / norm if norm else 1.0


def plain_loop(network, image, target, configuration, segments):
    """LIME as it is written down: one perturbed image after the other, then scikit-learn's ridge."""
    network.eval()
    count = int(segments.max()) + 1
    key = noise.input_keys(torch.from_numpy(image)[None], configuration.seed, "lime-image")
    drawn = noise.uniforms(key, 0, configuration.samples, count)[0].numpy() < 0.5
    design = np.concatenate((np.ones((1, count)), drawn))
    scores, weights = [], []
    for mask in design:
        perturbed = image.copy()
        for segment in np.flatnonzero(mask == 0):
            colour = hidden(image, segments, segment, configuration.replacement)
            perturbed[:, segments == segment] = colour[:, None]
        with torch.no_grad():
            scores.append(float(network(torch.from_numpy(perturbed)[None])[0, target]))
        distance = far(mask, np.ones(count)) if configuration.distance == "masks" else far(perturbed, image)
        weights.append(math.exp(-(distance**2) / (2 * configuration.kernel_width**2)))
    found = Ridge(alpha=configuration.alpha).fit(design, scores, sample_weight=weights).coef_
    return np.broadcast_to(found[segments] / len(image), image.shape)


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=repr)
@pytest.mark.parametrize("channels", [1, 3])
def test_equals_a_plain_loop(replacement, segmenter, channels):
    network, x = model(channels), images(channels=channels)
    grid = [LimeImage(alpha, width, replacement, segmenter, samples=24) for alpha, width in SETTINGS]
    found = attribute(grid, network, x, target=1)
    for row, image in enumerate(x.numpy()):
        for one in grid:
            wanted = plain_loop(network, image, 1, one, direct(image, segmenter))
            np.testing.assert_allclose(found[one.canonical][row], wanted, rtol=1e-8, atol=1e-8)


def test_equals_a_plain_loop_with_fewer_samples_than_segments():
    network, x = model(), rows(1, 3, SIZE, SIZE, dtype=torch.float64)
    segmenter = Slic(100)
    segments = direct(x[0].numpy(), segmenter)
    one = LimeImage(0.01, 0.5, "image", segmenter, samples=10)
    assert segments.max() > 3 * one.samples
    wanted = plain_loop(network, x[0].numpy(), 2, one, segments)
    np.testing.assert_allclose(one(calls.problem(network, x, target=2))[0], wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_distances_between_images_share_rows_with_those_between_masks(replacement):
    network, x, segmenter = model(), images(), Slic(8)
    kinds = [LimeImage(0.1, 0.5, replacement, segmenter, samples=24, distance=kind) for kind in ("masks", "inputs")]
    found = attribute(kinds, network, x, target=1)
    assert found.rows == len(x) * (24 + 1)
    for row, image in enumerate(x.numpy()):
        for one in kinds:
            wanted = plain_loop(network, image, 1, one, direct(image, segmenter))
            np.testing.assert_allclose(found[one.canonical][row], wanted, rtol=1e-8, atol=1e-8)
    assert not torch.allclose(*found.values(), rtol=0.01)


def test_distances_of_a_black_image_are_defined():
    one = LimeImage(replacement="image", segmenter=Slic(8), samples=12, distance="inputs")
    found = one(calls.problem(linear(3, SIZE), torch.zeros(1, 3, SIZE, SIZE, dtype=torch.float64), target=1))
    assert torch.equal(found, torch.zeros_like(found))


def test_a_linear_model_is_recovered():
    """Switching a segment off takes away what its pixels contribute."""
    network, x = linear(3, SIZE), images()
    one = LimeImage(alpha=1e-9, replacement="dataset", segmenter=Slic(8), samples=256)
    found = one(calls.problem(network, x, target=1)).sum(1)
    contribution = (x.flatten(1) * network[1].weight[1]).reshape(x.shape).sum(1)
    for row, segments in enumerate(segmentations(x.numpy(), Slic(8))):
        for segment in range(segments.max() + 1):
            inside = torch.from_numpy(segments == segment)
            wanted = contribution[row][inside].sum().detach().expand(int(inside.sum()))
            torch.testing.assert_close(found[row][inside], wanted, rtol=1e-6, atol=1e-6)


def thinned():
    """The paper's 16 segmenters and three replacements, with few penalties, widths and samples."""
    segmenters = [Quickshift(cut, s) for cut in (5.0, 7.5, 10.0, 200.0) for s in (0.0, 4.0)]
    segmenters += [Slic(count, s) for count in (48, 64, 96, 128) for s in (0.0, 4.0)]
    return [
        LimeImage(alpha, width, replacement, segmenter, samples=6)
        for segmenter in segmenters
        for replacement in REPLACEMENTS
        for alpha in (0.01, 1.0)
        for width in (0.125, 0.5)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_pixel_is_either_the_image_or_its_replacement(dtype):
    x, segments = images(2, dtype=dtype), np.arange(SIZE * SIZE).reshape(SIZE, SIZE) % 7
    maps = [segments, segments % 3]  # images with unlike numbers of segments
    hidden = [colours(image, where, "segment") for image, where in zip(x.numpy(), maps, strict=True)]
    found = SegmentedImages.of(x, maps, hidden, 50, seed=0)
    build = found.rows(Runner(verax.Scorer(model()).adapter, dtype, torch.preserve_format))
    assert not found.on[1, :, 3:].any()
    wanted = [
        torch.where(on[:, where][:, None], image, off)
        for image, off, where, on in zip(x, found.off, found.segments, found.on, strict=True)
    ]
    assert torch.equal(
        torch.cat([build(start, min(start + 30, 100)) for start in range(0, 100, 30)]), torch.cat(wanted)
    )
    for image, off, where in zip(x, found.off, found.segments, strict=True):
        for segment in range(int(where.max()) + 1):
            inside = where == segment
            mean = image[:, inside].mean(1, keepdim=True)
            torch.testing.assert_close(off[:, inside], mean.expand(-1, int(inside.sum())))


def test_images_solved_together_are_as_images_alone(monkeypatch):
    """As on a GPU, where images with unlike numbers of segments are solved at once."""
    network, x = model(), images(5)
    several = [
        LimeImage(alpha, 0.5, replacement, Quickshift(2.0), samples=40, distance=distance)
        for alpha in (0.001, 0.1)
        for replacement in REPLACEMENTS
        for distance in ("masks", "inputs")
    ]
    alone = attribute(several, network, x)
    monkeypatch.setattr("verax.attribution.lime_image.together", lambda device: 3)
    assert len({int(one.max()) for one in segmentations(x.numpy(), Quickshift(2.0))}) > 1
    for name, found in attribute(several, network, x).items():
        torch.testing.assert_close(found, alone[name], rtol=1e-9, atol=1e-11)


def test_the_grid_needs_48_sets_of_rows():
    x = images(3, size=8)
    found = attribute(thinned(), model(size=8), x)
    assert len(families(thinned())) == 48
    assert len(found) == 192
    assert found.rows == len(x) * (48 * 6 + 1)
    assert found.rows_backward == 0


def test_a_family_equals_its_members_alone():
    network, x = model(size=8), images(2, size=8)
    several = thinned()[::7]
    together = attribute(several, network, x)
    for one in several:
        torch.testing.assert_close(together[one.canonical], one(calls.problem(network, x)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_batches_do_not_matter(batch_size):
    network, x, one = model(), images(3), LimeImage(segmenter=Slic(8), samples=20)
    torch.testing.assert_close(
        one(calls.problem(network, x, batch_size=batch_size)),
        one(calls.problem(network, x, batch_size=8)),
        rtol=1e-9,
        atol=1e-11,
    )


def test_row_order_does_not_matter():
    network, x, one = model(), images(4), LimeImage(segmenter=Quickshift(5.0), samples=20)
    order = [2, 0, 3, 1]
    assert torch.equal(one(calls.problem(network, x[order])), one(calls.problem(network, x))[order])
    torch.testing.assert_close(
        one(calls.problem(network, x[2:3])), one(calls.problem(network, x))[2:3], rtol=1e-9, atol=1e-11
    )


def test_chunks_of_segmentations_do_not_matter(monkeypatch):
    network, x, one = model(), images(5), LimeImage(segmenter=Slic(8), samples=8)
    wanted = one(calls.problem(network, x))
    monkeypatch.setattr("verax.attribution.lime_image.available_cores", lambda: 2)
    monkeypatch.setattr("verax.attribution.lime_image.block_bytes", lambda device: 1)
    assert torch.equal(one(calls.problem(network, x)), wanted)


def test_seeds():
    network, x, one = model(), images(1), LimeImage(segmenter=Slic(8), samples=20)
    assert torch.equal(one(calls.problem(network, x)), one(calls.problem(network, x)))
    assert not torch.equal(one(calls.problem(network, x)), replace(one, seed=1)(calls.problem(network, x)))


def test_masks_are_fair_and_depend_on_image_and_seed_alone():
    first, second = images(2)[:, None]
    drawn = masks(first, 4000, 30, seed=0)
    assert abs(float(drawn.double().mean()) - 0.5) < 4 * 0.5 / math.sqrt(drawn.numel())
    assert torch.equal(masks(first, 50, 30, seed=0), drawn[:, :50])
    assert torch.equal(masks(first.float(), 50, 30, seed=0), drawn[:, :50])
    assert not torch.equal(masks(first, 50, 30, seed=1), drawn[:, :50])
    assert not torch.equal(masks(second, 50, 30, seed=0), drawn[:, :50])


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_one_colour_is_one_segment(replacement):
    x = torch.full((2, 3, SIZE, SIZE), 0.5, dtype=torch.float64)
    x[1] = -2
    network = linear(3, SIZE)
    one = LimeImage(alpha=1e-9, kernel_width=0.5, replacement=replacement, samples=40)
    found = one(calls.problem(network, x, target=1)).sum(1)
    # off is the same colour, or nothing, which takes the whole logit away
    whole = network(x).detach()[:, 1:, None] if replacement == "dataset" else torch.zeros(2, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(found, whole.expand_as(found), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("segmenter", [Quickshift(), Slic(64)], ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_tiny_images(segmenter, size, channels):
    x = rows(2, channels, size, size, dtype=torch.float64)
    found = LimeImage(segmenter=segmenter, replacement="dataset", samples=16)(calls.problem(linear(channels, size), x))
    assert found.shape == x.shape
    assert torch.isfinite(found).all()


def test_more_segments_than_pixels_is_a_coefficient_per_pixel():
    network, x = linear(1, 3), rows(1, 1, 3, 3, dtype=torch.float64)
    found = LimeImage(1e-9, 0.5, "dataset", Slic(1000), samples=200)(calls.problem(network, x, target=1))
    torch.testing.assert_close(found.flatten(), x.flatten() * network[1].weight[1].detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_and_kind_are_kept(dtype):
    network, x, one = model().to(dtype), images(2, dtype=dtype), LimeImage(segmenter=Slic(8), samples=20)
    found = one(calls.problem(network, x))
    assert found.dtype == dtype
    array = one(calls.problem(network, x.numpy()))
    assert isinstance(array, np.ndarray)
    assert np.array_equal(array, found.numpy())
    if dtype == torch.float32:
        torch.testing.assert_close(found, one(calls.problem(model(), x.double())).float(), rtol=1e-3, atol=1e-4)


def test_a_model_without_gradients_will_do():
    scorer = verax.Scorer(lambda x: x.mean((2, 3)), returns="logits", takes="numpy")
    assert LimeImage(samples=8)(calls.problem(scorer, images(1))).shape == (1, 3, SIZE, SIZE)
    assert not LimeImage().needs_gradients


def test_the_standardisation_is_undone_for_the_segments():
    x, network = images(), model()
    mean, std = (0.4, 0.5, 0.6), (0.3, 0.2, 0.1)
    pixels = (x - x.amin()) / (x.amax() - x.amin())
    standardised = (pixels - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    one = LimeImage(segmenter=Slic(8), samples=12, pixel_mean=mean, pixel_std=std)
    maps = segmentations(standardised.numpy(), Slic(8), PixelScale(mean, std))
    for row, image in enumerate(standardised.numpy()):
        wanted = plain_loop(network, image, 0, one, maps[row])
        np.testing.assert_allclose(
            one(calls.problem(network, standardised, target=0))[row], wanted, rtol=1e-8, atol=1e-8
        )
    assert one.family != replace(one, pixel_mean=None, pixel_std=None).family


@pytest.mark.usefixtures("as_users_run_it")
def test_equal_settings_have_one_form():
    one = LimeImage(alpha=1, segmenter=Quickshift(10), pixel_mean=[0, 0.5, 1], pixel_std=[1, 1, 1])
    assert one == LimeImage(alpha=1.0, pixel_mean=(0.0, 0.5, 1.0), pixel_std=(1.0, 1.0, 1.0))
    assert one.canonical == (
        "LimeImage(alpha=1.0, kernel_width=0.25, replacement='segment', "
        "segmenter=Quickshift(max_dist=10.0, sigma=0.0), samples=1024, seed=0, pixel_mean=(0.0, 0.5, 1.0), "
        "pixel_std=(1.0, 1.0, 1.0), distance='masks')"
    )
    assert hash(one) == hash(replace(one))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("settings", "error", "name"),
    [
        ({"alpha": 0}, ValueError, "alpha"),
        ({"kernel_width": -1.0}, ValueError, "kernel_width"),
        ({"replacement": "mean"}, ValueError, "replacement"),
        ({"segmenter": "slic"}, TypeError, "segmenter"),
        ({"samples": 0}, ValueError, "samples"),
        ({"seed": 0.5}, ValueError, "seed"),
        ({"pixel_mean": (0.5,)}, ValueError, "both or neither"),
        ({"pixel_mean": (0.5,), "pixel_std": (0.0,)}, ValueError, "pixel_std"),
        ({"pixel_mean": ("a",), "pixel_std": (1.0,)}, ValueError, "pixel_mean"),
        ({"pixel_mean": 0.5, "pixel_std": 0.5}, ValueError, "pixel_mean"),
        ({"pixel_mean": (), "pixel_std": ()}, ValueError, "pixel_mean"),
        ({"pixel_mean": (math.nan,), "pixel_std": (1.0,)}, ValueError, "pixel_mean"),
    ],
)
def test_bad_settings_are_named(settings, error, name):
    with pytest.raises(error, match=name):
        LimeImage(**settings)


def test_inputs_that_are_not_images_are_refused():
    with pytest.raises(ValueError, match=r"inputs: LimeImage needs images .* got shape \(2, 5\)"):
        LimeImage()(calls.problem(nn.Linear(5, 2), rows(2, 5)))
    with pytest.raises(ValueError, match="got 2 channels"):
        LimeImage()(calls.problem(linear(2, 4).float(), rows(1, 2, 4, 4)))
