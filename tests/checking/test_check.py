"""Checks: outcomes by intervals, against metrics measured alone; what cannot be asked is said before any work."""

import math
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import verax
from verax.attribution import KernelShap, Random
from verax.checking import Requirement, Segments
from verax.checking.requirement import Threshold
from verax.checking.result import Sample, inputs_to_decide, outcome_of
from verax.metrics import EffectCorrelation, PredictionChange
from verax.statistics.anytime import ScoreRange
from verax.statistics.intervals import Estimate, bounded_mean, estimates

REMOVAL = "effect_correlation(perturbation=baseline, samples=40)"


def linear(rows=120, features=6, seed=0):
    torch.manual_seed(seed)
    model, x = torch.nn.Linear(features, 2), torch.randn(rows, features)
    exact = x * (model.weight[1] - model.weight[0]).detach()
    return verax.Problem(model, x, target=1, explained="log_odds"), exact


def checked(problem, attributions, **requirement):
    (line,) = verax.check(problem, attributions, requirement).requirements
    return line


@pytest.mark.parametrize(("threshold", "outcome"), [(0.2, "passed"), (0.5, "undecided"), (0.8, "failed")])
def test_an_interval_decides(threshold, outcome):
    result = Estimate(0.5, 0.1, 0.3, 0.7)
    assert outcome_of(result, threshold, "at least", strict=False) == outcome
    other = {"passed": "failed", "failed": "passed"}.get(outcome, outcome)
    assert outcome_of(result, threshold, "at most", strict=False) == other


def test_the_end_of_an_interval_is_on_the_right_side_unless_it_must_be_beyond():
    assert outcome_of(Estimate(0.0, 0.0, 0.0, 0.0), 0.0, "at least", strict=False) == "passed"
    assert outcome_of(Estimate(0.0, 0.0, 0.0, 0.0), 0.0, "at least", strict=True) == "failed"
    assert outcome_of(Estimate(0.5, math.nan, math.nan, math.nan), 0.0, "at least", strict=False) == "undecided"


def test_a_number_is_held_against_the_interval_of_the_metric():
    problem, exact = linear()
    scores = EffectCorrelation(perturbation="baseline", samples=40)(problem, exact).scores[0]
    result = bounded_mean(scores, -1.0, 1.0)
    line = checked(problem, exact, metric=REMOVAL, threshold=0.9)
    assert (line.value, line.low, line.high) == pytest.approx((result.mean, result.low, result.high))
    assert (line.outcome, line.segment, line.inputs, line.direction) == ("passed", "all", 120, "at least")
    assert line.interval == "for any distribution"


def test_scores_without_bounds_of_their_own_have_students_t():
    problem, exact = linear()
    (result,) = estimates(PredictionChange()(problem, exact).scores)
    line = checked(problem, exact, metric="pc", threshold=0.0)
    assert (line.low, line.high) == pytest.approx((result.low, result.high))
    assert line.interval == "Student's t"


def test_better_than_random_is_paired_with_a_random_explanation():
    problem, exact = linear()
    random = verax.explain(problem, {"random": Random(seed=3)})["random"]
    scores = PredictionChange()(problem, {"exact": exact, "random": random}).scores
    (result,) = estimates((scores[0] - scores[1])[None])
    line = checked(problem, exact, metric="pc", threshold="better than random", seed=3)
    assert (line.value, line.low, line.high) == pytest.approx((result.mean, result.low, result.high), rel=1e-5)
    assert line.outcome == "passed"
    assert checked(problem, {"opposite": -exact}, metric="pc", threshold="better than random").outcome == "failed"


def test_lower_is_better_where_the_metric_says_so():
    problem, exact = linear()
    assert (
        checked(problem, exact, metric="infidelity(perturbation=baseline)", threshold="better than random").outcome
        == "passed"
    )
    line = checked(problem, exact, metric="infidelity", threshold=1.0)
    assert (line.direction, line.outcome) == ("at most", "passed")


def test_not_worse_than_another_one_within_a_margin():
    problem, exact = linear()
    noisy = exact + 0.1 * torch.randn(exact.shape, generator=torch.Generator().manual_seed(0))
    both = {"noisy": noisy, "exact": exact}
    must = {"metric": REMOVAL, "threshold": "not worse than exact"}
    assert checked(problem, both, **must, margin=0.3).outcome == "passed"
    assert checked(problem, both, **must, margin=0.3).explanation == "noisy"
    assert checked(problem, both, **must, margin=0.01).outcome == "failed"
    line = checked(problem, {"noisy": noisy}, metric=REMOVAL, threshold="not worse than KernelShap(samples=64)")
    assert line.outcome == "failed"


