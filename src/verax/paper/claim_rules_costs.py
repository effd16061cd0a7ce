"""The models' figures and claims 12 to 16: uncertainty, cost, determinism."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import polars as pl

from verax.paper.evidence import INTERVAL, Answer, Evidence, NotMeasuredError, Question, Questions, decided, judged
from verax.paper.published import (
    DRAWS,
    PAPER,
    PAPER_DPC,
    PAPER_INFIDELITY,
    PAPER_PC,
    PAPER_READING,
    SPEED_UP_BOTH,
    SPEED_UP_MEAN,
    SPEED_UP_MEDIAN,
)
from verax.statistics.intervals import Estimate
from verax.study.summary import by_kind, crossover, curves, overlaps, together
from verax.study.tables import Floats, interval

NARROW = 0.1
INFIDELITY = "Infidelity"  # the cases of a runtime table
DPC = "DPC"
BOTH_INFIDELITIES = "Infidelity, local and baseline"
_RESAMPLES = 1000
_LESIONS = (3, 224, 224)

QUESTIONS = Questions()


@dataclass(frozen=True)
class Runtime:
    """What was timed, by the name of each case."""

    subject: str  # the model and the data; the paper's name where it is the paper's question
    device: str  # on which it ran
    inputs: int  # how many, in each run
    rows: Mapping[str, int]  # model rows of a run, by case
    seconds: Mapping[str, Sequence[float]]  # of each run, by case; the cases took turns

    def speed_up(self, slow: str, fast: str) -> tuple[Estimate, Estimate]:
        """How many times faster one case is than another, by mean and by median, with intervals over rounds."""
        times = np.array([self.seconds[slow], self.seconds[fast]])
        rounds = np.random.default_rng(0).integers(times.shape[1], size=(_RESAMPLES, times.shape[1]))
        drawn = times[:, rounds]
        by_mean, by_median = (
            interval(np.divide(*figure(times, -1)), np.divide(*figure(drawn, -1))) for figure in (np.mean, np.median)
        )
        return by_mean, by_median

    def spread(self, case: str) -> str:
        """Mean, median and standard deviation of a case, as in the paper's table."""
        times = self.seconds[case]
        return f"{case} {mean(times):.3g} / {median(times):.3g} ± {stdev(times):.2g} s"


def runtime_from(content: Any, name: str) -> Runtime:
    """The runtime table that a file holds."""
    try:
        shape, rows, seconds = content["shape"], content["rows"], content["seconds"]
        lengths = {len(seconds[case]) for case in (INFIDELITY, DPC, BOTH_INFIDELITIES)}
        subject = content.get("model")
        if not subject:
            sides = tuple(shape[1:])
            words = f"a table of {sides[0]} features" if len(sides) == 1 else f"images of {' x '.join(map(str, sides))}"
            subject = "ISIC-Inception" if sides == _LESIONS else words
        table = Runtime(str(subject), str(content["device"]), int(shape[0]), rows, seconds)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{name}: expected a table of benchmarks/runtime_table.py, with shape, rows, seconds and device, "
            f"got something else ({error!r})."
        ) from None
    if len(lengths) > 1 or min(lengths) < 2:
        raise ValueError(f"{name}: expected at least two runs of each case and as many of each, got {sorted(lengths)}.")
    return table


