"""Segmentations: those of scikit-image, computed once, whatever the image."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import jaxtyping
import numpy as np
import pytest
import skimage.segmentation
import torch

from attribution.networks import rows
from verax.attribution import segmentation
from verax.attribution.segmentation import (
    CACHE,
    Cache,
    PixelScale,
    Quickshift,
    Slic,
    segment_ahead,
    segmentations,
)

SEGMENTERS = [Quickshift(cut, sigma) for cut in (5.0, 7.5, 10.0, 200.0) for sigma in (0.0, 4.0)]
SEGMENTERS += [Slic(count, sigma) for count in (48, 128) for sigma in (0.0, 4.0)]


@pytest.fixture
def as_users_run_it(monkeypatch):
    """Without the checks that conftest switches on, which would answer before the library does."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(autouse=True)
def _empty_cache():
    CACHE.clear()
    yield
    CACHE.clear()


def blocks(count=2, channels=3, size=24, seed=1):
    """Images of large patches with a little noise."""
    coarse = torch.nn.functional.interpolate(rows(count, channels, 4, 4, seed=seed), size=(size, size))
    return (coarse + rows(count, channels, size, size, seed=seed + 1) / 20).numpy()


def direct(image, segmenter):
    """The same call to scikit-image, by hand."""
    image = image.astype(np.float32).astype(np.float64)
    pixels = (image - image.min()) / (image.max() - image.min())
    pixels = np.repeat(pixels, 3 // len(pixels), axis=0).transpose(1, 2, 0)
    if isinstance(segmenter, Slic):
        return skimage.segmentation.slic(
            pixels, n_segments=segmenter.n_segments, compactness=10, sigma=segmenter.sigma, start_label=0
        )
    return skimage.segmentation.quickshift(
        pixels, kernel_size=4, ratio=0.2, max_dist=segmenter.max_dist, sigma=segmenter.sigma, rng=42
    )


def counted(monkeypatch, name):
    """Count the calls of a function of scikit-image; they come from many threads."""
    calls, lock, original = [], threading.Lock(), getattr(skimage.segmentation, name)

    def call(*arguments, **settings):
        with lock:
            calls.append(settings)
        return original(*arguments, **settings)

    monkeypatch.setattr(skimage.segmentation, name, call)
    return calls


@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=repr)
@pytest.mark.parametrize("channels", [1, 3])
def test_equals_a_direct_call(segmenter, channels):
    images = blocks(channels=channels)
    for image, found in zip(images, segmentations(images, segmenter), strict=True):
        assert np.array_equal(found, direct(image, segmenter))


@pytest.mark.parametrize("segmenter", SEGMENTERS, ids=repr)
def test_numbers_have_no_gaps(segmenter):
    for found in segmentations(rows(3, 3, 9, 7).numpy(), segmenter):
        assert found.shape == (9, 7)
        assert np.array_equal(np.unique(found), np.arange(found.max() + 1))


def test_an_image_and_a_setting_are_segmented_once(monkeypatch):
    calls, images = counted(monkeypatch, "slic"), blocks(3)
    first = segmentations(images, Slic(10))
    again = segmentations(images[::-1].copy(), Slic(10))
    assert len(calls) == 3
    assert all(np.array_equal(one, other) for one, other in zip(first, again[::-1], strict=True))
    segmentations(images, Slic(10, sigma=1.0))
    segmentations(images + 10, Slic(10))  # another content, though the same picture up to rounding
    segmentations(np.concatenate((images, images)), Slic(11))
    assert len(calls) == 12