def test_an_equal_explanation_is_not_worse_by_students_t_and_never_decided_with_bounds_and_no_margin():
    problem, exact = linear()
    both = {"a": exact, "b": exact.clone()}
    assert checked(problem, both, metric="pc", threshold="not worse than b").outcome == "passed"
    line = checked(problem, both, metric=REMOVAL, threshold="not worse than b")
    assert (line.outcome, line.needed) == ("undecided", None)


def test_a_share_of_the_limit():
    """Contributions of a linear model attain the limit of PC."""
    problem, exact = linear(rows=40)
    line = checked(problem, exact, metric="pc", threshold="95 % of the limit")
    assert (line.outcome, line.bound) == ("passed", 0.95)
    assert line.value == pytest.approx(1, abs=1e-5)
    half = exact.clone()
    half[:, :3] *= -1
    line = checked(problem, half, metric="pc", threshold="0.95 of the limit")
    assert line.outcome == "failed"
    limits = verax.limits(problem, ["pc"])["pc"]
    assert line.value == pytest.approx(limits.share(PredictionChange()(problem, half)).mean, abs=1e-5)
    assert line.low < line.value < line.high


def test_a_share_of_the_limit_where_lower_is_better():
    """Contributions of a linear model attain the lowest deletion, and their negation the highest."""
    problem, exact = linear(rows=40)
    line = checked(problem, exact, metric="deletion", threshold="95 % of the limit")
    assert (line.outcome, line.value) == ("passed", pytest.approx(1, abs=1e-5))
    line = checked(problem, -exact, metric="deletion", threshold="0.1 of the limit")
    assert line.outcome == "failed"
    assert line.value < 0


def test_a_limit_that_is_only_a_bound_cannot_be_passed():
    model, x = torch.nn.Linear(40, 2), torch.randn(4, 40)
    exact = x * (model.weight[1] - model.weight[0]).detach()
    line = checked(verax.Problem(model, x, target=1), exact, metric="pc(steps=40)", threshold="0.1 of the limit")
    assert line.outcome == "undecided"
    assert "at most this share" in line.note


def test_segments_are_corrected_for_their_number():
    problem, exact = linear()
    labels = np.array(["old", "young", "old"] * 40)
    result = verax.check(problem, exact, Requirement(REMOVAL, 0.9, segments=labels))
    assert [line.segment for line in result.requirements] == ["label: old", "label: young"]
    scores = EffectCorrelation(perturbation="baseline", samples=40)(problem, exact).scores[0]
    expected = bounded_mean(scores[torch.from_numpy(labels == "young")], -1.0, 1.0, 0.975)
    assert (result.requirements[1].low, result.requirements[1].inputs) == (pytest.approx(expected.low), 40)


def test_one_segment_fails_the_check():
    problem, exact = linear()
    wrong = exact.clone()
    wrong[::3] *= -1
    labels = (np.arange(120) % 3 == 0).astype(int)
    result = verax.check(problem, wrong, [Requirement(REMOVAL, 0.5, segments=labels)])
    assert [line.outcome for line in result.requirements] == ["passed", "failed"]
    assert result.outcome == "failed"


def test_segments_by_class_by_score_and_by_column():
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({"age": draws.integers(20, 70, 90).astype(float), "debt": draws.normal(size=90)})
    model = torch.nn.Linear(2, 3)
    problem = verax.Problem(model, frame.astype("float32"), baselines="mean", background=frame.astype("float32"))
    values = torch.randn(90, 2, generator=torch.Generator().manual_seed(0)).numpy()
    predicted, scores = problem.predicted.numpy(), problem.scores().numpy()
    ways = {
        "class": [int((predicted == label).sum()) for label in range(3)],
        "score": [int((scores < 0.9).sum()), int((scores >= 0.9).sum())],
        "column": [int((frame["age"] < 40).sum()), int((frame["age"] >= 40).sum())],
    }
    divisions = {"class": "class", "score": {"score": [0.9]}, "column": {"column": "age", "edges": [40]}}
    for name, counts in ways.items():
        result = verax.check(problem, values, Requirement("pc", -1.0, segments=divisions[name]))
        assert [line.inputs for line in result.requirements] == counts
    names = [line.segment for line in result.requirements]
    assert names == ["age: below 40", "age: 40 or more"]


