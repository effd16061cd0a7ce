"""The contract of attributions: a configuration is a frozen value, a family computes many configurations in one pass.

To add a method, derive a frozen dataclass from ``Attribution`` that computes in ``explain``. Where several
configurations can share model evaluations, name a family instead: a frozen dataclass that derives from ``Family`` and
yields the attributions of its members block by block. ``docs/how-to`` shows both.
"""

import contextlib
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.attribution.attributions import Attributions
from verax.attribution.family import Family, check_family
from verax.attribution.given import Explained, Given, Piece, Place
from verax.core.arrays import Layout, kind_of
from verax.core.registry import Registry
from verax.core.shapes import Float
from verax.problem.background import checked_background
from verax.problem.checked_inputs import CheckedInputs, checked_inputs
from verax.problem.inputs import inputs_of
from verax.problem.targets import checked_target
from verax.scoring.frames import column_order
from verax.scoring.meter import Meter, Rows
from verax.scoring.scorer import checked_batch_size, scorer_of
from verax.scoring.session import NOT_DIFFERENTIABLE

Modality = Literal["tabular", "image"]
METHODS: "Registry[Attribution]" = Registry("method")


@dataclass(frozen=True)
class Alone(Family):
    """A configuration that shares nothing with others."""

    method: "Attribution"

    @property
    def needs_gradients(self) -> bool:  # type: ignore[override]
        """As the class of the method says; it has none by default."""
        said = inspect.getattr_static(type(self.method), "needs_gradients")
        return False if isinstance(said, property) else bool(said)

    @property
    def version(self) -> int:  # type: ignore[override]
        """As the class of the method says."""
        return self.method.version

    def rows(self, members: Sequence[Any], given: Given, place: Place) -> Rows | None:
        """As the method says."""
        return self.method.rows(given)

    def pieces(self, members: Sequence[Any], explained: Explained) -> Iterator[Piece]:
        """Yield the attributions of all inputs at once."""
        values = self.method.explain(explained)
        if values.shape != explained.inputs.shape:
            raise ValueError(
                f"{type(self.method).__name__}: expected attributions in the shape of the inputs, "
                f"{tuple(explained.inputs.shape)}, from its explain, found {tuple(values.shape)}."
            )
        yield Piece(slice(0, len(values)), values.expand(len(members), *values.shape))


