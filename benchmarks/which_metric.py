"""Which metric can be trusted: every metric, ours and the peers', on the cases with known truth.

python benchmarks/which_metric.py

Prints the tables of docs/which-metric.md, puts them there, writes those of all metrics and readings beside the page as
files, and keeps every figure in results/which_metric.parquet.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median_high

import common
import peer_metrics
import polars as pl
import torch
from torch import Tensor, nn

import verax
from verax import metrics
from verax.auditing import cases
from verax.auditing.audited_problem import AuditContext, AuditedProblem, Bench, case_subject, unsupported_reason
from verax.auditing.known_truth.base import Case, Truth
from verax.auditing.trials.base import NOISES
from verax.auditing.trials.damage import FallsWithDamage
from verax.auditing.trials.truth import PeaksAtTruth, TruthWins, differs
from verax.metrics import Kind, Metric, cmi, pes
from verax.problem.replacement import BASELINE

PAGE = Path(__file__).parent.parent / "docs" / "which-metric.md"
FILES = PAGE.parent / "results"
KINDS: tuple[Kind, ...] = ("local", "baseline")
TRIALS = (TruthWins(), FallsWithDamage(), PeaksAtTruth())
WINS, DAMAGE, PEAK = "truth_wins: ", "smallest_damage_found", "peaks_at_truth"
LIMIT = f"{PEAK}: of the exact limit"
SUMMARIES = {"PES of PC": pes, "CMI of PC": cmi}  # of the scores of all inputs: one number
FALSE = {
    "random": ("random", "permuted"),
    "`-a`": ("-a",),
    "`-1/a`": ("-1/a",),
    "half the signs": ("half-reversed signs",),
    "constant": ("a constant added",),
    "resized": ("sign(g) |g (x - b)|",),
    "other truth": ("the truth of the other kind",),
    **{f"noise {size:g}": (f"noise {size}",) for size in NOISES},
}  # by column of the page, the false explanations of the trial
SHOWN = (
    "Effect correlation, 20 draws",
    "Effect correlation, 160 draws",
    "Infidelity, 640 draws",
    "LPC",
    "LPC, epsilon 0.2",
    "DPC, signed",
    "DPC, by magnitude",
    "DPC, MoRF area",
    "Effect correlation (removal), 20 draws",
    "Effect correlation (removal), 160 draws",
    "Infidelity (removal), 640 draws",
    "Sensitivity-N, 3 x 64 draws",
    "PC",
    "SRG (plain area)",
    "Deletion",
    "Insertion",
)  # on the page; the others are in the files


DRAWS = (20, 160, 640, 1280)
OURS: dict[str, Metric] = {
    "LPC": metrics.LocalPredictionChange(),
    "LPC, epsilon 0.2": metrics.LocalPredictionChange(epsilon=0.2),
    **{f"Effect correlation, {n} draws": metrics.EffectCorrelation(samples=n) for n in DRAWS[:3]},
    **{f"Infidelity, {n} draws": metrics.Infidelity(samples=n) for n in DRAWS},
    "Infidelity without normalisation, 640 draws": metrics.Infidelity(normalize=False),
    "DPC, by magnitude": metrics.DirectedPredictionChange(order="magnitude"),
    "DPC, signed": metrics.DirectedPredictionChange(order="signed"),
    "DPC, literal": metrics.DirectedPredictionChange(order="literal"),
    "DPC, MoRF area": metrics.DirectedPredictionChange("magnitude", area="morf"),
    "DPC, signed, MoRF area": metrics.DirectedPredictionChange(order="signed", area="morf"),
    "DPC, 4 steps, sum": metrics.DirectedPredictionChange("magnitude", steps=4),
    "DPC, 4 steps, dot": metrics.DirectedPredictionChange("magnitude", steps=4, rule="dot"),
    "DPC, 4 steps, coherent": metrics.DirectedPredictionChange("magnitude", steps=4, rule="coherent"),
    "DPC, 4 steps, coherent, MoRF area": metrics.DirectedPredictionChange(
        "magnitude", steps=4, rule="coherent", area="morf"
    ),
    **{
        f"Effect correlation (removal), {n} draws": metrics.EffectCorrelation(perturbation="baseline", samples=n)
        for n in DRAWS[:3]
    },
    **{f"Infidelity (removal), {n} draws": metrics.Infidelity(perturbation="baseline", samples=n) for n in DRAWS},
    "Infidelity (removal) of slopes, 640 draws": metrics.Infidelity(perturbation="baseline", effect="dot"),
    "Sensitivity-N, 3 x 64 draws": metrics.SensitivityN(sizes=(1, 2, 4)),
    "PC": metrics.PredictionChange(),
    "PC, MoRF area": metrics.PredictionChange(area="morf"),
    "PC, by magnitude": metrics.PredictionChange(order="magnitude"),
    "SRG (plain area)": metrics.SymmetricRelevanceGain(),
    "Deletion": metrics.Deletion(),
    "Insertion": metrics.Insertion(),
    "Comprehensiveness": metrics.Comprehensiveness(),
    "Sufficiency": metrics.Sufficiency(),
}


@dataclass(frozen=True)
class Finding:
    """One figure: what a trial found of a metric on a case."""

    metric: str
    kind: Kind
    case: str
    trial: str
    value: float
    low: float
    high: float
    passed: bool | None
    ties: float
    inputs: int


def main() -> None:
    options = common.arguments(__doc__)
    inputs = 8 if options.quick else 64
    common.print_header(f"Which metric can be trusted: {inputs} inputs of each case")
    found = [one for case in cases(inputs) for kind in KINDS for one in findings(case, kind)]
    costs = rows_of_ours() | rows_of_peers()
    tables = tables_of(found, costs)
    for name, table in tables.items():
        print(f"\n{name}\n\n{table}")
    path = common.write_results("which_metric", options, inputs=inputs, rows=costs)
    figures = path.with_suffix(".parquet")
    pl.DataFrame([asdict(one) for one in found]).write_parquet(figures)
    if not options.quick:
        PAGE.write_text(common.filled(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
        for name, text in files_of(found, costs).items():
            (FILES / name).write_text(text, encoding="utf-8")
    print(f"\nAll figures: {figures}")


def tables_of(found: Sequence[Finding], costs: dict[str, str]) -> dict[str, str]:
    """The tables of the page, by the name of their place on it."""
    rated = kinds()
    lines = [(name, rated[name], *shares(name, found), costs[name]) for name in SHOWN]
    head = ("metric", "rates", *FALSE, "model rows")
    return {"metrics": common.markdown(head, lines), "cases": of_cases()}


def files_of(found: Sequence[Finding], costs: dict[str, str]) -> dict[str, str]:
    """The tables of all metrics and readings, by file."""
    lost = [f"cases lost: {name}" for name in FALSE]
    head = ("metric", "rates", *FALSE, *lost, "finds damage of", "peak", "model rows")
    lines = [
        (
            name,
            kind,
            *(text.strip("*") for text in shares(name, found)),
            *(cases_lost(own := [one for one in found if one.metric == name], false) for false in FALSE.values()),
            damage_in_words([one.value for one in own if one.trial == DAMAGE]),
            peak_in_words([one.value for one in own if one.trial == PEAK]),
            costs.get(name, costs["PC"]),
        )
        for name, kind in kinds().items()
    ]
    return {
        "which-metric.csv": as_csv([head, *lines]),
        "which-metric-cases.csv": as_csv(by_case(found)),
        "which-metric-limits.csv": as_csv(of_limits(found)),
    }


def kinds() -> dict[str, str]:
    """What each metric rates, those of slopes first."""
    words = {"local": "slopes", "baseline": "contributions"}
    every = [(name, metric.kind) for name, metric in OURS.items()]
    every += [(peer.name, peer.kind) for peer in peer_metrics.PEERS] + [(name, "baseline") for name in SUMMARIES]
    return {name: words[kind] for kind in KINDS for name, of in every if of == kind}


def as_csv(lines: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def stored() -> tuple[list[Finding], dict[str, str]]:
    """What the last run found and counted, from its files."""
    path = common.RESULTS / "which_metric.json"
    found = [Finding(**row) for row in pl.read_parquet(path.with_suffix(".parquet")).iter_rows(named=True)]
    return found, json.loads(path.read_text(encoding="utf-8"))["rows"]


def findings(case: Case, kind: Kind) -> Iterable[Finding]:
    """What the trials find of every metric of a kind on a case; nothing where its truth is not known."""
    truth = case.truth(kind)
    if truth is None:
        return
    subject = case_subject(case, {})
    ground = AuditContext(subject, kind, truth.attribution, seed=0, level=0.95)
    shown = {name: one for trial in TRIALS for name, one in trial.explanations(ground).items()}
    for bench in benches(subject, kind):
        scores = bench.scores(shown)
        for trial in TRIALS:
            for metric, one in trial.outcomes(ground, shown, scores, bench):
                value = one.value
                figures = (value.mean, value.low, value.high, one.passed, one.ties, one.inputs)
                yield Finding(metric, kind, case.name, one.trial, *figures)
        if "PC" in scores:
            yield from of_summaries(case.name, shown, scores["PC"])


def benches(subject: AuditedProblem, kind: Kind) -> Iterable[Bench]:
    """One for each metric of a kind that takes these inputs: each is climbed from the truth by itself."""
    for name, metric in OURS.items():
        if metric.kind == kind and not unsupported_reason(metric, subject, BASELINE):
            yield Bench(subject, {name: metric}, BASELINE)
    for peer in peer_metrics.PEERS:
        if peer.kind == kind:
            yield peer_metrics.PeerBench(subject, {}, BASELINE, peer)


def of_summaries(case: str, shown: dict[str, Tensor], scores: Mapping[str, Tensor]) -> Iterable[Finding]:
    """PES and CMI are one number for all inputs: by how much that of the truth is the higher one."""
    for false in (name for names in FALSE.values() for name in names if name in shown):
        asked = differs(shown["truth"], shown[false])
        for metric, summary in SUMMARIES.items():
            above = float(summary(scores["truth"][asked]) - summary(scores[false][asked]))
            passed = above > 0 if int(asked.sum()) >= TruthWins().fewest else None
            figures = (above, math.nan, math.nan, passed, float(above == 0), int(asked.sum()))
            yield Finding(metric, "baseline", case, WINS + false, *figures)


def shares(metric: str, found: Sequence[Finding]) -> list[str]:
    """By false explanation, on what share of inputs the truth is above it, a tie counting one half.

    Bold where in most cases the truth does not win on more than half of the inputs.
    """
    cells = []
    for names in FALSE.values():
        own = [one for one in found if one.metric == metric and one.trial.removeprefix(WINS) in names]
        if not own or metric in SUMMARIES:
            cells.append("-")
            continue
        text = f"{fmean(one.value + one.ties / 2 for one in own):.0%}"
        lost, _, cases = cases_lost(own, names).partition(" of ")
        cells.append(f"**{text}**" if 2 * int(lost) > int(cases) else text)
    return cells


def cases_lost(own: Sequence[Finding], names: Sequence[str]) -> str:
    """In how many cases the truth is not above on more than half of the inputs, by the 95 % interval of the share."""
    lost: dict[str, bool] = {}
    for one in own:
        if one.trial.removeprefix(WINS) in names and one.passed is not None:
            lost[one.case] = lost.get(one.case, False) or not one.passed
    return f"{sum(lost.values())} of {len(lost)}"


def damage_in_words(damages: Sequence[float]) -> str:
    if not damages:
        return "-"
    middle, missed = median_high(damages), sum(math.isinf(one) for one in damages)
    if 2 * missed > len(damages):
        return f"none in {missed} of {len(damages)}"
    return f"{middle:g}" + (f", none in {missed}" if missed else "")


def peak_in_words(shares: Sequence[float]) -> str:
    if not shares or math.isnan(fmean(shares)):  # where all explanations have the same score
        return "-"
    return f"{fmean(shares):.2f}"


def of_cases() -> str:
    """What each model does, and in which sense its slopes are true."""
    lines = [(case.name, case.summary, "-" if case.local is None else case.local.says) for case in cases(inputs=1)]
    return common.markdown(("case", "model", "truth of slopes"), lines)


def by_case(found: Sequence[Finding]) -> list[Sequence[str]]:
    """The share of inputs and alternatives on which truth wins, a tie counting one half, by metric and case."""
    names = [case.name for case in cases(inputs=1)]
    lines: list[Sequence[str]] = [("metric", *names)]
    for metric in kinds():
        own = [one for one in found if one.metric == metric and one.trial.startswith(WINS)]
        by = {case: [one.value + one.ties / 2 for one in own if one.case == case] for case in names}
        if metric not in SUMMARIES:
            lines.append((metric, *(f"{fmean(by[case]):.0%}" if by[case] else "-" for case in names)))
    return lines


def of_limits(found: Sequence[Finding]) -> list[Sequence[str]]:
    """The share of the exact limit that the truth reaches, by metric and case, where the limit is known."""
    exact = {(one.metric, one.case): one.value for one in found if one.trial == LIMIT}
    limited, names = (list(dict.fromkeys(key[place] for key in exact)) for place in (0, 1))
    lines = [
        (metric, *("-" if (share := exact.get((metric, case))) is None else f"{share:.2f}" for case in names))
        for metric in limited
    ]
    return [("metric", *names), *lines]


class Sum(nn.Module):
    """A sum of twenty features: nothing but rows counts here."""

    def forward(self, rows: Tensor) -> Tensor:
        """One value per row."""
        return rows.sum(1)


def twenty_features() -> tuple[Case, Tensor]:
    x = common.normal_inputs(4).double()
    none = Truth(torch.zeros_like(x), "nothing")
    problem = verax.Problem(verax.Scorer(Sum(), returns="values"), x, background=x)
    attributions = torch.randn(11, *x.shape, generator=torch.Generator().manual_seed(3)).double()
    return Case("cost", "", problem, none, none), attributions


def rows_of_ours() -> dict[str, str]:
    """Rows per input of one and of eleven random attributions, twenty features: a line through both."""
    case, attributions = twenty_features()
    counts = {}
    for name, metric in OURS.items():
        one, eleven = (
            verax.evaluate(case.problem.with_model(case.problem.scorer), attributions[:m], [metric]).rows
            / len(case.problem)
            for m in (1, 11)
        )
        counts[name] = line(one, (eleven - one) / 10)
    return counts


def rows_of_peers() -> dict[str, str]:
    case, attributions = twenty_features()
    subject = case_subject(case, {})
    module = case.problem.scorer.adapter.module
    assert module is not None
    counts = {}
    for peer in peer_metrics.PEERS:
        with common.recorded(module) as seen:
            peer_metrics.PeerBench(subject, {}, BASELINE, peer).scores({"one": attributions[0]})
        each = sum(seen) / len(subject)
        counts[peer.name] = line(each, each)
    return counts


def line(one: float, more: float) -> str:
    """Rows of m attributions: those of the first, and those of every further one."""
    shared = max(0, round(one - more))
    parts = (f"{round(more)} m" if round(more) else "", str(shared) if shared else "")
    return " + ".join(part for part in parts if part)


if __name__ == "__main__":
    main()