def test_a_segment_without_inputs_is_undecided():
    problem, exact = linear()
    result = verax.check(problem, exact, Requirement(REMOVAL, 0.5, segments={"score": [-1.0]}))
    assert [line.outcome for line in result.requirements] == ["undecided", "passed"]
    assert result.requirements[0].note == "no input"
    assert result.outcome == "undecided"


def test_reasons_are_metrics_of_requirements():
    problem, exact = linear()
    must = [
        Requirement("false_reasons(k=3)", 0.05),
        Requirement("omitted_reasons(k=3)", 0.05),
        Requirement("reason_share(k=3)", 0.9),
        Requirement("reason_stability(k=3, over=neighbours)", 0.1),
        Requirement("false_reasons(k=3)", "better than random"),
    ]
    result = verax.check(problem, exact, must)
    assert [line.outcome for line in result.requirements] == ["passed"] * 5
    total = verax.reasons(problem, exact, k=3).totals()["omitted"]
    assert (result.requirements[1].value, result.requirements[1].high) == pytest.approx((total.mean, total.high))
    assert verax.check(problem, -exact, must[0]).outcome == "failed"


def test_neighbours_are_looked_for_among_all_inputs_and_not_among_those_measured_together():
    """Each input's twin is 600 rows away, in another block; its reasons are others for every second one."""
    problem, exact = linear(rows=600)
    x = torch.cat((problem.inputs, problem.inputs + 1e-4))
    values = torch.cat((exact, exact))
    values[600::2] = values[600::2].flip(1)
    twins = verax.Problem(problem.scorer, x, target=1)
    stability = verax.reasons(twins, values, k=3, repeats=0, rows=0).stability_over["neighbours"]
    line = checked(twins, values, metric="reason_stability(k=3, over=neighbours)", threshold=0.5)
    assert (line.value, line.inputs) == (pytest.approx(float(stability.mean())), 1200)
    few = checked(twins, values, metric="reason_stability(k=3, over=neighbours)", threshold=0.5, inputs=40)
    assert (few.inputs, few.value) == (40, pytest.approx(0.75, abs=0.15))


def test_neighbours_of_a_method_are_explained_as_well():
    problem, _ = linear(rows=600)
    twins = verax.Problem(problem.scorer, torch.cat((problem.inputs, problem.inputs + 1e-4)), target=1)
    line = checked(twins, {"exact": KernelShap(samples=64)}, metric="reason_stability(over=neighbours)", threshold=0.9)
    assert (line.outcome, line.value) == ("passed", pytest.approx(1))


def test_a_method_can_be_asked_whether_its_reasons_are_stable():
    problem, exact = linear(rows=60, features=10)
    methods = {"exact": KernelShap(samples=1024), "random": Random()}
    result = verax.check(problem, methods, Requirement("reason_stability", 0.9))
    assert [line.outcome for line in result.requirements] == ["passed", "failed"]
    with pytest.raises(ValueError, match=r"requirements\[0\]\.metric: stability over seeds needs a method"):
        verax.check(problem, exact, Requirement("reason_stability", 0.9))


def test_a_planted_wrong_reason_fails_a_requirement_of_few():
    problem, exact = linear(rows=1000, features=8)
    planted = exact.clone()
    order = exact.abs().argsort(1, descending=True)
    for row in range(0, 1000, 10):  # the weakest feature, with the sign turned, in the place of the strongest
        strongest, weakest = int(order[row, 0]), int(order[row, -1])
        planted[row, weakest] = -exact[row, weakest].sign() * exact[row, strongest].abs()
        planted[row, strongest] = 0
    must = Requirement("false_reasons", 0.01)
    assert verax.check(problem, exact, must).outcome == "passed"
    line = verax.check(problem, planted, must).requirements[0]
    assert line.outcome == "failed"
    assert line.value == pytest.approx(0.025)


