"""Claims 7 to 11: do DPC and Infidelity agree, and how do they judge LIME's settings?"""

from functools import partial
from typing import Any

import numpy as np

from verax.attribution.names import lime_methods
from verax.paper.evidence import (
    INTERVAL,
    Answer,
    Evidence,
    NotMeasuredError,
    Question,
    Questions,
    Verdict,
    above,
    all_hold,
    below,
    judged,
)
from verax.paper.published import PAPER, PAPER_DPC, PAPER_INFIDELITY, PaperModel
from verax.statistics.intervals import LEVEL, Estimate
from verax.statistics.ranks import tie_count, tied
from verax.study.ranking import SET_RESAMPLES, Agreement, agreement, front_size, near_zero
from verax.study.summary import method_of, settings_of
from verax.study.tables import Floats, Matrix, Places, interval

WEAK = 0.3  # correlations smaller than this count as little correlation
WIDE = 0.5  # a wider interval of a correlation holds numbers that say different things
SMALL_SET = 0.05  # the paper's largest Pareto set is 2.9 % of its grid
LEAST_GRID = 100  # of fewer LIME configurations the best 5 % say nothing
LEAST_PARETO_GRID = 500  # Pareto sets grow slower than grids: their share of a thinned grid is not that of the paper's
TOP = 0.05
WORSE, NEAR_ZERO = 0.9, 0.1

QUESTIONS = Questions()
BOTH = (PAPER_DPC, PAPER_INFIDELITY)
GRID = f"a grid of fewer than {LEAST_PARETO_GRID} configurations is too small to ask."


def _agreement(evidence: Evidence, *, lime: bool) -> tuple[Agreement, float | None]:
    """What was measured, and the paper's value."""
    published = PAPER.get(evidence.info.name)
    paper = (published.lime_spearman if lime else published.spearman) if published else None
    measured = agreement(*evidence.pair(*BOTH), lime=lime, resamples=evidence.resamples, seed=evidence.seed)
    if not np.isfinite(measured.spearman.mean):
        raise NotMeasuredError("Fewer than two configurations to rank.")
    return measured, paper


def _sign_of_correlation(evidence: Evidence, *, lime: bool) -> Answer:
    measured, paper = _agreement(evidence, lime=lime)
    spearman, expected = measured.spearman, -1.0 if paper is None else paper
    if abs(expected) < WEAK:
        inside = spearman.low > -WEAK and spearman.high < WEAK
        return _correlated(measured, judged(inside, spearman.low >= WEAK or spearman.high <= -WEAK))
    return _correlated(measured, below(spearman) if expected < 0 else above(spearman))


def _value_of_correlation(evidence: Evidence, *, lime: bool) -> Answer:
    measured, paper = _agreement(evidence, lime=lime)
    spearman = measured.spearman
    holds = paper is not None and spearman.low <= paper <= spearman.high
    return _correlated(measured, judged(holds and spearman.high - spearman.low <= WIDE, not holds))


def _correlated(measured: Agreement, verdict: Verdict) -> Answer:
    return Answer(f"{measured} over {measured.configurations}", verdict, _ties(*measured.ties))


def _ties(dpc: int, infidelity: int) -> str:
    return f"Tied with another: {dpc} under DPC, {infidelity} under Infidelity." if max(dpc, infidelity) else ""


_VALUE = (
    f"The paper's value lies in {INTERVAL}; cannot be told where it does and that interval is wider than {WIDE}. (The "
    "interval is about other inputs, not about other models.)"
)
_SIGN = "the interval reaches 0: cannot be told."
_AGREE = "DPC and local Infidelity agree, all methods but LIME: their Spearman correlation is negative"
_AGREE_RULE = f"Negative, as in the paper, and so is {INTERVAL}; {_SIGN}"
_LIME = "Sign of the Spearman correlation of DPC with local Infidelity, LIME alone"
_LIME_RULE = (
    f"The paper's sign, negative for other models than the paper's, with {INTERVAL}; {_SIGN} Where the paper's value "
    f"is below {WEAK} in size, the interval lies within -{WEAK} and {WEAK}, or outside (not reproduced), or reaches "
    "across (cannot be told)."
)


