"""Claims 7 to 11: do DPC and Infidelity agree, and how do they judge LIME's settings?"""

from functools import partial

import numpy as np
import polars as pl

from verax.analysis import canonical
from verax.analysis.agreement import Agreement, agreement
from verax.analysis.claim_questions import INTERVAL, Question, Questions
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, decided
from verax.analysis.matrices import Floats, common, interval
from verax.analysis.outliers import front, near_zero
from verax.analysis.paper import PAPER
from verax.display.methods import lime_methods
from verax.statistics.intervals import LEVEL

WEAK = 0.3  # correlations smaller than this count as little correlation
SMALL_SET = 0.05  # the paper's largest Pareto set is 2.9 % of its grid
LEAST_GRID = 100  # of fewer LIME configurations the best 5 % say nothing
LEAST_PARETO_GRID = 500  # Pareto sets grow slower than grids: their share of a thinned grid is not that of the paper's
TOP = 0.05
SET_RESAMPLES = 200

QUESTIONS = Questions()
BOTH = ("dpc_magnitude", "infidelity")


def _agreement(evidence: Evidence, *, lime: bool) -> tuple[Agreement, float | None]:
    """What was measured, and the paper's value."""
    published = PAPER.get(evidence.info.name)
    paper = (published.lime_spearman if lime else published.spearman) if published else None
    x, y = evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix
    measured = agreement(x, y, lime=lime, resamples=evidence.resamples, seed=evidence.seed)
    if not np.isfinite(measured.spearman.mean):
        raise NotMeasuredError("Fewer than two configurations to rank.")
    return measured, paper


def _sign_of_correlation(evidence: Evidence, *, lime: bool) -> Answer:
    measured, paper = _agreement(evidence, lime=lime)
    spearman, expected = measured.spearman, -1.0 if paper is None else paper
    if abs(expected) < WEAK:
        holds = max(abs(spearman.low), abs(spearman.high)) < WEAK
    else:
        holds = spearman.high < 0 if expected < 0 else spearman.low > 0
    return _correlated(measured, holds)


def _value_of_correlation(evidence: Evidence, *, lime: bool) -> Answer:
    measured, paper = _agreement(evidence, lime=lime)
    return _correlated(measured, paper is not None and measured.spearman.low <= paper <= measured.spearman.high)


def _correlated(measured: Agreement, holds: bool) -> Answer:
    ties = f"Tied with another: {measured.ties[0]} under DPC, {measured.ties[1]} under Infidelity."
    note = ties if max(measured.ties) else ""
    return Answer(f"{measured} over {measured.configurations}", decided(holds), note)


QUESTIONS += [
    Question(
        7,
        "DPC and local Infidelity agree, all methods but LIME: their Spearman correlation is negative",
        f"Negative, as in the paper, and so is {INTERVAL}.",
        partial(_sign_of_correlation, lime=False),
        paper=lambda model: f"{model.spearman:+.2f}",
        reads=BOTH,
    ),
    Question(
        7,
        "Value of that correlation",
        f"The paper's value lies in {INTERVAL}.",
        partial(_value_of_correlation, lime=False),
        paper=lambda model: f"{model.spearman:+.2f}",
        only=tuple(PAPER),
        reads=BOTH,
    ),
    Question(
        8,
        "Sign of the Spearman correlation of DPC with local Infidelity, LIME alone",
        f"The paper's sign, and {INTERVAL} does not reach 0; where the paper's value is below 0.3 in size, the "
        "interval lies within -0.3 and 0.3; for other models than the paper's, negative.",
        partial(_sign_of_correlation, lime=True),
        paper=lambda model: f"{model.lime_spearman:+.2f}",
        reads=BOTH,
    ),
    Question(
        8,
        "Value of that correlation for LIME",
        f"The paper's value lies in {INTERVAL}.",
        partial(_value_of_correlation, lime=True),
        paper=lambda model: f"{model.lime_spearman:+.2f}",
        only=tuple(PAPER),
        reads=BOTH,
    ),
]