@dataclass(frozen=True)
class Attribution(ABC):
    """A configuration of a method. Derive a frozen dataclass whose fields are its settings.

    Defining the class is all: its name is known from then on wherever methods are named. What it computes is its
    ``explain``; a method whose configurations can share model evaluations names a ``family`` instead.

    Class attributes:
        label: What people read; the name of the class where it is left out.
        abbreviation: The same, where room is short.
        modalities: The kinds of data it is for.
        random: Whether the result depends on a seed (then a field).
        reference: Whether it knows nothing of the model, so that any explanation should beat it.
        known_limitation: Why it should not be recommended, whatever its score; empty for most.
        colour: In charts; a spare one where it is left out.
        citation: Where it was published.
        version: To be raised when ``explain`` gives other attributions than before; a family has its own.
        worth_showing: The settings that tell configurations apart for a reader; all but the seed where left out.
    """

    label: ClassVar[str]
    abbreviation: ClassVar[str]
    modalities: ClassVar[tuple[Modality, ...]] = ("tabular", "image")
    random: ClassVar[bool] = False
    reference: ClassVar[bool] = False
    known_limitation: ClassVar[str] = ""
    colour: ClassVar[str | None] = None
    citation: ClassVar[str] = ""
    version: ClassVar[int] = 1
    worth_showing: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.label = cls.__dict__.get("label", cls.__name__)
        cls.abbreviation = cls.__dict__.get("abbreviation", cls.label)
        if not cls.__name__.startswith("_"):  # what only serves to be derived from
            METHODS.add(cls.__name__, cls)

    @property
    def family(self) -> Family:
        """The family that computes this configuration: its own, unless it shares model evaluations with others."""
        return Alone(self)

    @property
    @abstractmethod
    def local(self) -> bool:
        """Whether it explains local behaviour (True) or the difference to a baseline (False)."""

    @property
    def needs_gradients(self) -> bool:
        """Whether the model must be differentiable."""
        return self.family.needs_gradients

    def explain(self, explained: Explained) -> Float[Tensor, "n *shape"]:
        """Compute the attributions of all inputs; for methods without a family of their own."""
        raise NotImplementedError(f"{type(self).__name__} has neither explain nor a family")

    def unfit(self, given: Given) -> str:
        """Why it cannot explain such a model on such data, in a few words; empty where nothing speaks against it.

        Studies leave out what does not fit; a call refuses it.
        """
        differentiable = given.model is None or given.model.module is not None
        return "" if differentiable or not self.needs_gradients else "the model has no gradients"

    def rows(self, given: Given) -> Rows | None:
        """Model rows that ``explain`` will evaluate, to tell before a study starts; None where that is not known."""
        return None

    @property
    def title(self) -> str:
        """The label with the settings worth showing.

        Example:
            >>> from verax.attribution import SmoothGrad
            >>> SmoothGrad(0.25).title
            'SmoothGrad (sigma 0.25, samples 64)'
        """
        every = [field.name for field in fields(self) if field.name != "seed"]
        shown = [
            f"{name} {getattr(self, name)}" for name in (every if self.worth_showing is None else self.worth_showing)
        ]
        return f"{self.label} ({', '.join(shown)})" if shown else self.label

    @functools.cached_property
    def canonical(self) -> str:
        """Name and all settings, the same in every process: the identity in caches and tables.

        Example:
            >>> from verax.attribution import IntegratedGradients
            >>> IntegratedGradients(baseline="max").canonical
            "IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)"
        """
        settings = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{type(self).__name__}({settings})"

    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        target: Any = None,
        background: Any = None,
        background_labels: Any = None,
        features: Any = "auto",
        baselines: Any = 0.0,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
    ) -> Any:
        """Compute the attributions of inputs: an array of their shape, NumPy or torch as they are.

        Args:
            model: A torch module, a ``verax.Scorer``, or, for methods that need no gradients, any other model.
            inputs: Rows to explain, ``(N, ...)``.
            target: The class to explain: predicted (``None``), a number, a label as text, or one of them per row.
            background: Rows of the training data, for methods that need them.
            background_labels: Their classes, for a stratified background.
            features: What one feature is, for methods that remove features: ``"element"``, ``"pixel"``, an array of
                group numbers, or ``"auto"``.
            baselines: What removed features become: a number or anything that broadcasts to the inputs.
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
            features=features,
            baselines=baselines,
            batch_size=batch_size,
            device=device,
        )
        return found[self.canonical]


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
    features: Any = "auto",
    baselines: Any = 0.0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Attributions:
    """Compute many configurations, sharing model evaluations wherever their methods allow.

    Args:
        configurations: What to compute; results come in this order, under canonical names.
        model: What is explained: a torch module for methods that need gradients, otherwise any kind of model.
        inputs: Rows to explain, ``(N, ...)``, NumPy or torch; attributions come in this kind, half precision as single.
        target: The class to explain: predicted (``None``), a number, a label as text, or one of them per row.
        background: Rows of training data, for methods that compare with some.
        background_labels: Their classes, for methods that draw from each class alike.
        features: What one feature is, for methods that remove features: ``"element"``, ``"pixel"``, an array of group
            numbers, or ``"auto"``, a pixel with its channels in images and an element elsewhere.
        baselines: What removed features become: a number or anything that broadcasts to the inputs.
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
    scorer = scorer_of(model)
    meter = Meter(scorer.counts)
    asked = inputs_of(inputs, features, baselines)
    order = column_order(scorer.feature_names, asked.values)
    asked, background = asked.ordered(order), order("background", background)
    x = checked_inputs(asked, background, scorer.takes_missing).values
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision cannot hold them: small squares would be 0
    layout = Layout("one", (), kind_of(asked.values), x.device, dtype)
    names = {family: [one.canonical for one in members] for family, members in groups.items()}
    with torch.inference_mode(False):  # plain tensors, also where the caller is in inference mode
        found = {name: torch.empty_like(x, dtype=dtype) for own in names.values() for name in own}
    delta: dict[str, float] = {}
    settings = {"target": target, "background": background, "background_labels": background_labels}
    work = stream(groups, scorer, asked, **settings, batch_size=batch_size, device=device)
    with contextlib.closing(work):  # an error must not leave the model in evaluation mode, or other threads waiting
        for family, piece in work:
            for name, values in zip(names[family], piece.values, strict=True):
                found[name][piece.rows] = values.to(found[name])
            if piece.delta is not None:
                largest = float(piece.delta.max())
                delta |= {name: max(largest, delta.get(name, 0.0)) for name in names[family]}
    ordered = {
        one.canonical: order.back(layout.pack(found[one.canonical][None])) for one in dict.fromkeys(configurations)
    }
    return Attributions(ordered, delta, meter.total())


def stream(
    groups: dict[Family, list[Attribution]],
    model: Any,
    inputs: Any,
    *,
    target: Any = None,
    background: Any = None,
    background_labels: Any = None,
    features: Any = "auto",
    baselines: Any = 0.0,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
) -> Generator[tuple[Family, Piece], None, None]:
    """Compute families block by block, for results too large to hold: yields each family with a piece of its members.

    The model stays in evaluation mode with gradients off until the iteration ends. Takes the arguments of
    ``attribute``, and:

    Args:
        groups: What ``families`` gives: configurations by their family.
    """
    scorer = scorer_of(model)
    asked = checked_inputs(inputs_of(inputs, features, baselines), background, scorer.takes_missing)
    x = asked.values
    gradients = any(family.needs_gradients for family in groups)
    if gradients and not scorer.differentiable:
        raise TypeError(NOT_DIFFERENTIABLE.format(what="it is not a torch module"))
    checked_batch_size(batch_size)
    wanted = checked_target(target, len(x))
    scorer.check_target(wanted)
    rows, labels = checked_background(background, background_labels, x, missing=asked.missing or scorer.takes_missing)
    fmap, removed = asked.features, asked.baselines
    given = Given(x, rows, labels, features=fmap, baselines=removed, codes=asked.codes, model=scorer.adapter)
    for family, members in groups.items():
        check_family(family, members, given)
    with scorer.session(
        x, asked.kind, "logit", batch_size, device, gradients=gradients, companions=asked.companions
    ) as session:
        begun = session.begin(x, wanted)
        explained = Explained(**vars(given), session=session, target=begun[0], clean=begun[1])
        for family, members in groups.items():
            for piece in family.pieces(members, explained):
                yield family, _without_fixed(piece, asked)


def _without_fixed(piece: Piece, asked: CheckedInputs) -> Piece:
    """Attributions of what is never removed are 0."""
    fixed = asked.fixed(piece.rows)
    if fixed is None:
        return piece
    return replace(piece, values=piece.values.masked_fill(fixed.to(piece.values.device), 0))
