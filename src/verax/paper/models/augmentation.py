"""Training batches: rows as a device keeps them, their augmentation, and the seeded draws behind it."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from verax.core.arguments import checked_not_negative, settle
from verax.core.shapes import Float, Int
from verax.data.base import Dataset, Part, Standardisation

# Changes a batch of training inputs at random: a table once it is standardised, images as numbers in [0, 1] before. All
# randomness comes from a generator on the CPU: a GPU then never has to tell what it drew, and need not be waited for.
Augmentation = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class TabularNoise:
    """Adds Gaussian noise to standardised features; ``sigma`` is its standard deviation in theirs."""

    sigma: float = 0.1

    def __post_init__(self) -> None:
        settle(self, sigma=checked_not_negative("sigma", self.sigma))

    def __call__(self, inputs: Float[Tensor, "n *shape"], generator: torch.Generator) -> Float[Tensor, "n *shape"]:
        if self.sigma == 0:
            return inputs
        return inputs + self.sigma * normal(tuple(inputs.shape), inputs, generator)


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal draws of the dtype and on the device of ``like``; on a GPU the GPU makes them."""
    seed = int(torch.randint(2**62, (1,), generator=generator))
    draws = torch.Generator(like.device).manual_seed(seed)
    return torch.randn(shape, generator=draws, device=like.device, dtype=like.dtype)


def uniform(shape: tuple[int, ...], low: float, high: float, like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform draws from [low, high) of the dtype of ``like``, on the CPU."""
    return torch.rand(shape, generator=generator, dtype=like.dtype) * (high - low) + low


def on_rows(
    change: Callable[..., Tensor], images: Float[Tensor, "n c h w"], rows: Int[Tensor, " rows"], *draws: Tensor
) -> Float[Tensor, "n c h w"]:
    """Change some images only; ``draws`` have one entry per image of the whole batch, on the CPU as rows are."""
    if not len(rows):
        return images
    place = moved(rows, images.device)
    return images.index_copy(0, place, change(images[place], *(moved(draw[rows], images.device) for draw in draws)))


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor on a device, without waiting for what the device is doing."""
    return tensor.to(device, non_blocking=True)


def chosen(probability: float, lots: Float[Tensor, " n"]) -> Int[Tensor, " rows"]:
    """The rows whose lot, drawn from [0, 1), falls below a probability."""
    return (lots < probability).nonzero()[:, 0]


def chosen_of(probability: float, kinds: int, lots: Float[Tensor, " n"]) -> list[Int[Tensor, " rows"]]:
    """Deal the rows below a probability out to several kinds with equal chances: the rows of each kind."""
    return [
        ((lots >= probability * kind / kinds) & (lots < probability * (kind + 1) / kinds)).nonzero()[:, 0]
        for kind in range(kinds)
    ]


class Rows:
    """The rows of a part of a data set: kept on the device if they fit, made into inputs batch by batch."""

    def __init__(self, dataset: Dataset, part: Part, device: torch.device) -> None:
        self.dataset, self.device = dataset, device
        self.numbers = dataset.split.rows(part)
        self.labels = torch.from_numpy(dataset.labels[self.numbers]).to(device)
        moments = dataset.standardisation
        self.standardisation = Standardisation(moments.mean.to(device), moments.std.to(device))
        self.image = dataset.inputs.dtype == np.uint8
        size = len(self.numbers) * dataset.inputs[:1].nbytes
        # On a CPU pixels stay where they are: the operating system keeps the used pages of a memory map.
        fits = device.type == "cuda" and size < torch.cuda.mem_get_info(device)[0] // 3
        self.kept = self._read(self.numbers).to(device) if fits or not self.image else None

    def __len__(self) -> int:
        return len(self.numbers)

    def inputs(
        self, index: Int[Tensor, " b"], change: Augmentation | None = None, draws: torch.Generator | None = None
    ) -> Float[Tensor, "b *shape"]:
        """Standardised inputs of some rows, counted within the part; index and draws are on the CPU."""
        raw = self._read(self.numbers[index.numpy()]) if self.kept is None else self.kept[moved(index, self.device)]
        if raw.device.type != self.device.type:  # "cuda" and "cuda:0" are one device, but not equal
            raw = raw.pin_memory().to(self.device, non_blocking=True)
        values = raw.float() / 255 if self.image else self.standardisation.apply(raw.float())
        if change is not None and draws is not None:
            values = change(values, draws)
        return self.standardisation.apply(values) if self.image else values

    def _read(self, numbers: Int[np.ndarray, " r"]) -> Tensor:
        return torch.from_numpy(np.array(self.dataset.inputs[numbers]))


def key(seed: int, epoch: int, purpose: str) -> int:
    """A seed for one purpose in one epoch."""
    digest = hashlib.blake2b(f"{seed}/{epoch}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators, from which dropout draws, and put their states back afterwards."""
    cuda = device.type == "cuda"
    with torch.random.fork_rng([device] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
