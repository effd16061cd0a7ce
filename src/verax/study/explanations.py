"""Explanations of some inputs by many configurations, shared where methods allow, kept in the cache."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from verax.attribution import Attribution, Family, Rows, families, stream
from verax.scoring import Scorer
from verax.shapes import Float
from verax.study.cache import Cache
from verax.study.keys import attributions_key
from verax.study.subjects import Subject

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Machine:
    """Where and how to compute; no result depends on it beyond rounding.

    Attributes:
        device: ``"cpu"`` or a CUDA device.
        batch_size: Rows in a model call; found automatically.
        compile: Whether models are compiled, which pays on a GPU.
    """

    device: str = "cpu"
    batch_size: int | None = None
    compile: bool = False

    @property
    def name(self) -> str:
        """The device in words, and whether models are compiled: results with the same name have the same bits."""
        threads = torch.get_num_threads()
        name = "cpu" if threads == 1 else f"cpu, {threads} threads"
        if torch.device(self.device).type == "cuda":
            name = torch.cuda.get_device_name(self.device)
        return name + (", compiled" if self.compile else "")


@dataclass
class Spent:
    """What something cost."""

    rows: Rows = field(default_factory=lambda: Rows(0))
    seconds: float = 0.0


@dataclass(frozen=True)
class Explanations:
    """Attributions of some inputs by every configuration, with what they cost.

    Attributes:
        values: By the configuration's name in tables.
        spent: Rows forward, backward and seconds by the same name: an even share of what the family cost, and of the
            unperturbed inputs. What came from the cache counts as much as when it was computed.
        total: What all cost.
    """

    values: dict[str, Float[Tensor, "n *shape"]]
    spent: dict[str, tuple[float, float, float]]
    total: Spent


def explain(
    subject: Subject,
    configurations: Sequence[Attribution],
    rows: slice,
    scorer: Scorer,
    machine: Machine,
    cache: Cache,
    tell: Tell = lambda family: None,
) -> Explanations:
    """Attributions of some inputs, from the cache where they are there, and put there where not."""
    names = {subject.used(one): one.canonical for one in configurations}
    groups = families(list(names))
    inputs = subject.inputs[rows].to(machine.device)
    found: dict[Family, Float[Tensor, "k n *shape"]] = {}
    spent: dict[Family, Spent] = {}
    for family, members in groups.items():
        kept = cache.get(attributions_key(subject, rows, family, members), (len(members), *inputs.shape))
        if kept is not None:
            values, (forward, backward, seconds) = kept
            found[family] = values.to(machine.device)
            spent[family] = Spent(Rows(forward, backward), seconds)
    missing = {family: members for family, members in groups.items() if family not in found}
    if missing:
        for family, values, cost in _computed(subject, missing, inputs, scorer, machine, tell):
            found[family], spent[family] = values, cost
            own_cost = (cost.rows.forward, cost.rows.backward, cost.seconds)
            cache.put(attributions_key(subject, rows, family, missing[family]), values, own_cost)
    named = {names[one]: value for family, own in groups.items() for one, value in zip(own, found[family], strict=True)}
    clean = Rows(len(inputs))
    each = clean.forward / len(names)
    shares = {
        names[one]: (each + cost.rows.forward / len(own), cost.rows.backward / len(own), cost.seconds / len(own))
        for family, own in groups.items()
        for one in own
        for cost in (spent[family],)
    }
    total = Spent(sum((one.rows for one in spent.values()), clean), sum(one.seconds for one in spent.values()))
    return Explanations({one.canonical: named[one.canonical] for one in configurations}, shares, total)


def _computed(
    subject: Subject,
    groups: dict[Family, list[Attribution]],
    inputs: Float[Tensor, "n *shape"],
    scorer: Scorer,
    machine: Machine,
    tell: Tell,
) -> Iterator[tuple[Family, Float[Tensor, "k n *shape"], Spent]]:
    """Run families one after the other; the rows of the unperturbed inputs belong to none of them."""
    background = subject.background.to(machine.device)
    pieces = stream(
        groups,
        scorer,
        inputs,
        background=background,
        background_labels=subject.labels,
        batch_size=machine.batch_size,
        device=machine.device,
    )
    clock = _Clock(scorer, inputs.device, clean=len(inputs))
    current: Family | None = None
    values, spent = torch.empty(0), Spent()
    for family, piece in pieces:
        cost = clock.read()  # of this piece, which may be the first of its family
        if family is not current:
            if current is not None:
                yield current, values, spent
            current, spent = family, Spent()
            tell(type(family).__name__.removesuffix("Family"))
            values = torch.empty(len(groups[family]), *inputs.shape, dtype=inputs.dtype, device=inputs.device)
        spent = Spent(spent.rows + cost.rows, spent.seconds + cost.seconds)
        values[:, piece.rows] = piece.values.to(values)
    if current is not None:
        yield current, values, spent


class _Clock:
    """Rows and seconds since the last reading, without the rows of the unperturbed inputs, which come first."""

    def __init__(self, scorer: Scorer, device: torch.device, clean: int) -> None:
        self.scorer, self.device = scorer, device
        self.last = (scorer.rows + clean, scorer.rows_backward, time.perf_counter())

    def read(self) -> Spent:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        before, self.last = self.last, (self.scorer.rows, self.scorer.rows_backward, time.perf_counter())
        rows = Rows(self.last[0] - before[0], self.last[1] - before[1])
        return Spent(rows, self.last[2] - before[2])
