"""Segmentation: images cut into pieces of similar colour, which image LIME switches on and off.

The costly part of a segmentation is computed once per image and setting, in threads over the cores (scikit-image's
loops leave the interpreter free), and kept in memory up to ``CACHE.limit`` bytes.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from verax.core.arguments import checked_count, checked_not_negative, checked_positive, settle
from verax.core.packages import optional_package
from verax.core.shapes import Float, Int, Shaped
from verax.core.system import available_cores

Arrays = tuple[Shaped[np.ndarray, "..."], ...]


@dataclass(frozen=True)
class Quickshift:
    """Quickshift on colour (Lab, weighted 0.2) and place, with a density kernel of 4 pixels.

    An image of one colour is one segment; its segments would otherwise follow nothing but broken ties.

    Args:
        max_dist: Longest link between a pixel and its parent; longer ones are cut, so higher means fewer segments.
        sigma: Width in pixels of a Gaussian that smooths the image before.

    Example:
        >>> two_colours = np.zeros((1, 3, 8, 8), dtype=np.float32)
        >>> two_colours[..., 4:] = 1
        >>> segmentations(two_colours, Quickshift())[0][0].tolist()
        [1, 1, 1, 1, 0, 0, 0, 0]
    """

    max_dist: float = 10.0
    sigma: float = 0.0

    def __post_init__(self) -> None:
        settle(
            self,
            max_dist=checked_positive("max_dist", self.max_dist),
            sigma=checked_not_negative("sigma", self.sigma),
        )

    @property
    def shared(self) -> Hashable:
        """The settings of the costly part: one tree of links serves every ``max_dist``."""
        return ("quickshift", self.sigma)

    def prepare(self, picture: Float[np.ndarray, "h w 3"]) -> Arrays:
        """Link every pixel to the nearest one of higher density: parents and distances."""
        if (picture == picture[0, 0]).all():
            size = picture.shape[:2]
            return np.zeros(size, dtype=np.int32), np.zeros(size)
        _, parent, distance = need("skimage.segmentation").quickshift(
            picture, kernel_size=4, ratio=0.2, max_dist=math.inf, sigma=self.sigma, return_tree=True, rng=42
        )
        return np.asarray(parent).astype(np.int32), np.asarray(distance)

    def cut(self, prepared: Arrays) -> Int[np.ndarray, "h w"]:
        """Cut the links that are too long and number the trees that remain."""
        parent, distance = prepared
        pixel = np.arange(parent.size)
        root = np.where(distance.ravel() > self.max_dist, pixel, parent.ravel())
        while not np.array_equal(higher := root[root], root):
            root = higher
        return _consecutive(root.reshape(parent.shape))


@dataclass(frozen=True)
class Slic:
    """SLIC: k-means on colour (Lab) and place with compactness 10; an image of one colour becomes a regular grid.

    Args:
        n_segments: About how many segments; never more than there are pixels.
        sigma: Width in pixels of a Gaussian that smooths the image before.
    """

    n_segments: int = 64
    sigma: float = 0.0

    def __post_init__(self) -> None:
        settle(
            self,
            n_segments=checked_count("n_segments", self.n_segments),
            sigma=checked_not_negative("sigma", self.sigma),
        )

    @property
    def shared(self) -> Hashable:
        """Nothing is shared with other settings."""
        return self

    def prepare(self, picture: Float[np.ndarray, "h w 3"]) -> Arrays:
        """Segment; labels are kept as small as they go."""
        labels = need("skimage.segmentation").slic(
            picture, n_segments=self.n_segments, compactness=10.0, sigma=self.sigma, start_label=0
        )
        return (labels.astype(np.min_scalar_type(int(labels.max()))),)

    def cut(self, prepared: Arrays) -> Int[np.ndarray, "h w"]:
        """Number the segments without gaps."""
        return _consecutive(prepared[0])


Segmenter = Quickshift | Slic


@dataclass(frozen=True)
class PixelScale:
    """How standardised images were made from pixels in [0, 1]: ``(pixel - mean) / std``, per channel or for all."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def undo(self, image: Float[np.ndarray, "c h w"]) -> Float[np.ndarray, "c h w"]:
        """Go back to pixels, or say that the result cannot be pixels."""
        for name, values in (("pixel_mean", self.mean), ("pixel_std", self.std)):
            if len(values) not in (1, len(image)):
                raise ValueError(f"{name}: expected one number per channel ({len(image)}), got {len(values)}.")
        mean, std = (np.array(values)[:, None, None] for values in (self.mean, self.std))
        pixels = image * std + mean
        if pixels.min() < -0.1 or pixels.max() > 1.1:  # less than that is what resizing overshoots
            raise ValueError(
                f"pixel_mean, pixel_std: undoing the standardisation gives pixels from {pixels.min():.3g} to "
                f"{pixels.max():.3g}; expected 0 to 1."
            )
        return np.asarray(pixels.clip(0, 1))