def test_one_quickshift_tree_serves_every_max_dist(monkeypatch):
    calls, images = counted(monkeypatch, "quickshift"), blocks(2)
    found = [segmentations(images, Quickshift(cut))[0].max() for cut in (1.0, 5.0, 7.5, 10.0, 200.0)]
    assert len(calls) == 2
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_one_core_and_many_agree(monkeypatch):
    images = blocks(5)
    monkeypatch.setattr(segmentation, "available_cores", lambda: 1)
    alone = segmentations(images, Quickshift())
    CACHE.clear()
    monkeypatch.setattr(segmentation, "available_cores", lambda: 4)
    for one, other in zip(alone, segmentations(images, Quickshift()), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("segmenter", [Quickshift(), Slic()], ids=repr)
def test_precision_does_not_matter(segmenter):
    images = blocks(1)
    single = segmentations(images, segmenter)[0]
    assert np.array_equal(single, segmentations(images.astype(np.float64), segmenter)[0])


@pytest.mark.parametrize(
    "segmenter", [Quickshift(), Quickshift(5.0, 4.0), Slic(1), Slic(1000), Slic(1000, 4.0)], ids=repr
)
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("channels", [1, 3])
def test_tiny_images(segmenter, size, channels):
    (found,) = segmentations(rows(1, channels, *size).numpy(), segmenter)
    assert found.shape == size
    assert np.array_equal(np.unique(found), np.arange(found.max() + 1))


def test_more_segments_than_pixels_is_a_segment_per_pixel():
    (found,) = segmentations(rows(1, 3, 3, 4).numpy(), Slic(1000))
    assert found.max() == 11


@pytest.mark.parametrize("value", [0.0, -2.5, 0.1])
def test_one_colour(value):
    image = np.full((1, 3, 30, 40), value, dtype=np.float32)
    assert segmentations(image, Quickshift(5.0))[0].max() == 0
    assert segmentations(image, Slic(1))[0].max() == 0
    assert segmentations(image, Slic(12))[0].max() == 11


def test_the_standardisation_is_undone():
    pixels = skimage.data.astronaut()[100:140, 200:240].astype(np.float32).transpose(2, 0, 1)[None] / 255
    pixels[0, :, 0, :2] = 0, 1  # nothing to rescale
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    standardised = (pixels - np.array(mean)[:, None, None]) / np.array(std)[:, None, None]
    (wanted,) = segmentations(pixels, Slic(30))
    (found,) = segmentations(standardised, Slic(30), PixelScale(mean, std))
    assert np.array_equal(found, wanted)
    (rescaled,) = segmentations(standardised, Slic(30))
    assert not np.array_equal(rescaled, wanted)  # the channels were scaled apart
    one_for_all = PixelScale((0.5,), (0.2,))
    assert np.array_equal(segmentations((pixels - 0.5) / 0.2, Slic(30), one_for_all)[0], wanted)


def test_what_cannot_be_pixels_is_refused():
    with pytest.raises(ValueError, match=r"pixel_mean, pixel_std: .* from .* to .*; expected 0 to 1"):
        segmentations(rows(1, 3, 4, 4).numpy(), Slic(), PixelScale((120.0,), (60.0,)))
    with pytest.raises(ValueError, match=r"pixel_std: expected one number per channel \(3\), got 2"):
        segmentations(rows(1, 3, 4, 4).numpy(), Slic(), PixelScale((0.5,), (0.2, 0.2)))
    with pytest.raises(ValueError, match="grey or RGB images can be segmented, got 4 channels"):
        segmentations(rows(1, 4, 4, 4).numpy(), Slic())


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Quickshift(0), "max_dist"),
        (lambda: Quickshift(sigma=-1), "sigma"),
        (lambda: Quickshift(sigma=float("nan")), "sigma"),
        (lambda: Slic(0), "n_segments"),
        (lambda: Slic(2.5), "n_segments"),
        (lambda: Slic(sigma="4"), "sigma"),
    ],
)
def test_bad_settings_are_named(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.usefixtures("as_users_run_it")
def test_equal_settings_have_one_form():
    assert repr(Quickshift(10, 4)) == repr(Quickshift(10.0, 4.0)) == "Quickshift(max_dist=10.0, sigma=4.0)"
    assert repr(Slic(48, 0)) == "Slic(n_segments=48, sigma=0.0)"


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r"scikit-image.*verax\[study\]"):
        segmentations(blocks(1), Slic())


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(segmentation, "available_cores", lambda: 2)
    monkeypatch.setattr(skimage.segmentation, "slic", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        segmentations(blocks(3), Slic())


def test_what_was_begun_ahead_is_waited_for_and_used(monkeypatch):
    calls, images = counted(monkeypatch, "slic"), blocks(3)
    gate = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(gate.wait)
        segment_ahead(images, Slic(10), None, threads)
        segment_ahead(images, Slic(10), None, threads)  # begun already
        assert not calls
        gate.set()
        found = segmentations(images, Slic(10))
    assert len(calls) == 3
    assert all(np.array_equal(one, direct(image, Slic(10))) for one, image in zip(found, images, strict=True))


def test_what_was_given_up_ahead_is_made_when_it_is_needed():
    images, gate = blocks(2), threading.Event()
    threads = ThreadPoolExecutor(1)
    threads.submit(gate.wait)
    segment_ahead(images, Slic(10), None, threads)
    threads.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert np.array_equal(segmentations(images, Slic(10))[1], direct(images[1], Slic(10)))


def test_the_cache_is_bounded():
    cache, megabyte = Cache(limit=3_000_000), (np.zeros(1_000_000, dtype=np.uint8),)
    for key in "abc":
        cache.put(key, megabyte)
    assert cache.get("a") is megabyte
    cache.put("d", megabyte)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]  # b was not used for longest
    cache.put("d", megabyte)
    assert cache.bytes == 3_000_000
    cache.put("large", (np.zeros(4_000_000, dtype=np.uint8),))
    assert cache.bytes == 0
    assert cache.get("large") is None
