"""Claims 1 to 6 and 17: how PC and DPC rate methods. Differences are judged with paired bootstrap intervals."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from verax.attribution.names import abbreviation
from verax.paper.evidence import (
    BASELINE_ORIENTED,
    INTERVAL,
    MEDIAN,
    Answer,
    Evidence,
    NotMeasuredError,
    Question,
    Questions,
    Rule,
    Sample,
    above,
    all_hold,
    below,
    judged,
    median_gap,
    medians,
)
from verax.paper.published import PAPER_DPC, PAPER_PC
from verax.study.summary import settings_of, with_other_input_factor
from verax.study.tables import Floats, Places, interval, resampled_means

RANDOM = " Random's attributions are draws: each resample of inputs draws among them, too."
IMAGES = ("ISIC-Linear", "ISIC-Inception")
SEGMENTS = ", LIME on segments counted as baseline-oriented"
TIE = 0.01  # methods closer than this share of the leader's lead count as equal

QUESTIONS = Questions()


def _with_and_without_segments(
    number: int, metric: str, ask: Rule, local: tuple[str, str], otherwise: tuple[str, str]
) -> list[Question]:
    """A claim and its rule with LIME on segments among the local methods; for images also where it is not."""
    as_local = Question(number, *local, partial(ask, segments_local=True), reads=(metric,))
    claim, rule = otherwise
    apart = partial(ask, segments_local=False)
    return [as_local, Question(number, f"{claim}{SEGMENTS}", rule, apart, reads=(metric,), only=IMAGES)]


def _pc_prefers_baseline(evidence: Evidence, *, segments_local: bool) -> Answer:
    sample = evidence.sample(PAPER_PC)
    boxes = sample.boxes()
    others = () if segments_local else ("LimeImage",)
    local = [name for name in boxes if name not in (*BASELINE_ORIENTED, *others)]
    pairs = [(b, m) for b in boxes if b in BASELINE_ORIENTED for m in local]
    if not pairs:
        raise NotMeasuredError("The study lacks baseline-oriented or local methods.")
    gaps = {(b, m): sample.gap(boxes[b], boxes[m]) for b, m in pairs}
    best, next_to_it = min(gaps, key=lambda pair: gaps[pair].mean)
    against = dict.fromkeys(abbreviation(m) for (_, m), gap in gaps.items() if gap.low <= 0)
    ours = f"closest: {abbreviation(best)} less {abbreviation(next_to_it)} {gaps[best, next_to_it]:.3g}"
    verdict = all_hold(above(gap) for gap in gaps.values())
    return Answer(ours, verdict, f"Not below both: {', '.join(against)}." if against else "")


_ABOVE = (
    f"{MEDIAN}IG and DeepLiftSHAP, both times inputs, are each above each local method (Random and Edges apart{{}}) by "
    f"a difference for which {INTERVAL} is above 0; where it is below 0 for one of them, not reproduced; else cannot "
    "be told."
)
QUESTIONS += _with_and_without_segments(
    1,
    PAPER_PC,
    _pc_prefers_baseline,
    ("PC rates baseline-oriented methods above local ones", _ABOVE.format("")),
    (
        "PC rates baseline-oriented methods above local ones",
        f"{_ABOVE.format(', and LIME')} (LIME on images replaces whole segments, which is no small change.)",
    ),
)


@QUESTIONS.decided_by(
    2,
    "PC rates the gradient about as high as a random attribution",
    f"{MEDIAN}The gradient is nearer to random than half the distance from random to IG times inputs, or farther (not "
    f"reproduced), with {INTERVAL} of the difference of both, else cannot be told.{RANDOM}",
    reads=(PAPER_PC,),
)
def _pc_gradient_like_random(evidence: Evidence) -> Answer:
    sample = evidence.sample(PAPER_PC)
    groups = [sample.group("Gradient"), sample.group("Random"), sample.group("IntegratedGradients", local=False)]

    def room(means: Floats) -> Any:
        g, r, p = np.moveaxis(medians(means, groups), -1, 0)
        return (p - r) / 2 - np.abs(g - r)

    gradient, random, path = groups
    ours = f"less random: gradient {sample.gap(gradient, random):.3g}, IG {sample.gap(path, random):.3g}"
    return Answer(ours, above(sample.estimate(room)), sample.chance)


def _preferred(evidence: Evidence, *, metric: str, method: str, sign: int) -> Answer:
    sample = evidence.sample(metric)
    multiplied, local = _pairs(sample, method)
    gap = sample.estimate(lambda means: np.median(means[..., multiplied] - means[..., local], axis=-1))
    differences = sample.means[multiplied] - sample.means[local]
    agree = int((sign * differences > 0).sum())
    which = "multiplied" if sign > 0 else "pseudo-local"
    ours = f"multiplied less pseudo-local {gap:.3g}; {which} higher in {agree} of {len(local)} pairs"
    return Answer(ours, above(gap) if sign > 0 else below(gap))


for _label, _method in (("IG", "IntegratedGradients"), ("DeepLiftSHAP", "DeepLiftSHAP")):
    _rule = "The median over pairs that differ only in the multiplication of the difference of their means is "
    QUESTIONS += [
        Question(
            3,
            f"PC rates {_label} with input multiplication above its pseudo-local variant",
            f"{_rule}above 0, and so is {INTERVAL}; it holds 0: cannot be told.",
            partial(_preferred, metric=PAPER_PC, method=_method, sign=1),
            reads=(PAPER_PC,),
        ),
        Question(
            4,
            f"DPC rates the pseudo-local variant of {_label} above the one with input multiplication",
            f"{_rule}below 0, and so is {INTERVAL}; it holds 0: cannot be told.",
            partial(_preferred, metric=PAPER_DPC, method=_method, sign=-1),
            reads=(PAPER_DPC,),
        ),
    ]


@QUESTIONS.decided_by(
    4,
    "DPC's preference for pseudo-local variants is weaker on images",
    "The share of inputs on which the pseudo-local one of a pair scores higher, averaged over pairs and models, is "
    f"lower on image models than on tabular models, and {INTERVAL} of the difference agrees; it holds 0: cannot be "
    "told.",
    about="all models",
    reads=(PAPER_DPC,),
)
def _weaker_on_images(evidences: Sequence[Evidence]) -> Answer:
    shares: dict[str, list[tuple[float, Floats]]] = {"tabular": [], "image": []}
    for evidence in evidences:
        wins = _local_wins(evidence)
        if wins is not None:
            drawn = resampled_means(wins[None], evidence.resamples, evidence.seed)[:, 0]
            shares[evidence.info.modality].append((float(wins.mean()), drawn))
    tables, images = shares["tabular"], shares["image"]
    if not tables or not images:
        raise NotMeasuredError(
            "It needs pairs of configurations on image models and on tabular models: give studies of both."
        )
    table, image = (float(np.mean([value for value, _ in values])) for values in (tables, images))
    drawn = np.mean([d for _, d in tables], axis=0) - np.mean([d for _, d in images], axis=0)
    gap = interval(table - image, drawn)
    ours = f"pseudo-local better on {table:.1%} of inputs on tables, {image:.1%} on images: difference {gap:.1%}"
    return Answer(ours, above(gap))


@QUESTIONS.decided_by(
    5,
    "DPC rates the gradient best on linear models",
    f"{MEDIAN}For no other method does {INTERVAL} reach further above the gradient than 1 % of the gradient's lead "
    "over random; where it lies above that for one of them, not reproduced; else cannot be told. (On a linear model "
    f"several methods equal the gradient, hence the allowance.){RANDOM}",
    linear_only=True,
    reads=(PAPER_DPC,),
)
def _dpc_gradient_best(evidence: Evidence) -> Answer:
    sample = evidence.sample(PAPER_DPC)
    gradient, random = sample.group("Gradient"), sample.group("Random")
    boxes = {name: box for name, box in sample.boxes(references=True).items() if name != "Gradient"}

    def lead(means: Floats, box: Places) -> Any:
        return median_gap(means, gradient, box) + TIE * median_gap(means, gradient, random)

    values = dict(zip(boxes, medians(sample.means, list(boxes.values())), strict=True))
    second = max(values, key=values.__getitem__)
    leads = {name: sample.estimate(partial(lead, box=box)) for name, box in boxes.items()}
    against = [abbreviation(name) for name, estimate in leads.items() if estimate.low < 0]
    ours = f"gradient {np.median(sample.means[gradient]):.4g}, next {abbreviation(second)} {values[second]:.4g}"
    ours += f"; gradient less {abbreviation(second)} {sample.gap(gradient, boxes[second]):.3g}"
    verdict = all_hold(judged(estimate.low >= 0, estimate.high < 0) for estimate in leads.values())
    return Answer(ours, verdict, f"Not clearly below: {', '.join(against)}." if against else "")


@QUESTIONS.decided_by(
    5,
    "DPC often rates DeepLiftSHAP below random",
    f"{MEDIAN}DeepLiftSHAP times inputs less Random is below 0, and so is {INTERVAL}: at least half of the "
    f"configurations are below random; it holds 0: cannot be told.{RANDOM}",
    only=("HELOC-Linear",),
    reads=(PAPER_DPC,),
)
def _shap_below_random(evidence: Evidence) -> Answer:
    sample = evidence.sample(PAPER_DPC)
    shap, random = sample.group("DeepLiftSHAP", local=False), sample.group("Random")
    gap = sample.gap(shap, random)
    under = int((sample.means[shap] < np.median(sample.means[random])).sum())
    ours = f"{under} of {len(shap)} configurations below random; median less random {gap:.3g}"
    return Answer(ours, below(gap), sample.chance)


def _random_below_most(evidence: Evidence, *, segments_local: bool) -> Answer:
    sample = evidence.sample(PAPER_DPC)
    random, boxes = sample.group("Random"), sample.boxes()
    if not segments_local:
        boxes = {name: box for name, box in boxes.items() if name not in (*BASELINE_ORIENTED, "LimeImage")}
    if not boxes:
        raise NotMeasuredError("The study has no attribution method besides the references.")
    gaps = {name: sample.gap(box, random) for name, box in boxes.items()}
    surely, perhaps = sum(gap.low > 0 for gap in gaps.values()), sum(gap.high > 0 for gap in gaps.values())
    rest = [abbreviation(name) for name, gap in gaps.items() if gap.low <= 0]
    note = f"Not above random: {', '.join(rest)}. " if rest else ""
    ours = f"{surely} of {len(boxes)} methods above random, {len(boxes) - perhaps} below"
    most = len(boxes) / 2
    return Answer(ours, judged(surely > most, perhaps <= most), note + sample.chance)


_MOST = (
    f"{MEDIAN}More than half of the {{}} (Edges apart) are above Random by a difference for which {INTERVAL} is above "
    "0; not reproduced where it is below 0 for half of them or more; else cannot be told."
    f"{RANDOM}"
)
QUESTIONS += _with_and_without_segments(
    6,
    PAPER_DPC,
    _random_below_most,
    ("Random is below most methods under DPC", _MOST.format("methods")),
    (
        "Random is below most local methods under DPC",
        _MOST.format("local methods, without LIME, IG and DeepLiftSHAP times inputs,"),
    ),
)


@QUESTIONS.decided_by(
    17,
    "Theorem 1: what satisfies Sensitivity-N is optimal under PC",
    "On a linear model no configuration has a mean PC above that of IG from the mean baseline times inputs by more "
    f"than 1 % of it, nor has the best one in {INTERVAL}; it reaches across: cannot be told. (IG "
    "starts at the mean of the background, PC ends at zero: the same where data are centred.)",
    paper="proof",
    linear_only=True,
    reads=(PAPER_PC,),
)
def _theorem_one(evidence: Evidence) -> Answer:
    sample = evidence.sample(PAPER_PC)
    names = sample.matrix.configurations
    baselines = {p: settings_of(names[p]).get("baseline") for p in sample.group("IntegratedGradients", local=False)}
    paths = [place for place, baseline in baselines.items() if baseline == "mean"]
    if not paths:
        raise NotMeasuredError("The study has no Integrated Gradients from the mean baseline.")
    means, path = sample.means, int(paths[0])
    best = int(means.argmax())

    def excess(means: Floats) -> Any:
        return means.max(-1) - means[..., path] - TIE * np.abs(means[..., path])

    beyond = sample.estimate(excess)
    values = sample.matrix.values
    beaten = float(((values - values[path]).max(0) > 1e-4).mean())
    ours = f"IG {means[path]:.4g}, best of all {means[best]:.4g}; beaten by more than 1e-4 on {beaten:.1%} of inputs"
    ours += f"; beyond the 1 % {beyond:.2g}"
    note = "" if best == path else f"Best of all: {names[best]}."
    return Answer(ours, judged(beyond.high <= 0, beyond.low > 0), note)


def _pairs(sample: Sample, method: str) -> tuple[Places, Places]:
    """Configurations that multiply by the inputs, and for each the one that differs in nothing else."""
    place = {name: index for index, name in enumerate(sample.matrix.configurations)}
    pairs = []
    for index in sample.group(method, local=False):
        other = with_other_input_factor(sample.matrix.configurations[index])
        if other in place:
            pairs.append((index, place[other]))
    if not pairs:
        raise NotMeasuredError(f"The study has no pseudo-local variant of {method}.")
    multiplied, local = np.array(pairs, dtype=np.intp).T
    return multiplied, local


def _local_wins(evidence: Evidence) -> Floats | None:
    """For each input the share of pairs of which the pseudo-local one scores higher; a tie is half a win."""
    wins = []
    for method in BASELINE_ORIENTED:
        try:
            sample = evidence.sample(PAPER_DPC)
            multiplied, local = _pairs(sample, method)
        except NotMeasuredError:
            continue  # the other method, or another model, may have pairs
        difference = sample.matrix.values[local] - sample.matrix.values[multiplied]
        wins.append(((np.sign(difference) + 1) / 2).mean(0))
    share: Floats | None = np.mean(wins, axis=0) if wins else None
    return share
