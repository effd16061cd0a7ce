"""DeepLiftSHAP: DeepLIFT's rescale rule, averaged over rows of the training data as references (eq. 6)."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.attribution.deeplift import pair_rows, tiles
from verax.attribution.family import Family, Piece, Place
from verax.core import noise, palette
from verax.core.arguments import checked_count, checked_flag, checked_seed, settle
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float, Int
from verax.core.warn import warn
from verax.problem.problem import Problem
from verax.scoring.meter import Rows

# Gaps between the sum of contributions and the difference of logits, relative to the mean size of these. Rounding
# stays orders of magnitude below the first; networks in which the rule misses a part are far above the second.
WARN_GAP = 1e-2
LARGEST_GAP = 0.1
_MOST_INPUTS = 256  # per block: a model to which the rule does not apply is found out early


@dataclass(frozen=True)
class DeepLiftSHAP(Attribution):
    """DeepLIFT multipliers averaged over background rows (Lundberg, Lee 2017).

    ``a_i = mean_r m_i(x, r) (x_i - r_i)``, where the multipliers ``m`` of DeepLIFT (Shrikumar et al. 2017) turn the
    difference of the input to a reference ``r`` into that of their logits.

    Args:
        background: ``"random"`` rows, or a number from 0 to 1: the expected label of a stratified background, of which
            ``round(background * samples)`` rows are of class 1 and the others of class 0. Needs ``background_labels``.
        multiply_by_inputs: Multiply with ``x - reference`` before averaging; without, the pseudo-local variant.
        samples: Background rows. A class (or a background) with fewer rows is gone through repeatedly, so that every
            row is used equally often, or once more.
        seed: Chooses the rows: the first ones in a random order of each class.

    Example:
        >>> import verax
        >>> model = torch.nn.Linear(2, 2)
        >>> _ = model.weight.data.copy_(torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
        >>> rows, labels = torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1])
        >>> method = DeepLiftSHAP(background=0.25, samples=4)
        >>> x = torch.ones(1, 2)
        >>> method(verax.Problem(model, x, target=1, background=rows, background_labels=labels))
        tensor([[0.7500, 1.5000]])
    """

    background: Literal["random"] | float = "random"
    multiply_by_inputs: bool = True
    samples: int = 1024
    seed: int = 0

    random: ClassVar[bool] = True
    colour: ClassVar[str | None] = palette.ORANGE
    worth_showing: ClassVar[tuple[str, ...] | None] = ("background", "multiply_by_inputs")
    citation: ClassVar[str] = "Lundberg, Lee: A unified approach to interpreting model predictions, NeurIPS 2017"

    def __post_init__(self) -> None:
        checked_flag("multiply_by_inputs", self.multiply_by_inputs)
        settle(
            self,
            background=_checked_share(self.background),  # 1 and 1.0 are one configuration
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @property
    def family(self) -> "DeepLiftFamily":
        return DeepLiftFamily(self.background != "random", self.samples, self.seed)

    @property
    def local(self) -> bool:
        return not self.multiply_by_inputs

    def unsupported_reason(self, problem: Problem) -> str:
        two = problem.background_labels is not None and int(problem.background_labels.max()) < 2
        if self.background == "random" or two:
            return super().unsupported_reason(problem)
        return "there are not two classes to draw backgrounds from (random ones stay)"

    @property
    def draws(self) -> dict[int | None, int]:
        """How many rows are drawn from each class; None stands for all rows."""
        if isinstance(self.background, str):
            return {None: self.samples}
        ones = round(self.background * self.samples)
        return {0: self.samples - ones, 1: ones}


def _checked_share(background: Any) -> Literal["random"] | float:
    if isinstance(background, str) and background == "random":
        return "random"
    if isinstance(background, bool) or not isinstance(background, Real) or not 0 <= float(background) <= 1:
        raise ValueError(
            f'background: expected "random" or an expected label from 0 to 1, got {background!r}; '
            "the rows themselves are passed in the call."
        )
    return float(background) + 0.0  # -0.0 becomes 0.0


@dataclass(frozen=True)
class Segment:
    """References that every member uses equally often."""

    rows: Int[Tensor, " r"]  # which background rows
    uses: tuple[int, ...]  # how often each member uses each of them


@dataclass(frozen=True)
class DeepLiftFamily(Family):
    """One set of references. A member's background is the beginning of the random order of each class."""

    stratified: bool
    samples: int
    seed: int

    needs_gradients: ClassVar[bool] = True
    version: ClassVar[int] = 2

    def check(self, members: Sequence[DeepLiftSHAP], problem: Problem) -> None:
        self.segments(members, problem)

    def rows(self, members: Sequence[DeepLiftSHAP], problem: Problem, place: Place) -> Rows:
        used = sum(len(segment.rows) for segment in self.segments(members, problem))
        heights = [block.stop - block.start for block in self._blocks(members, problem, place.device)]
        return sum((pair_rows(height, used, place.batch_size) for height in heights), Rows(0))

    def _blocks(self, members: Sequence[DeepLiftSHAP], problem: Problem, device: torch.device) -> Iterator[slice]:
        per_input = 8 * (len(members) + 6) * problem.inputs[0].numel()
        return pieces(len(problem.inputs), max(1, min(_MOST_INPUTS, block_bytes(device) // per_input)))

    def pieces(self, members: Sequence[DeepLiftSHAP], problem: Problem) -> Iterator[Piece]:
        background = problem.need_background("DeepLiftSHAP")
        used = self.segments(members, problem)
        references = background[torch.cat([segment.rows for segment in used]).to(background.device)]
        ends = list(itertools.accumulate(len(segment.rows) for segment in used))
        device = problem.open_session.device
        warned = False
        for rows in self._blocks(members, problem, device):
            pairs = _Pairs.load(problem, rows)
            values = torch.zeros(len(members), *pairs.inputs.shape, dtype=torch.float64, device=device)
            for segment, sums in zip(used, pairs.sums(problem, references.to(pairs.inputs), ends), strict=True):
                for value, member, uses in zip(values, members, segment.uses, strict=True):
                    value.add_(sums[int(member.multiply_by_inputs)], alpha=uses / self.samples)
            gap = pairs.checked_gap()
            if not warned and float(gap.max()) > WARN_GAP:
                warn(_INCOMPLETE.format(gap=float(gap.max())))
                warned = True
            yield Piece(rows, values, gap)

    def segments(self, members: Sequence[DeepLiftSHAP], problem: Problem) -> list[Segment]:
        """Cut the random orders where a member's part of them ends."""
        count = len(problem.need_background("DeepLiftSHAP"))
        pools = self._classes(problem.background_labels, members) if self.stratified else {None: torch.arange(count)}
        segments: list[Segment] = []
        for name, pool in pools.items():
            drawn = [divmod(member.draws[name], max(1, len(pool))) for member in members]
            key = noise.input_keys(torch.zeros(1, 1), self.seed, f"deepliftshap/{name}")
            order = pool[noise.words(key, 0, len(pool))[0].argsort(stable=True)]
            ends = {part for _, part in drawn} | {len(pool) for times, _ in drawn if times}
            for start, stop in itertools.pairwise(sorted(ends | {0})):
                segments.append(Segment(order[start:stop], tuple(times + (stop <= part) for times, part in drawn)))
        return segments

    def _classes(
        self, labels: Int[Tensor, " m"] | None, members: Sequence[DeepLiftSHAP]
    ) -> dict[int | None, Int[Tensor, " r"]]:
        """The background rows of each class, if they can serve all members."""
        if labels is None:
            raise ValueError(
                "background_labels: a stratified background needs the class of each background row, 0 or 1; "
                'pass background_labels, or use DeepLiftSHAP(background="random").'
            )
        on_cpu = labels.cpu()
        other = on_cpu[(on_cpu != 0) & (on_cpu != 1)]
        if len(other):
            raise ValueError(
                f"background_labels: expected classes 0 and 1 for a stratified background, got {int(other[0])}."
            )
        pools: dict[int | None, Tensor] = {name: (on_cpu == name).nonzero()[:, 0] for name in (0, 1)}
        for member, name in itertools.product(members, pools):
            if member.draws[name] and not len(pools[name]):
                raise ValueError(
                    f"background: an expected label of {member.background} needs {member.draws[name]} rows of class "
                    f"{name}, but background_labels has {len(pools[0])} of class 0 and {len(pools[1])} of class 1."
                )
        return pools


_INCOMPLETE = (
    "DeepLiftSHAP: contributions miss the difference of logits by up to {gap:.2g} of its mean size, so some part of "
    "the model is not covered by the rescale rule, which covers activations, max pooling and linear layers."
)
_UNSUPPORTED = (
    "model: DeepLiftSHAP's contributions miss the difference of logits by {gap:.2g} of its size for the median input, "
    "so the rescale rule does not apply. It covers activations, max pooling and linear layers: not a softmax (let the "
    "model return logits), attention, products of activations, or what torch.jit and torch.compile hide. "
    "verax.attribution.IntegratedGradients works."
)


@dataclass
class _Pairs:
    """Some inputs on the device, and how well their contributions add up so far."""

    rows: slice
    inputs: Float[Tensor, "b *shape"]
    target: Int[Tensor, " b"]
    clean: Float[Tensor, " b"]
    largest: Float[Tensor, " b"]
    missing: Float[Tensor, " b"]
    sizes: Float[Tensor, " b"]
    pairs: int = 0

    @classmethod
    def load(cls, problem: Problem, rows: slice) -> "_Pairs":
        session = problem.open_session
        inputs = problem.inputs[rows].to(session.device, session.dtype)
        clean = problem.scores()[rows].double()
        largest, missing, sizes = torch.zeros(3, len(inputs), dtype=torch.float64, device=session.device)
        return cls(rows, inputs, problem.classes[rows], clean, largest, missing, sizes)

    def sums(
        self, problem: Problem, references: Float[Tensor, "m *shape"], ends: Sequence[int]
    ) -> Float[Tensor, "segments two b *shape"]:
        """Sums over the references of each segment, which ends there: of the multipliers, and of the contributions."""
        sums = torch.zeros(len(ends), 2, *self.inputs.shape, dtype=torch.float64, device=self.inputs.device)
        for tile in tiles(problem.open_session, self.inputs, references, self.target):
            start, stop = tile.columns.start, tile.columns.stop
            contributions = tile.multipliers * (self.inputs[tile.rows, None] - references[tile.columns])
            for segment, begin, end in zip(sums, (0, *ends), ends, strict=False):
                if begin < stop and start < end:
                    places = slice(max(begin - start, 0), end - start)
                    segment[0, tile.rows] += tile.multipliers[:, places].sum(1, dtype=torch.float64)
                    segment[1, tile.rows] += contributions[:, places].sum(1, dtype=torch.float64)
            total = contributions.flatten(2).sum(2, dtype=torch.float64)
            difference = self.clean[tile.rows, None] - tile.reference_scores.double().T[self.target[tile.rows]]
            gap = (total - difference).abs()
            self.largest[tile.rows] = torch.maximum(self.largest[tile.rows], gap.amax(1))
            self.missing[tile.rows] += gap.sum(1)
            self.sizes[tile.rows] += torch.maximum(total.abs(), difference.abs()).sum(1)
        self.pairs += len(references)
        return sums

    def checked_gap(self) -> Float[Tensor, " b"]:
        """The largest gap of each input, relative to the mean size of its differences; raises for what is no gap.

        Not relative to each difference: among thousands of references some score as the input does, to the last digits.
        """
        bad = (~torch.isfinite(self.missing)).nonzero()
        if len(bad):
            row = self.rows.start + int(bad[0, 0])
            raise ValueError(
                f"model: expected finite class scores and gradients, got NaN or infinity for input {row} paired with "
                "a background row."
            )
        floor = torch.finfo(self.inputs.dtype).eps ** 0.5 * self.clean.abs().clamp(min=1)
        size = torch.maximum(self.sizes / self.pairs, floor)
        typical = float((self.missing / self.pairs / size).median())
        if typical > LARGEST_GAP:
            raise ValueError(_UNSUPPORTED.format(gap=typical))
        return self.largest / size
