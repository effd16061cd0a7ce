"""Image LIME: a weighted ridge regression on segments switched on and off at random."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution, Modality
from verax.attribution.family import Family, Piece, Place
from verax.attribution.ridge import weighted_ridge
from verax.attribution.segmentation import (
    PixelScale,
    Quickshift,
    Segmenter,
    checked_images,
    segment_ahead,
    segmentations,
)
from verax.core import noise, palette
from verax.core.arguments import checked_choice, checked_count, checked_positive, checked_seed, settle
from verax.core.arrays import on_host, to_device
from verax.core.blocks import block_bytes, pieces
from verax.core.image_rows import can_write, rows_by_segment
from verax.core.shapes import Bool, Float, Int
from verax.core.system import available_cores
from verax.problem.problem import Problem
from verax.scoring.inference import Runner
from verax.scoring.meter import Rows
from verax.scoring.session import BuildRows

Replacement = Literal["segment", "image", "dataset"]
Distance = Literal["masks", "inputs"]
_DEFAULT = Quickshift()


@dataclass(frozen=True)
class SegmentedImages:
    """Some images cut into segments, on the model's device."""

    images: Float[Tensor, "b c h w"]  # as they are
    off: Float[Tensor, "b c h w"]  # what is seen where a segment is off
    segments: Int[Tensor, "b h w"]  # the segment of each pixel
    counts: Int[Tensor, " b"]  # segments of each image
    # on: which segments are on in each sample; those that an image does not have are off
    on: Bool[Tensor, "b samples most"]

    @classmethod
    def of(
        cls,
        images: Float[Tensor, "b c h w"],
        maps: Sequence[Int[np.ndarray, "h w"]],
        colours: Sequence[Float[np.ndarray, "c _"]],
        samples: int,
        seed: int,
    ) -> "SegmentedImages":
        """Switch the segments of images on and off at random."""
        most = max(colour.shape[1] for colour in colours)
        table = np.stack([np.pad(colour, ((0, 0), (0, most - colour.shape[1]))) for colour in colours])
        numbers = np.array([colour.shape[1] for colour in colours])
        hidden, segments, counts = (
            to_device(torch.from_numpy(colour), images.device)
            for colour in (table, np.stack(maps).astype(np.int32), numbers)
        )
        segments = segments.long()
        index = segments.flatten(1)[:, None].expand(-1, images.shape[1], -1)
        off = hidden.to(images.dtype).gather(2, index).reshape(images.shape)
        on = masks(images, samples, most, seed)
        if len(colours) > 1:  # one image has all of them
            on &= torch.arange(most, device=on.device) < counts[:, None, None]
        return cls(images, off, segments, counts, on)

    def rows(self, runner: Runner) -> BuildRows:
        """What makes perturbed images, which a model may overwrite, counted image by image and sample by sample."""
        images, off = (tensor.to(runner.dtype, memory_format=runner.layout) for tensor in (self.images, self.off))
        # on a CPU weights of 0 and 1, which are exact at both ends and faster than a choice
        shown = self.on.to(runner.dtype) if images.device.type == "cpu" else self.on
        samples, layout = shown.shape[1], runner.layout
        dense = layout if layout is torch.channels_last else torch.contiguous_format

        def build(start: int, stop: int) -> Tensor:
            batch = torch.empty_like(images[:1].expand(stop - start, *images.shape[1:]), memory_format=dense)
            for part in pieces(stop, samples):  # of one image each
                first, last = max(part.start, start), part.stop
                if first < last:
                    at = part.start // samples
                    chosen = shown[at, first - part.start : last - part.start]
                    out = batch[first - start : last - start]
                    perturbed(images[at], off[at], self.segments[at], chosen, out, layout)
            return batch

        return build

    def design(self) -> Float[Tensor, "b n most"]:
        """The samples as the regression sees them; the unperturbed image comes first."""
        whole = torch.arange(self.on.shape[2], device=self.on.device) < self.counts[:, None, None]
        return torch.cat((whole, self.on), dim=1).double()


