"""Rows of image LIME: images of which segments are on or off, in the precision and layout in which the model runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from verax.core import noise
from verax.core.arrays import to_device
from verax.core.blocks import pieces
from verax.core.image_rows import can_write, rows_by_segment
from verax.core.shapes import Bool, Float, Int
from verax.scoring.inference import Runner

Replacement = Literal["segment", "image", "dataset"]


@dataclass(frozen=True)
class SegmentedImages:
    """Some images cut into segments, on the model's device.

    Attributes:
        images: As they are.
        off: What is seen where a segment is off.
        segments: The segment of each pixel.
        counts: Segments of each image.
        on: Which segments are on in each sample; those that an image does not have are off.
    """

    images: Float[Tensor, "b c h w"]
    off: Float[Tensor, "b c h w"]
    segments: Int[Tensor, "b h w"]
    counts: Int[Tensor, " b"]
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
        """Switch the segments of images on and off at random.

        Args:
            images: On the model's device.
            maps: The segment of each pixel.
            colours: Of each segment, where it is off.
            samples: How often.
            seed: Of the masks.
        """
        most = max(one.shape[1] for one in colours)
        table = np.stack([np.pad(one, ((0, 0), (0, most - one.shape[1]))) for one in colours])
        numbers = np.array([one.shape[1] for one in colours])
        hidden, segments, counts = (
            to_device(torch.from_numpy(one), images.device) for one in (table, np.stack(maps).astype(np.int32), numbers)
        )
        segments = segments.long()
        index = segments.flatten(1)[:, None].expand(-1, images.shape[1], -1)
        off = hidden.to(images.dtype).gather(2, index).reshape(images.shape)
        on = masks(images, samples, most, seed)
        if len(colours) > 1:  # one image has all of them
            on &= torch.arange(most, device=on.device) < counts[:, None, None]
        return cls(images, off, segments, counts, on)

    def rows(self, runner: Runner) -> "SegmentRows":
        """The perturbed images, one for each sample of each image, made when they are needed."""
        images, off = (one.to(runner.dtype, memory_format=runner.layout) for one in (self.images, self.off))
        # on a CPU weights of 0 and 1, which are exact at both ends and faster than a choice
        shown = self.on.to(runner.dtype) if images.device.type == "cpu" else self.on
        return SegmentRows(images, off, self.segments, shown, runner.layout)

    def design(self) -> Float[Tensor, "b n most"]:
        """The samples as the regression sees them; the unperturbed image comes first."""
        whole = torch.arange(self.on.shape[2], device=self.on.device) < self.counts[:, None, None]
        return torch.cat((whole, self.on), dim=1).double()


@dataclass(frozen=True)
class SegmentRows:
    """Makes rows ``start`` to ``stop``, counted image by image and sample by sample."""

    images: Float[Tensor, "b c h w"]
    off: Float[Tensor, "b c h w"]
    segments: Int[Tensor, "b h w"]
    shown: Tensor
    layout: torch.memory_format

    def __call__(self, start: int, stop: int) -> Float[Tensor, "rows c h w"]:
        """Rows of their own, which a model may overwrite."""
        images, samples = self.images, self.shown.shape[1]
        dense = self.layout if self.layout is torch.channels_last else torch.contiguous_format
        batch = torch.empty_like(images[:1].expand(stop - start, *images.shape[1:]), memory_format=dense)
        for part in pieces(stop, samples):  # of one image each
            first, last = max(part.start, start), part.stop
            if first < last:
                image = part.start // samples
                chosen = self.shown[image, first - part.start : last - part.start]
                where = self.images[image], self.off[image], self.segments[image]
                perturbed(*where, chosen, batch[first - start : last - start], self.layout)
        return batch


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
