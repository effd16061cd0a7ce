"""The ISIC 2020 winners' augmentation for a whole batch of images on its device, and its geometric parts."""

import math
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from verax.core.arguments import checked_not_negative, settle
from verax.core.shapes import Float, Int
from verax.paper.models import colour_augmentation as colour
from verax.paper.models.augmentation import chosen, chosen_of, normal, on_rows, uniform
from verax.paper.models.colour_augmentation import Images, Strengths

_SYMMETRIES = ("transpose", "vertical_flip", "horizontal_flip")
_CELLS = 5  # of the grid distortion, along each side
_FIELD = 4  # points of the elastic distortion, along each side
_HOLE = 0.375  # of the side


@dataclass(frozen=True)
class ImageAugmentation:
    """The scheme of the ISIC 2020 winners; every field is the probability with which an image gets that part."""

    transpose: float = 0.5  # rows become columns; only for square images
    vertical_flip: float = 0.5
    horizontal_flip: float = 0.5
    brightness: float = 0.75  # up to 0.2 added or taken away
    contrast: float = 0.75  # multiplied by 0.8 to 1.2
    soften: float = 0.7  # one of motion blur, median blur, Gaussian blur and Gaussian noise
    distort: float = 0.7  # one of optical, grid and elastic distortion
    equalise: float = 0.7  # CLAHE of the luminance, clip limit 1 to 4
    colours: float = 0.5  # hue, saturation and value shifted by up to 20 degrees, 20/255 and 10/255
    move: float = 0.85  # shifted by up to 0.1 of the side, scaled by up to 0.1, turned by up to 15 degrees
    cutout: float = 0.7  # a black square of 0.375 of the side, cut off where it reaches over the border

    def __post_init__(self) -> None:
        for field in fields(self):
            value = checked_not_negative(field.name, getattr(self, field.name))
            if value > 1:
                raise ValueError(f"{field.name}: expected a probability, got {value}.")
            settle(self, **{field.name: value})

    def scaled(self, share: float) -> "ImageAugmentation":
        """The scheme with all probabilities but those of flips and transposition multiplied by a share."""
        names = [field.name for field in fields(self) if field.name not in _SYMMETRIES]
        return replace(self, **{name: getattr(self, name) * share for name in names})

    def __call__(self, inputs: Images, generator: torch.Generator) -> Images:
        # Every number but the noise is drawn for every image, needed or not.
        images, count = inputs, len(inputs)
        lots = uniform((3, count), 0.0, 1.0, images, generator)
        if images.shape[2] == images.shape[3]:
            images = on_rows(lambda some: some.transpose(2, 3), images, chosen(self.transpose, lots[0]))
        images = on_rows(lambda some: some.flip(2), images, chosen(self.vertical_flip, lots[1]))
        images = on_rows(lambda some: some.flip(3), images, chosen(self.horizontal_flip, lots[2]))
        lots = uniform((2, count), 0.0, 1.0, images, generator)
        amount = uniform((2, count), -0.2, 0.2, images, generator)
        images = on_rows(colour.brighten, images, chosen(self.brightness, lots[0]), amount[0])
        images = on_rows(colour.change_contrast, images, chosen(self.contrast, lots[1]), amount[1])
        images = self._distorted(self._softened(images, generator), generator)
        lots = uniform((2, count), 0.0, 1.0, images, generator)
        clip = uniform((count,), 1.0, 4.0, images, generator)
        hue, saturation, value = uniform((3, count), -1.0, 1.0, images, generator)
        images = on_rows(colour.equalise, images, chosen(self.equalise, lots[0]), clip)
        shifts = (hue * 10 / 180, saturation * 20 / 255, value * 10 / 255)
        images = on_rows(colour.shift_colours, images, chosen(self.colours, lots[1]), *shifts)
        lots = uniform((2, count), 0.0, 1.0, images, generator)
        right, down, size = uniform((3, count), -0.1, 0.1, images, generator)
        angle = uniform((count,), -math.pi / 12, math.pi / 12, images, generator)
        centre = uniform((count, 2), 0.0, 1.0, images, generator)
        shift = torch.stack([right, down], 1)
        images = on_rows(shift_scale_rotate, images, chosen(self.move, lots[0]), shift, 1 + size, angle)
        return on_rows(cutout, images, chosen(self.cutout, lots[1]), centre)

    def _softened(self, images: Tensor, generator: torch.Generator) -> Tensor:
        lots, angle, length, width, variance = uniform((5, len(images)), 0.0, 1.0, images, generator)
        motion, median, gaussian, noisy = chosen_of(self.soften, 4, lots)
        kernels = colour.motion_kernels(angle * math.pi, 3 + 2 * length)
        images = on_rows(colour.blur, images, motion, kernels)
        images = on_rows(colour.median_blur, images, median)
        images = on_rows(colour.blur, images, gaussian, colour.gaussian_kernels(0.5 + width))
        sigma = (5 + 25 * variance).sqrt() / 255

        def noised(some: Tensor, deviations: Tensor) -> Tensor:
            return colour.add_noise(some, normal(tuple(some.shape), some, generator), deviations)

        return on_rows(noised, images, noisy, sigma)

    def _distorted(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count = len(images)
        lots = uniform((count,), 0.0, 1.0, images, generator)
        strength = uniform((count,), -1.0, 1.0, images, generator)
        steps = uniform((count, 2, _CELLS), 0.0, 2.0, images, generator)
        field = uniform((count, 2, _FIELD, _FIELD), -0.05, 0.05, images, generator)
        optical, grid, elastic = chosen_of(self.distort, 3, lots)
        images = on_rows(optical_distortion, images, optical, strength)
        images = on_rows(grid_distortion, images, grid, steps)
        return on_rows(elastic_distortion, images, elastic, field)


def shift_scale_rotate(images: Images, shift: Float[Tensor, "b 2"], scale: Strengths, angle: Strengths) -> Images:
    """Turn counter-clockwise (radians), enlarge, and shift right and down by shares of the sides; black comes in."""
    height, width = images.shape[2:]
    cos, sin = angle.cos() / scale, angle.sin() / scale
    back_x, back_y = -2 * shift[:, 0], -2 * shift[:, 1]
    # Where each pixel of the result comes from. Coordinates run from -1 to 1 along both sides, hence the ratios.
    from_x = torch.stack([cos, -sin * height / width], 1)
    from_y = torch.stack([sin * width / height, cos], 1)
    linear = torch.stack([from_x, from_y], 1)
    offset = linear @ torch.stack([back_x, back_y], 1)[:, :, None]
    grid = F.affine_grid(torch.cat([linear, offset], 2), list(images.shape), align_corners=False)
    return _sampled(images, grid, "zeros")


def optical_distortion(images: Images, strength: Strengths) -> Images:
    """Bend the image as a lens does, outwards or inwards by the sign; the border is mirrored."""
    y, x = _places(images)
    squared = (x[None, None, :] / 2) ** 2 + (y[None, :, None] / 2) ** 2
    factor = 1 + strength[:, None, None] * (squared + squared**2)
    return _sampled(images, torch.stack([x * factor, y[:, None] * factor], -1), "reflection")


def grid_distortion(images: Images, steps: Float[Tensor, "b 2 cells"]) -> Images:
    """Show so much of the image in each cell of a grid, across and down; 1 changes nothing. The border is mirrored."""
    y, x = _places(images)
    cells = steps.shape[2]
    knots = F.pad(steps.cumsum(2) / cells, (1, 0)) * 2 - 1

    def stretched(place: Tensor, knot: Tensor) -> Tensor:
        position = (place + 1) / 2 * cells
        cell = position.long().clamp(0, cells - 1)
        return torch.lerp(knot[:, cell], knot[:, cell + 1], (position - cell).expand(len(knot), -1))

    across, down = stretched(x, knots[:, 0]), stretched(y, knots[:, 1])
    shape = (len(images), len(y), len(x))
    grid = torch.stack([across[:, None, :].expand(shape), down[:, :, None].expand(shape)], -1)
    return _sampled(images, grid, "reflection")


def elastic_distortion(images: Images, field: Float[Tensor, "b 2 g g"]) -> Images:
    """Move pixels by a smooth field, given at few points as shares of the side; the border is mirrored."""
    y, x = _places(images)
    moved = F.interpolate(field, size=images.shape[2:], mode="bicubic", align_corners=True) * 2
    return _sampled(images, torch.stack([x + moved[:, 0], y[:, None] + moved[:, 1]], -1), "reflection")


def cutout(images: Images, centre: Float[Tensor, "b 2"], share: float = _HOLE) -> Images:
    """Blacken a square around a centre, given as shares of height and width; a part over the border is cut off."""
    height, width = images.shape[2:]
    side = int(share * min(height, width))

    def inside(size: int, place: Tensor) -> Tensor:
        first: Int[Tensor, "b 1"] = (place * size).long()[:, None] - side // 2
        pixel = torch.arange(size, device=images.device)
        return (pixel >= first) & (pixel < first + side)

    hole = inside(height, centre[:, 0])[:, None, :, None] & inside(width, centre[:, 1])[:, None, None, :]
    return images.masked_fill(hole, 0)


def _sampled(images: Tensor, grid: Tensor, padding: str) -> Tensor:
    sampled = F.grid_sample(images, grid, mode="bilinear", padding_mode=padding, align_corners=False)
    return sampled.clamp(0, 1)  # rounding may leave the range by a last digit


def _places(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centres of rows and columns, from -1 to 1."""
    height, width = images.shape[2:]
    y, x = (torch.arange(size, device=images.device, dtype=images.dtype) for size in (height, width))
    return (2 * y + 1) / height - 1, (2 * x + 1) / width - 1
