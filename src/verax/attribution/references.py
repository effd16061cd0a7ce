"""References that any explanation should beat: random attributions, and the edges of an image."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution, Modality
from verax.attribution.family import Family, Piece, Place, input_keys
from verax.attribution.segmentation import checked_images, in_parallel, need
from verax.core import noise, palette
from verax.core.arguments import (
    checked_choice,
    checked_flag,
    checked_not_negative,
    checked_positive,
    checked_seed,
    settle,
)
from verax.core.arrays import on_host, to_device
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float
from verax.problem.problem import Problem
from verax.scoring.meter import Rows

Detector = Literal["sobel", "canny"]


@dataclass(frozen=True)
class Random(Attribution):
    """Standard normal attributions that know neither model nor data.

    Args:
        constant: One vector for all inputs (RndC); otherwise one for each (RndNC), drawn from its own values.
        seed: Same seed, same attributions.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(3, 2), torch.eye(3)[:2]
        >>> same = Random(constant=True)(verax.Problem(model, x))
        >>> bool(torch.equal(same[0], same[1])), bool(torch.equal(*Random()(verax.Problem(model, x))))
        (True, False)
    """

    constant: bool = False
    seed: int = 0

    random: ClassVar[bool] = True
    local: ClassVar[bool] = True  # neither, as there is no baseline
    reference: ClassVar[bool] = True
    colour: ClassVar[str | None] = palette.GREY

    def __post_init__(self) -> None:
        checked_flag("constant", self.constant)
        settle(self, seed=checked_seed(self.seed))

    @property
    def family(self) -> "RandomFamily":
        return RandomFamily()


@dataclass(frozen=True)
class RandomFamily(Family):
    """Draws, without a model."""

    def rows(self, members: Sequence[Random], problem: Problem, place: Place) -> Rows:
        return Rows(0)

    def pieces(self, members: Sequence[Random], problem: Problem) -> Iterator[Piece]:
        inputs = problem.inputs
        height = max(1, block_bytes(problem.open_session.device) // (16 * len(members) * inputs[0].numel()))
        for rows in pieces(len(inputs), height):
            yield Piece(rows, torch.stack([_draw(member, problem, rows) for member in members]))


def _draw(member: Random, problem: Problem, rows: slice) -> Float[Tensor, "b *shape"]:
    device = problem.open_session.device
    block = problem.inputs[rows].to(device)
    if member.constant:
        keys = noise.input_keys(torch.zeros_like(block[:1]), member.seed, "random").expand(len(block))
    else:
        keys = input_keys(problem, torch.arange(rows.start, rows.stop, device=device), member.seed, "random")
    dtype = block.dtype if block.is_floating_point() else torch.float32  # codes are whole numbers, attributions are not
    return noise.normals(keys, 0, 1, block[0].numel(), dtype).reshape(block.shape)


@dataclass(frozen=True)
class Edges(Attribution):
    """The edges of an image, which know the data and not the model; the channels of a pixel sum to the edge map.

    The image is made grey by the mean of its channels. Canny's thresholds, 0.1 and 0.2, are in the units of the inputs:
    on standardised images they find edges at every width of the paper, on pixels in [0, 1] wide ones often find none.

    Args:
        detector: ``"sobel"`` or ``"canny"``.
        smoothing: Width of Canny's own Gaussian; none for Sobel.
        blur: Width of a Gaussian over the edges, which makes them less sparse; 0 leaves it out.

    Example:
        >>> import verax
        >>> image = torch.zeros(1, 3, 5, 6)
        >>> image[..., 3:] = 1
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(90, 2))
        >>> Edges("sobel")(verax.Problem(model, image)).sum(1)[0, 2].tolist()
        [0.0, 0.0, 0.7071067690849304, 0.7071067690849304, 0.0, 0.0]
    """

    detector: Detector = "sobel"
    smoothing: float | None = None
    blur: float = 0.0

    modalities: ClassVar[tuple[Modality, ...]] = ("image",)
    local: ClassVar[bool] = True  # neither, as there is no baseline
    reference: ClassVar[bool] = True
    colour: ClassVar[str | None] = palette.BROWN

    def __post_init__(self) -> None:
        checked_choice("detector", self.detector, ("sobel", "canny"))
        settle(self, blur=checked_not_negative("blur", self.blur))
        if self.detector == "canny":
            settle(self, smoothing=checked_positive("smoothing", self.smoothing))
        elif self.smoothing is not None:
            raise ValueError(f"smoothing: Sobel has none, expected None, got {self.smoothing!r}.")

    @property
    def family(self) -> "EdgesFamily":
        return EdgesFamily(self.detector, self.smoothing)


@dataclass(frozen=True)
class EdgesFamily(Family):
    """One edge map for every image."""

    detector: Detector
    smoothing: float | None

    def check(self, members: Sequence[Edges], problem: Problem) -> None:
        checked_images(problem.inputs, "Edges")

    def rows(self, members: Sequence[Edges], problem: Problem, place: Place) -> Rows:
        return Rows(0)

    def pieces(self, members: Sequence[Edges], problem: Problem) -> Iterator[Piece]:
        inputs = problem.inputs
        for rows in pieces(len(inputs), 64):  # together, to keep the cores busy
            images = on_host(inputs[rows])
            blurred = np.stack(in_parallel(partial(self._maps, members), list(images)))
            values = to_device(torch.from_numpy(blurred).to(inputs.dtype), problem.open_session.device)
            yield Piece(rows, values.transpose(0, 1)[:, :, None].expand(-1, *images.shape))

    def _maps(self, members: Sequence[Edges], image: Float[np.ndarray, "c h w"]) -> Float[np.ndarray, "k h w"]:
        """Edges of an image as each member blurs them, an even share of them for each channel."""
        grey = image.astype(np.float64).mean(0)
        if self.detector == "sobel":
            edges = need("skimage.filters").sobel(grey)
        else:
            edges = need("skimage.feature").canny(grey, sigma=self.smoothing)
        edges, blur = np.asarray(edges, dtype=np.float64), need("scipy.ndimage").gaussian_filter
        return np.stack([blur(edges, member.blur) if member.blur else edges for member in members]) / len(image)
