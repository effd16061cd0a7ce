"""Trials on scores and models whose outcome is known."""

import math
from dataclasses import dataclass

import pytest
import torch

from calls import audit
from verax.auditing import cases, trials
from verax.auditing.audited_problem import (
    AuditContext,
    Bench,
    case_subject,
    unsupported_reason,
    unsupported_replacement,
)
from verax.auditing.choices import METHODS
from verax.auditing.trials.damage import DAMAGES, damaged_name
from verax.metrics import Deletion, DirectedPredictionChange, EffectCorrelation, LocalPredictionChange, PredictionChange
from verax.problem.replacement import BASELINE, Blur, Conditional

CASES = {case.name: case for case in cases(inputs=24)}


@pytest.fixture(scope="module")
def ground():
    subject = case_subject(CASES["linear"], METHODS)
    return AuditContext(subject, "local", subject.truths["local"].attribution, 0, 0.95)


def outcomes(trial, ground, scores, shown=None):
    bench = Bench(ground.subject, {}, BASELINE)
    shown = trial.explanations(ground) if shown is None else shown
    return {found.trial: found for _, found in trial.outcomes(ground, shown, scores, bench)}


def test_truth_wins_counts_ties_as_not_won_and_leaves_out_what_equals_the_truth(ground):
    trial = trials.TruthWins()
    shown = dict(trial.explanations(ground))
    shown["permuted"] = shown["permuted"].clone()
    shown["permuted"][:10] = ground.truth[:10]
    scores = {name: torch.zeros(24, dtype=torch.float64) for name in shown}
    scores["truth"] = torch.ones(24, dtype=torch.float64)
    scores["-a"] = torch.where(torch.arange(24) < 12, 1.0, 0.0).double()  # half of them tied
    found = outcomes(trial, ground, {"m": scores}, shown)
    assert (found["truth_wins: -a"].value.mean, found["truth_wins: -a"].ties) == (0.5, 0.5)
    assert found["truth_wins: -a"].passed is False
    assert found["truth_wins: random"].passed is True
    assert found["truth_wins: permuted"].inputs == 14
    assert found["truth_wins_on_average: -a"].value.mean == 0.5


def test_few_inputs_are_not_judged(ground):
    trial = trials.TruthWins(fewest=25)
    scores = {name: torch.randn(24, dtype=torch.float64) for name in trial.explanations(ground)}
    assert all(found.passed is None for found in outcomes(trial, ground, {"m": scores}).values())


