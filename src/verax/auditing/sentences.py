"""Three sentences to act on: what to use, what a metric cannot see, and with how many inputs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

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
    needed = [(count, name, which) for name, (count, which) in inputs_needed(findings).items()]
    if not needed:
        return _counts(findings)
    needed.sort()
    able, unable = ([one for one in needed if (one[0] <= inputs) is enough] for enough in (True, False))
    able.sort(key=lambda one: bool(blind.get(_metric(one[1]))))  # worth some inputs more
    second = _also(able) if able else _nearest(unable)
    return _use(able, inputs, blind), second, _cannot(unable, able, inputs)


def _counts(findings: Sequence[Finding]) -> tuple[str, str, str]:
    """Where nobody asked how many inputs tell explanations apart."""
    passed = sorted((_share(_passed(group)), name, _passed(group)) for name, group in by(findings, name_of))
    ask = "Ask for the trial tells_apart to learn with how many inputs a metric finds significant differences."
    if not passed:
        return "Nothing could be tried.", "The notes say why.", ask
    (_, worst, few), (_, best, most) = passed[0], passed[-1]
    return f"{best} passed {most[0]} of {most[1]} trials, the most.", f"{worst} passed {few[0]} of {few[1]}.", ask


def _metric(name: str) -> str:
    """The metric of a name that may have a replacement behind it."""
    return name.split(" with ", maxsplit=1)[0]


def name_of(finding: Finding) -> str:
    """A metric with its replacement, where it is not the default one."""
    plain = finding.replacement in _PLAIN
    return finding.metric if plain else f"{finding.metric} with {finding.replacement}"


def inputs_needed(findings: Iterable[Finding]) -> dict[str, tuple[float, str]]:
    """For each metric the explanation that it tells from what is surely worse with the fewest inputs, and how many.

    A metric need not see something in every explanation: local ones say little about the way from the baseline, and the
    other way round.
    """
    worse = [finding for finding in findings if finding.family == "tells_apart" and finding.about.endswith(WORSE)]
    fewest: dict[str, tuple[float, str]] = {}
    for name, group in by(worse, name_of):
        needed = [(max(map(_count, rows)), which) for which, rows in by(group, _explanation)]
        fewest[name] = min(needed)
    return fewest


def _explanation(finding: Finding) -> str:
    return finding.about.rpartition(" from ")[0]


def _count(finding: Finding) -> float:
    """Inputs that tell a pair apart; infinity where the wrong one is above."""
    wrong = finding.value <= finding.inputs and not finding.passed
    return math.inf if wrong or finding.says else finding.value


def _use(able: list[tuple[float, str, str]], inputs: int, blind: Mapping[str, str]) -> str:
    if not able:
        return (
            f"No metric tells any of these explanations from random, permuted and negated ones with "
            f"{counted(inputs, 'input')}: pass more inputs or better explanations before you compare any."
        )
    count, name, which = able[0]
    words = blind.get(_metric(name), "").rstrip(".")
    mind = f"; mind that {words[0].lower()}{words[1:]}" if words else ""
    return (
        f"Use {name}: about {count:,.0f} of your {counted(inputs, 'input')} are enough for it to tell {which} from "
        f"random, permuted and negated explanations (paired test, power 95 %){mind}."
    )


def _also(able: list[tuple[float, str, str]]) -> str:
    if len(able) < 2:
        return "No other metric does, so do not take another one for a second opinion."
    rest = able[1:]
    plain = [entry for entry in rest if " with " not in entry[1]] or rest
    listed = [f"{name} ({which}: {count:,.0f} inputs)" for count, name, which in plain]
    return f"For a second opinion take {cut(listed)}."


def _nearest(unable: list[tuple[float, str, str]]) -> str:
    count, name, which = min(unable, default=(math.inf, "", ""))
    if count == math.inf:
        return "More inputs will not help: every metric scores something worse as high as the explanations themselves."
    return f"The nearest to it is {name}, which would take about {count:,.0f} inputs to tell {which} from them."


def _cannot(unable: list[tuple[float, str, str]], able: list[tuple[float, str, str]], inputs: int) -> str:
    if not unable and not able:
        return "How many inputs each metric takes was not asked; ask for the trial tells_apart."
    if not unable:
        count, name, _ = able[-1]
        many = f"with {counted(inputs, 'input')}; the coarsest is {name}, which takes {count:,.0f}"
        return f"None of the metrics fails here {many}."
    listed = [
        f"{name} {f'would need {count:,.0f} inputs' if count < math.inf else 'cannot at all'}"
        for count, name, _ in unable
    ]
    return f"Do not decide by those that show no significant difference here: {cut(listed)}."


def _best(findings: Sequence[Finding]) -> str:
    parts = []
    for kind, words in _RATES.items():
        rated = [one for one in findings if one.kind == kind]
        shares = {
            name: _passed([one for one in group if one.family == "truth_wins"]) for name, group in by(rated, name_of)
        }
        others = {name: _passed([one for one in group if one.family in _VALID]) for name, group in by(rated, name_of)}
        if any(one.family == "truth_wins" for one in rated):
            most = max(made for _, made in shares.values())
            widely = [one for one, (_, made) in shares.items() if 2 * made >= most]  # not on a single case
            name = max(widely, key=lambda one: (_share(shares[one]), _share(others[one]), shares[one][1]))
            won = f"the truth above {shares[name][0]} of {shares[name][1]} false ones"
            good = _share(shares[name]) >= _GOOD
            parts.append(
                f"use {name}, which puts {won}" if good else f"use none of these: the best, {name}, puts {won}"
            )
            parts[-1] = f"for {words} {parts[-1]}"
    if not parts:
        return "No metric was shown the truth beside false explanations; ask for the trial truth_wins."
    whole = "; ".join(parts)
    return f"{whole[0].upper()}{whole[1:]}."


def blind_spots(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """For each metric, the false explanations that it gives the truth's score on every input of most cases."""
    return _spots(findings, lambda one: one.ties > 0.99)


