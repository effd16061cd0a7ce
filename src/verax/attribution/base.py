"""The contract of attributions: a configuration is a frozen value, a family computes many configurations in one pass.

To add a method, derive a frozen dataclass from ``Attribution`` that computes in ``explain``. Where several
configurations can share model evaluations, name a family instead: a frozen dataclass that derives from ``Family`` and
yields the attributions of its members block by block. ``docs/how-to`` shows both.
"""

import contextlib
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from verax.attribution.family import Family, Piece, Place, check_background, check_family
from verax.core.arrays import Layout, joined_rows
from verax.core.blocks import pieces
from verax.core.display import Shown, TextTable, first_rows
from verax.core.display import cost as spent
from verax.core.registry import Registry, code_of
from verax.core.shapes import Float
from verax.problem.problem import Problem, checked_problem
from verax.scoring.meter import Cost, Meter, Rows
from verax.scoring.session import NOT_DIFFERENTIABLE


class Attributions(Shown, dict[str, Any]):
    """Attributions by name, ready to be passed to ``verax.evaluate``, with what they cost.

    Attributes:
        rows: Model rows evaluated.
        rows_backward: Rows through which gradients were taken.
        seconds: Wall-clock time.
        delta: For methods that promise completeness, the largest relative gap of any input, by name.
        standard_errors: Of ``KernelShap`` and ``PermutationShap``, by name, in the shape of the attributions: 0 where
            they are exact, NaN where there are too few rows to know.
    """

    def __init__(
        self, values: dict[str, Any], delta: dict[str, float], cost: Cost, errors: dict[str, Any] | None = None
    ) -> None:
        super().__init__(values)
        self.delta, self.cost, self.standard_errors = delta, cost, errors or {}
        self.rows, self.rows_backward, self.seconds = cost.rows.forward, cost.rows.backward, cost.seconds

    def _table(self) -> TextTable:
        gaps = {name: f"{gap:.2g}" for name, gap in self.delta.items()}
        rows = [(name, str(tuple(values.shape)), gaps.get(name, "")) for name, values in self.items()]
        return TextTable(("attribution", "shape", "largest gap"), first_rows(rows), spent(self.rows, self.seconds))


Modality = Literal["tabular", "image"]
METHODS: "Registry[Attribution]" = Registry("method")
Groups = dict[Family, list["Attribution"]]