def _published(model: PaperModel, *, lime: bool) -> str:
    return f"{model.lime_spearman if lime else model.spearman:+.2f}"


for _number, _lime, _claim, _rule, _value in (
    (7, False, _AGREE, _AGREE_RULE, "Value of that correlation"),
    (8, True, _LIME, _LIME_RULE, "Value of that correlation for LIME"),
):
    _paper = partial(_published, lime=_lime)
    QUESTIONS += [
        Question(_number, _claim, _rule, partial(_sign_of_correlation, lime=_lime), _paper, reads=BOTH),
        Question(
            _number, _value, _VALUE, partial(_value_of_correlation, lime=_lime), _paper, only=tuple(PAPER), reads=BOTH
        ),
    ]


def _pareto(evidence: Evidence) -> tuple[Estimate, int, str]:
    """The size of the Pareto set over LIME's grid, that of the grid, and how many are tied."""
    good, bad = _of_lime(*evidence.pair(*BOTH))
    if len(good.configurations) < LEAST_PARETO_GRID:
        raise _too_few(len(good.configurations), LEAST_PARETO_GRID)
    size = front_size(good, bad, evidence.resamples, evidence.seed)
    return size, len(good.configurations), _ties(tie_count(good.values.mean(1)), tie_count(bad.values.mean(1)))


def _sized(size: Estimate, grid: int) -> str:
    return f"{size:.0f} of {grid} ({size.mean / grid:.1%})"


@QUESTIONS.decided_by(
    9,
    "The Pareto set of DPC and Infidelity over the LIME grid is small",
    f"At most 5 % of the grid (the paper's largest is 2.9 %), and so is {INTERVAL}; it reaches across: cannot be told; "
    + GRID,
    paper=lambda model: f"{model.pareto} of {model.lime_configurations}",
    reads=BOTH,
)
def _pareto_set_small(evidence: Evidence) -> Answer:
    size, grid, ties = _pareto(evidence)
    small = SMALL_SET * grid
    return Answer(_sized(size, grid), judged(size.high <= small, size.low > small), ties)


@QUESTIONS.decided_by(
    9,
    "Size of that Pareto set",
    f"The paper's number lies in {INTERVAL}; cannot be told where it does and that interval reaches beyond 5 % of the "
    f"grid, where a set is not small any more; {GRID}",
    paper=lambda model: f"{model.pareto} of {model.lime_configurations}",
    only=tuple(PAPER),
    reads=BOTH,
)
def _pareto_set_size(evidence: Evidence) -> Answer:
    size, grid, ties = _pareto(evidence)
    holds = size.low <= PAPER[evidence.info.name].pareto <= size.high
    return Answer(_sized(size, grid), judged(holds and size.high <= SMALL_SET * grid, not holds), ties)


@QUESTIONS.decided_by(
    10,
    "LIME configurations with near-zero attributions are worst under Infidelity and near 0 under DPC",
    "Near zero: a mean norm below a tenth of the median of LIME's configurations. Of all pairs of one of them with one "
    "of the others, at least 90 % have the larger Infidelity in the one near zero; and the median of their absolute "
    f"DPC is at most a tenth of LIME's largest; both with {INTERVAL}, else cannot be told. None near zero among 100 or "
    "more: not reproduced.",
    reads=BOTH,
)
def _near_zero_worst(evidence: Evidence) -> Answer:
    dpc, infidelity = _of_lime(*evidence.pair(*BOTH))
    names = dpc.configurations
    if not names:
        raise NotMeasuredError("The study has no LIME configuration with both metrics.")
    faint = np.isin(names, near_zero(evidence.configurations)["configuration"].to_list())
    if not faint.any():
        if len(names) < LEAST_GRID:
            raise _too_few(len(names), LEAST_GRID)
        return Answer("none near zero", "not reproduced", "No LIME configuration has attributions near zero.")
    drawn = [metric.resampled(min(SET_RESAMPLES, evidence.resamples), evidence.seed) for metric in (dpc, infidelity)]
    worse = interval(_worse(infidelity.values.mean(1), faint), [_worse(means, faint) for means in drawn[1]])
    share = interval(_share_of_largest(dpc.values.mean(1), faint), _share_of_largest(drawn[0], faint))
    ours = f"{faint.sum()} of {len(names)} near zero: worse under Infidelity in {worse:.0%} of pairs, |DPC| {share:.0%}"
    note = "Pairs of one near zero with another; |DPC|: their median, as a share of LIME's largest."
    verdicts = judged(worse.low >= WORSE, worse.high < WORSE), judged(share.high <= NEAR_ZERO, share.low > NEAR_ZERO)
    return Answer(ours, all_hold(verdicts), note)


