"""Draws: which random perturbations an unguided experiment makes, and whether they fit the inputs of a call."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor

from verax.core import noise
from verax.core.arguments import checked_choice, checked_count, checked_positive, checked_seed, settle
from verax.core.arrays import as_tensor
from verax.core.blocks import block_bytes, pieces
from verax.core.shapes import Bool, Float, Int, Shaped
from verax.problem.attributed import Attributed, Task
from verax.problem.baselines import must_choose, replaced
from verax.problem.features import spread
from verax.problem.inputs import CheckedInputs
from verax.scoring.class_scores import Scale
from verax.scoring.session import Session

Perturbation = Literal["gaussian", "baseline"]
Effect = Literal["dot", "sum"]
Sigma = float | tuple[float, ...] | Literal["std"]


@dataclass(frozen=True)
class Draws:
    """Which random perturbations are drawn.

    Args:
        perturbation: ``"gaussian"`` adds noise (local), ``"baseline"`` replaces by the baseline (baseline-oriented).
        sigma: Standard deviation of the noise: a number, one for each element of a row, or ``"std"`` for those of the
            background.
        subset: Features perturbed in each draw. ``None`` means all of them for noise; for replacement, a share of the
            features that is itself drawn uniformly, so that every subset size is equally likely.
        samples: Draws per input. The first draws are the same whatever their number.
        seed: Draws are a function of the seed and the input's values.
        effect: ``"dot"``: P is the product of attribution and perturbation; ``"sum"``: P is the sum of the attributions
            of the replaced features.
    """

    perturbation: Perturbation = "gaussian"
    sigma: Sigma = 0.2
    subset: int | None = None
    samples: int = 640
    seed: int = 0
    effect: Effect = "dot"

    def __post_init__(self) -> None:
        checked_choice("perturbation", self.perturbation, ("gaussian", "baseline"))
        checked_choice("effect", self.effect, ("dot", "sum"))
        if self.effect == "sum" and self.perturbation == "gaussian":
            raise ValueError(
                'effect: "sum" adds up the attributions of features that are replaced, noise moves all by some amount; '
                'use effect="dot", or perturbation="baseline".'
            )
        settle(
            self,
            sigma=_checked_sigma(self.sigma),
            subset=None if self.subset is None else checked_count("subset", self.subset),
            samples=checked_count("samples", self.samples),
            seed=checked_seed(self.seed),
        )

    def scale(self, problem: Attributed) -> float | Float[Tensor, "*shape"]:
        """Standard deviation of the noise for the inputs of a call: a number, or one for each element of a row."""
        if isinstance(self.sigma, float):
            return self.sigma
        if isinstance(self.sigma, tuple):
            elements = problem.inputs[0].numel()
            if len(self.sigma) != elements:
                raise ValueError(
                    f"sigma: expected a number or {elements} of them, one per element, got {len(self.sigma)}."
                )
            scale = torch.tensor(self.sigma, dtype=torch.float64).reshape(problem.inputs.shape[1:])
        elif problem.spread is None:
            raise ValueError('sigma: "std" is that of the training data; pass background=train_inputs as well.')
        else:
            scale = problem.spread
        return scale.to(problem.inputs.dtype)


def _checked_sigma(sigma: Any) -> Sigma:
    """Read a standard deviation: a number, one per element of a row, or ``"std"``."""
    if isinstance(sigma, str):
        if sigma != "std":
            raise ValueError(f"sigma: expected a positive number, one per element of a row, or 'std', got {sigma!r}.")
        return "std"
    if isinstance(sigma, Real):
        return checked_positive("sigma", sigma)
    checked = as_tensor("sigma", sigma).double().flatten()
    if not bool((torch.isfinite(checked) & (checked >= 0)).all()) or not bool(checked.any()):
        raise ValueError("sigma: expected numbers of at least 0, one per element of a row, some of them positive.")
    return tuple(checked.tolist())


def all_categories(given: CheckedInputs) -> bool:
    """Whether every value of a row is a category, such as the id of a token."""
    return given.codes is not None and bool(given.codes.all())


def check_sigma(draws: Draws, problem: Attributed) -> None:
    """Raise for noise that does not fit the inputs of a call."""
    if draws.perturbation == "gaussian":
        if all_categories(problem.given):
            raise ValueError(
                "perturbation: noise is undefined for categorical values, and all values are categorical; "
                'use perturbation="baseline".'
            )
        draws.scale(problem)


def check_subset(draws: Draws, problem: Attributed, name: str = "subset") -> None:
    """Raise where more features are to be chosen than the inputs have; the setting that says how many has a name."""
    fewest = int(problem.features.counts(slice(None)).min())
    if draws.subset is not None and draws.subset > fewest:
        raise ValueError(f"{name}: cannot choose {draws.subset} features, an input has only {fewest}.")


@dataclass(frozen=True)
class Effects:
    """Predicted effects and score changes of some inputs.

    Attributes:
        draws: The experiment they belong to.
        rows: Which inputs.
        predicted: ``P``, per attribution, input and draw (eq. 8), in the precision of the inputs: it is the large one.
        actual: ``S``, per input and draw (eq. 9), in float64, in which all is reduced.
        logits: The same on the logit, where the task follows it as well.
    """

    draws: Draws
    rows: slice
    predicted: Float[Tensor, "k b samples"]
    actual: Float[Tensor, "b samples"]
    logits: Float[Tensor, "b samples"] | None = None

    @property
    def on_logits(self) -> "Effects":
        """The same draws with the changes of the logit."""
        if self.logits is None:
            raise ValueError("effects: this task does not follow the logit.")
        return replace(self, actual=self.logits, logits=None)


def put_block(
    held: dict[str, Tensor],
    shape: tuple[int, int],
    which: slice,
    rows: slice,
    results: dict[str, Shaped[Tensor, "k b *rest"]],
) -> None:
    """Store what there is of some attributions and inputs, in memory for all that is set aside at the first."""
    for name, values in results.items():
        if name not in held:
            held[name] = values.new_empty(*shape, *values.shape[2:])
        held[name][which, rows] = values


class Gathered(dict[str, Tensor]):
    """Results of all inputs, put together block by block in memory that is set aside at the first.

    Small results left behind among large, short-lived blocks would fragment the heap, which then grows with the inputs.

    Args:
        inputs: How many there are.
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.inputs = inputs

    def put(self, rows: slice, results: dict[str, Shaped[Tensor, "k b *rest"]]) -> None:
        """Store a block's results, one row of axis 1 per input."""
        count = len(next(iter(results.values())))
        put_block(self, (count, self.inputs), slice(0, count), rows, results)

    def add(self, results: dict[str, Tensor]) -> None:
        """Add up results that are sums over inputs."""
        for name, values in results.items():
            self[name] = self[name].add_(values) if name in self else values


