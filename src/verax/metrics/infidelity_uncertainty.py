"""How uncertain Infidelity is at a given number of draws: the paper's resampling study, with two honest references.

Resamples out of one pool, drawn without replacement, overlap the more the larger they are: their spread underestimates
the error and is 0 when a resample is the whole pool. Drawn with replacement they have no such bias. Beside them stand
the analytic standard error and, on request, really independent draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_count, checked_flag, settle
from verax.core.shapes import Float
from verax.metrics.base import Kind, SampledMetric
from verax.metrics.infidelity import Infidelity, reduced
from verax.metrics.monte_carlo import Moments, cuts
from verax.metrics.result import Context, Result
from verax.perturbation.sampled import Draws, Effects, Gathered


@dataclass(frozen=True)
class InfidelityUncertainty(SampledMetric):
    """The paper's resampling study: spread of Infidelity over subsets of its draws.

    Args:
        infidelity: The Infidelity to study; its ``samples`` are the pool.
        sizes: Numbers of draws to resample, each at most the pool; normalised Infidelity needs two of them.
        resamples: Resamples of each size.
        independent: Repetitions with fresh draws (each costs a full pool of model rows); 0 or at least 2.
        with_replacement: Whether a draw can be in a resample more than once; the spread of the whole pool is then that
            of the bootstrap, not 0.

    Example:
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(8, 4)
        >>> study = verax.metrics.InfidelityUncertainty()
        >>> result = verax.evaluate(verax.Problem(model, x), x, metrics=[study])["infidelity_uncertainty"]
        >>> result.sizes, result.resampled.shape
        ((20, 40, 80, 160, 320, 640), torch.Size([8, 6]))
    """

    infidelity: Infidelity = field(default_factory=Infidelity)
    sizes: tuple[int, ...] = (20, 40, 80, 160, 320, 640)
    resamples: int = 64
    independent: int = 0
    with_replacement: bool = False

    name: ClassVar[str] = "infidelity_uncertainty"
    label: ClassVar[str] = "Infidelity, resampled"
    asks: ClassVar[str] = "How much does Infidelity depend on the draws that it is computed from?"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = Infidelity.citation
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        checked_flag("with_replacement", self.with_replacement)
        if not isinstance(self.sizes, tuple) or not self.sizes:
            raise ValueError(f"sizes: expected a tuple of numbers of draws, got {self.sizes!r}.")
        settle(
            self,
            resamples=checked_count("resamples", self.resamples, least=2),
            independent=self.independent and checked_count("independent", self.independent, least=2),
            sizes=tuple(checked_count("sizes", size, self.infidelity.fewest) for size in self.sizes),
        )
        if max(self.sizes) > self.infidelity.samples:
            raise ValueError(f"sizes: cannot resample {max(self.sizes)} out of {self.infidelity.samples} draws.")

    @property
    def kind(self) -> Kind:
        """What the Infidelity rates."""
        return self.infidelity.kind

    @property
    def draws(self) -> tuple[Draws, ...]:
        """The pool, and the independent repetitions under seeds of their own."""
        pool = self.infidelity.draws
        numbers = torch.arange(self.independent, dtype=torch.float32)[:, None]
        seeds = noise.input_keys(numbers, pool.seed, "repetition").tolist() if self.independent else []
        return (pool, *(replace(pool, seed=seed) for seed in seeds))

    def reduce(self, effects: Effects) -> Float[Tensor, "k b"]:
        """Infidelity of some inputs with the whole pool."""
        return self.infidelity.reduce(effects)

    def collect(self, effects: Effects, gathered: Gathered) -> None:
        """Infidelity of every resample of the pool, or of the first draws of a repetition."""
        if effects.draws != self.infidelity.draws:
            position = torch.arange(self.infidelity.samples)
            prefixes = torch.stack([(position < size).double() for size in self.sizes])
            repeated = self._infidelity(effects, prefixes.to(effects.actual)[:, None])
            gathered.put(effects.rows, {"repeated": repeated[..., 0]})
            return
        whole = reduced(effects, self.infidelity.normalize)
        resampled = self._infidelity(effects, self._members().to(effects.actual))
        # the variance over draws of one draw's squared difference, which the standard error of the pool contains
        variance = whole["error"].square() * effects.actual.shape[-1]
        gathered.put(effects.rows, {"value": whole["value"], "variance": variance, "spread": resampled.std(-1)})
        gathered.add({"sums": resampled.sum(1)})

    def result(self, gathered: Sequence[Gathered], context: Context) -> "UncertaintyResult":
        """Put the pool and its repetitions together."""
        pool = {name: values.clone() for name, values in gathered[0].items()}
        repeated = [collected["repeated"] for collected in gathered[1:]]
        return UncertaintyResult(
            self,
            context,
            pool["value"],
            per_input=pool["spread"],
            means=pool["sums"] / pool["value"].shape[1],
            variance=pool["variance"],
            repetitions=torch.stack(repeated, dim=-1) if repeated else None,
        )

    def _infidelity(
        self, effects: Effects, members: Float[Tensor, "sizes sets samples"]
    ) -> Float[Tensor, "k b sizes sets"]:
        """Infidelity over many sets of draws at once, from sums of P P, P S and S S over their members."""
        flat = members.flatten(0, 1).T
        free = members.sum(-1).flatten() - self.infidelity.fitted
        scores = effects.actual.new_empty(*effects.predicted.shape[:2], flat.shape[1])
        squares = effects.actual.square() @ flat
        for which, rows in cuts(effects.predicted):
            # laid out anew: torch takes a product of other layouts row by row, in four times the time
            part = effects.predicted[which, rows]  # others read it, too
            predicted = part.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
            ps, ss = (predicted * effects.actual[rows]) @ flat, squares[rows]
            pp = predicted.square_() @ flat
            fitted = ss - ps.clamp(min=0) * Moments(pp, ps, ss.expand_as(pp)).beta
            total = fitted if self.infidelity.normalize else pp - 2 * ps + ss
            scores[which, rows] = total.clamp(min=0) / free
        return scores.reshape(*scores.shape[:-1], *members.shape[:2])

    def _members(self) -> Float[Tensor, "sizes sets samples"]:
        """How often each draw is in each resample; the same resamples for all inputs, whose draws differ."""
        samples, sets = self.infidelity.samples, self.resamples
        key, count = noise.input_keys(torch.zeros(1, 1), self.infidelity.seed, "resample"), torch.tensor([samples])
        members = []
        for start, size in zip(range(0, sets * len(self.sizes), sets), self.sizes, strict=True):
            if not self.with_replacement:
                members.append(noise.subsets(key, start, sets, samples, size, count)[0].double())
                continue
            # the remainder of 63 random bits: no number of draws is more than 1e-13 likelier than another
            chosen = (noise.drawn_words(key, start, sets, size)[0] & torch.iinfo(torch.int64).max) % samples
            times = torch.zeros(sets, samples, dtype=torch.float64, device=chosen.device)
            members.append(times.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.float64)))
        return torch.stack(members)


@dataclass(frozen=True, repr=False)
class UncertaintyResult(Result):
    """Spread of Infidelity at each number of draws; ``value`` is Infidelity with the whole pool.

    Attributes with ``mean_`` are about the mean over these inputs, one list over sizes per attribution. The fields hold
    the numbers for all attributions at once; the properties give them in the form of the attributions.

    Attributes:
        per_input: Standard deviation over resamples of each input's Infidelity.
        means: Infidelity's mean over inputs in each resample.
        variance: Over draws, of one draw's squared difference, for each input.
        repetitions: Infidelity of each input in each independent repetition; None where there were none.
    """

    per_input: Float[Tensor, "k n sizes"]
    means: Float[Tensor, "k sizes resamples"]
    variance: Float[Tensor, "k n"]
    repetitions: Float[Tensor, "k n sizes repetitions"] | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of draws."""
        sizes: tuple[int, ...] = self.metric.sizes
        return sizes

    @property
    def resampled(self) -> Any:
        """Standard deviation over resamples of each input's Infidelity, ``(..., N, sizes)``."""
        return self._pack(self.per_input)

    @property
    def analytic(self) -> Any:
        """Analytic standard error of each input's Infidelity, ``(..., N, sizes)``."""
        return self._pack(self._analytic())

    @property
    def independent(self) -> Any:
        """Standard deviation over independent repetitions of each input's Infidelity, or None."""
        return None if self.repetitions is None else self._pack(self.repetitions.std(-1))

    @property
    def mean_value(self) -> Any:
        """Mean over inputs and resamples."""
        return self._arrange(self.means.mean(-1).tolist())

    @property
    def mean_resampled(self) -> Any:
        """Standard deviation over resamples: the paper's figure."""
        return self._arrange(self.mean_spreads()["resampled"].tolist())

    @property
    def mean_analytic(self) -> Any:
        """Analytic standard error."""
        return self._arrange(self.mean_spreads()["analytic"].tolist())

    @property
    def mean_independent(self) -> Any:
        """Standard deviation over independent repetitions, or None."""
        spreads = self.mean_spreads().get("independent")
        return None if spreads is None else self._arrange(spreads.tolist())

    def plot(self) -> Any:
        """Draw the spread of the mean by number of draws: a panel per attribution, up to 12."""
        from verax.report.plots import spreads  # noqa: PLC0415  # to keep ``import verax`` light

        return spreads(self)

    def _further_columns(self) -> dict[str, list[float]]:
        columns = self.mean_spreads()["resampled"].T.tolist()
        return {f"sd, {size} draws": column for size, column in zip(self.sizes, columns, strict=True)}

    def mean_spreads(self) -> dict[str, Float[Tensor, "k sizes"]]:
        """How uncertain the mean over inputs is at each number of draws, by the way it was computed."""
        analytic = self._analytic().square().sum(1).sqrt() / self.scores.shape[1]
        spreads = {"resampled": self.means.std(-1), "analytic": analytic}
        return spreads if self.repetitions is None else spreads | {"independent": self.repetitions.mean(1).std(-1)}

    def _analytic(self) -> Float[Tensor, "k n sizes"]:
        return (self.variance[..., None] / torch.tensor(self.sizes).to(self.variance)).sqrt()