def test_inputs_are_drawn_by_the_seed_and_smaller_draws_are_parts_of_larger_ones():
    problem, exact = linear()
    few, more, other = (
        checked(problem, exact, metric="pc", threshold=0, inputs=count, seed=seed)
        for count, seed in ((20, 0), (60, 0), (20, 1))
    )
    assert (few.inputs, more.inputs) == (20, 60)
    assert few.value != other.value
    assert few.digest == checked(problem, exact, metric="pc", threshold=0, inputs=20).digest


def test_until_decided_takes_no_more_inputs_than_it_needs():
    problem, exact = linear(rows=3000)
    sure = checked(problem, exact, metric=REMOVAL, threshold=0.5, until="decided")
    assert (sure.outcome, sure.inputs) == ("passed", 256)
    assert "at any time" in sure.interval
    scores = EffectCorrelation(perturbation="baseline", samples=40)(problem, exact).scores[0]
    close = checked(problem, exact, metric=REMOVAL, threshold=float(scores.mean()), until="decided")
    assert (close.outcome, close.inputs) == ("undecided", 3000)


def test_the_number_of_inputs_that_would_decide_does():
    problem, exact = linear(rows=4000)
    noisy = exact + 0.2 * torch.randn(exact.shape, generator=torch.Generator().manual_seed(0))
    few = checked(problem, noisy, metric=REMOVAL, threshold=0.7, inputs=40)
    assert few.outcome == "undecided"
    assert few.needed is not None
    more = checked(problem, noisy, metric=REMOVAL, threshold=0.7, inputs=min(4000, 4 * few.needed))
    assert more.outcome != "undecided"


def test_zeros_need_as_many_inputs_as_clopper_and_pearson_say():
    sample = Sample(torch.zeros(20, dtype=torch.float64), ScoreRange(0.0, 1.0, certain=True))
    result = inputs_to_decide(sample, 0.95, False, lambda estimate: outcome_of(estimate, 0.05, "at most", strict=False))
    exact = math.log(0.025) / math.log(0.95)
    assert result is not None
    assert exact <= result <= 1.06 * exact + 1


def test_blocks_do_not_matter():
    """More inputs than are measured together: the same scores as in one call."""
    problem, exact = linear(rows=1200)
    line = checked(problem, exact, metric="pc", threshold=0.0)
    assert line.value == pytest.approx(float(PredictionChange()(problem, exact).scores.mean()), abs=1e-7)


def test_columns_of_a_frame_may_have_any_order():
    draws = np.random.default_rng(0)
    frame = pd.DataFrame(draws.normal(size=(100, 3)), columns=["a", "b", "c"])
    model = LogisticRegression().fit(frame, frame["a"] - frame["c"] > 0)
    other = frame[["c", "b", "a"]]
    exact = other * model.coef_[0][[2, 1, 0]]
    line = checked(verax.Problem(model, other, target=1), exact.to_numpy(), metric=REMOVAL, threshold=0.9)
    assert line.outcome == "passed"


def test_the_result_is_a_table_a_dict_and_junit(tmp_path):
    problem, exact = linear()
    labels = np.array(["<&>", "b\x1b"] * 60)
    must = [Requirement(REMOVAL, 0.5, justification="why <so>", segments=labels), Requirement("pc", 0.9)]
    result = verax.check(problem, {"exact": exact}, must)
    text = str(result)
    assert text.splitlines()[0].split()[:3] == ["outcome", "requirement", "explanation"]
    facts = result.to_dict()
    assert (facts["outcome"], len(facts["requirements"])) == ("failed", 3)
    assert facts["requirements"][0]["justification"] == "why <so>"
    suite = ElementTree.fromstring(result.junit())[0]  # noqa: S314  # our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    assert "<&>" in str(suite[0].get("name"))
    assert suite[2][0].tag == "failure"
    for name in ("check.xml", "check.csv", "check.json", "check.parquet", "check.html"):
        result.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    page = (tmp_path / "check.html").read_text()
    assert "why &lt;so&gt;" in page
    assert "<script" not in page
    assert "Evidence, not compliance" in page