def sampled_effects(session: Session, task: Task, draws: Draws) -> Iterator[Effects]:
    """Run the experiment, a block of inputs at a time; memory does not grow with inputs, draws or attributions.

    What is yielded is overwritten by the next block.
    """
    problem = task.problem
    check_subset(draws, problem)
    k, budget = len(problem.attributions), block_bytes(session.device)
    # words, look-ups and differences of every element, and the sort that chooses features
    per_draw = 32 * problem.inputs[0].numel() + 48 * problem.features.most
    height = max(1, budget // (draws.samples * max(8 * k, per_draw)))
    # one buffer for all blocks: memory that is new to a process costs more than the numbers written to it
    height = min(height, len(problem))
    buffer = torch.empty(height, k, draws.samples, dtype=problem.layout.dtype, device=session.device)
    clean = [task.clean] if task.logits is None else [task.clean, task.logits]
    scales: tuple[Scale, ...] = (session.output, "logit")[: len(clean)]
    for rows in pieces(len(problem), height, session.chunk_size(problem.inputs)):
        block = _Block(session, task, draws, rows, problem.inputs[rows].to(session.device))
        inputs, predicted = block.inputs, buffer[: len(block.inputs)]
        changes = torch.empty(len(clean), len(inputs), draws.samples, dtype=torch.float64, device=session.device)
        for part in pieces(draws.samples, max(1, budget // (per_draw * len(inputs)))):
            moved, chosen = block.perturb(part)
            for place, scores in enumerate(block.scores(moved, scales)):
                changes[place, :, part] = clean[place][rows].double()[:, None] - scores.double()
            weights = chosen
            if draws.effect == "dot" or weights is None:
                weights = (inputs[:, None] - moved).flatten(2)
                weights = weights.nan_to_num(nan=0.0) if problem.given.missing else weights  # what is missing stays so
            for which in pieces(k, max(1, budget // (8 * weights[:, 0].numel()))):
                block.predict(which, weights, out=predicted[:, which, part])
        yield Effects(draws, rows, predicted.transpose(0, 1), *changes)


@dataclass(frozen=True)
class _Block:
    """Some inputs, on the session's device, and what is drawn for them."""

    session: Session
    task: Task
    draws: Draws
    rows: slice
    inputs: Shaped[Tensor, "b *shape"]

    def perturb(self, part: slice) -> tuple[Shaped[Tensor, "b draws *shape"], Bool[Tensor, "b draws features"] | None]:
        """Make some draws; also say which features were chosen, where not all are."""
        problem, inputs, count = self.task.problem, self.inputs, part.stop - part.start
        chosen, mask = self._chosen(part.start, count), None
        if chosen is not None:
            flat = problem.features.expand(chosen.flatten(0, 1), self._owner(count))
            mask = flat.reshape(*chosen.shape[:2], *flat.shape[1:])
        if self.draws.perturbation == "gaussian":
            drawn = noise.normals(self._keys("gaussian"), part.start, count, inputs[0].numel(), inputs.dtype)
            scale = self.draws.scale(problem)
            drawn = drawn.reshape(len(inputs), count, *inputs.shape[1:])
            drawn = drawn.mul_(scale if isinstance(scale, float) else scale.to(drawn.device))
            still = problem.given.still(self.rows)
            drawn = drawn if still is None else drawn.masked_fill_(still.to(drawn.device)[:, None], 0)
            moved = inputs[:, None] + drawn
        else:
            moved = self._removed(mask, part)  # type: ignore[arg-type]  # a replacement always chooses
        if mask is None:
            return moved, None
        return replaced(inputs[:, None], moved, mask, chosen=must_choose(inputs, moved)), chosen

    def scores(
        self, moved: Shaped[Tensor, "b draws *shape"], scales: tuple[Scale, ...]
    ) -> list[Float[Tensor, "b draws"]]:
        """Scores of perturbed rows on some scales."""
        flat, owner = moved.flatten(0, 1), self._owner(moved.shape[1])
        flat_scores = self.session.scores_on(scales, lambda start, stop: flat[start:stop], owner, self.task.target)
        return [scores.reshape(moved.shape[:2]) for scores in flat_scores]

    def predict(self, which: slice, weights: Shaped[Tensor, "b draws m"], out: Float[Tensor, "b k draws"]) -> None:
        """Predicted effects: attributions against the perturbation's elements, or against its chosen features."""
        problem = self.task.problem
        attributions = problem.stacked(which, self.rows).to(self.session.device)
        if self.draws.effect == "dot":
            attributions = spread(attributions, tuple(problem.inputs.shape[1:])).flatten(2)
        else:
            attributions = problem.features.reduce(attributions, self.rows)
        by_input = attributions.to(out.dtype).transpose(0, 1).contiguous()  # the place in memory may change a last bit
        torch.bmm(by_input, weights.to(out.dtype).transpose(1, 2), out=out)

    def _removed(self, mask: Shaped[Tensor, "b draws *some"], part: slice) -> Shaped[Tensor, "b each *shape"]:
        """What chosen elements become, draw by draw; of a replacement that is drawn itself, each draw in its turn."""
        task, device, count = self.task, self.session.device, part.stop - part.start
        if task.moves.setwise:
            owner = self._owner(count)
            context = task.context(self.rows, device).at(owner - self.rows.start)
            removed = task.removable(mask.bool().flatten(0, 1).expand(context.values.shape), owner)
            rows_without = torch.where(removed, task.moves.fill(context, removed), context.values)
            return rows_without.reshape(len(self.inputs), count, *rows_without.shape[1:])
        repeats = task.moves.repeats
        each = torch.stack([replace(task, draw=draw).replaced(self.rows, device) for draw in range(repeats)], dim=1)
        return each[:, torch.arange(part.start, part.stop, device=each.device) % repeats] if repeats > 1 else each

    def _chosen(self, start: int, count: int) -> Bool[Tensor, "b draws features"] | None:
        """The features of each draw; None means all of them."""
        features, keys = self.task.problem.features, self._keys("subset")
        if self.draws.subset is not None:
            counts = features.counts(self.rows).to(self.inputs.device)
            return noise.subsets(keys, start, count, features.most, self.draws.subset, counts)
        if self.draws.perturbation == "gaussian":
            return None
        share = noise.uniforms(self._keys("share"), start, count, 1)
        return noise.uniforms(keys, start, count, features.most) < share

    def _keys(self, purpose: str) -> Int[Tensor, " b"]:
        fixed = self.task.problem.given.fixed(self.rows)
        held = None if fixed is None else fixed.to(self.inputs.device)
        return noise.input_keys(self.inputs, self.draws.seed, purpose, held)

    def _owner(self, count: int) -> Int[Tensor, " m"]:
        """The input of each row, where there are so many rows of each."""
        numbers = torch.arange(self.rows.start, self.rows.stop, device=self.session.device)
        return numbers.repeat_interleave(count)
