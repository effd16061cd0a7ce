"""Out of distribution, as a number: how far do the rows that guided metrics perturb lie from the data?"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from verax.core.blocks import pieces
from verax.core.shapes import Bool, Float, Shaped
from verax.metrics.base import GuidedMetric
from verax.perturbation.block import Block, PerturbedRows, load, ranks, removal_order
from verax.perturbation.removed_sets import Experiment
from verax.problem.attributed import Attributed, Task
from verax.scoring.meter import Meter
from verax.scoring.session import Session
from verax.statistics.intervals import LEVEL, Estimate, proportion

if TYPE_CHECKING:
    import polars as pl

    from verax.evaluation.engine import Call
    from verax.evaluation.result import Evaluation


FEWEST = 20  # rows, below which their spread says little about others
FAR = 0.99  # quantile of the data's own distances
_MOST = 1024  # numbers of a row whose covariance is estimated
_STRETCHES, _LENGTH = 16, 8  # of inputs that are looked at, evenly spaced
_POINTS = 5  # of each curve: after every fifth part of the features


class Reference:
    """Rows of data by which distances are judged.

    ``D(z) = sqrt((z - m)^T C^-1 (z - m))``, with columns in standard deviations, and mean m and covariance C of every
    other row, shrunk as far as few rows ask for (Ledoit, Wolf: A well-conditioned estimator for large-dimensional
    covariance matrices, Journal of Multivariate Analysis, 2004). What is usual is measured on the rows between them,
    because rows are nearer to a covariance that was fitted to them than other rows are. Missing values count as the
    mean.

    Args:
        rows: The data, at least 20.

    Attributes:
        typical: Median distance of the data.
        far: The distance beyond which one row in a hundred of the data lies.

    Example: independent normal columns have the chi distribution.
        >>> rows = torch.randn(20000, 4, generator=torch.Generator().manual_seed(0))
        >>> reference = Reference(rows)
        >>> abs(reference.typical - 1.83) < 0.05, abs(reference.far - 3.64) < 0.05
        (True, True)
        >>> round(float(reference.distances(torch.tensor([[3.0, 0.0, 0.0, 0.0]]))), 1)
        3.0
    """

    def __init__(self, rows: Float[Tensor, "m p"]) -> None:
        from sklearn.covariance import ledoit_wolf  # noqa: PLC0415  # to keep ``import verax`` light

        rows = rows.double().cpu()
        self.mean = rows.nanmean(0)
        spread = (rows - self.mean).square().nanmean(0).sqrt()
        self.unit = torch.where(spread > 0, spread, 1.0)
        shaped = self._standardised(rows)
        covariance, _ = ledoit_wolf(shaped[::2].numpy())
        self.middle = shaped[::2].mean(0)
        self.precision = torch.from_numpy(np.linalg.pinv(np.atleast_2d(covariance), hermitian=True))
        beyond = self.distances(rows[1::2])
        self.typical, self.far = float(beyond.median()), float(beyond.quantile(FAR))

    def distances(self, rows: Float[Tensor, "n p"]) -> Float[Tensor, " n"]:
        """How far rows lie from the data."""
        away = self._standardised(rows.double().cpu()) - self.middle
        return ((away @ self.precision) * away).sum(1).clamp(min=0).sqrt()

    def _standardised(self, rows: Float[Tensor, "n p"]) -> Float[Tensor, "n p"]:
        return ((rows - self.mean) / self.unit).nan_to_num(0.0)


def last_linear(session: Session, row: Shaped[Tensor, "1 *shape"]) -> nn.Linear | None:
    """The linear layer that a torch module of rows alone calls last; None without, or if it takes the inputs."""
    if session.module is None or session.row_arguments is not None:
        return None
    layers = [part for part in session.module.modules() if isinstance(part, nn.Linear)]
    calls = _linear_calls(session, layers, row)
    if not calls:
        return None
    layer, taken = calls[-1]
    itself = taken.numel() == row.numel() and torch.equal(taken.flatten().cpu().double(), row.flatten().cpu().double())
    return None if itself else layer


def features(session: Session, layer: nn.Linear, rows: Shaped[Tensor, "n *shape"]) -> Float[Tensor, "n features"]:
    """What reaches a layer, in float64 on the CPU; means over whatever lies between rows and features, as tokens do."""
    outputs = []
    for part in pieces(len(rows), session.batch_size):
        _, taken = _linear_calls(session, [layer], rows[part].to(session.device))[-1]
        outputs.append(taken.reshape(len(rows[part]), -1, layer.in_features).double().mean(1).cpu())
    return torch.cat(outputs)


def _linear_calls(
    session: Session, layers: list[nn.Linear], rows: Shaped[Tensor, "n *shape"]
) -> list[tuple[nn.Linear, Tensor]]:
    """Run the model on rows, and note what each layer is called with, in the order of the calls."""
    calls: list[tuple[nn.Linear, Tensor]] = []

    def note(layer: Any, taken: tuple[Tensor, ...]) -> None:
        calls.append((layer, taken[0]))

    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(note).remove)
        session.outputs(rows)
    session.counts.rows += len(rows)
    return calls


@dataclass(frozen=True)
class Space:
    """A way to see rows as points, with the background among them."""

    name: str  # ``"inputs"`` or ``"features"``
    points: Callable[[Tensor], Tensor]  # what a row is in this space
    reference: Reference  # the background in it

    def distances(self, rows: Shaped[Tensor, "n *shape"]) -> Float[Tensor, " n"]:
        """How far rows lie from the background."""
        return self.reference.distances(self.points(rows))


def spaces(session: Session, problem: Attributed) -> list[Space]:
    """The inputs, where they are amounts and not too many, and a network's features, where it has some."""
    named: list[tuple[str, Callable[[Tensor], Tensor]]] = []
    codes = problem.given.codes
    amounts = torch.ones(problem.inputs[0].shape, dtype=torch.bool) if codes is None else ~codes.cpu()
    if problem.inputs.is_floating_point() and 0 < int(amounts.sum()) <= _MOST:
        named.append(("inputs", lambda rows: rows.flatten(1)[:, amounts.flatten().to(rows.device)].double()))
    layer = last_linear(session, problem.inputs[:1].to(session.device))
    if layer is not None:
        named.append(("features", lambda rows: features(session, layer, rows)))
    if not named or problem.background is None:
        raise ValueError(
            f"distance: rows of shape {tuple(problem.inputs.shape[1:])} cannot be measured: expected at most {_MOST} "
            "amounts, or a torch module with a linear layer at its end that takes rows alone."
        )
    return [Space(name, points, Reference(points(problem.background))) for name, points in named]


