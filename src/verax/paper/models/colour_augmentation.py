"""Changes of brightness, colour and sharpness of image batches in [0, 1], each image with strengths of its own."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from verax.core.shapes import Float, Int

Images = Float[Tensor, "b c h w"]
Strengths = Float[Tensor, " b"]
_LEVELS = 256
# Exchanges that bring the median of nine numbers to place 4 (Paeth, Graphics Gems, 1990). Far faster than sorting
# nine numbers per pixel, on a CPU as on a GPU.
_MEDIAN_OF_NINE = (
    *((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3)),
    *((5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)),
)


def brighten(images: Images, amount: Strengths) -> Images:
    return (images + _per_image(amount)).clamp(0, 1)


def change_contrast(images: Images, amount: Strengths) -> Images:
    return (images * (1 + _per_image(amount))).clamp(0, 1)


def add_noise(images: Images, noise: Images, sigma: Strengths) -> Images:
    """Add standard normal noise times sigma."""
    return (images + noise * _per_image(sigma)).clamp(0, 1)


def blur(images: Images, kernels: Float[Tensor, "b k k"]) -> Images:
    """Filter each image with its own kernel of odd side; the border is repeated outwards."""
    count, channels, height, width = images.shape
    reach = kernels.shape[-1] // 2
    padded = F.pad(images, (reach, reach, reach, reach), mode="replicate")
    weight = kernels.repeat_interleave(channels, 0)[:, None]
    joined = padded.reshape(1, count * channels, *padded.shape[2:])
    blurred = F.conv2d(joined, weight, groups=count * channels)
    return blurred.reshape(count, channels, height, width).clamp(0, 1)


def gaussian_kernels(sigma: Strengths, side: int = 5) -> Float[Tensor, "b side side"]:
    """Gaussian kernels that sum to 1; a sigma near 0 gives the kernel that changes nothing."""
    place = torch.arange(side, device=sigma.device, dtype=sigma.dtype) - side // 2
    line = torch.exp(-(place**2) / (2 * sigma[:, None] ** 2).clamp(min=1e-6))
    line = line / line.sum(1, keepdim=True)
    return line[:, :, None] * line[:, None, :]


def motion_kernels(angle: Strengths, length: Strengths, side: int = 5) -> Float[Tensor, "b side side"]:
    """Kernels that smear along a line through the centre, at an angle in radians."""
    place = torch.arange(side, device=angle.device, dtype=angle.dtype) - side // 2
    y, x = place[None, :, None], place[None, None, :]
    cos, sin = angle.cos()[:, None, None], angle.sin()[:, None, None]
    across, along = (y * cos - x * sin).abs(), (x * cos + y * sin).abs()
    weight = (1 - across).clamp(min=0) * ((length[:, None, None] + 1) / 2 - along).clamp(0, 1)
    return weight / weight.sum((1, 2), keepdim=True)


def median_blur(images: Images) -> Images:
    """The median of each pixel's 3 x 3 neighbourhood, channel by channel; the border is repeated outwards."""
    height, width = images.shape[2:]
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    near = [padded[..., dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3)]
    for low, high in _MEDIAN_OF_NINE:
        near[low], near[high] = torch.minimum(near[low], near[high]), torch.maximum(near[low], near[high])
    return near[4].contiguous()


def shift_colours(images: Images, hue: Strengths, saturation: Strengths, value: Strengths) -> Images:
    """Shift hue (in turns), saturation and value; without three channels there are no colours, and only value moves."""
    if images.shape[1] != 3:
        return brighten(images, value)
    h, s, v = to_hsv(images).unbind(1)
    shifts = [_per_image(shift)[:, 0] for shift in (hue, saturation, value)]
    moved = torch.stack([(h + shifts[0]) % 1, (s + shifts[1]).clamp(0, 1), (v + shifts[2]).clamp(0, 1)], 1)
    return from_hsv(moved)


