"""Three sentences to act on: what to use, what a metric is blind to, and with how many inputs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low
from typing import Any

from verax.auditing.audited_problem import own_replacement
from verax.auditing.finding import Finding
from verax.auditing.trials.damage import WORSE
from verax.core.display import counted
from verax.metrics import LocalPredictionChange

_GOOD = 0.9  # share of false explanations that a metric which is to be used puts below the truth
_MOST = 3  # names in a sentence
_PLAIN = ("Baseline", "noise", own_replacement(LocalPredictionChange()))  # what metrics do where nothing is said
_VALID = ("truth_wins_on_average", "falls_with_damage", "smallest_damage_found", "peaks_at_truth", "randomised_model")
_RATES = {"local": "local explanations", "baseline": "baseline-oriented explanations"}


def case_sentences(findings: Sequence[Finding]) -> tuple[str, str, str]:
    """What an audit of cases says."""
    return _best(findings), _blind(findings), _resolution(findings)


def model_sentences(findings: Sequence[Finding], inputs: int, blind: Mapping[str, str]) -> tuple[str, str, str]:
    """What an audit of one's own model says."""
    needed = sorted((count, name, which) for name, (count, which) in inputs_needed(findings).items())
    if not needed:
        return _counts(findings)
    metrics = {name_of(finding): finding.metric for finding in findings}
    able, unable = ([entry for entry in needed if (entry[0] <= inputs) is enough] for enough in (True, False))
    able.sort(key=lambda entry: bool(blind.get(metrics[entry[1]])))  # worth some inputs more
    many = counted(inputs, "input")
    if not able:
        use = (
            "No metric tells any of these explanations from random, permuted and negated ones with "
            f"{many}: pass more inputs or better explanations before you compare any."
        )
        return use, _nearest(*unable[0]), _cannot(unable)
    count, name, which = able[0]
    words = blind.get(metrics[name], "").rstrip(".")
    mind = f"; mind that {words[0].lower()}{words[1:]}" if words else ""
    use = (
        f"Use {name}: about {count:,.0f} of your {many} are enough for it to tell {which} from "
        f"random, permuted and negated explanations (paired test, power 95 %){mind}."
    )
    others = [entry for entry in able[1:] if metrics[entry[1]] == entry[1]] or able[1:]
    also = "No other metric does, so do not take another one for a second opinion."
    if others:
        listed = [f"{name} ({which}: {count:,.0f} inputs)" for count, name, which in others]
        also = f"For a second opinion take {cut(listed)}."
    count, name, _ = able[-1]
    coarsest = f"with {many}; the coarsest is {name}, which takes {count:,.0f}"
    return use, also, _cannot(unable) if unable else f"None of the metrics fails here {coarsest}."


def _counts(findings: Sequence[Finding]) -> tuple[str, str, str]:
    """Where nobody asked how many inputs tell explanations apart."""
    passed = sorted((_share(_passed(group)), name, _passed(group)) for name, group in by(findings, name_of).items())
    ask = "Ask for the trial tells_apart to learn with how many inputs a metric finds significant differences."
    if not passed:
        return "Nothing could be tried.", "The notes say why.", ask
    (_, worst, few), (_, best, most) = passed[0], passed[-1]
    return f"{best} passed {most[0]} of {most[1]} trials, the most.", f"{worst} passed {few[0]} of {few[1]}.", ask


def name_of(finding: Finding) -> str:
    """A metric with its replacement, where it is not the default one."""
    plain = finding.replacement in _PLAIN
    return finding.metric if plain else f"{finding.metric} with {finding.replacement}"


def inputs_needed(findings: Iterable[Finding]) -> dict[str, tuple[float, str]]:
    """For each metric the explanation that it tells from what is surely worse with the fewest inputs, and how many.

    A metric need not see something in every explanation: local ones say little about the way from the baseline, and the
    other way round. It takes infinity where the wrong one is above.
    """
    worse = [finding for finding in findings if finding.family == "tells_apart" and finding.against in WORSE]
    fewest: dict[str, tuple[float, str]] = {}
    for (name, which), group in by(worse, lambda finding: (name_of(finding), finding.explanation)).items():
        wrong = any((row.value <= row.inputs and not row.passed) or row.says for row in group)
        needed = math.inf if wrong else max(row.value for row in group)
        fewest[name] = min(fewest.get(name, (needed, which)), (needed, which))
    return fewest


def _nearest(count: float, name: str, which: str) -> str:
    if count == math.inf:
        return "More inputs will not help: every metric scores something worse as high as the explanations themselves."
    return f"The nearest to it is {name}, which would take about {count:,.0f} inputs to tell {which} from them."


