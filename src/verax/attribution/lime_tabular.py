"""LIME for tables and other features: weighted ridge regressions in a neighbourhood, or on features kept or removed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor

from verax.attribution.base import Attribution, Modality
from verax.attribution.coalitions import by_count, coalition_scores, spread_evenly
from verax.attribution.family import Family, Piece, Place, input_keys
from verax.attribution.lime_image import fitted_masks
from verax.attribution.ridge import solution_bytes, solutions, weighted_sums
from verax.core import noise, palette
from verax.core.arguments import (
    checked_count,
    checked_flag,
    checked_not_negative,
    checked_positive,
    checked_seed,
    settle,
)
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Float, Int
from verax.problem.baselines import spreads
from verax.problem.problem import Problem
from verax.scoring.meter import Rows


@dataclass(frozen=True)
class LimeTabular(Attribution):
    """Coefficients of a linear model fitted around the input, for standardised data (Ribeiro, Singh, Guestrin 2016).

    ``a = argmin_v min_c sum_j w_j (z_y(x_j) - c - v . (x_j - x))^2 + alpha |v|^2`` over neighbours ``x_j``.

    Neighbours are ``z = x + sigma * normal``; each counts ``exp(-D^2 / (2 kernel_width^2))``, where ``D`` is its
    Euclidean distance to ``x``, and ``x`` itself counts 1. With the paper's absolute widths the neighbours of some
    settings have next to no weight, and the attribution is then next to 0.

    For columns in their own units say ``LimeTabular(sigma="std", scale_kernel=True)`` and pass ``background``: the
    neighbours, their distances and the penalty are then measured in standard deviations of the background, as the lime
    package does. Coefficients stay slopes in the units of the columns.

    Args:
        alpha: Penalty of the ridge regression, at least 0.
        kernel_width: Width of the kernel.
        sigma: Standard deviation of the neighbours: a number, or ``"std"`` for that of each column of the background.
        samples: Neighbours per input. The first ones are the same whatever their number, and for every sigma.
        seed: Neighbours are a function of the seed and the input's values.
        scale_kernel: Multiply the width with the root of the number of features, as the lime package does.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(3, 2), torch.zeros(2, 3)
        >>> slopes = LimeTabular(alpha=0.0, samples=32)(verax.Problem(model, x, target=1, explained="logit"))
        >>> bool(torch.allclose(slopes, model.weight[1].expand(2, 3), atol=1e-5))
        True
    """

    alpha: float = 0.01
    kernel_width: float = 0.75
    sigma: float | Literal["std"] = 0.5
    samples: int = 1024
    seed: int = 0
    scale_kernel: bool = False

    random: ClassVar[bool] = True
    local: ClassVar[bool] = True
    label: ClassVar[str] = "LIME"
    colour: ClassVar[str | None] = palette.OLIVE
    worth_showing: ClassVar[tuple[str, ...] | None] = ("alpha", "kernel_width", "sigma", "samples")
    citation: ClassVar[str] = "Ribeiro, Singh, Guestrin: Why should I trust you?, KDD 2016"
    modalities: ClassVar[tuple[Modality, ...]] = ("tabular",)

    def __post_init__(self) -> None:
        checked_flag("scale_kernel", self.scale_kernel)
        settle(
            self,
            alpha=checked_not_negative("alpha", self.alpha),  # 1 and 1.0 are one configuration
            kernel_width=checked_positive("kernel_width", self.kernel_width),
            sigma="std" if self.sigma == "std" else checked_positive("sigma", self.sigma),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @property
    def family(self) -> "LimeTabularFamily":
        return LimeTabularFamily(self.seed)

    def unsupported_reason(self, problem: Problem) -> str:
        return "" if problem.categorical is None else "categories cannot be moved a little"

    def width(self, features: int) -> float:
        """Width of the kernel for inputs with so many features."""
        return self.kernel_width * math.sqrt(features) if self.scale_kernel else self.kernel_width


@dataclass(frozen=True)
class LimeTabularFamily(Family):
    """One neighbourhood for every sigma; alphas, kernel widths and smaller samples only fit its scores again."""

    seed: int

    version: ClassVar[int] = 2

    def check(self, members: Sequence[LimeTabular], problem: Problem) -> None:
        if any(member.sigma == "std" for member in members):
            problem.need_background('LimeTabular(sigma="std")')
        if problem.categorical is not None:
            raise ValueError(
                "LimeTabular: it moves numbers a little, and some of the inputs are categorical; use "
                "LimeGroups, which replaces features by their baselines."
            )

    def rows(self, members: Sequence[LimeTabular], problem: Problem, place: Place) -> Rows:
        fits = _shared_fits(members, problem.inputs[0].numel())
        return Rows(len(problem.inputs) * sum(fit.sizes[-1] for fit in fits))

    def pieces(self, members: Sequence[LimeTabular], problem: Problem) -> Iterator[Piece]:
        session, inputs = problem.open_session, problem.inputs
        features, samples = inputs[0].numel(), max(each.samples for each in members)
        fits = _shared_fits(members, features)
        height = max(1, block_bytes(session.device) // max(each.bytes_per_input(features) for each in fits))
        for rows in pieces(len(inputs), height):
            keys = noise.input_keys(inputs[rows].to(session.device), self.seed, "lime")
            normals = noise.normals(keys, 0, samples, features, session.dtype)
            values = torch.empty(len(members), len(keys), features, dtype=torch.float64, device=session.device)
            for fit in fits:
                coefficients = _coefficients(fit, rows, normals[:, : fit.sizes[-1]], problem)
                values[list(fit.members)] = coefficients.flatten(1, 3)[:, fit.places].transpose(0, 1)
            yield Piece(rows, values.reshape(len(members), len(keys), *inputs.shape[1:]))


class _SharedFits:
    """Members with one sigma, hence with shared neighbours: their fits are all sizes, all widths and all alphas."""

    def __init__(self, members: Mapping[int, LimeTabular], features: int) -> None:
        self.members = members  # by their places in the family
        self.sigma = next(iter(members.values())).sigma
        self.sizes = sorted({member.samples for member in members.values()})
        self.widths = sorted({member.width(features) for member in members.values()})
        self.alphas = sorted({member.alpha for member in members.values()})
        # of each member among all fits, the alphas the fastest
        self.places = [
            (self.sizes.index(member.samples) * len(self.widths) + self.widths.index(member.width(features)))
            * len(self.alphas)
            + self.alphas.index(member.alpha)
            for member in members.values()
        ]

    def bytes_per_input(self, features: int) -> int:
        """Working memory: rows with those of one weighting, their weights, sums and solutions."""
        rows = 8 * self.sizes[-1] * (5 * features + 2 * (features + 9) + 3 * len(self.widths))
        return rows + len(self.sizes) * len(self.widths) * solution_bytes(features, self.alphas)


def _shared_fits(members: Sequence[LimeTabular], features: int) -> list[_SharedFits]:
    by_sigma: dict[float | str, dict[int, LimeTabular]] = {}
    for place, member in enumerate(members):
        by_sigma.setdefault(member.sigma, {})[place] = member
    return [_SharedFits(chosen, features) for chosen in by_sigma.values()]


def _coefficients(
    fit: _SharedFits, rows: slice, normals: Float[Tensor, "b n d"], problem: Problem
) -> Float[Tensor, "b sizes widths alphas d"]:
    """Ask the model about the neighbours of some inputs and fit all surrogates to its answers."""
    session, inputs = problem.open_session, problem.inputs[rows]
    start = inputs.to(session.device, session.dtype).flatten(1)[:, None]
    step = _deviations(problem) if fit.sigma == "std" else fit.sigma
    neighbours = start + normals * step
    flat = neighbours.reshape(-1, *inputs.shape[1:])
    owner = torch.arange(rows.start, rows.stop, device=session.device).repeat_interleave(normals.shape[1])
    scores = session.scores_of(flat, owner, problem.classes)
    # What the model saw, rounded to its precision, is what its scores are fitted to.
    design = (neighbours.double() - start.double()).nan_to_num(0.0)  # a missing value cannot be moved
    unit = step.masked_fill(step == 0, 1).double() if isinstance(step, Tensor) else None
    if unit is not None:
        design /= unit
    change = scores.double().reshape(design.shape[:2]) - problem.scores()[rows, None].double()
    widths = torch.tensor(fit.widths, dtype=torch.float64, device=session.device)
    weights = torch.exp(-(design.norm(dim=-1)[:, None] / widths[:, None]).square() / 2)
    solved = solutions(_sums_by_size(fit.sizes, design, change, weights), fit.alphas)
    return solved if unit is None else solved / unit


def _deviations(problem: Problem) -> Float[Tensor, " d"]:
    """Standard deviation of each column over the background; a column that has none does not move, and gets 0."""
    background = problem.need_background('LimeTabular(sigma="std")')
    return spreads(background).nan_to_num(0.0).flatten().to(problem.open_session.device, problem.open_session.dtype)


def _sums_by_size(
    sizes: Sequence[int], design: Float[Tensor, "b n d"], change: Float[Tensor, "b n"], weights: Float[Tensor, "b w n"]
) -> Float[Tensor, "b sizes w d+1 d+2"]:
    """Weighted sums over the first rows, for each number of rows, and over the unperturbed row."""
    parts = [
        weighted_sums(design[:, first:last], change[:, first:last], weights[..., first:last])
        for first, last in pairwise((0, *sizes))
    ]
    sums = torch.stack(parts, dim=1).cumsum(1)
    sums[..., 0, 0] += 1  # the unperturbed row: its weight is 1, its design and its change are 0
    return sums


@dataclass(frozen=True)
class LimeGroups(Attribution):
    """LIME on features that are there or not: elements, blocks of columns, segments, words (Ribeiro et al. 2016).

    ``a = argmin_v min_c sum_j w_j (f(z_j) - c - v . z_j)^2 + alpha |v|^2``, where ``z_j`` says which features are kept,
    each with probability 1/2, and ``f(z_j)`` is the logit with all others at their baselines. A mask counts
    ``exp(-D^2 / (2 kernel_width^2))`` with its cosine distance ``D`` to the unperturbed input, which counts 1.

    ``LimeTabular`` moves numbers instead and ``LimeImage`` finds segments by itself; this one takes the features and
    baselines of the call.

    Args:
        alpha: Ridge penalty.
        kernel_width: How fast the weight falls with the distance.
        samples: Masks per input; the first ones are the same whatever their number.
        seed: Masks are a function of the seed and the input's values.

    Example:
        >>> import verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
        >>> blocks = torch.tensor([0, 0, 1, 1])
        >>> problem = verax.Problem(model, x, target=1, explained="logit", features=blocks)
        >>> values = LimeGroups(alpha=1e-6, samples=64)(problem)
        >>> effect = (model.weight[1] * x)[:, :2].sum(1)
        >>> bool(torch.allclose(values[:, :2].sum(1), effect, atol=1e-3)), bool(torch.equal(values[:, 0], values[:, 1]))
        (True, True)
    """

    alpha: float = 0.01
    kernel_width: float = 0.25
    samples: int = 1024
    seed: int = 0

    random: ClassVar[bool] = True
    local: ClassVar[bool] = False  # a feature is there or replaced, which is no small change
    label: ClassVar[str] = "LIME on groups"
    colour: ClassVar[str | None] = palette.TEAL
    worth_showing: ClassVar[tuple[str, ...] | None] = ("alpha", "kernel_width", "samples")
    citation: ClassVar[str] = "Ribeiro, Singh, Guestrin: Why should I trust you?, KDD 2016"

    def __post_init__(self) -> None:
        settle(
            self,
            alpha=checked_positive("alpha", self.alpha),
            kernel_width=checked_positive("kernel_width", self.kernel_width),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    @property
    def family(self) -> "LimeGroupsFamily":
        return LimeGroupsFamily(self.seed)


@dataclass(frozen=True)
class LimeGroupsFamily(Family):
    """One set of masks per input; each member weights and fits its first ones."""

    seed: int

    def rows(self, members: Sequence[LimeGroups], problem: Problem, place: Place) -> Rows:
        return Rows(len(problem.inputs) * max(member.samples for member in members))

    def pieces(self, members: Sequence[LimeGroups], problem: Problem) -> Iterator[Piece]:
        fmap, device = problem.features, problem.open_session.device
        samples = max(member.samples for member in members)
        per_input = 40 * (samples + 1) * (fmap.most + 2)
        for rows in pieces(len(problem.inputs), max(1, block_bytes(device) // per_input)):
            count = rows.stop - rows.start
            values = torch.zeros(len(members), count, fmap.most, dtype=torch.float64, device=device)
            for features, which in by_count(fmap, rows, device):
                values[:, which - rows.start, :features] = self._values(members, problem, which, features)
            yield Piece(rows, spread_evenly(fmap, values, rows))

    def _values(
        self, members: Sequence[LimeGroups], problem: Problem, which: Int[Tensor, " b"], features: int
    ) -> Float[Tensor, "k b {features}"]:
        if not features:
            return torch.zeros(len(members), len(which), 0, dtype=torch.float64, device=which.device)
        sizes = {member.samples for member in members}
        keys = input_keys(problem, which, self.seed, "lime-groups")
        masks = noise.uniforms(keys, 0, max(sizes), features) < 0.5
        scores = coalition_scores(problem, which, max(sizes), lambda at, number: masks[at, number])
        design = torch.cat((torch.ones_like(masks[:, :1]), masks), dim=1).double()  # the unperturbed input comes first
        scores = torch.cat((problem.scores()[which, None], scores), dim=1).double()
        distance = 1 - design.mean(2).sqrt()  # the cosine of a mask with m of d ones to all ones is sqrt(m / d)
        values = torch.empty(len(members), len(which), features, dtype=torch.float64, device=which.device)
        for size in sizes:
            places = [place for place, member in enumerate(members) if member.samples == size]
            reach = distance[:, : size + 1]
            fits = [(reach, members[place].kernel_width, members[place].alpha) for place in places]
            values[places] = fitted_masks(design[:, : size + 1], scores[:, : size + 1], fits)
        return values
