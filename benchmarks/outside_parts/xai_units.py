"""XAI-Units (Lee et al.): metrics tried on eight models of known behaviour.

The units are in ``_units``; the attributions that their authors call true are rated beside slopes and
Shapley values.
"""

from pathlib import Path
from typing import Any

import outside
import torch

import verax
from outside_parts._units import INPUTS, Unit, units
from verax import metrics
from verax.auditing import Case

SHARE = "truth_wins: "  # the share of inputs; the mean over them is another row
SLOPES: dict[str, Any] = {
    "Effect correlation, 160 draws": metrics.EffectCorrelation(samples=160),
    "Infidelity": metrics.Infidelity(),
    "LPC": metrics.LocalPredictionChange(),
    "DPC, signed": metrics.DirectedPredictionChange("signed"),
    "DPC, by magnitude": metrics.DirectedPredictionChange("magnitude"),
    "DPC, by magnitude, MoRF area": metrics.DirectedPredictionChange("magnitude", area="morf"),
}
CONTRIBUTIONS: dict[str, Any] = {
    "Effect correlation (removal), 160 draws": metrics.EffectCorrelation(perturbation="baseline", samples=160),
    "Infidelity (removal)": metrics.Infidelity(perturbation="baseline"),
    "Sensitivity-N": metrics.SensitivityN(sizes=(1, 2)),
    "PC": metrics.PredictionChange(),
    "SRG": metrics.SymmetricRelevanceGain(),
    "Insertion": metrics.Insertion(),
    "Deletion": metrics.Deletion(),
    "Comprehensiveness": metrics.Comprehensiveness(),
    "Sufficiency": metrics.Sufficiency(),
}


def measure(data: Path) -> dict[str, Any]:
    """Try the metrics; no data of the folder are needed."""
    every = units()
    mine = [case for unit in every for case in unit.cases()]
    theirs = [case for unit in every if _differs(unit) for case in unit.cases(theirs=True)]
    return {
        "inputs": INPUTS,
        "units": [_described(unit) for unit in every],
        "trials": _trials(mine, SLOPES) + _trials(mine, CONTRIBUTIONS),
        "trials_of_theirs": _trials(theirs, CONTRIBUTIONS),
    }


def _differs(unit: Unit) -> bool:
    return unit.theirs is not None and not torch.allclose(unit.theirs, unit.shapley(), atol=1e-9)


def _described(unit: Unit) -> dict[str, Any]:
    """How far their truth is from the Shapley values, and which of the two scores higher."""
    found: dict[str, Any] = {"unit": unit.name, "features": unit.rows.shape[1], "slopes": unit.slopes is not None}
    if unit.silent:
        found["of_silent"] = float(unit.shapley()[:, -unit.silent :].abs().max())
    if unit.theirs is None:
        return found
    values, problem = {"shapley": unit.shapley(), "theirs": unit.theirs}, unit.problem()
    other = (values["shapley"] - unit.theirs).abs().amax(1) > 1e-9  # rounding
    found |= {"furthest": float((values["shapley"] - unit.theirs).abs().max()), "inputs_that_differ": int(other.sum())}
    if not other.any():
        return found
    scores = verax.evaluate(problem, values, CONTRIBUTIONS)
    found["shapley_wins"] = {}
    for name, metric in CONTRIBUTIONS.items():
        by_name = scores[name].value
        above = (by_name["shapley"] - by_name["theirs"])[other] * (1 if metric.higher_is_better else -1)
        found["shapley_wins"][name] = {
            "higher": float((above > 1e-9).double().mean()),  # rounding
            "lower": float((above < -1e-9).double().mean()),
        }
    return found


def _trials(cases: list[Case], rated: dict[str, Any]) -> list[dict[str, Any]]:
    """Of how many false explanations, over all cases, the truth does not win on more than half of the inputs."""
    frame = verax.audit(cases, metrics=rated, replacements=["baseline"], trials=["truth_wins"])
    found = []
    for name in rated:
        shares = [one for one in frame.findings if one.metric == name and one.trial.startswith(SHARE)]
        judged = [one for one in shares if one.passed is not None]
        failed = [[one.case, one.trial.removeprefix(SHARE)] for one in judged if not one.passed]
        found.append({"metric": name, "trials": len(judged), "failed": failed})
    return found


def tables(measured: dict[str, Any]) -> dict[str, str]:
    """The units, and the trials that metrics failed."""
    removal = next(iter(CONTRIBUTIONS))
    described = []
    for one in measured["units"]:
        wins = one.get("shapley_wins", {}).get(removal)
        theirs = _apart(one)
        shares = ["", ""] if wins is None else [f"{wins['higher']:.0%}", f"{wins['lower']:.0%}"]
        inputs = str(one.get("inputs_that_differ") or "")
        described.append([one["unit"], str(one["features"]), "yes" if one["slopes"] else "no", theirs, inputs, *shares])
    second = {one["metric"]: f"{len(one['failed'])} of {one['trials']}" for one in measured["trials_of_theirs"]}
    trials = [
        [one["metric"], f"{len(one['failed'])} of {one['trials']}", second.get(one["metric"], ""), _falls_for(one)]
        for one in measured["trials"]
    ]
    head = ["unit", "features", "slopes", "their truth from Shapley values", "inputs", "higher", "lower"]
    return {
        "units": outside.markdown(head, described),
        "trials": outside.markdown(["metric", "failed", "failed with their truth", "falls for, in units"], trials),
    }


def _apart(one: dict[str, Any]) -> str:
    if "of_silent" in one:
        return f"0 of one feature: {one['of_silent']:.0e}"
    if "furthest" not in one:
        return "none"
    return f"{one['furthest']:.2f}" if one["inputs_that_differ"] else f"equal: {one['furthest']:.0e}"


def _falls_for(one: dict[str, Any]) -> str:
    counts: dict[str, int] = {}
    for _, false in one["failed"]:
        counts[false] = counts.get(false, 0) + 1
    return ", ".join(
        f"{false} ({count})".replace("|", "\\|") for false, count in sorted(counts.items(), key=lambda item: -item[1])
    )
