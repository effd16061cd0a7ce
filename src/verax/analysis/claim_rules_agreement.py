"""Claims 7 to 11: do DPC and Infidelity agree, and how do they judge LIME's settings?"""

import numpy as np
import polars as pl

from verax.analysis import canonical
from verax.analysis.agreement import agreement_of
from verax.analysis.evidence import Answer, Evidence, NotMeasuredError, decided
from verax.analysis.matrices import LEVEL, Floats, common, interval, resampled_means
from verax.analysis.outliers import near_zero
from verax.analysis.paper import PAPER
from verax.analysis.pareto import front
from verax.analysis.tables import LIME_METHODS

WEAK = 0.3  # correlations smaller than this count as little correlation
SMALL_SET = 0.05  # the paper's largest Pareto set is 2.9 % of its grid
LEAST_GRID = 100  # of fewer LIME configurations the best 5 % say nothing
LEAST_PARETO_GRID = 500  # Pareto sets grow slower than grids: their share of a thinned grid is not that of the paper's
TOP = 0.05
SET_RESAMPLES = 200


def metrics_agree(evidence: Evidence) -> Answer:
    """Claim 7: the correlation has the paper's sign, negative, beyond its interval."""
    paper = PAPER.get(evidence.info.name)
    return _correlation(evidence, lime=False, paper=paper.spearman if paper else None)


def metrics_agree_on_lime(evidence: Evidence) -> Answer:
    """Claim 8: the same over LIME; where the paper's figure is weak, the whole interval has to be weak."""
    paper = PAPER.get(evidence.info.name)
    return _correlation(evidence, lime=True, paper=paper.lime_spearman if paper else None)


def pareto_set_small(evidence: Evidence) -> Answer:
    """Claim 9: at most 5 % of the LIME configurations are in the Pareto set of DPC and Infidelity."""
    dpc, infidelity = common(evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix)
    keep = [i for i, name in enumerate(dpc.configurations) if canonical.method(name) in LIME_METHODS]
    _need_grid(len(keep), LEAST_PARETO_GRID)
    good, bad = dpc.values[keep], infidelity.values[keep]
    size = int(front(good.mean(1), bad.mean(1)).sum())
    resamples = min(SET_RESAMPLES, evidence.resamples)
    draws = [resampled_means(values, resamples, evidence.seed) for values in (good, bad)]
    reach = interval(size, [front(a, b).sum() for a, b in zip(*draws, strict=True)])
    ours = f"{size} [{reach.low:.0f}, {reach.high:.0f}] of {len(keep)} ({size / len(keep):.1%})"
    return Answer(ours, decided(size <= SMALL_SET * len(keep)))


def near_zero_worst(evidence: Evidence) -> Answer:
    """Claim 10: LIME configurations near zero have more Infidelity than the others, and a DPC within 10 % of 0."""
    lime = evidence.configurations.filter(pl.col("method").is_in(LIME_METHODS))
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


def replacements_differ(evidence: Evidence) -> Answer:
    """Claim 11: most of the best 5 % replace by the dataset mean under Infidelity, by the image mean under DPC."""
    dpc, infidelity = common(evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix)
    keep = [i for i, name in enumerate(dpc.configurations) if canonical.method(name) == "LimeImage"]
    _need_grid(len(keep))
    kinds = np.array([canonical.settings(dpc.configurations[i])["replacement"] for i in keep])
    good, bad = -dpc.values[keep], infidelity.values[keep]
    by_dpc, by_infidelity = (_shares(kinds, values.mean(1)) for values in (good, bad))
    drawn = [resampled_means(values, evidence.resamples, evidence.seed) for values in (good, bad)]
    image = np.mean([_shares(kinds, means)["image"] > 0.5 for means in drawn[0]])
    dataset = np.mean([_shares(kinds, means)["dataset"] > 0.5 for means in drawn[1]])
    ours = f"best 5 % by Infidelity: {_listed(by_infidelity)}; by DPC: {_listed(by_dpc)}"
    return Answer(ours, decided(bool(min(image, dataset) >= LEVEL)))


def _correlation(evidence: Evidence, *, lime: bool, paper: float | None) -> Answer:
    x, y = evidence.sample("dpc_magnitude").matrix, evidence.sample("infidelity").matrix
    found = agreement_of(x, y, lime=lime, resamples=evidence.resamples, seed=evidence.seed)
    if not np.isfinite(found.spearman):
        raise NotMeasuredError("Fewer than two configurations to rank.")
    expected = -1.0 if paper is None else paper
    if abs(expected) < WEAK:
        holds = max(abs(found.low), abs(found.high)) < WEAK
    else:
        holds = found.high < 0 if expected < 0 else found.low > 0
    inside = paper is not None and found.low <= paper <= found.high
    note = "" if paper is None else f"The paper's value is {'inside' if inside else 'outside'} our interval."
    return Answer(f"{found} over {found.configurations}", decided(holds), note)


def _need_grid(count: int, least: int = LEAST_GRID) -> None:
    if count < least:
        raise NotMeasuredError(f"The study has {count} LIME configurations, fewer than {least}.")


def _shares(kinds: np.ndarray, losses: Floats) -> dict[str, float]:
    best = kinds[np.argsort(losses, kind="stable")[: max(1, round(TOP * len(kinds)))]]
    return {kind: float((best == kind).mean()) for kind in ("dataset", "image", "segment")}


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{kind} {share:.0%}" for kind, share in shares.items())