def _worse(losses: Floats, faint: np.ndarray) -> float:
    """Of pairs of a marked configuration with another, how many have the larger loss in the marked one."""
    losses = tied(losses)
    others = np.sort(losses[~faint])
    return float(np.searchsorted(others, losses[faint], side="left").mean() / max(1, len(others)))


def _share_of_largest(scores: Floats, faint: np.ndarray) -> Any:
    sizes = np.abs(scores)
    largest = sizes.max(-1)
    return np.median(sizes[..., faint], axis=-1) / np.where(largest > 0, largest, 1.0)


@QUESTIONS.decided_by(
    11,
    "LIME with dataset-mean replacement scores high under Infidelity, with image-mean under DPC",
    "Of the best 5 % of LIME's configurations more than half replace by the dataset mean under Infidelity (low values "
    "are good) and by the image mean under DPC, each in 95 % of the resamples of inputs; one of them in 5 % of the "
    "resamples or fewer: not reproduced; else cannot be told.",
    only=("ISIC-Linear",),
    reads=BOTH,
)
def _replacements_differ(evidence: Evidence) -> Answer:
    dpc, infidelity = _of_lime(*evidence.pair(*BOTH))
    if len(dpc.configurations) < LEAST_GRID:
        raise _too_few(len(dpc.configurations), LEAST_GRID)
    kinds = np.array([settings_of(name).get("replacement") for name in dpc.configurations])
    losses = dpc.negated(), infidelity
    by_dpc, by_infidelity = (_shares(kinds, metric.values.mean(1)) for metric in losses)
    drawn = [metric.resampled(evidence.resamples, evidence.seed) for metric in losses]
    image = float(np.mean([_shares(kinds, means)["image"] > 0.5 for means in drawn[0]]))
    dataset = float(np.mean([_shares(kinds, means)["dataset"] > 0.5 for means in drawn[1]]))
    ours = f"best 5 % by Infidelity: {_listed(by_infidelity)}; by DPC: {_listed(by_dpc)}"
    note = (
        f"More than half: dataset under Infidelity in {dataset:.0%} of the resamples, image under DPC in {image:.0%}."
    )
    return Answer(ours, all_hold(judged(share >= LEVEL, share <= 1 - LEVEL) for share in (image, dataset)), note)


def _of_lime(*metrics: Matrix) -> tuple[Matrix, ...]:
    """The part of LIME's configurations, which all of them have."""
    methods = frozenset(lime_methods())
    names = metrics[0].configurations
    places: Places = np.array([at for at, name in enumerate(names) if method_of(name) in methods], np.intp)
    return tuple(metric.part(places) for metric in metrics)


def _too_few(count: int, least: int) -> NotMeasuredError:
    return NotMeasuredError(f"The study has {count} LIME configurations, fewer than {least}.")


def _shares(kinds: np.ndarray, losses: Floats) -> dict[str, float]:
    """Of the best 5 %, and those that tie with the last of them, how many are of each kind."""
    losses = tied(losses)
    best = kinds[losses <= np.partition(losses, (last := max(1, round(TOP * len(kinds))) - 1))[last]]
    return {kind: float((best == kind).mean()) for kind in ("dataset", "image", "segment")}


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