@dataclass(frozen=True)
class Distance:
    """How far the perturbed rows of one attribution lie from the background, under one metric.

    Attributes:
        metric: Its name among the results; empty for the inputs as they are.
        attribution: Whose order features were removed in; empty for the inputs as they are.
        space: Where it is measured: ``"inputs"``, or ``"features"``, the network's own.
        ratio: Median distance of the rows, over that of the background.
        shares: For each input that was looked at, the share of its rows beyond the background's 99 % quantile.
    """

    metric: str
    attribution: str
    space: str
    ratio: float
    shares: Float[Tensor, " n"]

    def beyond(self, level: float = LEVEL) -> Estimate:
        """The share of rows that lie further out than 99 % of the background.

        Its interval is Wilson's with one draw per input, which is careful: rows of one input say more together.
        """
        return proportion(self.shares, level)


class Distances(list[Distance]):
    """All distances of a call, the inputs as they are first.

    Args:
        iterable: The distances.
    """

    def to_frame(self, level: float = LEVEL) -> "pl.DataFrame":
        """One row each: ``metric``, ``attribution``, ``space``, ``ratio``, ``beyond`` with ``low`` and ``high``."""
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        shares = [distance.beyond(level) for distance in self]
        columns = {name: [getattr(row, name) for row in self] for name in ("metric", "attribution", "space", "ratio")}
        ends = {"low": [share.low for share in shares], "high": [share.high for share in shares]}
        return pl.DataFrame(columns | {"beyond": [share.mean for share in shares]} | ends)

    def sentences(self, labels: Mapping[str, str], level: float = LEVEL) -> list[str]:
        """A sentence for each metric and space, over all attributions.

        Args:
            labels: What people read for each metric.
            level: Coverage of the intervals.
        """
        as_they_are = {distance.space: distance.beyond(level) for distance in self if not distance.metric}
        sentences = []
        for metric, space in dict.fromkeys((distance.metric, distance.space) for distance in self if distance.metric):
            these = [distance for distance in self if (distance.metric, distance.space) == (metric, space)]
            pooled = proportion(torch.stack([distance.shares for distance in these]).mean(0), level)
            ends = [f"{end(distance.ratio for distance in these):.2g}" for end in (min, max)]
            where = "" if space == "inputs" else " in the model's own features"
            sentences.append(
                f"{labels[metric]}: {percent(pooled)} of perturbed rows lie further from the background than "
                f"{100 * FAR:.0f} % of its own rows{where} (inputs as they are: {percent(as_they_are[space])}); their "
                f"median distance is {' to '.join(dict.fromkeys(ends))} times its own"
            )
        return sentences