@QUESTIONS.decided_by(
    9,
    "The Pareto set of DPC and Infidelity over the LIME grid is small",
    "At most 5 % of the grid (the paper's largest is 2.9 %); a grid of fewer than 500 configurations is too small.",
    paper=lambda model: f"{model.pareto} of {model.lime_configurations}",
    reads=BOTH,
)
def _pareto_set_small(evidence: Evidence) -> Answer:
    dpc, infidelity = common(evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix)
    lime = frozenset(lime_methods())
    keep = np.array([i for i, name in enumerate(dpc.configurations) if canonical.method(name) in lime], int)
    _need_grid(len(keep), LEAST_PARETO_GRID)
    good, bad = dpc.part(keep), infidelity.part(keep)
    size = int(front(good.values.mean(1), bad.values.mean(1)).sum())
    resamples = min(SET_RESAMPLES, evidence.resamples)
    draws = [metric.resampled(resamples, evidence.seed) for metric in (good, bad)]
    reach = interval(size, [front(a, b).sum() for a, b in zip(*draws, strict=True)])
    ours = f"{size} [{reach.low:.0f}, {reach.high:.0f}] of {len(keep)} ({size / len(keep):.1%})"
    return Answer(ours, decided(size <= SMALL_SET * len(keep)))


@QUESTIONS.decided_by(
    10,
    "LIME configurations with near-zero attributions are worst under Infidelity and near 0 under DPC",
    "Near zero: a mean norm below a tenth of the median of LIME's configurations. Of all pairs of one of them with one "
    "of the others, 90 % have the larger Infidelity in the one near zero; and half of them or more have at most a "
    "tenth of LIME's largest absolute DPC.",
    reads=BOTH,
)
def _near_zero_worst(evidence: Evidence) -> Answer:
    evidence.require("dpc_magnitude", "infidelity")
    lime = evidence.configurations.filter(pl.col("method").is_in(lime_methods()))
    if lime.filter(pl.col("dpc_magnitude").is_not_null(), pl.col("infidelity").is_not_null()).is_empty():
        raise NotMeasuredError("The study has no LIME configuration with both metrics.")
    found = near_zero(lime)
    if found.is_empty():
        _need_grid(lime.height)
        return Answer("none near zero", "not reproduced", "No LIME configuration has attributions near zero.")
    others = lime.filter(~pl.col("configuration").is_in(found["configuration"].implode()))
    worse = float((found["infidelity"].to_numpy()[:, None] > others["infidelity"].to_numpy()).mean())
    dpc = float(np.median(found["dpc_relative"].abs()))
    ours = f"{found.height} of {lime.height} near zero: worse under Infidelity in {worse:.0%} of pairs, |DPC| {dpc:.0%}"
    note = "Pairs of one near zero with another; |DPC|: their median, as a share of LIME's largest."
    return Answer(ours, decided(worse >= 0.9 and dpc <= 0.1), note)


@QUESTIONS.decided_by(
    11,
    "LIME with dataset-mean replacement scores high under Infidelity, with image-mean under DPC",
    "Of the best 5 % of LIME's configurations more than half replace by the dataset mean under Infidelity (low values "
    "are good) and by the image mean under DPC, each in 95 % of the resamples of inputs.",
    only=("ISIC-Linear",),
    reads=BOTH,
)
def _replacements_differ(evidence: Evidence) -> Answer:
    dpc, infidelity = common(evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix)
    keep = np.array([i for i, name in enumerate(dpc.configurations) if canonical.method(name) == "LimeImage"], int)
    _need_grid(len(keep))
    kinds = np.array([canonical.settings(dpc.configurations[i])["replacement"] for i in keep])
    losses = dpc.part(keep).negated(), infidelity.part(keep)
    by_dpc, by_infidelity = (_shares(kinds, metric.values.mean(1)) for metric in losses)
    drawn = [metric.resampled(evidence.resamples, evidence.seed) for metric in losses]
    image = np.mean([_shares(kinds, means)["image"] > 0.5 for means in drawn[0]])
    dataset = np.mean([_shares(kinds, means)["dataset"] > 0.5 for means in drawn[1]])
    ours = f"best 5 % by Infidelity: {_listed(by_infidelity)}; by DPC: {_listed(by_dpc)}"
    return Answer(ours, decided(bool(min(image, dataset) >= LEVEL)))


def _need_grid(count: int, least: int = LEAST_GRID) -> None:
    if count < least:
        raise NotMeasuredError(f"The study has {count} LIME configurations, fewer than {least}.")


def _shares(kinds: np.ndarray, losses: Floats) -> dict[str, float]:
    best = kinds[np.argsort(losses, kind="stable")[: max(1, round(TOP * len(kinds)))]]
    return {kind: float((best == kind).mean()) for kind in ("dataset", "image", "segment")}


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
