"""Claims 1 to 6 and 17: how PC and DPC rate methods.

A method is represented by the median over its configurations of their means over inputs, the line in the paper's
boxes. A difference counts only if its 95 % interval over inputs (bootstrap, paired) lies on one side of 0.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from verax.analysis import canonical
from verax.analysis.evidence import BASELINE_ORIENTED, Answer, Evidence, NotMeasuredError, Sample, decided, medians
from verax.analysis.matrices import Floats, Places, interval, resampled_means

TIE = 0.01  # methods closer than this share of the leader's lead count as equal


def pc_prefers_baseline(evidence: Evidence) -> Answer:
    """Claim 1: under PC both IG and DeepLiftSHAP, times inputs, are above every local method."""
    sample = evidence.sample("pc")
    boxes = sample.boxes()
    pairs = [(b, m) for b in boxes if b in BASELINE_ORIENTED for m in boxes if m not in BASELINE_ORIENTED]
    if not pairs:
        raise NotMeasuredError("The study lacks baseline-oriented or local methods.")
    gaps = {(b, m): sample.estimate(partial(_median_gap, first=boxes[b], second=boxes[m])) for b, m in pairs}
    baseline, local = min(gaps, key=lambda pair: gaps[pair].value)
    against = dict.fromkeys(short(m) for (_, m), gap in gaps.items() if gap.low <= 0)
    ours = f"closest: {short(baseline)} less {short(local)} {gaps[baseline, local]}"
    return Answer(ours, decided(not against), f"Not below both: {', '.join(against)}." if against else "")


def pc_gradient_like_random(evidence: Evidence) -> Answer:
    """Claim 2: under PC the gradient is nearer to random than half the way from random to IG times inputs."""
    sample = evidence.sample("pc")
    groups = [sample.group("Gradient"), sample.group("Random"), sample.group("IntegratedGradients", local=False)]
    gradient, random, path = medians(sample.means, groups)

    def room(means: Floats) -> Any:
        g, r, p = np.moveaxis(medians(means, groups), -1, 0)
        return (p - r) / 2 - np.abs(g - r)

    ours = f"gradient {gradient:.3g}, random {random:.3g}, IG {path:.3g}"
    way = f"{(gradient - random) / (path - random):.0%} of the way from random to IG." if path != random else ""
    return Answer(ours, decided(sample.estimate(room).low > 0), f"The gradient is {way}" if way else "")


def pc_prefers_multiplied(evidence: Evidence, method: str) -> Answer:
    """Claim 3: under PC the median difference between a configuration and its pseudo-local twin is above 0."""
    return _twins_answer(evidence.sample("pc"), method, sign=1)


def dpc_prefers_local(evidence: Evidence, method: str) -> Answer:
    """Claim 4: under DPC the median difference between a configuration and its pseudo-local twin is below 0."""
    return _twins_answer(evidence.sample("dpc_magnitude"), method, sign=-1)


def weaker_on_images(evidences: Sequence[Evidence]) -> Answer:
    """Claim 4, second half: pseudo-local twins win on fewer inputs on image models than on tabular ones."""
    shares: dict[str, list[tuple[float, Floats]]] = {"tabular": [], "image": []}
    for evidence in evidences:
        wins = _local_wins(evidence)
        if wins is not None:
            drawn = resampled_means(wins[None], evidence.resamples, evidence.seed)[:, 0]
            shares[evidence.info.modality].append((float(wins.mean()), drawn))
    tables, images = shares["tabular"], shares["image"]
    if not tables or not images:
        raise NotMeasuredError("The study lacks pairs of configurations on image models or on tabular models.")
    table, image = (float(np.mean([value for value, _ in found])) for found in (tables, images))
    drawn = np.mean([d for _, d in tables], axis=0) - np.mean([d for _, d in images], axis=0)
    holds = interval(table - image, drawn).low > 0
    return Answer(f"pseudo-local better on {table:.0%} of inputs on tables, {image:.0%} on images", decided(holds))


def dpc_gradient_best(evidence: Evidence) -> Answer:
    """Claim 5, linear models: no other method is above the gradient by more than 1 % of its lead over random."""
    sample = evidence.sample("dpc_magnitude")
    gradient, random = sample.group("Gradient"), sample.group("Random")
    boxes = {name: box for name, box in sample.boxes(references=True).items() if name != "Gradient"}

    def lead(means: Floats, box: Places) -> Any:
        return _median_gap(means, gradient, box) + TIE * _median_gap(means, gradient, random)

    values = dict(zip(boxes, medians(sample.means, list(boxes.values())), strict=True))
    second = max(values, key=values.__getitem__)
    against = [short(name) for name, box in boxes.items() if sample.estimate(partial(lead, box=box)).low < 0]
    ours = f"gradient {sample.means[gradient].max():.4g}, next {short(second)} {values[second]:.4g}"
    return Answer(ours, decided(not against), f"Not clearly below: {', '.join(against)}." if against else "")


def shap_below_random(evidence: Evidence) -> Answer:
    """Claim 5, HELOC-Linear: the median of DeepLiftSHAP times inputs is below random under DPC."""
    sample = evidence.sample("dpc_magnitude")
    shap, random = sample.group("DeepLiftSHAP", local=False), sample.group("Random")
    gap = sample.estimate(partial(_median_gap, first=shap, second=random))
    below = int((sample.means[shap] < np.median(sample.means[random])).sum())
    return Answer(
        f"{below} of {len(shap)} configurations below random; median less random {gap}", decided(gap.high < 0)
    )


def random_below_most(evidence: Evidence) -> Answer:
    """Claim 6: more than half of the methods are above random under DPC."""
    sample = evidence.sample("dpc_magnitude")
    random, boxes = sample.group("Random"), sample.boxes()
    if not boxes:
        raise NotMeasuredError("The study has no attribution method besides the references.")
    above = []
    for name, box in boxes.items():
        gap = sample.estimate(partial(_median_gap, first=box, second=random))
        if gap.low > 0:
            above.append(name)
    rest = [short(name) for name in boxes if name not in above]
    note = f"Not above random: {', '.join(rest)}." if rest else ""
    return Answer(f"{len(above)} of {len(boxes)} methods above random", decided(len(above) > len(boxes) / 2), note)


def theorem_one(evidence: Evidence) -> Answer:
    """Claim 17, linear models: no configuration's mean PC is above that of IG (mean baseline, times inputs)."""
    sample = evidence.sample("pc")
    names = sample.matrix.configurations
    paths = [p for p in sample.group("IntegratedGradients", local=False) if _baseline(names[p]) == "mean"]
    if not paths:
        raise NotMeasuredError("The study has no Integrated Gradients from the mean baseline.")
    means, path = sample.means, int(paths[0])
    best = int(means.argmax())
    values = sample.matrix.values
    beaten = float(((values - values[path]).max(0) > 1e-4).mean())
    ours = f"IG {means[path]:.4g}, best of all {means[best]:.4g}; beaten by more than 1e-4 on {beaten:.1%} of inputs"
    note = "" if best == path else f"Best of all: {names[best]}."
    return Answer(ours, decided(bool(means[best] - means[path] <= TIE * abs(means[path]))), note)


