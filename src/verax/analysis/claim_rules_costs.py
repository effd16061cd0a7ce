"""The models' figures and claims 12 to 16: uncertainty, cost, determinism."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import polars as pl

from verax.analysis.claim_questions import Question, Questions
from verax.analysis.costs import by_kind, crossover, together
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, decided
from verax.analysis.paper import DRAWS, PAPER, SPEED_UP_MEAN, SPEED_UP_MEDIAN
from verax.analysis.tables import Tables
from verax.analysis.uncertainty import curves, overlaps

NARROW = 0.1
TIMED = ("timing/infidelity", "timing/dpc")  # units of the costs table: one attribution at a time, nothing shared

QUESTIONS = Questions()


def _figure(evidence: Evidence, *, name: str, tolerance: float) -> Answer:
    paper = getattr(PAPER[evidence.info.name], name)
    value = evidence.info.metrics.get("test", {}).get(name)
    if value is None:
        raise NotMeasuredError(f"The model's {name} on the test split is not known.")
    fewer = "Trained and tested on fewer images than the paper's 77,227." if evidence.info.dataset == "isic" else ""
    note = f"{100 * (value - paper):+.2f} percentage points. {fewer}".strip()
    return Answer(f"{value:.2%}", decided(round(abs(value - paper), 6) <= tolerance), note)


QUESTIONS += [
    Question(
        0,
        "AUROC on the test split",
        "Within 1 percentage point of the paper's.",
        partial(_figure, name="auroc", tolerance=0.01),
        paper=lambda model: f"{model.auroc:.2%}",
        only=tuple(PAPER),
    ),
    Question(
        0,
        "Accuracy on the test split",
        "Within 2 percentage points of the paper's.",
        partial(_figure, name="accuracy", tolerance=0.02),
        paper=lambda model: f"{model.accuracy:.2%}",
        only=tuple(PAPER),
    ),
]


@QUESTIONS.decided_by(
    12,
    "Most Infidelity values lie in a narrow band",
    "The middle half of the configurations' means spans at most 10 % of their median.",
    reads=("infidelity",),
)
def _narrow_band(evidence: Evidence) -> Answer:
    evidence.require("infidelity")
    table = evidence.configurations.filter(pl.col("infidelity").is_not_null())
    if table.is_empty():
        raise NotMeasuredError("The study has no values of infidelity.")
    low, middle, high = (table.select(pl.col("infidelity").quantile(q, "linear")).item() for q in (0.25, 0.5, 0.75))
    error = table.select(pl.col("infidelity_mc_error").median()).item()
    spread = (high - low) / abs(middle) if middle else 0.0
    noise = f"; Monte-Carlo error of one mean {error / abs(middle):.2%}" if error is not None and middle else ""
    return Answer(f"middle half spans {spread:.1%} of the median {middle:.3g}{noise}", decided(spread <= NARROW))


@QUESTIONS.decided_by(
    12,
    "Infidelity's Monte-Carlo deviation makes methods hard to tell apart at 20 to 640 draws",
    "At every number of draws from 20 to below 640 at least half of the pairs of methods overlap: the bands of one "
    "standard deviation over resamples of draws around their means over inputs touch. (Of 640 draws out of 640, drawn "
    "without replacement, the deviation is 0 by construction.)",
)
def _methods_overlap(evidence: Evidence) -> Answer:
    table = evidence.tables.uncertainty.filter(
        pl.col("model") == evidence.info.name, pl.col("draws").is_between(20, DRAWS, closed="left")
    )
    found = curves(table)
    means, single = overlaps(found).sort("draws"), overlaps(found, "per_input_resampled").sort("draws")
    if means.is_empty() or means["pairs"].min() == 0:
        raise NotMeasuredError("The study did not measure Infidelity's uncertainty for two methods of this model.")
    ends = [f"{row['overlapping']} of {row['pairs']} pairs at {row['draws']} draws" for row in _ends(means)]
    alone = [f"{row['overlapping']} of {row['pairs']}" for row in _ends(single)]
    holds = means.select((pl.col("share") >= 0.5).all()).item()
    note = f"Judged by a single input instead of the mean over inputs: {', '.join(alone)}."
    return Answer(", ".join(ends) + " overlap", decided(holds), note)


@QUESTIONS.decided_by(
    13,
    "Model evaluations per attribution, Infidelity against DPC",
    "For one attribution alone Infidelity, with the paper's 640 draws or more, needs at least 16 times the rows.",
    paper="640 against 40: 16x",
)
def _rows_per_attribution(evidence: Evidence) -> Answer:
    evidence.require("dpc_magnitude", "infidelity")
    found = crossover(evidence.setting("steps"), _draws(evidence), evidence.info.features)
    ours = f"{found.draws} against {found.guided_rows} rows: {found.ratio:.3g}x"
    note = f"If all attributions of an input share the draws, Infidelity is the cheaper from {found.attributions} on."
    measured = _measured(evidence, "rows")
    if measured is not None:
        infidelity, guided = measured
        note += f" Measured so, per attribution: {infidelity:.3g} rows, PC and all readings of DPC {guided:.3g}."
    return Answer(ours, decided(found.ratio >= 16), note)


@QUESTIONS.decided_by(
    14,
    "Wall clock, Infidelity against DPC",
    "The ratio of seconds is at least half of the paper's mean ratio; seconds themselves are another machine's.",
    paper=f"{SPEED_UP_MEAN:.2f}x mean, {SPEED_UP_MEDIAN:.2f}x median",
    only=("ISIC-Inception",),
)
def _wall_clock(evidence: Evidence) -> Answer:
    evidence.require("dpc_magnitude", "infidelity")
    timed = evidence.tables.costs.filter(pl.col("model") == evidence.info.name, pl.col("unit").is_in(TIMED))
    seconds = [timed.filter(pl.col("unit") == unit).select(pl.col("seconds").mean()).item() for unit in TIMED]
    note = "One attribution at a time; another machine than the paper's, so only the ratio is compared."
    if None in seconds:
        measured = _measured(evidence, "seconds")
        if measured is None:
            raise NotMeasuredError("The study did not time both metrics.")
        seconds = list(measured)
        note = "Per attribution, Infidelity's draws shared by all attributions of an input, PC and DPC together."
    infidelity, guided = seconds
    ours = f"Infidelity {infidelity:.3g} s, DPC {guided:.3g} s: {infidelity / guided:.3g}x"
    return Answer(ours, decided(infidelity / guided >= SPEED_UP_MEAN / 2), note)


@QUESTIONS.decided_by(
    15,
    "PC and DPC together need no further evaluations",
    "PC and DPC (ranked by magnitude, the reading of all other claims) need no more rows than DPC alone.",
    paper="text",
)
def _no_further_rows(evidence: Evidence) -> Answer:
    evidence.require("pc", "dpc_magnitude")
    steps, features = evidence.setting("steps"), evidence.info.features
    alone = crossover(steps, DRAWS, features).guided_rows
    both, signed = together(steps, features), together(steps, features, signed=True)
    note = f"PC ranks by sign, DPC by magnitude. With DPC ranked by sign as well both need {signed}."
    return Answer(f"DPC alone {alone} rows, with PC {both}", decided(both <= alone), note)


@QUESTIONS.decided_by(
    15,
    "PC and DPC together against two Infidelity runs",
    "Two Infidelity runs need at least 10 times the rows, half of the paper's 20.",
    paper="about 20x",
)
def _two_infidelity_runs(evidence: Evidence) -> Answer:
    evidence.require("pc", "dpc_magnitude", "infidelity")
    steps, features, draws = evidence.setting("steps"), evidence.info.features, _draws(evidence)
    both, signed = together(steps, features), together(steps, features, signed=True)
    note = f"{2 * draws / signed:.3g}x with DPC ranked by sign. In rows of one attribution alone, not in seconds."
    return Answer(f"{2 * draws} against {both} rows: {2 * draws / both:.3g}x", decided(2 * draws / both >= 10), note)


@QUESTIONS.decided_by(
    16,
    "DPC is deterministic",
    "`verax verify` recomputed stored scores and found the same bits.",
    paper="text",
    whole_study=True,
)
def _deterministic(tables: Tables, *_: Any) -> Answer:
    found = tables.settings.get("verified")
    if found is None:
        raise NotMeasuredError("The study was not verified: `verax verify` recomputes a sample of it.")
    if not isinstance(found, Mapping):
        return Answer("recomputed: " + ("equal bit for bit" if found else "different"), decided(bool(found)))
    different, compared = found["different"], found["compared"]
    return Answer(f"{different} of {compared} recomputed scores differ", decided(different == 0))


def _draws(evidence: Evidence) -> int:
    draws = evidence.setting("samples")
    if draws < DRAWS:
        raise NotMeasuredError(f"The study takes {draws} draws, fewer than the paper's {DRAWS}.")
    return draws


def _measured(evidence: Evidence, what: str) -> tuple[float, float] | None:
    """What one attribution cost under Infidelity and under PC with DPC, or None where one of them was not run."""
    table = by_kind(evidence.configurations)
    infidelity, guided = (
        float(table.filter(pl.col("kind") == kind)[f"{what}_per_attribution"].sum()) for kind in ("sampled", "guided")
    )
    return (infidelity, guided) if infidelity > 0 and guided > 0 else None


def _ends(table: pl.DataFrame) -> list[dict[str, int]]:
    rows = table.select("draws", "overlapping", "pairs").rows(named=True)
    return [rows[0], rows[-1]] if len(rows) > 1 else rows
