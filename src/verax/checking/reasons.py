"""``verax.reasons``: are the reasons that an explanation names those that counted: none false, none left out?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Attribution
from verax.checking.reason_effects import Direction, effects_scale, judged, removals
from verax.checking.stability import KINDS, agreement
from verax.core.arguments import checked_choice, checked_count, checked_level, checked_not_negative, checked_seed
from verax.core.arrays import Layout
from verax.core.display import Shown, TextTable, cost, counted, first_rows
from verax.core.shapes import Float, Int
from verax.evaluation.engine import Call, problem_facts
from verax.evaluation.evaluate import prepared
from verax.evaluation.limits import ROWS
from verax.metrics.about import fact_line
from verax.problem.features import Grid
from verax.problem.problem import Problem
from verax.scoring.meter import Cost, Meter
from verax.statistics.intervals import LEVEL, Estimate, bounded_mean

if TYPE_CHECKING:
    import polars as pl

_WORDS = {"either": "raise or lower", "raises": "raise", "lowers": "lower"}
TOTALS = ("false", "omitted", "share", "stability")


@dataclass(frozen=True, repr=False)
class Reasons(Shown):
    """The reasons of each input, and what is wrong with them; shown as a table of totals.

    Arrays have the form of the attributions: one, a stack, or a dict by name. The numbers of features are those of
    columns, or of groups in ascending order.

    Attributes:
        k: Reasons of each input, at most.
        direction: What they are reasons for.
        score: The scale on which effects are measured.
        exact: Whether ``share`` compares with the best of all subsets; if not, with the best that a search found, so
            that shares are at most these.
        labels: Names of the attributions in tables.
        names: Of the features, where they have any.
        effects: How far the score falls when a feature alone is removed, ``(N, features)``.
        stability_over: Agreement of the top k by what it is over: ``"seeds"``, ``"background"``, ``"neighbours"``.
        cost: What the call cost.
        facts: Model, tracked class, baseline and date, in words.
    """

    k: int
    direction: Direction
    score: str
    exact: bool
    labels: tuple[str, ...]
    names: tuple[str, ...] | None
    effects: Any
    stability_over: Mapping[str, Any]
    cost: Cost
    facts: Mapping[str, str]
    _layout: Layout
    _values: Mapping[str, Tensor]

    @property
    def top(self) -> Any:
        """The reasons of each input, ``(N, k)``: numbers of features, strongest first; -1 where there are fewer."""
        return self._layout.pack(self._values["top"])

    @property
    def false(self) -> Any:
        """Which reasons are false, ``(N, k)``: without them the score does not move as the explanation says."""
        return self._layout.pack(self._values["false"])

    @property
    def omitted(self) -> Any:
        """Which features are left out, ``(N, features)``: each moves the score more than a reason whose place it has.

        At most k of an input, each for another reason that is weaker, or for a place that is empty.
        """
        return self._layout.pack(self._values["omitted"])

    @property
    def share(self) -> Any:
        """The part of the best k features' effect that the reasons have together, ``(N,)``, from 0 to 1.

        NaN where nothing moves the score, and for inputs that the search for the best k was not paid for.
        """
        return self._layout.pack(self._values["share"])

    @property
    def stability(self) -> Any:
        """The part of the reasons that stays, ``(N,)``: the mean of the kinds in ``stability_over`` that are known.

        NaN where none is known.
        """
        return self._layout.pack(self._values["stability"])

    @property
    def rows(self) -> int:
        """Model rows of the whole call."""
        return self.cost.rows.forward

    def per_input(self) -> dict[str, Float[Tensor, "k n"]]:
        """One number per attribution and input, from 0 to 1, for each total.

        ``false``: the part of the reasons that is false. ``omitted``: of the k features that move the score most, the
        part that is left out.
        """
        named = (self._values["top"] >= 0).sum(-1)
        wrong = self._values["false"].sum(-1).double() / named.clamp(min=1)
        left_out = self._values["omitted"].sum(-1).double() / self._values["strongest"].clamp(min=1)
        kept = ("share", "stability", *(f"stability over {kind}" for kind in KINDS))
        return {"false": wrong, "omitted": left_out, **{name: self._values[name] for name in kept}}

    def totals(self, *, level: float = LEVEL) -> dict[str, Any]:
        """The mean over inputs of each total with its interval, as the attributions were given.

        Args:
            level: Coverage of the intervals.
        """
        return {name: self._layout.arrange(self._means(name, checked_level(level))) for name in TOTALS}

    def _means(self, name: str, level: float, which: Any = slice(None)) -> list[Estimate]:
        values = self.per_input()[name][:, which]
        return [bounded_mean(shares[~shares.isnan()].clamp(0, 1), 0.0, 1.0, level) for shares in values]

    def to_frame(self) -> "pl.DataFrame":
        """One row per attribution, input and feature that is a reason or left out, as a polars data frame.

        Columns: ``attribution``, ``input``, ``place`` (1 for the first reason, null for what is left out), ``feature``,
        ``effect`` (how far the score falls without it), ``false``, ``omitted``.
        """
        import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

        top, false, omitted = (self._values[name].numpy() for name in ("top", "false", "omitted"))
        effects = np.asarray(self.effects)
        rows = []
        for which, label in enumerate(self.labels):
            for row in range(top.shape[1]):
                reasons = [(place, feature) for place, feature in enumerate(top[which, row].tolist()) if feature >= 0]
                lines: list[tuple[int | None, int, bool, bool]]
                lines = [(place + 1, feature, bool(false[which, row, place]), False) for place, feature in reasons]
                lines += [(None, feature, False, True) for feature in np.flatnonzero(omitted[which, row]).tolist()]
                for place, feature, wrong, missing in lines:
                    effect = float(effects[row, feature])
                    rows.append((label, row, place, self.feature_name(feature), effect, wrong, missing))
        schema = {"attribution": pl.String, "input": pl.Int64, "place": pl.Int64, "feature": pl.String}
        schema |= {"effect": pl.Float64, "false": pl.Boolean, "omitted": pl.Boolean}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def feature_name(self, feature: int) -> str:
        """The name of a feature, or its number where it has none."""
        return str(feature) if self.names is None else self.names[feature]

    def table(self, by: Any = None, *, level: float = LEVEL) -> TextTable:
        """Totals with their intervals: a line per attribution, and per segment where there are some.

        Args:
            by: One label per input: a line for each segment as well.
            level: Coverage of the intervals.
        """
        checked_level(level)
        segments: dict[str, Any] = {"": slice(None)}
        if by is not None:
            named = np.asarray(by)
            if named.shape != (self._inputs,):
                raise ValueError(f"by: expected one label for each of {self._inputs} inputs, got shape {named.shape}.")
            segments |= {str(segment): torch.from_numpy(named == segment) for segment in np.unique(named)}
        rows = [
            (
                label + (f", {segment}" if segment else ""),
                *(str(self._means(name, level, rows)[which]) for name in TOTALS),
            )
            for which, label in enumerate(self.labels)
            for segment, rows in segments.items()
        ]
        inputs = counted(self._inputs, "input")
        caption = f"Top {self.k} features that {_WORDS[self.direction]} the {self.score}, means over {inputs} with "
        caption += f"{100 * level:.4g} % intervals; {cost(self.rows, self.cost.seconds)}"
        about = fact_line(self.facts)
        return TextTable(("attribution", *TOTALS), first_rows(rows), caption, self._notes(), about=about)

    @property
    def _inputs(self) -> int:
        return self._values["top"].shape[1]

    def _notes(self) -> tuple[str, ...]:
        """What the totals mean, and what they are of where it is not all inputs."""
        known = int((~self._values["share"].isnan()).any(0).sum())
        over = []  # the mean of each known kind, for each attribution
        for kind in KINDS:
            values = self._values[f"stability over {kind}"]
            means = [f"{float(value.nanmean()):.3g}" for value in values if not bool(value.isnan().all())]
            over += [f"{kind} {', '.join(means)}"] if means else []
        return (
            "false: reasons without which the score does not move as the explanation says; omitted: of the "
            f"{self.k} features that move it most, those that are not named",
            f"share: of the effect of the best {self.k} features, {'found' if self.exact else 'sought'} for "
            f"{counted(known, 'input')}{'' if self.exact else ', so that shares are at most these'}",
            f"stability: the part of the top {self.k} that stays, over {'; '.join(over) or 'nothing'}",
        )

    _table = table  # what is shown


def reasons(
    problem: Problem,
    attributions: Any,
    k: int = 4,
    *,
    direction: Direction = "either",
    tolerance: float = 0.0,
    repeats: int = 4,
    rows: int = ROWS,
    seed: int = 0,
) -> Reasons:
    """Ask whether the k reasons that an explanation names for each input are those that counted.

    A reason is a feature with one of the k largest attributions, as an adverse action notice of US credit rules names
    them. It is *false* if the score does not move as its sign says when it is removed. A feature is *omitted* if it
    moves the score more than a reason and is not named. The *share* is the reasons' joint effect over that of the best
    k features. *Stability* is the part of the reasons that stays with other seeds of the method, with other draws of
    the background, and for the nearest other input with the same score.

    Effects are changes of the log-odds, which move as the probability does and are not compressed near 0 and 1; of the
    probability where the problem explains that (``explained="probability"``), and of a regressor's value. Attributions
    must be contributions, such as Shapley values or Integrated Gradients; multiply slopes by ``inputs - baselines``.

    Args:
        problem: The model, the rows and what removed features become.
        attributions: As in ``verax.evaluate``. Methods are computed; only they can be computed again with other
            seeds and backgrounds.
        k: Reasons to name.
        direction: ``"either"``: the largest attributions of both signs. ``"raises"`` and ``"lowers"``: reasons that the
            tracked score is as high, or as low, as it is. Why was it refused? Track the class that refuses
            (``target="bad"``) and ask for what raises it.
        tolerance: A change of the score that counts as none, beside rounding.
        repeats: Other seeds, and other draws of the background, that are tried; 0 for none.
        rows: Model rows to spend on finding the best k features, 0 for none: of all subsets where the rows allow it,
            for as many inputs as they allow, drawn at random; by a search where they allow no more than a few.
        seed: Of draws of the background.

    Example:
        An exact explanation of a linear model has no false and no omitted reason.

        >>> import torch, verax
        >>> _ = torch.manual_seed(0)
        >>> model, x = torch.nn.Linear(8, 2), torch.randn(50, 8)
        >>> problem = verax.Problem(model, x, target=1)
        >>> exact = x * (model.weight[1] - model.weight[0]).detach()
        >>> found = verax.reasons(problem, {"exact": exact, "opposite": -exact})
        >>> bool(found.false["exact"].any()), bool(found.omitted["exact"].any()), found.false["opposite"].float().mean()
        (False, False, tensor(1.))
        >>> print(found.totals()["false"]["exact"])
        0.000 [0.000, 0.071]
    """
    checked_choice("direction", direction, get_args(Direction))
    k, tolerance = checked_count("k", k), checked_not_negative("tolerance", tolerance)
    checked_count("repeats", repeats, least=0)
    checked_count("rows", rows, least=0)
    checked_seed(seed)
    call, top, sign = named_reasons(problem, attributions, k, direction)
    problem, layout = call.rated.problem, call.rated.layout
    meter = Meter(problem.scorer.counts)
    effects = removals(problem, top, sign, (direction != "lowers", direction != "raises"), rows)
    judgement = judged(effects, top, sign, direction, tolerance)
    listed = attributions.items() if isinstance(attributions, Mapping) else ()
    methods = {name: attribution for name, attribution in listed if isinstance(attribution, Attribution)}

    def top_of(changed: Problem, methods: Mapping[str, Attribution]) -> dict[str, Int[Tensor, "n k"]]:
        return dict(zip(methods, named_reasons(changed, methods, k, direction)[1], strict=True))

    names = layout.names or tuple(f"attribution {place}" for place in range(len(top)))
    over = agreement(problem, dict(zip(names, top, strict=True)), methods, top_of, repeats, seed)
    judgement |= {f"stability over {kind}": values for kind, values in over.items()}
    judgement["stability"] = torch.stack(list(over.values())).nanmean(0)
    places = problem.order.places if isinstance(problem.features, Grid) else None
    judgement, single, feature_names = _as_given(judgement, effects.single, problem.names, places)
    scale = "value" if problem.scorer.adapter.returns == "values" else effects_scale(problem).replace("_", "-")
    return Reasons(
        k=k,
        direction=direction,
        score=scale,
        exact=effects.exact,
        labels=names if len(names) > 1 or layout.names else ("attribution",),
        names=feature_names,
        effects=single.numpy() if layout.kind == "numpy" else single,
        stability_over={kind: layout.pack(judgement[f"stability over {kind}"]) for kind in KINDS},
        cost=call.spent + meter.total(),
        facts=problem_facts(problem),
        _layout=layout,
        _values=judgement,
    )


def named_reasons(
    problem: Problem, attributions: Any, k: int, direction: Direction
) -> tuple[Call, Int[Tensor, "a n k"], Float[Tensor, "a n features"]]:
    """Attributions, computed where they are methods, the features that they name, and the sign of each attribution."""
    call = prepared(problem, attributions, ("pc",), lambda call: None)  # metrics have no part in it
    rated = call.rated
    stacked = torch.stack([attribution.double().cpu() for attribution in rated.attributions])
    return call, *named_features(rated.features.reduce(stacked, slice(0, len(rated))).double(), k, direction)


def named_features(
    values: Float[Tensor, "k n features"], k: int, direction: Direction
) -> tuple[Int[Tensor, "k n {k}"], Float[Tensor, "k n features"]]:
    """The k features with the largest attributions in a direction, of equal ones the first, and the signs of all."""
    strength = {"either": values.abs(), "raises": values, "lowers": -values}[direction]
    order = strength.argsort(dim=-1, descending=True, stable=True)[..., :k]
    top = order.masked_fill(strength.gather(-1, order) <= 0, -1)
    missing = top.new_full((*top.shape[:-1], k - top.shape[-1]), -1)
    return torch.cat((top, missing), dim=-1), values.sign()


def _as_given(
    values: dict[str, Tensor],
    single: Float[Tensor, "n features"],
    names: tuple[str, ...] | None,
    places: tuple[int, ...] | None,
) -> tuple[dict[str, Tensor], Float[Tensor, "n features"], tuple[str, ...] | None]:
    """Features by their numbers in the user's data frame, whose columns the model may have in another order."""
    if places is None:
        return values, single, names
    column = torch.tensor(places)
    back = column.argsort()
    top = values["top"]
    changed = {"top": column[top.clamp(min=0)].masked_fill(top < 0, -1), "omitted": values["omitted"][..., back]}
    return values | changed, single[:, back], None if names is None else tuple(names[place] for place in back.tolist())
