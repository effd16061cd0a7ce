"""The models' figures and claims 12 to 16: uncertainty, cost, determinism."""

from collections.abc import Mapping

import polars as pl

from verax.analysis.costs import by_metric, crossover, together
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, decided
from verax.analysis.paper import DRAWS, PAPER, SPEED_UP_MEAN
from verax.analysis.tables import Tables
from verax.analysis.uncertainty import curves, overlaps

AUROC_TOLERANCE, ACCURACY_TOLERANCE = 0.01, 0.02
NARROW = 0.1
TIMED = ("timing/infidelity", "timing/dpc")  # units of the costs table: one attribution at a time, nothing shared


def auroc(evidence: Evidence) -> Answer:
    """The model's AUROC on the test split is within 1 percentage point of the paper's."""
    return _figure(evidence, "auroc", PAPER[evidence.info.name].auroc, AUROC_TOLERANCE)


def accuracy(evidence: Evidence) -> Answer:
    """The model's accuracy on the test split is within 2 percentage points of the paper's."""
    return _figure(evidence, "accuracy", PAPER[evidence.info.name].accuracy, ACCURACY_TOLERANCE)


def narrow_band(evidence: Evidence) -> Answer:
    """Claim 12: the middle half of the configurations' Infidelity values spans at most 10 % of their median."""
    table = evidence.configurations.filter(pl.col("infidelity").is_not_null())
    if table.is_empty():
        raise NotMeasuredError("The study has no values of infidelity.")
    low, middle, high = (table.select(pl.col("infidelity").quantile(q, "linear")).item() for q in (0.25, 0.5, 0.75))
    error = table.select(pl.col("infidelity_mc_error").median()).item()
    spread = (high - low) / middle if middle else 0.0
    noise = f"; Monte-Carlo error of one mean {error / middle:.2%}" if error is not None and middle else ""
    return Answer(f"middle half spans {spread:.1%} of the median {middle:.3g}{noise}", decided(spread <= NARROW))


def methods_overlap(evidence: Evidence) -> Answer:
    """Claim 12: at 20 to 640 draws the bands of at least half of the pairs of methods overlap."""
    table = evidence.tables.uncertainty.filter(
        pl.col("model") == evidence.info.name, pl.col("draws").is_between(20, DRAWS)
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


def rows_per_attribution(evidence: Evidence) -> Answer:
    """Claim 13: for one attribution alone Infidelity needs at least 16 times the rows of DPC."""
    found = crossover(evidence.setting("steps"), _draws(evidence), evidence.info.features)
    ours = f"{found.draws} against {found.guided_rows} rows: {found.ratio:.3g}x"
    note = f"If all attributions of an input share the draws, Infidelity is the cheaper from {found.attributions} on."
    measured = _measured(evidence, "rows")
    if measured is not None:
        infidelity, guided = measured
        note += f" Measured so, per attribution: {infidelity:.3g} rows, PC and all readings of DPC {guided:.3g}."
    return Answer(ours, decided(found.ratio >= 16), note)


def wall_clock(evidence: Evidence) -> Answer:
    """Claim 14: Infidelity takes at least half as many times as long as DPC as in the paper, 4.15."""
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


def no_further_rows(evidence: Evidence) -> Answer:
    """Claim 15: PC and DPC, in the reading that all other claims use, need no more rows than DPC alone."""
    steps, features = evidence.setting("steps"), evidence.info.features
    alone = crossover(steps, DRAWS, features).guided_rows
    both, signed = together(steps, features), together(steps, features, signed=True)
    note = f"PC ranks by sign, DPC by magnitude. With DPC ranked by sign as well both need {signed}."
    return Answer(f"DPC alone {alone} rows, with PC {both}", decided(both <= alone), note)


def two_infidelity_runs(evidence: Evidence) -> Answer:
    """Claim 15: two Infidelity runs need at least 10 times the rows of PC and DPC, half of the paper's 20."""
    steps, features, draws = evidence.setting("steps"), evidence.info.features, _draws(evidence)
    both, signed = together(steps, features), together(steps, features, signed=True)
    note = f"{2 * draws / signed:.3g}x with DPC ranked by sign. In rows of one attribution alone, not in seconds."
    return Answer(f"{2 * draws} against {both} rows: {2 * draws / both:.3g}x", decided(2 * draws / both >= 10), note)


def deterministic(tables: Tables) -> Answer:
    """Claim 16: a recomputation of stored scores gave the same bits."""
    found = tables.settings.get("verified")
    if found is None:
        raise NotMeasuredError("The study was not verified: `verax verify` recomputes a sample of it.")
    if not isinstance(found, Mapping):
        return Answer("recomputed: " + ("equal bit for bit" if found else "different"), decided(bool(found)))
    different, compared = found["different"], found["compared"]
    return Answer(f"{different} of {compared} recomputed scores differ", decided(different == 0))


def _figure(evidence: Evidence, name: str, paper: float, tolerance: float) -> Answer:
    value = evidence.info.metrics.get("test", {}).get(name)
    if value is None:
        raise NotMeasuredError(f"The model's {name} on the test split is not known.")
    fewer = "Trained and tested on fewer images than the paper's 77,227." if evidence.info.dataset == "isic" else ""
    note = f"{100 * (value - paper):+.2f} percentage points. {fewer}".strip()
    return Answer(f"{value:.2%}", decided(round(abs(value - paper), 6) <= tolerance), note)


def _draws(evidence: Evidence) -> int:
    draws = evidence.setting("samples")
    if draws < DRAWS:
        raise NotMeasuredError(f"The study takes {draws} draws, fewer than the paper's {DRAWS}.")
    return draws


def _measured(evidence: Evidence, what: str) -> tuple[float, float] | None:
    """What one attribution cost under Infidelity and under PC with DPC, or None where one of them was not run."""
    table = by_metric(evidence.configurations)
    infidelity, guided = (
        float(table.filter(pl.col("kind") == kind)[f"{what}_per_attribution"].sum())
        for kind in ("infidelity", "guided")
    )
    return (infidelity, guided) if infidelity > 0 and guided > 0 else None


def _ends(table: pl.DataFrame) -> list[dict[str, int]]:
    rows = table.select("draws", "overlapping", "pairs").rows(named=True)
    return [rows[0], rows[-1]] if len(rows) > 1 else rows
