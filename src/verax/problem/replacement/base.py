"""The contract of replacements, what they are in words, and those that look at an input and its baseline alone."""

import re
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from verax.core.arguments import checked_positive, settle
from verax.core.registry import Registry, file_name, parse_short_form, unknown
from verax.core.shapes import Bool, Float, Int, Shaped

REPLACEMENTS: "Registry[Replacement]" = Registry("replacement")


@dataclass(frozen=True)
class Rows:
    """Some rows of a call, as a replacement sees them.

    Attributes:
        values: The inputs.
        baselines: Their baselines, in the same shape.
        spread: Standard deviation of each element over the background; None where there is no background.
        still: Elements that cannot go a part of the way: codes, and what is missing; None where there are none.
        background: Rows of training data; None where the call has none.
        keys: A number for each row that depends on its input alone: random numbers drawn with them are the same for all
            sets of an input, in any batch and on any device.
        draw: Which of the replacement's draws is meant, from 0.
    """

    values: Shaped[Tensor, "b *shape"]
    baselines: Shaped[Tensor, "b *shape"]
    spread: Float[Tensor, "*shape"] | None = None
    still: Bool[Tensor, "..."] | None = None
    background: Shaped[Tensor, "m *shape"] | None = None
    keys: Int[Tensor, " b"] | None = None
    draw: int = 0

    def at(self, index: Int[Tensor, " m"]) -> "Rows":
        """Some of the rows, maybe several times."""
        each = self.still is not None and self.still.ndim == self.values.ndim and len(self.still) == len(self.values)
        return replace(
            self,
            values=self.values[index],
            baselines=self.baselines[index],
            still=self.still[index] if each and self.still is not None else self.still,
            keys=None if self.keys is None else self.keys[index],
        )

    def needed(self, who: str) -> Shaped[Tensor, "m *shape"]:
        """The background, which a replacement cannot do without."""
        if self.background is None:
            raise ValueError(f"replacement: {who} takes values of other rows; pass background=train_inputs as well.")
        return self.background.to(self.values)


@dataclass(frozen=True)
class Replacement(ABC):
    """What a removed feature becomes. Defining a subclass makes its name, such as ``noisy_linear``, known to files.

    Class attributes:
        setwise: Whether what an element becomes depends on what else is removed. Such elements have no direction of
            their own, so that DPC does not support them.
    """

    setwise: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        REPLACEMENTS.add(file_name(cls), cls)

    @property
    def repeats(self) -> int:
        """How many times it is drawn, where it is drawn; scores are means over them."""
        return 1

    @property
    def short_form(self) -> str:
        """What people read: the name with every setting that is not the default, without rows.

        Example:
            >>> import verax
            >>> verax.replacement.Nudge(0.1).short_form, verax.replacement.Marginal(torch.zeros(9, 2)).short_form
            ('Nudge(epsilon=0.1)', 'Marginal')
        """
        shown = [(field.name, getattr(self, field.name), field.default) for field in fields(self) if field.repr]
        changed = [f"{name}={value!r}" for name, value, default in shown if value != default]
        return f"{type(self).__name__}({', '.join(changed)})" if changed else type(self).__name__

    def fitted(self, background: Shaped[Tensor, "m *shape"] | None) -> "Replacement":
        """The same, ready for a call: called once, with the call's background, by those that learn from it."""
        return self

    @abstractmethod
    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        """What every element becomes where it is removed; elsewhere anything.

        Args:
            rows: The inputs and what belongs to them.
            removed: Which elements go; None for all that can, which is what elementwise replacements always get.
        """


ReplacementLike = Replacement | Callable[[Any, Any], Any] | None
"""What calls take: a replacement, a function from inputs and removed elements to inputs, or None."""