def misled(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """For each metric, the false explanations that it surely puts above the truth on most inputs of most cases."""
    return _spots(findings, lambda one: one.high < 0.5 and one.ties < 0.5)


def _spots(findings: Sequence[Finding], found: Callable[[Finding], bool]) -> dict[str, list[str]]:
    spots: dict[str, list[str]] = {}
    for metric, group in by([one for one in findings if one.family == "truth_wins"], lambda one: one.metric):
        for about, rows in by(group, lambda one: one.about):
            if 2 * sum(map(found, rows)) > len(rows):
                spots.setdefault(metric, []).append(about)
    return spots


def _blind(findings: Sequence[Finding]) -> str:
    same = [f"{names} cannot tell the truth a from {about}" for about, names in _turned(blind_spots(findings))]
    above = [f"{metric} puts {cut(several)} above the truth" for metric, several in misled(findings).items()]
    if not same and not above:
        return "No metric takes a false explanation for the truth in most cases."
    return f"Do not rely on one metric alone: {'; '.join([*same, *above])}."


def _turned(spots: dict[str, list[str]]) -> list[tuple[str, str]]:
    """By false explanation, the metrics that fall for it."""
    metrics: dict[str, list[str]] = {}
    for metric, several in spots.items():
        for about in several:
            metrics.setdefault(about, []).append(metric)
    return [(about, cut(names, shown=4)) for about, names in metrics.items()]


def _resolution(findings: Sequence[Finding]) -> str:
    damage = [
        finding
        for finding in findings
        if finding.family == "smallest_damage_found" and name_of(finding) == finding.metric
    ]
    if not damage:
        return "How little damage each metric finds was not asked; ask for the trial falls_with_damage."
    inputs = max(finding.inputs for finding in damage)
    medians = sorted((_median([finding.value for finding in group]), name) for name, group in by(damage, name_of))
    finest = [name for value, name in medians if value == medians[0][0]]
    coarse = [name for value, name in medians if value > 0.5]
    head = f"{counted(inputs, 'input')} are enough to find a damage of {medians[0][0]:g} in the median case"
    tail = f"; take more for {cut(coarse)}, to find one of 0.5" if coarse else ""
    return f"{head}, with {cut(finest)}{tail}."


def _share(counts: tuple[int, int]) -> float:
    return counts[0] / counts[1]


def _passed(findings: Sequence[Finding]) -> tuple[int, int]:
    judged = [finding for finding in findings if finding.passed is not None]
    return sum(bool(finding.passed) for finding in judged), max(1, len(judged))


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def by(findings: Iterable[Finding], key: Callable[[Finding], str]) -> list[tuple[str, list[Finding]]]:
    """Findings by a word, in the order in which it first occurs."""
    listed = list(findings)
    order = {word: at for at, word in enumerate(dict.fromkeys(map(key, listed)))}
    listed.sort(key=lambda one: order[key(one)])
    return [(word, list(group)) for word, group in groupby(listed, key)]


def cut(words: Sequence[str], shown: int = _MOST) -> str:
    """The first words of a list, and how many more there are.

    Example:
        >>> cut(["a", "b"]), cut(["a", "b", "c", "d", "e"])
        ('a, b', 'a, b, c, 2 more')
    """
    more = len(words) - shown
    return ", ".join([*words[:shown], *([f"{more} more"] if more > 0 else [])])
