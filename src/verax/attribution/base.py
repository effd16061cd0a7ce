"""The contract of attributions: a configuration is a frozen value, a family computes many configurations in one pass.

To add a method, write a frozen dataclass that derives from ``Attribution`` and names its family, and a frozen dataclass
that derives from ``Family`` and yields the attributions of its members block by block. ``docs/how-to`` shows both.
"""

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.arguments import checked_background, checked_inputs, checked_target, resolve_target
from verax.arrays import Layout, kind_of
from verax.display.table import Table, shortened
from verax.display.table import cost as spent
from verax.scoring import NOT_DIFFERENTIABLE, Scorer, Session, checked_batch_size
from verax.shapes import Float, Int

Modality = Literal["tabular", "image"]


@dataclass(frozen=True)
class Given:
    """The data of a call.

    Attributes:
        inputs: Rows to explain, where the user keeps them.
        background: Rows that stand for the training data, or None.
        labels: The class of each background row, or None.
    """

    inputs: Float[Tensor, "n *shape"]
    background: Float[Tensor, "m *shape"] | None
    labels: Int[Tensor, " m"] | None

    def need_background(self, who: str) -> Float[Tensor, "m *shape"]:
        """Return the background, or say that it is missing."""
        if self.background is None:
            raise ValueError(f"background: {who} needs rows of the training data; pass background=train_inputs.")
        return self.background


@dataclass(frozen=True)
class Explained(Given):
    """What a family works on: the data, with a model held ready and the class of each input.

    Attributes:
        session: The model; scores are logits. Move blocks of inputs to ``session.device``.
        target: The class of each input, on the session's device.
        clean: The logit of that class for each unperturbed input, on the session's device.
    """

    session: Session
    target: Int[Tensor, " n"]
    clean: Float[Tensor, " n"]


@dataclass(frozen=True)
class Piece:
    """Attributions of some inputs for all members of a family.

    Attributes:
        rows: Which inputs.
        values: One attribution per member and input.
        delta: For methods that promise completeness, how far each input's attributions are from summing to the score
            difference, relative to its size; otherwise None.
    """

    rows: slice
    values: Float[Tensor, "k b *shape"]
    delta: Float[Tensor, " b"] | None = None


@dataclass(frozen=True)
class Place:
    """Where a family will run.

    Attributes:
        device: Of the model.
        batch_size: Model rows at once.
    """

    device: torch.device
    batch_size: int


@dataclass(frozen=True)
class Rows:
    """Model rows.

    Attributes:
        forward: Rows evaluated.
        backward: Those of them through which gradients are taken.
    """

    forward: int
    backward: int = 0

    def __add__(self, other: "Rows") -> "Rows":
        return Rows(self.forward + other.forward, self.backward + other.backward)


class Family(ABC):
    """Configurations that share model evaluations. Derive a frozen dataclass; equal families are run together.

    Class attributes:
        needs_gradients: Whether the model must be differentiable.
        version: To be raised when the same settings give other attributions than before, so that stored ones are
            computed anew.
    """

    needs_gradients: ClassVar[bool]
    version: ClassVar[int] = 1

    def check(self, members: Sequence[Any], given: Given) -> None:  # noqa: B027  # most have nothing to refuse
        """Refuse inputs or background data that cannot serve, before the model runs."""

    def rows(self, members: Sequence[Any], given: Given, place: Place) -> Rows | None:
        """Model rows that ``pieces`` will evaluate, to tell before a study starts; None where that is not known."""
        return None

    @abstractmethod
    def pieces(self, members: Sequence[Any], explained: Explained) -> Iterator[Piece]:
        """Yield the members' attributions of all inputs, a bounded block at a time, in the order of the inputs."""


