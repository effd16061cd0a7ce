"""Does the verdict of ``verax.compare`` name the truth, and does it ever believe a random explanation?

``python benchmarks/verdicts.py``

First the audit's cases, whose true explanations are known, each with new rows for every seed: the truth is compared
with the false explanations of the audit, 64 inputs at a time. It must be best or not significantly different from the
best in at least 95 % of comparisons, and no false one may be significantly better. Then 1,000 comparisons of ten random
explanations of a network: in at most 5 % any of them may be called better than random.

Puts the table of docs/which-metric.md there, with the costs that verdict_cost.py measured.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import common
import torch
from scipy.stats import beta

import verax
from verax.auditing import cases
from verax.auditing.audited_problem import KINDS, AuditContext, case_subject
from verax.auditing.known_truth.base import Case
from verax.auditing.trials.base import false_explanations
from verax.metrics import Kind

PAGE = Path(__file__).parent.parent / "docs" / "which-metric.md"
INPUTS, SEEDS, RANDOM = 64, 10, 10
NAMED = ("best", "not significantly different from the best")


class Verdict(NamedTuple):
    """What a comparison said of the truth of a case, and the false explanation that it named the best instead."""

    case: str
    kind: Kind
    seed: int
    truth: str
    above: tuple[str, ...]


def main() -> None:
    options = common.arguments(__doc__)
    seeds, repeats = (1, 20) if options.quick else (SEEDS, 1000)
    torch.set_num_threads(1)
    common.print_header(f"Verdicts on {INPUTS} inputs: known truths, {seeds} seeds, and {repeats} random comparisons")
    verdicts = [one for seed in range(seeds) for case in cases(INPUTS, seed=seed) for one in of_case(case, seed)]
    common.print_table(("case", "question", "truth named", "a false one significantly better"), summary(verdicts))
    named = sum(one.truth in NAMED for one in verdicts)
    above = sum(bool(one.above) for one in verdicts)
    print(f"\nThe truth is named in {named} of {len(verdicts)} comparisons, a false one is the best in {above}.")
    random = [of_random(seed) for seed in range(repeats)]
    wrong = {kind: sum(believed[kind] for believed in random) for kind in KINDS}
    for kind, count in wrong.items():
        most = float(beta.ppf(0.95, count + 1, repeats - count))
        print(f"{kind}: in {count} of {repeats} some random explanation is called better than random (< {most:.1%})")
    common.write_results("verdicts", options, verdicts=[one._asdict() for one in verdicts], wrong=wrong, of=repeats)
    if not options.quick:
        PAGE.write_text(common.filled(PAGE.read_text(encoding="utf-8"), {"verdicts": page_table()}), encoding="utf-8")


def stored(name: str) -> dict[str, Any]:
    """What the last run of a benchmark wrote."""
    content: dict[str, Any] = json.loads((common.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def page_table() -> str:
    """The table of the page, from the results of the last runs."""
    found, cost = stored("verdicts"), stored("verdict_cost")
    verdicts = [Verdict(**one) for one in found["verdicts"]]
    low, middle, high = cost["share"]
    lines = [
        (f"the truth is best, or not significantly different from it: {kind}", _of(_named(verdicts, kind)), "95 %")
        for kind in KINDS
    ]
    above = [bool(one.above) for one in verdicts]
    lines.append(("a false explanation is significantly better than the truth", _of(above), "never"))
    lines += [
        (f"one of ten random explanations is called better than random: {kind}", f"{count} of {found['of']:,}", "5 %")
        for kind, count in found["wrong"].items()
    ]
    what = "of 46 attributions and 1,658 inputs of the paper's network for HELOC"
    lines.append((f"model rows per input {what}", f"{cost['rows_per_input']:.0f}", "322"))
    lines.append(
        (f"speed beside the bare model on as many rows {what}", f"{middle:.2f} ({low:.2f} to {high:.2f})", "0.85")
    )
    return common.markdown(("what is counted", "found", "held to"), lines)


def _named(verdicts: list[Verdict], kind: Kind) -> list[bool]:
    return [one.truth in NAMED for one in verdicts if one.kind == kind]


def _of(counted: list[bool]) -> str:
    return f"{sum(counted)} of {len(counted)}"


def of_case(case: Case, seed: int) -> Iterator[Verdict]:
    """The verdicts on a case, for each question whose truth is known and that has an answer."""
    subject = case_subject(case, {})
    for kind in KINDS:
        if (truth := case.truth(kind)) is None:
            continue
        ground = AuditContext(subject, kind, truth.attribution, seed=seed, level=0.95)
        shown = {"truth": truth.attribution, **false_explanations(ground, truth.attribution)}
        compared = verax.compare(case.problem, {name: subject.shaped(values) for name, values in shown.items()})
        verdicts = compared.verdicts.get(kind)
        if verdicts:  # else the question has no answer: the score is flat, or features have no small change
            named = verdicts["truth"] in NAMED
            best = [] if named else [name for name, verdict in verdicts.items() if verdict == "best"]
            yield Verdict(case.name, kind, seed, verdicts["truth"], tuple(best))


def summary(verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """A line for each case and question."""
    lines: list[tuple[str, ...]] = []
    for case, kind in dict.fromkeys((one.case, one.kind) for one in verdicts):
        own = [one for one in verdicts if (one.case, one.kind) == (case, kind)]
        above = sorted({name for one in own for name in one.above})
        named = sum(one.truth in NAMED for one in own)
        lines.append((case, kind, f"{named} of {len(own)}", ", ".join(above) or "none"))
    return lines


def of_random(seed: int) -> dict[Kind, bool]:
    """Whether some random explanation of a network is called better than random, by question."""
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(INPUTS, 10, generator=draws)
    explanations = {str(at): torch.randn(INPUTS, 10, generator=draws) for at in range(RANDOM)}
    compared = verax.compare(verax.Problem(network(), inputs), explanations)
    believed = (*NAMED, "better than random")
    return {kind: any(verdict in believed for verdict in compared.verdicts[kind].values()) for kind in KINDS}


def network() -> torch.nn.Module:
    """A small network, the same in every comparison."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))


if __name__ == "__main__":
    main()