def masks(
    images: Float[Tensor, "b c h w"], samples: int, segments: int, seed: int
) -> Bool[Tensor, "b samples segments"]:
    """Which segments are on in each sample; depends on the image and the seed, not on the segmenter."""
    return noise.uniforms(noise.input_keys(images, seed, "lime-image"), 0, samples, segments) < 0.5


def colours(
    image: Float[np.ndarray, "c h w"], segments: Int[np.ndarray, "h w"], replacement: Replacement
) -> Float[np.ndarray, "c segments"]:
    """What a segment shows when it is off. Sums run on the host in float64, so that they are the same everywhere."""
    count = int(segments.max()) + 1
    if replacement == "dataset":
        return np.zeros((len(image), count), dtype=image.dtype)
    where = segments.ravel() if replacement == "segment" else np.zeros(segments.size, dtype=np.int64)
    size = np.bincount(where)
    means = [np.bincount(where, channel.ravel().astype(np.float64)) / size for channel in image]
    return np.broadcast_to(np.stack(means), (len(image), count)).astype(image.dtype)


def perturbed(
    image: Float[Tensor, "c h w"],
    off: Float[Tensor, "c h w"],
    segments: Int[Tensor, "h w"],
    shown: Tensor,
    out: Float[Tensor, "b c h w"],
    layout: torch.memory_format,
) -> None:
    """Write the image where its segment is shown (1), its replacement elsewhere (0)."""
    if can_write(out.device, layout):
        rows_by_segment(image, off, segments, shown, out)
        return
    mask = shown[:, segments][:, None]
    if mask.dtype == torch.bool:
        torch.where(mask, image, off, out=out)
    else:
        torch.lerp(off, image, mask, out=out)


@dataclass(frozen=True)
class LimeImage(Attribution):
    """LIME on segments of an image (Ribeiro, Singh, Guestrin 2016).

    Every segment is on or off with probability 1/2. The logit is regressed on these masks, weighted by
    ``exp(-D^2 / (2 kernel_width^2))`` with the cosine distance ``D`` of a mask to the unperturbed image
    (1 when all is off). The channels of a pixel sum to the coefficient of its segment. Cosines do not grow with the
    number of segments, so that the width needs no scaling.

    Args:
        alpha: Ridge penalty.
        kernel_width: How fast the weight falls with the distance.
        replacement: What a switched-off segment shows: its own mean colour (``"segment"``), that of the image
            (``"image"``), or 0, the mean of standardised data (``"dataset"``).
        segmenter: ``Quickshift(max_dist, sigma)`` or ``Slic(n_segments, sigma)``.
        samples: Masks per image; the unperturbed image comes on top and costs no model row.
        seed: Masks are a function of the seed and the image.
        pixel_mean: With ``pixel_std``, the standardisation of pixels in [0, 1], per channel or one number for all. It
            is undone for the segmentation; without, each image is brought to [0, 1] by its own extremes.
        pixel_std: See ``pixel_mean``.
        distance: What the cosine distance compares: the masks (``"masks"``, as the lime package), or the images that
            the model sees (``"inputs"``, as Captum).

    Example:
        >>> import verax
        >>> image = torch.ones(1, 1, 4, 4)
        >>> image[..., 2:] = -1
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2, bias=False))
        >>> _ = model[1].weight.data.fill_(1.0)
        >>> lime = LimeImage(alpha=1e-6, replacement="dataset", samples=64)
        >>> lime(verax.Problem(model, image, target=1, explained="logit"))[0, 0, 0].round(decimals=3).tolist()
        [8.0, 8.0, -8.0, -8.0]
    """

    alpha: float = 0.01
    kernel_width: float = 0.25
    replacement: Replacement = "segment"
    segmenter: Segmenter = _DEFAULT
    samples: int = 1024
    seed: int = 0
    pixel_mean: tuple[float, ...] | None = None
    pixel_std: tuple[float, ...] | None = None
    distance: Distance = "masks"

    random: ClassVar[bool] = True
    local: ClassVar[bool] = False  # a feature is there or replaced, which is no small change
    label: ClassVar[str] = "LIME"
    colour: ClassVar[str | None] = palette.OLIVE
    worth_showing: ClassVar[tuple[str, ...] | None] = ("alpha", "kernel_width", "replacement", "segmenter")
    citation: ClassVar[str] = "Ribeiro, Singh, Guestrin: Why should I trust you?, KDD 2016"
    modalities: ClassVar[tuple[Modality, ...]] = ("image",)

    def __post_init__(self) -> None:
        checked_choice("replacement", self.replacement, ("segment", "image", "dataset"))
        checked_choice("distance", self.distance, ("masks", "inputs"))
        if not isinstance(self.segmenter, Segmenter):
            raise TypeError(f"segmenter: expected Quickshift(...) or Slic(...), got {self.segmenter!r}.")
        if (self.pixel_mean is None) != (self.pixel_std is None):
            raise ValueError("pixel_mean, pixel_std: expected both or neither.")
        settle(
            self,
            alpha=checked_positive("alpha", self.alpha),  # 1 and 1.0 are one configuration
            kernel_width=checked_positive("kernel_width", self.kernel_width),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
            pixel_mean=_numbers("pixel_mean", self.pixel_mean),
            pixel_std=_numbers("pixel_std", self.pixel_std),
        )
        if self.pixel_std is not None and min(self.pixel_std) <= 0:
            raise ValueError(f"pixel_std: expected positive numbers, got {self.pixel_std}.")

    @property
    def family(self) -> "LimeImageFamily":
        scale = PixelScale(self.pixel_mean, self.pixel_std) if self.pixel_mean and self.pixel_std else None
        return LimeImageFamily(self.segmenter, self.replacement, self.samples, self.seed, scale)