def test_the_outcome_is_the_worst_of_all():
    problem, exact = linear(rows=30)
    passed, failed, open_ = Requirement("pc", 0.0), Requirement("pc", 0.9), Requirement(REMOVAL, 0.999)
    outcomes = {
        ("passed",): [passed],
        ("passed", "undecided"): [passed, open_],
        ("passed", "undecided", "failed"): [passed, open_, failed],
    }
    for expected, must in outcomes.items():
        result = verax.check(problem, exact, must)
        assert tuple(line.outcome for line in result.requirements) == expected
        assert result.outcome == expected[-1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "pcc", "threshold": 0.5}, r"requirements\[0\]\.metric: expected .* did you mean 'pc'"),
        ({"metric": "pc"}, r"requirements\[0\]\.threshold: it is missing"),
        ({"metric": "pc", "threshold": "good"}, r"threshold: expected a number, 'better than random'"),
        ({"metric": "pc", "threshold": True}, r"threshold: expected a number"),
        ({"metric": "pc", "threshold": "1.2 of the limit"}, r"at most 100 % of the limit"),
        ({"metric": "pc", "threshold": 0.5, "treshold": 1}, r"treshold: no such key of a requirement"),
        ({"metric": "pc", "threshold": 0.5, "margin": 0.1}, r"margin: it goes with 'not worse than NAME'"),
        ({"metric": "pc", "threshold": 0.5, "until": "tired"}, r"until: expected one of 'decided'"),
        ({"metric": "pc", "threshold": 0.5, "inputs": 10**6}, r"requirements\[0\]\.inputs: expected at most the 12"),
        ({"metric": "pc", "threshold": 0.5, "segments": "region"}, r"segments: expected 'class'"),
        ({"metric": "pc", "threshold": 0.5, "segments": {"column": "age"}}, r"segments\.column: no column 'age'"),
        ({"metric": "pc", "threshold": 0.5, "segments": {"score": [0.5, 0.2]}}, r"expected rising numbers"),
        ({"metric": "pc", "threshold": 0.5, "segments": ["a"] * 5}, r"expected one label for each of 12 inputs"),
        ({"metric": "pc", "threshold": 0.5, "explanation": "lime"}, r"explanation: expected explanation, got 'lime'"),
        ({"metric": "pc", "threshold": "not worse than lim"}, r"threshold: expected explanation or a method"),
        ({"metric": "infidelity", "threshold": "0.5 of the limit"}, "limits are known of metrics that weigh"),
        ({"metric": "false_reasons", "threshold": "0.5 of the limit"}, r"false_reasons has no limit"),
        ({"metric": "false_reasons(over=seeds)", "threshold": 0.1}, r"false_reasons has no setting over"),
        ({"metric": "pc", "threshold": "better than random", "direction": "at most"}, r"means at least, got 'at most'"),
        ({"metric": "pc", "threshold": 0.5, "level": 95}, r"level"),
    ],
)
def test_what_cannot_be_required_is_said_before_any_work(settings, message):
    problem, exact = linear(rows=12)
    problem.scorer.model = None  # nothing may be scored
    before = problem.scorer.counts.rows
    with pytest.raises((ValueError, TypeError), match=message):
        verax.check(problem, exact, settings)
    assert problem.scorer.counts.rows == before


def test_thresholds_are_read():
    assert Threshold.read("80 % of the limit", 0.0) == Threshold("limit", 0.8)
    assert Threshold.read("0.8 of the limit", 0.0) == Threshold("limit", 0.8)
    assert Threshold.read(1, 0.0) == Threshold("number", 1.0)
    assert Threshold.read("not worse than lime 2", 0.1) == Threshold("other", 0.1, "lime 2")


def test_what_is_checked_must_be_clear():
    problem, exact = linear(rows=12)
    with pytest.raises(ValueError, match="none is left to be checked"):
        verax.check(problem, {"a": exact}, Requirement("pc", "not worse than a"))
    with pytest.raises(TypeError, match="requirements: expected a list of requirements"):
        verax.check(problem, exact, [])
    with pytest.raises(ValueError, match="is the name of the reference"):
        verax.check(problem, {"random (reference)": exact}, Requirement("pc", "better than random"))


def test_segments_say_one_thing():
    for settings in ({}, {"by": "class", "score": (0.5,)}, {"by": "class", "edges": (0.5,)}, {"by": "row"}):
        with pytest.raises(ValueError, match="segments"):
            Segments(**settings)


def test_too_many_segments_are_an_error():
    problem, exact = linear()
    with pytest.raises(ValueError, match="expected at most 50 of them, got 120 values of label"):
        verax.check(problem, exact, Requirement("pc", 0.5, segments=np.arange(120)))