class Attribution(ABC):
    """A configuration of a method. Derive a frozen dataclass whose fields are its settings.

    Class attributes:
        random: Whether the result depends on a seed (then a field).
        modalities: The kinds of data it is for.
    """

    random: ClassVar[bool]
    modalities: ClassVar[tuple[Modality, ...]]

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family that computes this configuration."""

    @property
    @abstractmethod
    def local(self) -> bool:
        """Whether it explains local behaviour (True) or the difference to a baseline (False)."""

    @property
    def needs_gradients(self) -> bool:
        """Whether the model must be differentiable."""
        return self.family.needs_gradients

    @functools.cached_property
    def canonical(self) -> str:
        """Name and all settings, the same in every process: the identity in caches and tables.

        Example:
            >>> from verax.attribution import IntegratedGradients
            >>> IntegratedGradients(baseline="max").canonical
            "IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)"
        """
        settings = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({settings})"

    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        target: Any = None,
        background: Any = None,
        background_labels: Any = None,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
    ) -> Any:
        """Compute the attributions of inputs: an array of their shape, NumPy or torch as they are.

        Args:
            model: A torch module, a ``verax.Scorer``, or, for methods that need no gradients, any other model.
            inputs: Rows to explain, ``(N, ...)``.
            target: The class to explain: predicted (``None``), one number, or one per row.
            background: Rows of the training data, for methods that need them.
            background_labels: Their classes, for a stratified background.
            batch_size: Rows per model call; automatic by default.
            device: Where the model runs; by default where it is.
        """
        found = attribute(
            [self],
            model,
            inputs,
            target=target,
            background=background,
            background_labels=background_labels,
            batch_size=batch_size,
            device=device,
        )
        return found[self.canonical]


class Attributions(dict[str, Any]):
    """Attributions by canonical name, ready to be passed to ``verax.evaluate``, with what they cost.

    Attributes:
        rows: Model rows evaluated.
        rows_backward: Rows through which gradients were taken.
        seconds: Wall-clock time.
        delta: For methods that promise completeness, the largest relative gap of any input, by canonical name.
    """

    def __init__(self, found: dict[str, Any], delta: dict[str, float], cost: tuple[int, int, float]) -> None:
        super().__init__(found)
        self.delta = delta
        self.rows, self.rows_backward, self.seconds = cost

    def _table(self) -> Table:
        gaps = {name: f"{gap:.2g}" for name, gap in self.delta.items()}
        rows = [(name, str(tuple(values.shape)), gaps.get(name, "")) for name, values in self.items()]
        return Table(("attribution", "shape", "largest gap"), shortened(rows), spent(self.rows, self.seconds))

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def families(configurations: Sequence[Attribution]) -> dict[Family, list[Attribution]]:
    """Group configurations that share model evaluations, in order of first appearance; repeated ones count once.

    Args:
        configurations: What to group.

    Example:
        >>> from verax.attribution import Gradient, SmoothGrad, VarGrad, families
        >>> [len(members) for members in families([Gradient(), SmoothGrad(), VarGrad()]).values()]
        [1, 2]
    """
    groups: dict[Family, list[Attribution]] = {}
    for configuration in dict.fromkeys(configurations):
        if not isinstance(configuration, Attribution):
            raise TypeError(f"configurations: expected attributions, found {configuration!r}.")
        groups.setdefault(configuration.family, []).append(configuration)
    return groups


def attribute(
    configurations: Sequence[Attribution],
    model: Any,
    inputs: Any,
    *,
    target: Any = None,
    background: Any = None,
    background_labels: Any = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Attributions:
    """Compute many configurations, sharing model evaluations wherever their methods allow.

    Args:
        configurations: What to compute; results come in this order, under canonical names.
        model: What is explained: a torch module for methods that need gradients, otherwise any kind of model.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch; attributions come back in the same kind.
        target: The class to explain: predicted (``None``), one number, or one number per row.
        background: Rows of training data, for methods that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        batch_size: Rows per model call; automatic by default.
        device: Where the model runs; by default where it is.

    Example:
        >>> import torch
        >>> from verax.attribution import IntegratedGradients, attribute
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
        >>> pair = [IntegratedGradients(baseline="mean", multiply_by_inputs=on) for on in (True, False)]
        >>> found = attribute(pair, model, x, background=x)
        >>> len(found), found.rows_backward  # 64 points serve both
        (2, 192)
    """
    groups = families(configurations)
    scorer = model if isinstance(model, Scorer) else Scorer(model)
    start = (scorer.rows, scorer.rows_backward, time.perf_counter())
    x = checked_inputs(inputs)
    layout = Layout("one", (), kind_of(inputs), x.device, x.dtype)
    names = {family: [one.canonical for one in members] for family, members in groups.items()}
    with torch.inference_mode(False):  # plain tensors, also where the caller is in inference mode
        found = {name: torch.empty_like(x) for own in names.values() for name in own}
    delta: dict[str, float] = {}
    settings = {"target": target, "background": background, "background_labels": background_labels}
    for family, piece in stream(groups, scorer, inputs, **settings, batch_size=batch_size, device=device):
        for name, values in zip(names[family], piece.values, strict=True):
            found[name][piece.rows] = values.to(x)
        if piece.delta is not None:
            largest = float(piece.delta.max())
            delta |= {name: max(largest, delta.get(name, 0.0)) for name in names[family]}
    ordered = {one.canonical: layout.pack(found[one.canonical][None]) for one in dict.fromkeys(configurations)}
    cost = (scorer.rows - start[0], scorer.rows_backward - start[1], time.perf_counter() - start[2])
    return Attributions(ordered, delta, cost)


def stream(
    groups: dict[Family, list[Attribution]],
    model: Any,
    inputs: Any,
    *,
    target: Any = None,
    background: Any = None,
    background_labels: Any = None,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Iterator[tuple[Family, Piece]]:
    """Compute families block by block, for results too large to hold: yields each family with a piece of its members.

    The model stays in evaluation mode with gradients off until the iteration ends. Takes the arguments of
    ``attribute``, and:

    Args:
        groups: What ``families`` gives: configurations by their family.
    """
    scorer = model if isinstance(model, Scorer) else Scorer(model)
    x = checked_inputs(inputs)
    gradients = any(family.needs_gradients for family in groups)
    if gradients and scorer.adapter.module is None:
        raise TypeError(NOT_DIFFERENTIABLE.format(what="it is not a torch module"))
    checked_batch_size(batch_size)
    wanted = checked_target(target, len(x))
    rows, labels = checked_background(background, background_labels, x)
    for family, members in groups.items():
        family.check(members, Given(x, rows, labels))
    with scorer.session(x, kind_of(inputs), "logit", batch_size, device, gradients=gradients) as session:
        scores = session.class_scores(x)
        classes = resolve_target(wanted, scores)
        clean = scores.gather(1, classes[:, None])[:, 0]
        explained = Explained(x, rows, labels, session, classes, clean)
        for family, members in groups.items():
            for piece in family.pieces(members, explained):
                yield family, piece