def short(method: str) -> str:
    """A method's name as the paper abbreviates it.

    Example:
        >>> short("IntegratedGradients")
        'IG'
    """
    return {"IntegratedGradients": "IG", "GuidedBackprop": "GB"}.get(method, method)


def _median_gap(means: Floats, first: Places, second: Places) -> Any:
    a, b = np.moveaxis(medians(means, [first, second]), -1, 0)
    return a - b


def _twins(sample: Sample, method: str) -> tuple[Places, Places]:
    """Configurations that multiply by the inputs, and for each the one that differs in nothing else."""
    place = {name: index for index, name in enumerate(sample.matrix.configurations)}
    pairs = []
    for index in sample.group(method, local=False):
        other = canonical.twin(sample.matrix.configurations[index])
        if other in place:
            pairs.append((index, place[other]))
    if not pairs:
        raise NotMeasuredError(f"The study has no pseudo-local twin of {method}.")
    multiplied, local = np.array(pairs, dtype=np.intp).T
    return multiplied, local


def _twins_answer(sample: Sample, method: str, sign: int) -> Answer:
    multiplied, local = _twins(sample, method)
    gap = sample.estimate(lambda means: np.median(means[..., multiplied] - means[..., local], axis=-1))
    differences = sample.means[multiplied] - sample.means[local]
    agree = int((sign * differences > 0).sum())
    holds = gap.low > 0 if sign > 0 else gap.high < 0
    which = "multiplied" if sign > 0 else "pseudo-local"
    return Answer(
        f"multiplied less pseudo-local {gap}; {which} higher in {agree} of {len(local)} pairs", decided(holds)
    )


def _local_wins(evidence: Evidence) -> Floats | None:
    """For each input the share of pairs of which the pseudo-local one scores higher; a tie is half a win."""
    wins = []
    for method in BASELINE_ORIENTED:
        try:
            sample = evidence.sample("dpc_magnitude")
            multiplied, local = _twins(sample, method)
        except NotMeasuredError:
            continue  # the other method, or another model, may have pairs
        difference = sample.matrix.values[local] - sample.matrix.values[multiplied]
        wins.append(((np.sign(difference) + 1) / 2).mean(0))
    share: Floats | None = np.mean(wins, axis=0) if wins else None
    return share


def _baseline(configuration: str) -> object:
    return canonical.settings(configuration).get("baseline")