@dataclass(frozen=True)
class LimeImageFamily(Family):
    """One set of perturbed copies of every image; each member weights and solves again."""

    segmenter: Segmenter
    replacement: Replacement
    samples: int
    seed: int
    scale: PixelScale | None

    version: ClassVar[int] = 2

    def check(self, members: Sequence[LimeImage], problem: Problem) -> None:
        checked_images(problem.inputs, "LimeImage")

    def rows(self, members: Sequence[LimeImage], problem: Problem, place: Place) -> Rows:
        return Rows(len(problem.inputs) * self.samples)

    def begin(self, inputs: Float[np.ndarray, "n c h w"], threads: Executor) -> None:
        segment_ahead(inputs, self.segmenter, self.scale, threads)

    def pieces(self, members: Sequence[LimeImage], problem: Problem) -> Iterator[Piece]:
        inputs, device = problem.inputs, problem.open_session.device
        # images are segmented together to keep the cores busy; a picture holds 24 bytes a pixel
        many = max(available_cores(), block_bytes(inputs.device) // (24 * inputs[0, 0].numel()))
        for chunk in pieces(len(inputs), min(many, 64)):
            images = on_host(inputs[chunk])
            maps = segmentations(images, self.segmenter, self.scale)
            hidden = [colours(image, where, self.replacement) for image, where in zip(images, maps, strict=True)]
            for some in pieces(len(images), together(device)):
                rows = slice(chunk.start + some.start, chunk.start + some.stop)
                shown = to_device(inputs[rows], device)
                segmented = SegmentedImages.of(shown, maps[some], hidden[some], self.samples, self.seed)
                compared = any(member.distance == "inputs" for member in members)
                parts = zip(images[some], maps[some], hidden[some], strict=True) if compared else ()
                products = [_products(*part) for part in parts]
                yield Piece(rows, self._explain(members, problem, rows, segmented, products))

    def _explain(
        self,
        members: Sequence[LimeImage],
        problem: Problem,
        rows: slice,
        segmented: SegmentedImages,
        products: Sequence[Float[np.ndarray, "3 _"]],
    ) -> Float[Tensor, "k b c h w"]:
        session = problem.open_session
        owner = torch.arange(rows.start, rows.stop, device=session.device).repeat_interleave(self.samples)
        build = segmented.rows(session.runner)
        scores = session.target_scores(build, owner, problem.classes, streamed=True).reshape(-1, self.samples)
        design = segmented.design()
        # of a mask with m of S ones to the one with all segments on the cosine is sqrt(m / S)
        distances: dict[Distance, Tensor] = {"masks": 1 - (design.sum(2) / segmented.counts[:, None]).sqrt()}
        if products:
            distances["inputs"] = image_distance(design, products)
        fits = [(distances[member.distance], member.kernel_width, member.alpha) for member in members]
        fitted = fitted_masks(design, torch.cat((problem.scores()[rows, None], scores), dim=1), fits)
        images = segmented.images
        # the coefficient of each pixel's segment, an even share of it for each of its channels
        index = segmented.segments.flatten(1).expand(len(members), -1, -1)
        per_pixel = fitted.to(images.dtype).gather(2, index).reshape(-1, len(images), 1, *images.shape[2:])
        return (per_pixel / images.shape[1]).expand(-1, *images.shape)


def together(device: torch.device) -> int:
    """Images whose regressions are solved at once: on a GPU many, for which one launch is as good as for one."""
    return 1 if device.type == "cpu" else 16


def image_distance(
    design: Float[Tensor, "b n segments"], sums: Sequence[Float[np.ndarray, "3 _"]]
) -> Float[Tensor, "b n"]:
    """Cosine distance of each perturbed image to the image; of the first, which is the image itself, 0 in any case."""
    distances = []
    for padded, products in zip(design, sums, strict=True):
        rows = padded[:, : products.shape[1]]
        original, mixed, replaced = to_device(torch.from_numpy(products), design.device).unbind()
        length = (rows @ original + (1 - rows) @ replaced).sqrt() * original.sum().sqrt()
        cosine = (rows @ original + (1 - rows) @ mixed) / length.clamp(min=torch.finfo(length.dtype).tiny)
        cosine[0] = 1
        distances.append(1 - cosine)
    return torch.stack(distances)


def _products(
    image: Float[np.ndarray, "c h w"], where: Int[np.ndarray, "h w"], hidden: Float[np.ndarray, "c segments"]
) -> Float[np.ndarray, "3 segments"]:
    """Sums over each segment of products of an image and its replacement: a perturbed image is one or the other."""
    shown, off = image.astype(np.float64), hidden[:, where].astype(np.float64)
    products = (shown * shown, shown * off, off * off)
    return np.stack([np.bincount(where.ravel(), each.sum(0).ravel()) for each in products])


def fitted_masks(
    design: Float[Tensor, "b n segments"],
    scores: Float[Tensor, "b n"],
    fits: Sequence[tuple[Float[Tensor, "b n"], float, float]],
) -> Float[Tensor, "k b segments"]:
    """Coefficients of what masks keep, for each distance, kernel width and penalty; 0 for what an input lacks."""
    kernels = list(dict.fromkeys((id(distance), width) for distance, width, _ in fits))
    alphas = list(dict.fromkeys(alpha for *_, alpha in fits))
    distances = {id(distance): distance for distance, *_ in fits}
    weights = torch.stack([torch.exp(-(distances[which] ** 2) / (2 * width**2)) for which, width in kernels], dim=1)
    if design.shape[2] > design.shape[1]:
        # the solution lies in the span of the rows; in a basis of it the problem is no larger than its samples
        basis, rows = torch.linalg.qr(design.mT)
        solution = weighted_ridge(rows.mT, scores, weights, alphas) @ basis.mT[:, None]
    else:
        solution = weighted_ridge(design, scores, weights, alphas)
    places = [(kernels.index((id(distance), width)), alphas.index(alpha)) for distance, width, alpha in fits]
    return torch.stack([solution[:, kernel, alpha] for kernel, alpha in places])


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected one number per channel, got {values!r}.") from None
    if not numbers or not np.isfinite(numbers).all():
        raise ValueError(f"{name}: expected finite numbers, one per channel, got {values!r}.")
    return numbers