def test_a_score_that_falls_with_damage(ground):
    noise = 0.01 * torch.randn(24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    falling = {"truth": 1.0 + noise} | {damaged_name("truth", size): 1 - size + noise.flip(0) for size in DAMAGES}
    found = outcomes(trials.FallsWithDamage(), ground, {"m": falling})
    assert found["falls_with_damage"].value.mean > 0.95
    assert (found["smallest_damage_found"].value.mean, found["smallest_damage_found"].passed) == (0.1, True)
    rising = {name: -values for name, values in falling.items()}
    found = outcomes(trials.FallsWithDamage(), ground, {"m": rising})
    assert found["falls_with_damage"].value.mean < -0.95
    assert found["smallest_damage_found"].value.mean == math.inf
    still = {name: torch.zeros(24, dtype=torch.float64) for name in falling}
    found = outcomes(trials.FallsWithDamage(), ground, {"m": still})
    assert (found["falls_with_damage"].value.mean, found["falls_with_damage"].passed) == (0.0, False)


def test_reliability_is_not_called_validity(ground):
    trial = trials.Reliability()
    assert not trial.validity
    assert not trials.Consistency().validity
    scores = {name: torch.full((24,), float(at)).double() for at, name in enumerate(trial.explanations(ground))}
    found = outcomes(trial, ground, {"m": scores})
    assert found["reliability: alpha"].value.mean == 1.0  # and yet it may be wrong
    assert found["reliability: split halves"].passed


def test_peaks_are_measured_against_exact_limits():
    """The gradient attains LPC's limit on a linear model, and nowhere near DPC's."""
    metrics = {"lpc": LocalPredictionChange(epsilon=1e-4), "dpc": DirectedPredictionChange("magnitude")}
    found = audit(metrics=metrics, cases=[CASES["linear"]], replacements=["baseline"], trials=["peaks_at_truth"])
    values = {(one.metric, one.trial): one for one in found.findings}
    assert values["lpc", "peaks_at_truth: of the exact limit"].value == pytest.approx(1.0, abs=1e-6)
    assert values["lpc", "peaks_at_truth"].value == pytest.approx(1.0, abs=1e-6)
    assert values["dpc", "peaks_at_truth: of the exact limit"].value < 0.8
    climbed = values["dpc", "peaks_at_truth"]
    assert not climbed.passed
    assert "another explanation scores" in climbed.says
    assert found.counter_examples == {("dpc", "Baseline", "linear"): climbed.says}


def test_a_counter_example_is_no_better_than_the_limit():
    metrics = {"dpc": DirectedPredictionChange("magnitude")}
    found = audit(metrics=metrics, cases=[CASES["linear"]], replacements=["baseline"], trials=["peaks_at_truth"])
    by_trial = {one.trial: one.value for one in found.findings}
    assert by_trial["peaks_at_truth"] >= by_trial["peaks_at_truth: of the exact limit"] - 0.05


def test_a_randomised_model_is_noticed():
    metrics = {"effect correlation": EffectCorrelation(samples=80)}
    found = audit(
        metrics=metrics, cases=[CASES["piecewise linear"]], replacements=["baseline"], trials=["randomised_model"]
    )
    last = found.findings[-1]
    assert last.trial == "randomised_model: all layers"
    assert last.passed
    assert last.low < 0.2
    assert [one.passed for one in found.findings[:-1]] == [None] * (len(found.findings) - 1)


def test_consistency_has_metaquantus_names():
    metrics = {"pc": PredictionChange()}
    found = audit(metrics=metrics, cases=[CASES["linear"]], replacements=["baseline"], trials=["consistency"])
    by_trial = {one.trial.removeprefix("consistency: "): one for one in found.findings}
    assert set(by_trial) == {"IAC_NR", "IEC_NR", "IAC_AR", "IEC_AR", "MC"}
    four = [by_trial[name].value for name in ("IAC_NR", "IEC_NR", "IAC_AR", "IEC_AR")]
    assert by_trial["MC"].value == pytest.approx(sum(four) / 4)
    assert by_trial["IEC_NR"].value > 0.9  # a little noise leaves the ranking of three explanations


def test_what_cannot_be_measured_is_asked_before():
    table, words = (case_subject(CASES[name], METHODS) for name in ("linear", "planted word"))
    assert "images" in unsupported_replacement(Blur(1.0), table)
    assert unsupported_replacement(Conditional(), table) == ""
    assert "no direction" in unsupported_reason(DirectedPredictionChange(), table, Conditional())
    assert "categorical" in unsupported_reason(DirectedPredictionChange(), words, BASELINE)
    assert "noise is undefined" in unsupported_reason(EffectCorrelation(), words, BASELINE)
    assert unsupported_reason(PredictionChange(), words, BASELINE) == ""


@dataclass(frozen=True)
class AlwaysOne(PredictionChange):
    """Says the same of every explanation."""

    def reduce(self, scores):
        return super().reduce(scores) * 0 + 1


def test_a_metric_with_a_reduction_of_its_own_has_no_share_of_limits_that_are_not_its():
    metrics = {"always": AlwaysOne(), "pc": PredictionChange(), "deletion": Deletion()}
    found = audit(metrics=metrics, cases=[CASES["linear"]], replacements=["baseline"], trials=["peaks_at_truth"])
    shares = {one.metric: one.value for one in found.findings if one.trial == "peaks_at_truth: of the exact limit"}
    assert set(shares) == {"pc", "deletion"}
    assert max(shares.values()) <= 1 + 1e-9


def test_the_truth_of_a_sum_reaches_the_exact_limit_of_every_curve_metric_whatever_its_direction():
    found = audit(
        cases=[CASES["linear"]],
        metrics=["pc", "srg", "insertion", "deletion"],
        replacements=["baseline"],
        trials=["peaks_at_truth"],
    ).findings
    shares = {one.metric: one.value for one in found if one.trial == "peaks_at_truth: of the exact limit"}
    assert shares == {name: pytest.approx(1) for name in ("pc", "srg", "insertion", "deletion")}