def _cannot(unable: list[tuple[float, str, str]]) -> str:
    needs = (f"would need {count:,.0f} inputs" if count < math.inf else "cannot at all" for count, *_ in unable)
    listed = [f"{name} {words}" for (_, name, _), words in zip(unable, needs, strict=True)]
    return f"Do not decide by those that show no significant difference here: {cut(listed)}."


def _best(findings: Sequence[Finding]) -> str:
    parts = []
    for kind, words in _RATES.items():
        groups = by([finding for finding in findings if finding.kind == kind], name_of).items()
        shares = {name: _passed(row for row in group if row.family == "truth_wins") for name, group in groups}
        others = {name: _passed(row for row in group if row.family in _VALID) for name, group in groups}
        if any(finding.kind == kind and finding.family == "truth_wins" for finding in findings):
            most = max(made for _, made in shares.values())
            widely = [name for name, (_, made) in shares.items() if 2 * made >= most]  # not on a single case
            name = max(widely, key=lambda name: (_share(shares[name]), _share(others[name]), shares[name][1]))
            won = f"puts the truth above {shares[name][0]} of {shares[name][1]} false ones"
            use = f"use {name}, which" if _share(shares[name]) >= _GOOD else f"use none of these: the best, {name},"
            parts.append(f"for {words} {use} {won}")
    if not parts:
        return "No metric was shown the truth beside false explanations; ask for the trial truth_wins."
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def blind_spots(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """For each metric, the false explanations that it gives the truth's score on every input of most cases."""
    return _spots(findings, lambda finding: finding.ties > 0.99)


def misled(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """For each metric, the false explanations that it surely puts above the truth on most inputs of most cases."""
    return _spots(findings, lambda finding: finding.high < 0.5 and finding.ties < 0.5)


def _spots(findings: Sequence[Finding], fails: Callable[[Finding], bool]) -> dict[str, list[str]]:
    spots: dict[str, list[str]] = {}
    shown = [finding for finding in findings if finding.family == "truth_wins"]
    for metric, group in by(shown, lambda finding: finding.metric).items():
        for false, rows in by(group, lambda finding: finding.explanation).items():
            if 2 * sum(map(fails, rows)) > len(rows):
                spots.setdefault(metric, []).append(false)
    return spots


def _blind(findings: Sequence[Finding]) -> str:
    spots = [(metric, false) for metric, several in blind_spots(findings).items() for false in several]
    by_false = {false: [name for name, other in spots if other == false] for _, false in spots}
    same = [f"{cut(names, shown=4)} cannot tell the truth a from {false}" for false, names in by_false.items()]
    above = [f"{metric} puts {cut(several)} above the truth" for metric, several in misled(findings).items()]
    if not same and not above:
        return "No metric takes a false explanation for the truth in most cases."
    return f"Do not rely on one metric alone: {'; '.join([*same, *above])}."


def _resolution(findings: Sequence[Finding]) -> str:
    damage = [row for row in findings if row.family == "smallest_damage_found" and name_of(row) == row.metric]
    if not damage:
        return "How little damage each metric finds was not asked; ask for the trial falls_with_damage."
    inputs = max(finding.inputs for finding in damage)
    groups = by(damage, name_of).items()
    medians = sorted((median_low(finding.value for finding in group), name) for name, group in groups)
    finest = [name for value, name in medians if value == medians[0][0]]
    coarse = [name for value, name in medians if value > 0.5]
    head = f"{counted(inputs, 'input')} are enough to find a damage of {medians[0][0]:g} in the median case"
    tail = f"; take more for {cut(coarse)}, to find one of 0.5" if coarse else ""
    return f"{head}, with {cut(finest)}{tail}."


def _share(counts: tuple[int, int]) -> float:
    return counts[0] / counts[1]


def _passed(findings: Iterable[Finding]) -> tuple[int, int]:
    judged = [finding.passed for finding in findings if finding.passed is not None]
    return sum(judged), max(1, len(judged))


def by(findings: Iterable[Finding], key: Callable[[Finding], Any]) -> dict[Any, list[Finding]]:
    """Findings by what they have in common, in the order in which it first occurs."""
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(key(finding), []).append(finding)
    return groups


def cut(words: Sequence[str], shown: int = _MOST) -> str:
    """The first words of a list, and how many more there are.

    Example:
        >>> cut(["a", "b"]), cut(["a", "b", "c", "d", "e"])
        ('a, b', 'a, b, c, 2 more')
    """
    more = len(words) - shown
    return ", ".join([*words[:shown], *([f"{more} more"] if more > 0 else [])])
