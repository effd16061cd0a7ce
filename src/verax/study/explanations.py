"""Explanations of some inputs by many configurations, shared where methods allow, kept in the cache."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from verax.attribution import Attribution, Family, Rows, families, stream
from verax.core.shapes import Float
from verax.scoring.meter import Cost, Mark
from verax.study.cache import Cache
from verax.study.explained_models import ExplainedModel
from verax.study.keys import attributions_key
from verax.study.machine import Machine

Tell = Callable[[str], None]
Groups = dict[Family, list[Attribution]]
Spent = Callable[[], Cost]  # asked for when all is queued: to know it, the host waits for a GPU


@dataclass(frozen=True)
class Explanations:
    """Attributions of some inputs by every configuration, with what they cost.

    Attributes:
        values: By the configuration's name in tables.
        shares: Rows forward, backward and seconds by the same name: an even share of what the family cost, and of the
            unperturbed inputs. What came from the cache counts as much as when it was computed.
        total: What all cost.
    """

    values: dict[str, Float[Tensor, "n *shape"]]
    shares: dict[str, tuple[float, float, float]]
    total: Cost


def explain(
    model: ExplainedModel,
    configurations: Sequence[Attribution],
    rows: slice,
    machine: Machine,
    cache: Cache,
    tell: Tell = lambda family: None,
    *,
    again: bool = False,
) -> Explanations:
    """Attributions of some inputs, from the cache where they are there, and put there where not.

    What is in the cache costs what it cost when it was computed, or nothing where that was counted before (``again``).
    """
    used = {method.canonical: model.used(method) for method in configurations}
    groups = families(list(dict.fromkeys(used.values())))  # two names may be computed as one
    inputs = model.inputs[rows].to(machine.device)
    values: dict[Attribution, Float[Tensor, "n *shape"]] = {}
    costs: dict[Family, Spent] = {}
    for family, stack, spent in _cached_or_computed(model, groups, rows, inputs, machine, cache, tell):
        costs[family] = spent
        values |= dict(zip(groups[family], stack, strict=True))
    sharing = Counter(method.family for method in used.values())
    each: dict[Family, tuple[float, float, float]] = {}
    paid = {family: again and isinstance(spent, partial) and spent.func is _known for family, spent in costs.items()}
    clean = 0 if all(paid.values()) else len(inputs)  # the unperturbed inputs, which no family pays for alone
    total = Cost(Rows(clean))
    for family, spent in costs.items():
        cost, members = Cost() if paid[family] else spent(), sharing[family]
        each[family] = (
            clean / len(used) + cost.rows.forward / members,
            cost.rows.backward / members,
            cost.seconds / members,
        )
        total += cost
    shares = {name: each[method.family] for name, method in used.items()}
    return Explanations({name: values[method] for name, method in used.items()}, shares, total)


def _cached_or_computed(
    model: ExplainedModel,
    groups: Groups,
    rows: slice,
    inputs: Float[Tensor, "n *shape"],
    machine: Machine,
    cache: Cache,
    tell: Tell,
) -> Iterator[tuple[Family, Float[Tensor, "k n *shape"], Spent]]:
    """Each family with its members' attributions and what they cost: first those that are kept."""
    keys = {family: attributions_key(model, rows, family, members) for family, members in groups.items()}
    missing: Groups = {}
    for family, members in groups.items():
        kept = cache.get(keys[family], (len(members), *inputs.shape))
        if kept is None:
            missing[family] = members
        else:
            yield family, kept[0].to(machine.device), partial(_known, kept[1])
    if missing:
        for family, values, spent in _computed(model, missing, rows, inputs, machine, tell):
            if cache.takes(values):
                cache.put(keys[family], values, spent())
            yield family, values, spent


def _computed(
    model: ExplainedModel, groups: Groups, rows: slice, inputs: Float[Tensor, "n *shape"], machine: Machine, tell: Tell
) -> Iterator[tuple[Family, Float[Tensor, "k n *shape"], Spent]]:
    """Run families one after the other."""
    scorer = model.scorer(machine.compile)
    pieces = stream(groups, model.material.problem(scorer, rows, machine, background=True))
    start = end = Mark.of(scorer.counts, inputs.device)
    clean = Rows(-len(inputs))  # the unperturbed inputs are scored first and belong to no family
    current: Family | None = None
    values = torch.empty(0)
    for family, piece in pieces:
        if family is not current:
            if current is not None:
                yield current, values, partial(_between, start, end, clean)
                clean = Rows(0)
            current, start = family, end
            tell(groups[family][0].label)
            values = torch.empty(len(groups[family]), *inputs.shape, dtype=inputs.dtype, device=inputs.device)
        values[:, piece.rows] = piece.values.to(values)
        end = Mark.of(scorer.counts, inputs.device)
    if current is not None:
        yield current, values, partial(_between, start, end, clean)


def _known(cost: Cost) -> Cost:
    return cost


def _between(start: Mark, end: Mark, further: Rows) -> Cost:
    return end.since(start) + Cost(further)