def read_runtime(path: Path) -> Runtime:
    """The runtime table of a file of ``benchmarks/runtime_table.py``."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error}).") from None
    return runtime_from(content, str(path))


def _figure(evidence: Evidence, *, name: str, tolerance: float) -> Answer:
    paper = getattr(PAPER[evidence.info.name], name)
    value = evidence.info.metrics.get("test", {}).get(name)
    if value is None:
        raise NotMeasuredError(f"The model's {name} on the test split is not known.")
    fewer = "Trained and tested on fewer images than the paper's 77,227." if evidence.info.dataset == "isic" else ""
    note = f"{100 * (value - paper):+.2f} percentage points. {fewer}".strip()
    return Answer(f"{value:.2%}", decided(round(abs(value - paper), 6) <= tolerance), note)


_FIGURES = (("auroc", "AUROC", 0.01, "1 percentage point"), ("accuracy", "Accuracy", 0.02, "2 percentage points"))
for _name, _label, _tolerance, _points in _FIGURES:
    _rule, _ask = f"Within {_points} of the paper's.", partial(_figure, name=_name, tolerance=_tolerance)
    _published = partial(lambda model, name: f"{getattr(model, name):.2%}", name=_name)
    QUESTIONS.append(Question(0, f"{_label} on the test split", _rule, _ask, _published, only=tuple(PAPER)))


@QUESTIONS.decided_by(
    12,
    "Most Infidelity values lie in a narrow band",
    "The middle half of the configurations' means spans at most 10 % of their median, and so at both ends of "
    f"{INTERVAL}; it reaches across: cannot be told.",
    reads=(PAPER_INFIDELITY,),
)
def _narrow_band(evidence: Evidence) -> Answer:
    sample = evidence.sample(PAPER_INFIDELITY)

    def spread(means: Floats) -> Any:
        low, middle, high = np.quantile(means, (0.25, 0.5, 0.75), axis=-1)
        return np.divide(high - low, np.abs(middle), out=np.zeros_like(high), where=middle != 0)

    band, middle = sample.estimate(spread), float(np.median(sample.means))
    error = evidence.configurations.select(pl.col(f"{PAPER_INFIDELITY}_mc_error").median()).item()
    noise = f"; Monte-Carlo error of one mean {error / abs(middle):.2%}" if error is not None and middle else ""
    ours = f"middle half spans {band:.1%} of the median {middle:.3g}{noise}"
    return Answer(ours, judged(band.high <= NARROW, band.low > NARROW))


@QUESTIONS.decided_by(
    12,
    "Infidelity's Monte-Carlo deviation makes methods hard to tell apart at 20 to 640 draws",
    "At every number of draws from 20 to 640 at least half of the pairs of methods overlap: the bands of one standard "
    "deviation over resamples of draws around their means over inputs touch. Where draws are resampled without "
    "replacement, the whole pool is left out, of which the deviation is 0 by construction.",
)
def _methods_overlap(evidence: Evidence) -> Answer:
    pool = evidence.tables.settings.get("resampling", {"samples": DRAWS, "with_replacement": False})
    most = DRAWS if pool["with_replacement"] else min(DRAWS, pool["samples"] - 1)
    table = evidence.tables.uncertainty.filter(
        pl.col("model") == evidence.info.name, pl.col("draws").is_between(20, most)
    )
    by_method = curves(table)
    means, single = overlaps(by_method).sort("draws"), overlaps(by_method, "per_input_resampled").sort("draws")
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
    evidence.require(PAPER_DPC, PAPER_INFIDELITY)
    counts = crossover(evidence.setting("steps"), _draws(evidence), evidence.info.features)
    ours = f"{counts.draws} against {counts.guided_rows} rows: {counts.ratio:.3g}x"
    note = f"If all attributions of an input share the draws, Infidelity is the cheaper from {counts.attributions} on."
    table = by_kind(evidence.configurations)
    infidelity, guided = (
        float(table.filter(pl.col("kind") == kind)["rows_per_attribution"].sum()) for kind in ("sampled", "guided")
    )
    if infidelity > 0 and guided > 0:
        note += f" Measured so, per attribution: {infidelity:.3g} rows, PC and all readings of DPC {guided:.3g}."
    return Answer(ours, decided(counts.ratio >= 16), note)


_NO_RUNTIMES = "python benchmarks/runtime_table.py measures it; give its file with --runtime."
_RUNS = "the 95 % bootstrap interval over runs"


@QUESTIONS.decided_by(
    14,
    "Wall clock of one attribution, Infidelity against DPC",
    f"DPC is at least half as many times faster as in the paper, by mean and by median, and so is {_RUNS}; one of "
    "the intervals reaches across: cannot be told. Seconds themselves are another machine's.",
    paper=f"{SPEED_UP_MEAN:.2f}x mean, {SPEED_UP_MEDIAN:.2f}x median",
    about="runtimes",
)
def _wall_clock(runtime: Runtime | None) -> Answer:
    if runtime is None:
        raise NotMeasuredError(_NO_RUNTIMES)
    by_mean, by_median = runtime.speed_up(INFIDELITY, DPC)
    bounds = ((by_mean, SPEED_UP_MEAN / 2), (by_median, SPEED_UP_MEDIAN / 2))
    verdict = judged(all(gain.low >= bound for gain, bound in bounds), any(gain.high < bound for gain, bound in bounds))
    return Answer(f"{by_mean:.3g}x mean, {by_median:.3g}x median", verdict, _timed(runtime, INFIDELITY, DPC))


@QUESTIONS.decided_by(
    14,
    "Value of that speed-up",
    f"The paper's mean and median each lie in {_RUNS}. Asked of the paper's own question alone, lesions and Inception.",
    paper=f"{SPEED_UP_MEAN:.2f}x mean, {SPEED_UP_MEDIAN:.2f}x median",
    only=("ISIC-Inception",),
    about="runtimes",
)
def _wall_clock_value(runtime: Runtime | None) -> Answer:
    if runtime is None:
        raise NotMeasuredError(_NO_RUNTIMES)
    by_mean, by_median = runtime.speed_up(INFIDELITY, DPC)
    values = ((by_mean, SPEED_UP_MEAN), (by_median, SPEED_UP_MEDIAN))
    holds = all(gain.low <= value <= gain.high for gain, value in values)
    return Answer(f"{by_mean:.3g}x mean, {by_median:.3g}x median", decided(holds), _timed(runtime, INFIDELITY, DPC))


def _timed(runtime: Runtime, *cases: str) -> str:
    """What a speed-up was measured on, with mean, median and standard deviation of each case."""
    spreads = ", ".join(runtime.spread(case) for case in cases)
    rows = " against ".join(f"{runtime.rows[case] / runtime.inputs:,.0f}" for case in cases)
    runs = len(runtime.seconds[cases[0]])
    return f"{runs} runs over {runtime.inputs:,} inputs on {runtime.device}: {spreads}; {rows} rows per input."


@QUESTIONS.decided_by(
    15,
    "PC and DPC together need no further evaluations",
    f"PC and DPC (order {PAPER_READING.order!r}, the reading of all other claims) need no more rows than DPC alone.",
    paper="text",
)
def _no_further_rows(evidence: Evidence) -> Answer:
    evidence.require(PAPER_PC, PAPER_DPC)
    steps, features = evidence.setting("steps"), evidence.info.features
    alone = crossover(steps, DRAWS, features).guided_rows
    both = together(steps, features, signed=PAPER_READING.shares_pc)
    note = f"Both need {together(steps, features, signed=not PAPER_READING.shares_pc)} with DPC ranked {_otherwise()}."
    return Answer(f"DPC alone {alone} rows, with PC {both}", decided(both <= alone), note)


@QUESTIONS.decided_by(
    15,
    "PC and DPC together against two Infidelity runs",
    "Two Infidelity runs need at least 10 times the rows, half of the paper's 20.",
    paper="about 20x",
)
def _two_infidelity_runs(evidence: Evidence) -> Answer:
    evidence.require(PAPER_PC, PAPER_DPC, PAPER_INFIDELITY)
    steps, features, draws = evidence.setting("steps"), evidence.info.features, _draws(evidence)
    both = together(steps, features, signed=PAPER_READING.shares_pc)
    otherwise = 2 * draws / together(steps, features, signed=not PAPER_READING.shares_pc)
    note = f"{otherwise:.3g}x with DPC ranked {_otherwise()}. In rows of one attribution alone, not in seconds."
    return Answer(f"{2 * draws} against {both} rows: {2 * draws / both:.3g}x", decided(2 * draws / both >= 10), note)


def _otherwise() -> str:
    return "by magnitude" if PAPER_READING.shares_pc else "by sign, as for PC"


@QUESTIONS.decided_by(
    15,
    "Wall clock of PC and DPC together against two Infidelity runs",
    f"By median, PC and DPC together are at least half as many times faster as in the paper, and so is {_RUNS}; it "
    "reaches across: cannot be told.",
    paper=f"about {SPEED_UP_BOTH:.0f}x median",
    about="runtimes",
)
def _wall_clock_of_both(runtime: Runtime | None) -> Answer:
    if runtime is None or PAPER_READING.timed_as not in runtime.seconds:
        raise NotMeasuredError(_NO_RUNTIMES)
    cases = BOTH_INFIDELITIES, PAPER_READING.timed_as
    _, gain = runtime.speed_up(*cases)
    verdict = judged(gain.low >= SPEED_UP_BOTH / 2, gain.high < SPEED_UP_BOTH / 2)
    return Answer(f"{gain:.3g}x median", verdict, _timed(runtime, *cases))


@QUESTIONS.decided_by(
    16,
    "DPC is deterministic",
    "`verax verify` recomputed stored scores and found the same bits of DPC; cannot be told on another device or with "
    "other versions, where only nearly the same numbers are asked for.",
    paper="text",
    about="all models",
)
def _deterministic(evidences: Sequence[Evidence]) -> Answer:
    verdicts = {evidence.info.name: evidence.tables.settings.get("verified") for evidence in evidences}
    verified = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    if not verified:
        raise NotMeasuredError("The study was not verified: `verax verify` recomputes a sample of it.")
    studies = {id(verdict): verdict for verdict in verified.values()}.values()
    different = [line for study in studies for line in study["different"] if f": {PAPER_DPC}: " in line]
    compared, bitwise = sum(study["compared"] for study in studies), all(study["bitwise"] for study in studies)
    how = "bit for bit" if bitwise else "within a tolerance"
    rest = [name for name in verdicts if name not in verified]
    note = f"Not verified: {', '.join(rest)}." if rest else ""
    ours = f"{compared:,} scores recomputed, compared {how}: DPC differs in {len(different)} units"
    return Answer(ours, judged(bitwise and not different, bool(different)), note)


def _draws(evidence: Evidence) -> int:
    draws = evidence.setting("samples")
    if draws < DRAWS:
        raise NotMeasuredError(f"The study takes {draws} draws, fewer than the paper's {DRAWS}.")
    return draws


def _ends(table: pl.DataFrame) -> list[dict[str, int]]:
    rows = table.select("draws", "overlapping", "pairs").rows(named=True)
    return [rows[0], rows[-1]] if len(rows) > 1 else rows