def checked_replacement(replacement: Any) -> Replacement | None:
    """Read a replacement: one of ours, or a function from inputs and removed elements to values.

    Args:
        replacement: What was given; None for none.
    """
    if replacement is None or isinstance(replacement, Replacement):
        return replacement
    if callable(replacement) and not isinstance(replacement, type):
        return Own(replacement)
    raise TypeError(
        f"replacement: expected one of verax.replacement, such as verax.replacement.Nudge(0.1), or a function from "
        f"inputs and removed elements to inputs, got {replacement!r}."
    )


@dataclass(frozen=True)
class Own(Replacement):
    """A function of one's own: ``function(inputs, removed)`` gives inputs whose removed elements have new values.

    Both arguments are torch tensors of one shape, rows first; ``removed`` holds truth values. It must be deterministic:
    a set of an input that occurs again is not scored again.

    Args:
        function: What is called with the rows of a batch.

    Example: halve what is removed.
        >>> import torch, verax
        >>> model, x = torch.nn.Linear(4, 2), torch.randn(5, 4)
        >>> halved = lambda inputs, removed: torch.where(removed, inputs / 2, inputs)
        >>> mine = verax.metrics.PredictionChange()(verax.Problem(model, x, replacement=halved), x).value
        >>> toward = verax.Problem(model, x, replacement=verax.replacement.Toward(0.5))
        >>> torch.allclose(mine, verax.metrics.PredictionChange()(toward, x).value)
        True
    """

    function: Any
    setwise: ClassVar[bool] = True

    @property
    def short_form(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        mask = torch.ones_like(rows.values, dtype=torch.bool) if removed is None else removed.expand(rows.values.shape)
        filled = self.function(rows.values, mask)
        if not isinstance(filled, Tensor) or filled.shape != rows.values.shape:
            what = tuple(filled.shape) if isinstance(filled, Tensor) else type(filled).__name__
            raise ValueError(f"replacement: expected inputs of shape {tuple(rows.values.shape)} back, got {what}.")
        return filled.to(rows.values)


@dataclass(frozen=True)
class Baseline(Replacement):
    """A removed feature becomes its baseline: the paper's replacement, and the default.

    Example:
        >>> Baseline().fill(Rows(torch.tensor([[2.0, -3.0]]), torch.tensor([[0.0, 1.0]])))
        tensor([[0., 1.]])
    """

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        return rows.baselines


BASELINE = Baseline()


@dataclass(frozen=True)
class Toward(Replacement):
    """A removed feature goes a part of the way to its baseline: ``x + epsilon (b - x)``.

    With ``epsilon=1`` this is ``Baseline``. Codes and missing values, which have no way to go, stay as they are.

    Args:
        epsilon: The part, above 0 and at most 1.

    Example:
        >>> Toward(0.25).fill(Rows(torch.tensor([[2.0, -3.0]]), torch.tensor([[0.0, 1.0]])))
        tensor([[ 1.5000, -2.0000]])
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=checked_positive("epsilon", self.epsilon))
        if self.epsilon > 1:
            raise ValueError(f"epsilon: expected a part of the way, at most 1, got {self.epsilon}.")

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        if self.epsilon == 1:
            return rows.baselines
        return _where_it_moves(rows, torch.lerp(_amounts(rows), rows.baselines, self.epsilon))


@dataclass(frozen=True)
class Nudge(Replacement):
    """A removed feature moves towards its baseline by a fixed amount, all alike: ``x + epsilon s sign(b - x)``.

    ``s`` is the standard deviation of the feature over the call's background, or 1 without one, which is right for
    standardised inputs. Nothing is clipped: a feature nearer to its baseline than that goes past it. Where ``x = b``
    nothing moves, nor do codes and missing values. As epsilon falls, the change of the score becomes that of its
    gradient: the only replacement here that is local. A tree is flat almost everywhere; there a small nudge changes
    nothing.

    Args:
        epsilon: The amount, in standard deviations.

    Example:
        >>> Nudge(0.5).fill(Rows(torch.tensor([[2.0, -3.0, 1.0]]), torch.tensor([[0.0, 1.0, 1.0]])))
        tensor([[ 1.5000, -2.5000,  1.0000]])
    """

    epsilon: float

    def __post_init__(self) -> None:
        settle(self, epsilon=checked_positive("epsilon", self.epsilon))

    def fill(self, rows: Rows, removed: Bool[Tensor, "b *#shape"] | None = None) -> Shaped[Tensor, "b *shape"]:
        values = _amounts(rows)
        size = self.epsilon if rows.spread is None else self.epsilon * rows.spread.to(values)
        return _where_it_moves(rows, values + size * (rows.baselines - values).sign())


def _amounts(rows: Rows) -> Tensor:
    if not rows.values.is_floating_point():
        raise TypeError("replacement: whole numbers cannot go a part of the way; use verax.replacement.Baseline().")
    return rows.values


def _where_it_moves(rows: Rows, moved: Tensor) -> Tensor:
    return moved if rows.still is None else torch.where(rows.still, rows.values, moved)


_COLON = re.compile(r"\s*(\w+)\s*:(.*)", re.DOTALL)
_WORDS = {float: "NUMBER", int: "COUNT", bool: "true|false", str: "WORD"}


def replacement_from(words: str, argument: str = "replacement") -> Replacement:
    """Read a replacement as commands take it, ``marginal:draws=16,seed=1``, or with its settings in brackets."""
    try:
        name, settings = parse_short_form(_COLON.sub(r"\1(\2)", words))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}.") from None
    known = {kind_name: REPLACEMENTS.get(kind_name) for kind_name in sayable()}
    name = next((spelt for spelt, kind in known.items() if kind.__name__ == name), name)  # as in tables
    if name not in known:
        raise ValueError(f"{argument}: {unknown(name, known)}")
    kind, types = known[name], _settings(known[name])
    if extra := [setting for setting in settings if setting not in types]:
        raise ValueError(f"{argument}: {name} has no setting {extra[0]}; it has {', '.join(types) or 'none'}.")
    if any(setting not in settings for setting in _required(kind)):
        raise ValueError(f"{argument}: {name} needs {', '.join(_required(kind))}; say {sayable()[name]}.")
    for setting, value in settings.items():
        plain, *choices = types[setting]
        settings[setting] = float(value) if plain is float and type(value) is int else value
        if type(settings[setting]) is not plain and value not in choices:
            expected = "|".join((_WORDS[plain], *choices))
            raise ValueError(f"{argument}: {name}: {setting}: expected {expected}, got {value!r}.")
    try:
        return kind(**settings)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{argument}: {name}: {error}") from None


def sayable() -> dict[str, str]:
    """Names of all replacements that words can say, each with the settings that it cannot do without."""
    forms = {}
    for name in REPLACEMENTS:
        kind = REPLACEMENTS.get(name)
        types, required = _settings(kind), _required(kind)
        if set(required) <= set(types):
            needed = ",".join(f"{setting}={_WORDS[types[setting][0]]}" for setting in required)
            forms[name] = f"{name}:{needed}" if needed else name
    return forms


def needs_background(replacement: Replacement) -> bool:
    """Whether it takes rows of training data and has none of its own."""
    return getattr(replacement, "background", ...) is None


def _settings(kind: type[Replacement]) -> dict[str, tuple[Any, ...]]:
    """Settings that a word can say, each with its type, and the words that it may be instead."""
    types = {}
    for name, hint in typing.get_type_hints(kind).items():
        members = typing.get_args(hint)  # ``int | Literal["every"]`` is a number or the word itself
        choices = [choice for member in members for choice in typing.get_args(member)]
        plain = [member for member in members or (hint,) if member in _WORDS]
        if plain and (choices or not members):
            types[name] = (plain[0], *choices)
    return {field.name: types[field.name] for field in fields(kind) if field.name in types}


def _required(kind: type[Replacement]) -> list[str]:
    return [field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