class Cache:
    """Arrays by key. The least recently used leave once all together are larger than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: OrderedDict[Hashable, Arrays] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Arrays | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Hashable, arrays: Arrays) -> None:
        with self._lock:
            self.bytes += _size(arrays) - _size(self._kept.pop(key, ()))
            self._kept[key] = arrays
            while self.bytes > self.limit:
                self.bytes -= _size(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self.bytes = 0


CACHE = Cache(limit=1 << 29)  # all 16 segmentations of the paper for about 300 images of 224 x 224
_BEGUN: dict[Hashable, Future[None]] = {}  # ahead of need, and not done yet


def segmentations(
    images: Float[np.ndarray, "n c h w"], segmenter: Segmenter, scale: PixelScale | None = None
) -> list[Int[np.ndarray, "h w"]]:
    """Segment images: a map of segment numbers 0, 1, ... for each."""
    keys = [_key(image, segmenter, scale) for image in images]
    wait([begun for key in keys if (begun := _BEGUN.get(key))])  # what went wrong goes wrong below again, and is raised
    ready = {key: kept for key in dict.fromkeys(keys) if (kept := CACHE.get(key)) is not None}
    missing = {key: image for key, image in zip(keys, images, strict=True) if key not in ready}
    prepared = in_parallel(lambda image: segmenter.prepare(picture(image, scale)), list(missing.values()))
    for key, arrays in zip(missing, prepared, strict=True):
        CACHE.put(key, arrays)
        ready[key] = arrays
    return [segmenter.cut(ready[key]) for key in keys]


def segment_ahead(
    images: Float[np.ndarray, "n c h w"], segmenter: Segmenter, scale: PixelScale | None, threads: Executor
) -> None:
    for image in images:
        key = _key(image, segmenter, scale)
        if CACHE.get(key) is None and key not in _BEGUN:
            _BEGUN[key] = threads.submit(_prepare, key, image, segmenter, scale)
            # it is kept, it went wrong, or it was given up; called at once, if it is done already
            _BEGUN[key].add_done_callback(lambda _, key=key: _BEGUN.pop(key, None))  # type: ignore[misc]


def _prepare(key: Hashable, image: Float[np.ndarray, "c h w"], segmenter: Segmenter, scale: PixelScale | None) -> None:
    CACHE.put(key, segmenter.prepare(picture(image, scale)))


def _key(image: Float[np.ndarray, "c h w"], segmenter: Segmenter, scale: PixelScale | None) -> Hashable:
    read = np.ascontiguousarray(image, dtype=np.float32)
    return hashlib.blake2b(read.data).digest(), read.shape, scale, segmenter.shared


def picture(image: Float[np.ndarray, "c h w"], scale: PixelScale | None) -> Float[np.ndarray, "h w 3"]:
    read = image.astype(np.float32).astype(np.float64)
    pixels = unit_range(read) if scale is None else scale.undo(read)
    if len(pixels) not in (1, 3):
        raise ValueError(f"inputs: only grey or RGB images can be segmented, got {len(pixels)} channels.")
    return np.ascontiguousarray(np.broadcast_to(pixels, (3, *pixels.shape[1:])).transpose(1, 2, 0))


def unit_range(image: Float[np.ndarray, "c h w"]) -> Float[np.ndarray, "c h w"]:
    """Bring an image to [0, 1] by its own least and largest value; one colour becomes 0."""
    lowest, highest = image.min(), image.max()
    return (image - lowest) / (highest - lowest) if highest > lowest else np.zeros_like(image)


def checked_images(inputs: Float[Tensor, "n *shape"], method: str) -> None:
    """Raise for inputs that are not images."""
    if inputs.ndim != 4:
        raise ValueError(
            f"inputs: {method} needs images (N, channels, height, width), got shape {tuple(inputs.shape)}."
        )


def need(module: str) -> Any:
    """Import a module of scikit-image, or say what to install."""
    return optional_package(module, "verax[study]", "a segmentation or an edge map")


def in_parallel(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Do the same work on several things, in threads over the cores."""
    workers = min(len(items), available_cores())
    if workers < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))


def _consecutive(labels: Shaped[np.ndarray, "h w"]) -> Int[np.ndarray, "h w"]:
    """Number labels anew without gaps; they are at most as many as pixels, so that nothing has to be sorted."""
    used = np.zeros(int(labels.max()) + 1, dtype=bool)
    used[labels] = True
    return np.asarray((np.cumsum(used) - 1)[labels])


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays)