@dataclass(frozen=True)
class Alone(Family):
    """A configuration that shares nothing with others."""

    method: "Attribution"

    @property
    def needs_gradients(self) -> bool:  # type: ignore[override]
        """As the class of the method says; it has none by default."""
        declared = inspect.getattr_static(type(self.method), "needs_gradients")
        return False if isinstance(declared, property) else bool(declared)

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.method.version

    def rows(self, members: Sequence[Any], problem: Problem, place: Place) -> Rows | None:
        """As the method says."""
        return self.method.rows(problem)

    def pieces(self, members: Sequence[Any], problem: Problem) -> Iterator[Piece]:
        values = self.method.explain(problem)
        if values.shape != problem.inputs.shape:
            raise ValueError(
                f"{type(self.method).__name__}: expected attributions in the shape of the inputs, "
                f"{tuple(problem.inputs.shape)}, from its explain, got {tuple(values.shape)}."
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

    def explain(self, problem: Problem) -> Float[Tensor, "n *shape"]:
        """Compute the attributions of all inputs; for methods without a family of their own."""
        raise NotImplementedError(f"{type(self).__name__} has neither explain nor a family")

    def unsupported_reason(self, problem: Problem) -> str:
        """Why it cannot explain such a model on such data, in a few words; empty where nothing speaks against it.

        Studies leave out what does not fit; a call raises.
        """
        differentiable = problem.scorer.adapter.module is not None
        return "" if differentiable or not self.needs_gradients else "the model has no gradients"

    def rows(self, problem: Problem) -> Rows | None:
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

    @property
    def code(self) -> str:
        """The import line and the constructor call, to be pasted.

        Example:
            >>> from verax.attribution import Occlusion
            >>> print(Occlusion().code)
            from verax.attribution import Occlusion
            Occlusion(kind='leave_one_out')
        """
        return code_of(self)

    def __call__(self, problem: Problem) -> Any:
        """Compute the attributions of a problem's rows: an array of their shape, NumPy or torch as they are.

        Example:
            >>> import torch, verax
            >>> problem = verax.Problem(torch.nn.Linear(4, 2), torch.randn(3, 4))
            >>> verax.attribution.Gradient()(problem).shape
            torch.Size([3, 4])
        """
        return explain(problem, [self])[self.canonical]


def families(configurations: Sequence[Attribution]) -> Groups:
    """Group configurations that share model evaluations, in order of first appearance; repeated ones count once.

    Args:
        configurations: What to group.

    Example:
        >>> from verax.attribution import Gradient, SmoothGrad, VarGrad, families
        >>> [len(members) for members in families([Gradient(), SmoothGrad(), VarGrad()]).values()]
        [1, 2]
    """
    groups: Groups = {}
    for configuration in dict.fromkeys(configurations):
        if not isinstance(configuration, Attribution):
            raise TypeError(f"configurations: expected attributions, got {configuration!r}.")
        groups.setdefault(configuration.family, []).append(configuration)
    return groups


def explain(problem: Problem, methods: Mapping[str, Attribution] | Sequence[Attribution]) -> Attributions:
    """Compute attributions, sharing model evaluations wherever methods allow.

    Args:
        problem: The model and the rows to explain.
        methods: By name, or a list of them; those of a list are named by all their settings.

    Returns:
        A dict of attributions, arrays like the inputs, half precision as single; with ``rows``, ``rows_backward`` and
        ``seconds``, what they cost.

    Example:
        >>> import torch, verax
        >>> from verax.attribution import IntegratedGradients
        >>> x = torch.randn(3, 4)
        >>> problem = verax.Problem(torch.nn.Linear(4, 2), x, background=x)
        >>> pair = {str(on): IntegratedGradients(baseline="mean", multiply_by_inputs=on) for on in (True, False)}
        >>> attributions = verax.explain(problem, pair)
        >>> list(attributions), attributions.rows_backward  # 64 points serve both
        (['True', 'False'], 192)
    """
    checked_problem(problem)
    if not isinstance(methods, Mapping):
        listed: Any = [methods] if isinstance(methods, Attribution) else methods
        methods = {method.canonical: method for method in listed}
    named: Mapping[str, Attribution] = methods
    groups = families(list(named.values()))
    meter = Meter(problem.scorer.counts)
    length = problem.scorer.chunk_size(problem.rows.values, problem.batch_size, problem.device)
    parts = [
        _computed(groups, problem[rows] if len(problem) > length else problem) for rows in pieces(len(problem), length)
    ]
    values, errors = (
        {
            name: problem.order.back(joined_rows([part[kind][method.canonical] for part in parts]))
            for name, method in named.items()
            if method.canonical in parts[0][kind]
        }
        for kind in ("values", "errors")
    )
    gaps = {name: [part["delta"].get(method.canonical) for part in parts] for name, method in named.items()}
    delta = {name: max(gap for gap in some if gap is not None) for name, some in gaps.items() if some[0] is not None}
    return Attributions(values, delta, meter.total(), errors)


def _computed(groups: Groups, problem: Problem) -> dict[str, dict[str, Any]]:
    """By canonical name: attributions of all configurations, standard errors, and how far each is from adding up."""
    x = problem.inputs
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision cannot hold them: small squares would be 0
    layout = Layout("one", (), problem.given.kind, x.device, dtype)
    names = {family: [method.canonical for method in members] for family, members in groups.items()}
    with torch.inference_mode(False):  # plain tensors, also where the caller is in inference mode
        values = {name: torch.empty_like(x, dtype=dtype) for members in names.values() for name in members}
    errors: dict[str, Tensor] = {}
    delta: dict[str, float] = {}
    work = stream(groups, problem)
    with contextlib.closing(work):  # an error must not leave the model in evaluation mode, or other threads waiting
        for family, piece in work:
            for name, computed in zip(names[family], piece.values, strict=True):
                values[name][piece.rows] = computed.to(values[name])
            for name, computed in zip(names[family], () if piece.errors is None else piece.errors, strict=False):
                errors.setdefault(name, torch.zeros_like(values[name]))[piece.rows] = computed.to(values[name])
            if piece.delta is not None:
                largest = float(piece.delta.max())
                delta |= {name: max(largest, delta.get(name, 0.0)) for name in names[family]}
    packed = ({name: layout.pack(value[None]) for name, value in kind.items()} for kind in (values, errors))
    return dict(zip(("values", "errors"), packed, strict=True)) | {"delta": delta}


def stream(groups: Groups, problem: Problem) -> Generator[tuple[Family, Piece], None, None]:
    """Compute families block by block, for results too large to hold: yields each family with a piece of its members.

    The model stays in evaluation mode with gradients off until the iteration ends.

    Args:
        groups: What ``families`` gives: configurations by their family.
        problem: The model and the rows to explain.
    """
    gradients = any(family.needs_gradients for family in groups)
    if gradients and not problem.scorer.differentiable:
        raise TypeError(NOT_DIFFERENTIABLE.format(what="it is not a torch module"))
    check_background(problem)
    for family, members in groups.items():
        check_family(family, members, problem)
    with problem.explaining(gradients=gradients) as held:
        for family, members in groups.items():
            for piece in family.pieces(members, held):
                if (fixed := problem.given.fixed(piece.rows)) is not None:  # what is never removed
                    piece = replace(piece, values=piece.values.masked_fill(fixed.to(piece.values.device), 0))  # noqa: PLW2901
                yield family, piece