def to_hsv(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """Red, green, blue to hue in turns, saturation and value; hue and saturation of grey are 0."""
    value, strongest = images.max(1)
    spread = value - images.amin(1)
    red, green, blue = images.unbind(1)
    divisor = torch.where(spread > 0, spread, torch.ones_like(spread))
    sixth = torch.stack([(green - blue) / divisor, (blue - red) / divisor + 2, (red - green) / divisor + 4], 1)
    hue = sixth.gather(1, strongest[:, None])[:, 0] / 6 % 1
    saturation = spread / torch.where(value > 0, value, torch.ones_like(value))
    return torch.stack([torch.where(spread > 0, hue, torch.zeros_like(hue)), saturation, value], 1)


def from_hsv(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """The inverse of ``to_hsv``."""
    hue, saturation, value = images.unbind(1)
    sector = [(hue * 6 + offset) % 6 for offset in (5, 3, 1)]
    drop = [torch.minimum(place, 4 - place).clamp(0, 1) for place in sector]
    return torch.stack([value - value * saturation * part for part in drop], 1).clamp(0, 1)


def equalise(images: Images, clip: Strengths, tiles: int = 8) -> Images:
    """Equalise the luminance by tiles (CLAHE); ``clip`` cuts a tile's levels, as a multiple of an even spread."""
    luminance = _luminance(images)
    height, width = luminance.shape[1:]
    down, across = min(tiles, height), min(tiles, width)
    level = (luminance * (_LEVELS - 1)).round().long()
    tables = level_tables(level, clip, down, across)
    top, bottom, low = _neighbours(height, down, images)
    left, right, near = _neighbours(width, across, images)
    base = torch.arange(len(images), device=images.device)[:, None, None] * (down * across)

    def looked_up(row: Int[Tensor, " h"], column: Int[Tensor, " w"]) -> Float[Tensor, "b h w"]:
        tile = base + row[:, None] * across + column
        return tables.reshape(-1)[tile * _LEVELS + level]

    upper = torch.lerp(looked_up(top, left), looked_up(top, right), near.expand_as(luminance))
    lower = torch.lerp(looked_up(bottom, left), looked_up(bottom, right), near.expand_as(luminance))
    equalised = torch.lerp(upper, lower, low[:, None].expand_as(luminance))
    return (images + (equalised - luminance)[:, None]).clamp(0, 1)


def level_tables(level: Int[Tensor, "b h w"], clip: Strengths, down: int, across: int) -> Float[Tensor, "b d a levels"]:
    """What each of 256 levels becomes in each tile: the clipped histogram, summed up; never falling, at most 1."""
    count, height, width = level.shape
    row = torch.arange(height, device=level.device) * down // height
    column = torch.arange(width, device=level.device) * across // width
    tile = row[:, None] * across + column
    image = torch.arange(count, device=level.device)[:, None, None] * (down * across)
    cells = count * down * across * _LEVELS
    cell = ((image + tile) * _LEVELS + level).reshape(-1)
    # Not bincount, which would wait for a GPU.
    counts = torch.zeros(cells, dtype=torch.int64, device=level.device).scatter_add_(0, cell, torch.ones_like(cell))
    histogram = counts.reshape(count, down, across, _LEVELS).to(clip.dtype)
    area = histogram.sum(-1, keepdim=True)
    cut = torch.minimum(histogram, (_per_image(clip) * area / _LEVELS).clamp(min=1))
    spread = cut + (area - cut.sum(-1, keepdim=True)) / _LEVELS
    return (spread.cumsum(-1) / area).clamp(0, 1)


def _neighbours(size: int, tiles: int, like: Tensor) -> tuple[Int[Tensor, " size"], Int[Tensor, " size"], Tensor]:
    """For each pixel along a side the tiles whose centres lie around it, and how near it is to the second."""
    place = (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) * tiles / size - 0.5
    first = place.floor()
    return first.long().clamp(0, tiles - 1), (first.long() + 1).clamp(0, tiles - 1), place - first


def _luminance(images: Images) -> Float[Tensor, "b h w"]:
    if images.shape[1] != 3:
        return images.mean(1)
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).clamp(0, 1)


def _per_image(strength: Strengths) -> Float[Tensor, "b 1 1 1"]:
    return strength[:, None, None, None]