def with_distance(call: "Call", evaluation: "Evaluation") -> "Evaluation":
    """An evaluation that also says how far perturbed rows lie from the background; checked before the model runs."""
    problem, background = call.rated.problem, call.rated.background
    guided = {name: metric.experiment for name, metric in call.metrics.items() if isinstance(metric, GuidedMetric)}
    if not guided:
        raise ValueError(f"distance: it is that of rows with removed features, got metrics {', '.join(call.metrics)}.")
    if background is None:
        raise ValueError("distance: it is measured from training data; pass background=train_inputs as well.")
    if len(background) < FEWEST:
        raise ValueError(f"distance: expected a background of at least {FEWEST} rows, got {len(background)}.")
    meter = Meter(problem.scorer.counts)
    with problem.session() as session:
        task = Task(call.rated, *problem.begin(session), session.score_name)
        measured = _distances(session, task, guided, evaluation.labels)
    return evaluation.extended(evaluation, meter.total(), measured)


def _distances(session: Session, task: Task, guided: Mapping[str, Experiment], names: Sequence[str]) -> Distances:
    """Measure at most 128 inputs, evenly spaced, at five points of each curve."""
    looked = _stretches(len(task.problem))
    inputs = torch.cat([task.problem.inputs[rows] for rows in looked])
    keys = {metric: (each.order, each.curves, each.replacement) for metric, each in guided.items()}
    experiments = {keys[metric]: experiment for metric, experiment in guided.items()}
    distances = Distances()
    for space in spaces(session, task.problem):
        measured = {("", ""): space.distances(inputs)[:, None]}
        by_key = {key: _measured(session, task, experiment, space, looked) for key, experiment in experiments.items()}
        measured |= {(metric, name): by_key[keys[metric]][at] for metric in guided for at, name in enumerate(names)}
        for about, rows in measured.items():
            shares = (rows > space.reference.far).double().mean(1)
            distances.append(Distance(*about, space.name, float(rows.median()) / space.reference.typical, shares))
    return distances


def _measured(
    session: Session, task: Task, experiment: Experiment, space: Space, looked: Iterable[slice]
) -> Float[Tensor, "k n rows"]:
    """Distances of all rows of an experiment's points, for each attribution and input that is looked at."""
    task = replace(task, replacement=experiment.replacement)
    every = slice(0, len(task.problem.attributions))
    measured = []
    for rows in looked:
        block = load(session, task, rows, every, False)
        removed = _removed(block, experiment)
        at = torch.arange(len(block.inputs), device=session.device)[:, None].expand(removed.shape[1:3])
        made = PerturbedRows(session, task, block)
        each = [space.distances(made(sets.flatten(0, 1), at.flatten())).reshape(at.shape) for sets in removed]
        measured.append(torch.stack(each))
    return torch.cat(measured, dim=1)


def _removed(block: Block, experiment: Experiment) -> Bool[Tensor, "k b rows features"]:
    """Which features are gone after each fifth part of them, from the top and, where both curves run, the bottom."""
    counts = block.counts.to(block.attributions.device)[:, None]
    place = ranks(removal_order(block.attributions, experiment.order, block.counts.expand(block.inputs.shape[0])))
    from_top = [place < torch.ceil(point * counts / _POINTS) for point in range(1, _POINTS + 1)]
    last = counts - 1 - place
    from_bottom = [(last >= 0) & (last < torch.ceil(point * counts / _POINTS)) for point in range(1, _POINTS)]
    return torch.stack(from_top + (from_bottom if experiment.curves > 1 else []), dim=2)


def _stretches(count: int) -> list[slice]:
    """Evenly spaced stretches of inputs, or all of them."""
    if count <= _STRETCHES * _LENGTH:
        return [slice(start, min(start + _LENGTH, count)) for start in range(0, count, _LENGTH)]
    starts = [place * (count - _LENGTH) // (_STRETCHES - 1) for place in range(_STRETCHES)]
    return [slice(start, start + _LENGTH) for start in starts]


def percent(share: Estimate) -> str:
    """A share with its interval.

    Example:
        >>> percent(Estimate(0.125, 0.01, 0.1, 0.15))
        '12.5 % [10.0, 15.0]'
    """
    return f"{100 * share.mean:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
