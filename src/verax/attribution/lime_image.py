"""Image LIME: a weighted ridge regression on segments switched on and off at random."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution, Modality
from verax.attribution.family import Family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.attribution.ridge import weighted_ridge
from verax.attribution.segmentation import PixelScale, Quickshift, Segmenter, checked_images, segmentations
from verax.core import noise, palette
from verax.core.arguments import checked_choice, checked_count, checked_positive, checked_seed, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.cores import available_cores
from verax.core.shapes import Bool, Float, Int
from verax.scoring.meter import Rows

Replacement = Literal["segment", "image", "dataset"]
Distance = Literal["masks", "inputs"]
_DEFAULT = Quickshift()


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
        >>> image = torch.ones(1, 1, 4, 4)
        >>> image[..., 2:] = -1
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2, bias=False))
        >>> _ = model[1].weight.data.fill_(1.0)
        >>> lime = LimeImage(alpha=1e-6, replacement="dataset", samples=64)
        >>> lime(model, image, target=1)[0, 0, 0].round(decimals=3).tolist()
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
    local: ClassVar[bool] = True
    label: ClassVar[str] = "LIME"
    colour: ClassVar[str | None] = palette.OLIVE
    worth_showing: ClassVar[tuple[str, ...] | None] = ("alpha", "kernel_width", "replacement", "segmenter")
    citation: ClassVar[str] = "Ribeiro, Singh, Guestrin: Why should I trust you?, KDD 2016"
    modalities: ClassVar[tuple[Modality, ...]] = ("image",)

    def __post_init__(self) -> None:
        checked_choice("replacement", self.replacement, ("segment", "image", "dataset"))
        checked_choice("distance", self.distance, ("masks", "inputs"))
        if not isinstance(self.segmenter, Segmenter):
            raise TypeError(f"segmenter: expected Quickshift(...) or Slic(...), found {self.segmenter!r}.")
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
            raise ValueError(f"pixel_std: expected positive numbers, found {self.pixel_std}.")

    @property
    def family(self) -> "LimeImageFamily":
        """Penalties, kernel widths and distances share their perturbed images."""
        given = self.pixel_mean is not None and self.pixel_std is not None
        scale = PixelScale(self.pixel_mean or (), self.pixel_std or ()) if given else None
        return LimeImageFamily(self.segmenter, self.replacement, self.samples, self.seed, scale)


@dataclass(frozen=True)
class LimeImageFamily(Family):
    """One set of perturbed copies of every image; each member weights and solves again."""

    segmenter: Segmenter
    replacement: Replacement
    samples: int
    seed: int
    scale: PixelScale | None

    needs_gradients: ClassVar[bool] = False
    version: ClassVar[int] = 2

    def check(self, members: Sequence[LimeImage], given: Given) -> None:
        """Only images have segments."""
        checked_images(given.inputs, "LimeImage")

    def rows(self, members: Sequence[LimeImage], given: Given, place: Place) -> Rows:
        """One per perturbed copy."""
        return Rows(len(given.inputs) * self.samples)

    def pieces(self, members: Sequence[LimeImage], explained: Explained) -> Iterator[Piece]:
        """Yield the members' attributions of one image after the other."""
        inputs = explained.inputs
        # images are segmented together to keep the cores busy; a picture holds 24 bytes a pixel
        together = max(available_cores(), block_bytes(inputs.device) // (24 * inputs[0, 0].numel()))
        for chunk in pieces(len(inputs), min(together, 64)):
            images = inputs[chunk].cpu()
            maps = segmentations(images.float().numpy(), self.segmenter, self.scale)
            for row, image, segments in zip(range(chunk.start, chunk.stop), images, maps, strict=True):
                values = self._explain(members, explained, row, image, torch.from_numpy(segments))
                yield Piece(slice(row, row + 1), values[:, None])

    def _explain(
        self,
        members: Sequence[LimeImage],
        explained: Explained,
        row: int,
        image: Float[Tensor, "c h w"],
        segments: Int[Tensor, "h w"],
    ) -> Float[Tensor, "k c h w"]:
        device = explained.session.device
        off = filling(image, segments, self.replacement).to(device)
        image, segments = image.to(device), segments.to(device)
        on = masks(image, self.samples, int(segments.max()) + 1, self.seed)
        shown = on.to(image.dtype)
        owner = torch.full((self.samples,), row, device=device)
        scores = explained.session.target_scores(
            lambda start, stop: perturbed(image, off, segments, shown[start:stop]), owner, explained.target
        )
        # the unperturbed image is the first row of the regression
        design = torch.cat((torch.ones_like(on[:1]), on)).double()
        distances: dict[Distance, Tensor] = {"masks": mask_distance(design)}
        if any(one.distance == "inputs" for one in members):
            distances["inputs"] = image_distance(design, image, off, segments)
        found = fit(design, torch.cat((explained.clean[row : row + 1], scores)), distances, members)
        per_pixel = found.to(image.dtype)[:, segments][:, None] / len(image)
        return per_pixel.expand(-1, *image.shape)


def masks(image: Float[Tensor, "c h w"], samples: int, segments: int, seed: int) -> Bool[Tensor, "samples segments"]:
    """Which segments are on in each sample; depends on the image and the seed, not on the segmenter."""
    key = noise.input_keys(image[None], seed, "lime-image")
    return noise.uniforms(key, 0, samples, segments)[0] < 0.5


def filling(
    image: Float[Tensor, "c h w"], segments: Int[Tensor, "h w"], replacement: Replacement
) -> Float[Tensor, "c h w"]:
    """What is seen where a segment is off. Sums run on the host in float64, so that they are the same everywhere."""
    if replacement == "dataset":
        return torch.zeros_like(image)
    where = segments.flatten().numpy() if replacement == "segment" else np.zeros(segments.numel(), dtype=np.int64)
    size = np.bincount(where)
    colours = [np.bincount(where, channel.flatten().double().numpy()) / size for channel in image]
    return torch.from_numpy(np.stack(colours)[:, where]).to(image.dtype).reshape(image.shape)


def perturbed(
    image: Float[Tensor, "c h w"],
    off: Float[Tensor, "c h w"],
    segments: Int[Tensor, "h w"],
    shown: Float[Tensor, "b segments"],
) -> Float[Tensor, "b c h w"]:
    """The image where its segment is shown (1), its replacement elsewhere (0)."""
    # exact at both ends, and faster than torch.where with a mask that broadcasts over channels
    return torch.lerp(off, image, shown[:, segments][:, None])


def mask_distance(design: Float[Tensor, "n segments"]) -> Float[Tensor, " n"]:
    """Cosine distance of each mask to the one with all segments on; of m of S ones the cosine is sqrt(m / S)."""
    return 1 - design.mean(1).sqrt()


def image_distance(
    design: Float[Tensor, "n segments"],
    image: Float[Tensor, "c h w"],
    off: Float[Tensor, "c h w"],
    segments: Int[Tensor, "h w"],
) -> Float[Tensor, " n"]:
    """Cosine distance of each perturbed image to the image; of the first, which is the image itself, 0 in any case."""
    shown, hidden, where = image.double().cpu().numpy(), off.double().cpu().numpy(), segments.flatten().cpu().numpy()
    products = (shown * shown, shown * hidden, hidden * hidden)  # a perturbed image is one or the other by segment
    sums = np.stack([np.bincount(where, each.sum(0).ravel()) for each in products])
    own, mixed, replaced = torch.from_numpy(sums).to(design).unbind()
    length = (design @ own + (1 - design) @ replaced).sqrt() * own.sum().sqrt()
    cosine = (design @ own + (1 - design) @ mixed) / length.clamp(min=torch.finfo(length.dtype).tiny)
    cosine[0] = 1
    return 1 - cosine


def fit(
    design: Float[Tensor, "n segments"],
    scores: Float[Tensor, " n"],
    distances: Mapping[Distance, Float[Tensor, " n"]],
    members: Sequence[LimeImage],
) -> Float[Tensor, "k segments"]:
    """Coefficients of the segments, for each member."""
    kernels = list(dict.fromkeys((one.distance, one.kernel_width) for one in members))
    alphas = list(dict.fromkeys(one.alpha for one in members))
    weights = torch.stack([torch.exp(-(distances[kind] ** 2) / (2 * width**2)) for kind, width in kernels])
    if design.shape[1] > len(design):
        # the solution lies in the span of the rows; in a basis of it the problem is no larger than its samples
        basis, rows = torch.linalg.qr(design.mT)
        found = weighted_ridge(rows.mT[None], scores[None], weights[None], alphas)[0] @ basis.mT
    else:
        found = weighted_ridge(design[None], scores[None], weights[None], alphas)[0]
    places = ((kernels.index((one.distance, one.kernel_width)), alphas.index(one.alpha)) for one in members)
    return torch.stack([found[place] for place in places])


def _numbers(name: str, values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        numbers = tuple(float(one) for one in values)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected one number per channel, found {values!r}.") from None
    if not numbers or not np.isfinite(numbers).all():
        raise ValueError(f"{name}: expected finite numbers, one per channel, found {values!r}.")
    return numbers
