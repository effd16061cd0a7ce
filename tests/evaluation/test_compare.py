"""Rankings with paired intervals, against scipy's and against simulations whose truth is known."""

import re

import numpy as np
import pytest
import torch
from scipy import stats

import calls
import verax
from verax.core.arrays import Layout
from verax.evaluation.comparison import Comparison
from verax.evaluation.ranking import NOT_SIGNIFICANT, REFERENCE
from verax.evaluation.result import Evaluation
from verax.evaluation.verdicts import with_reference
from verax.metrics import DirectedPredictionChange, Infidelity, PredictionChange, Result
from verax.metrics.result import Context
from verax.problem.attributed import attributed
from verax.scoring.meter import Cost


@pytest.fixture(scope="module")
def problem():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    x = torch.randn(40, 6)
    gradient = calls.explained(verax.attribution.Gradient(), model, x)
    return model, x, {"noise": torch.randn(40, 6), "gradient": gradient, "contrary": -gradient, "times x": gradient * x}


@pytest.fixture(scope="module")
def found(problem):
    return calls.compare(*problem, samples=50)


def of_scores(metric=None, level=0.95, **scores):
    """A comparison of scores made up."""
    values = torch.stack([torch.as_tensor(one, dtype=torch.float64) for one in scores.values()])
    layout = Layout("dict", tuple(scores), "torch", torch.device("cpu"), torch.float64)
    context = Context(layout, torch.zeros(values.shape[1], dtype=torch.int64), 0, 0.0)
    metric = metric or PredictionChange()
    return Comparison(Evaluation({metric.name: Result(metric, context, values)}, Cost()), level)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("metric", ["pc", "dpc", "infidelity"])
def test_a_pair_has_the_interval_of_scipys_paired_t_test(found, metric, level):
    a, b = (found.evaluation[metric].scores[found.names.index(name)].numpy() for name in ("gradient", "noise"))
    expected = stats.ttest_rel(a, b).confidence_interval(level)
    pair = Comparison(found.evaluation, level).pair("gradient", "noise", metric)
    assert (pair.low, pair.high) == pytest.approx((expected.low, expected.high), rel=1e-6)
    assert pair.mean == pytest.approx(a.mean() - b.mean(), rel=1e-6)
    assert pair.standard_error == pytest.approx(stats.sem(a - b), rel=1e-6)


def test_a_pair_agrees_with_the_bootstrap():
    generator = np.random.default_rng(0)
    common = generator.normal(size=300)
    a, b = (common + generator.normal(scale=0.1, size=300) + shift for shift in (0.02, 0.0))
    pair = of_scores(a=a, b=b).pair("a", "b", "pc")
    expected = stats.bootstrap((a - b,), np.mean, method="percentile", rng=1).confidence_interval
    assert (pair.low, pair.high) == pytest.approx((expected.low, expected.high), abs=0.1 * (pair.high - pair.low))
    apart = np.hypot(stats.sem(a), stats.sem(b))
    assert pair.standard_error < 0.2 * apart  # what pairing gains


@pytest.mark.parametrize("inputs", [5, 40])
def test_equal_attributions_are_told_apart_as_often_as_the_level_says(inputs):
    generator = np.random.default_rng(0)
    words = []
    for _ in range(600):
        a, b = generator.normal(size=(2, inputs))
        words.append(of_scores(a=a, b=b, level=0.9).pair("a", "b", "pc").word)
    wrong = 1 - words.count(NOT_SIGNIFICANT) / len(words)
    assert wrong == pytest.approx(0.1, abs=3 * (0.1 * 0.9 / 600) ** 0.5)
    assert abs(words.count("better") - words.count("worse")) < 30


def test_rankings_follow_the_direction_of_the_metric(found):
    for metric, sign in (("pc", -1), ("dpc", -1), ("infidelity", 1)):
        ranking = found.ranking(metric)
        means = found.evaluation[metric].mean()
        assert [one.name for one in ranking] == sorted(found.names, key=lambda name: sign * means[name].mean)
        assert [one.place for one in ranking] == [1, 2, 3, 4, 5]
        for one, after in zip(ranking, [*ranking[1:], None], strict=True):
            expected = means[one.name]
            assert (one.mean, one.low, one.high) == (expected.mean, expected.low, expected.high)
            assert one.standard_error == expected.standard_error
            if after is None:
                assert one.against_next is None
            else:
                assert one.against_next == found.pair(one.name, after.name, metric)
                assert one.against_next.word in ("better", NOT_SIGNIFICANT)


def test_the_gradient_wins_where_it_is_the_explanation(found):
    for metric in ("dpc", "infidelity"):
        assert found.ranking(metric)[0].name == "gradient"
        assert found.pair("gradient", "noise", metric).word == "better"
        assert found.pair("noise", "gradient", metric).word == "worse"
    assert found.ranking("dpc")[-1].name == "contrary"


def test_a_pair_turned_round_is_the_same_pair(found):
    one, other = found.pair("noise", "gradient", "dpc"), found.pair("gradient", "noise", "dpc")
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low))
    assert str(other).startswith("gradient is better than noise by 0.")
    assert str(one) == str(other).replace("gradient is better than noise", "noise is worse than gradient")


def test_one_pass_serves_all_and_gives_what_evaluate_gives(problem, found):
    model, x, attributions = problem
    random = with_reference(attributed(verax.Problem(model, x), attributions)).attributions[-1]
    alone = calls.evaluate(model, x, {**attributions, REFERENCE: random}, samples=50)
    assert found.names == tuple(alone.labels)
    assert found.evaluation.rows == alone.rows
    for metric, result in alone.items():
        assert torch.equal(found.evaluation[metric].scores, result.scores)


@pytest.mark.parametrize("kind", ["evaluate", "compare", "replacements", "stream"])
def test_rows_of_a_call_hold_those_of_the_methods_it_computed(kind):
    scorer = verax.Scorer(torch.nn.Linear(4, 2))
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    methods = {"IG": verax.attribution.IntegratedGradients(), "x": x}
    if kind == "stream":
        methods = {"IG": verax.attribution.IntegratedGradients()}
        found = list(calls.stream(scorer, x.split(15), methods, ["pc"], batch_size=2))
        rows, backward = sum(one.rows for one in found), sum(one.rows_backward for one in found)
    elif kind == "evaluate":
        whole = calls.evaluate(scorer, x, methods, ["pc", "infidelity"], samples=5)
        rows, backward = whole.rows, whole.rows_backward
    else:
        others = [verax.replacement.Toward(0.5)] if kind == "replacements" else []
        compared = calls.compare(scorer, x, methods, ["pc"], replacements=others)
        rows, backward = compared.rows, compared.evaluation.rows_backward
    assert (rows, backward) == (scorer.rows, scorer.rows_backward)
    assert backward == 40 * 64


def test_a_metric_called_on_a_problem_counts_the_methods_it_computed():
    scorer = verax.Scorer(torch.nn.Linear(4, 2))
    x = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    methods = {"LIME": verax.attribution.LimeTabular(samples=100), "x": x}
    for metric in (verax.metrics.PredictionChange(), verax.metrics.EffectCorrelation(samples=20)):
        before = scorer.rows
        assert metric(verax.Problem(scorer, x), methods).rows == scorer.rows - before > 1000


def test_arguments_reach_the_evaluation(problem):
    model, x, attributions = problem
    settings = {"target": 2, "baselines": 0.5, "steps": 3, "sigma": 0.1, "samples": 9, "seed": 4, "output": "logit"}
    found = calls.compare(model, x, attributions, batch_size=7, device="cpu", features="element", **settings)
    alone = calls.evaluate(model, x, attributions, **settings)
    for metric, result in alone.items():
        assert found.evaluation[metric].metric == result.metric
        assert found.names == (*alone.labels, REFERENCE)
        torch.testing.assert_close(found.evaluation[metric].scores[:-1], result.scores)


def test_attributions_that_differ_in_scale_alone_are_not_told_apart(problem):
    model, x, attributions = problem
    gradient = attributions["gradient"]
    found = calls.compare(model, x, {f"{scale}": gradient * scale for scale in (1.0, 3.7, 0.011)}, samples=50)
    for metric in found.metrics:
        assert found.pair("1.0", "3.7", metric).mean == 0
        assert set(found.best(metric)) - {REFERENCE} == {"1.0", "3.7", "0.011"}


def test_a_bias_of_rounding_is_no_difference():
    a = np.random.default_rng(0).normal(size=50)
    assert of_scores(a=a * (1 + 1e-8), b=a).pair("a", "b", "pc").word == NOT_SIGNIFICANT
    assert of_scores(a=a + 1e-3, b=a).pair("a", "b", "pc").word == "better"


@pytest.mark.parametrize("beside", [{}, {"random": torch.randn(60, 12, generator=torch.Generator().manual_seed(1))}])
def test_attributions_that_are_perfect_but_for_rounding_are_all_best(beside):
    """Their Infidelities are some 1e-15, of which one may be a third larger than the other on every input."""
    generator = torch.Generator().manual_seed(0)
    x, noise = torch.randn(60, 12, generator=generator), torch.randn(6, 60, 12, generator=generator)
    model = torch.nn.Linear(12, 2)
    torch.nn.init.normal_(model.weight, generator=generator)
    slopes = model.weight[1].detach().expand(60, 12)
    equal = {f"slopes {number}": slopes * (1 + 3e-7 * number * noise[number]) for number in range(6)}
    found = calls.compare(model, x, equal | beside, ["infidelity"], target=1, output="logit")
    assert found.best("infidelity") == list(equal)  # in the order in which they were given
    verdicts = list(found.verdicts["local"].values())
    assert verdicts[:6] == ["best", *["not significantly different from the best"] * 5]
    assert [line[3] for line in found.cells()[1:]] == [*verdicts, ""]
    assert found.pair("slopes 5", "slopes 0", "infidelity").word == "not significantly different"


def test_best_holds_all_that_are_not_told_apart_from_the_best():
    generator = np.random.default_rng(0)
    base = generator.normal(size=200)
    near = base + generator.normal(scale=0.1, size=200)
    scores = {"far": base - 1, "near": near - near.mean() + base.mean() - 1e-4, "first": base}
    assert of_scores(**scores).best("pc") == ["first", "near"]
    assert of_scores(Infidelity(), **scores).best("infidelity") == ["far"]


def test_one_input_shows_no_spread():
    found = of_scores(a=[2.0], b=[1.0])
    (first, second) = found.ranking("pc")
    assert (first.name, first.against_next.word, second.against_next) == ("a", NOT_SIGNIFICANT, None)
    assert np.isnan([first.low, first.against_next.low]).all()
    assert found.best("pc") == ["a", "b"]
    assert "Means over 1 input with" in repr(found)


def test_one_attribution_is_compared_with_a_random_one_alone(problem):
    model, x, attributions = problem
    found = calls.compare(model, x, {"only": attributions["noise"]}, metrics=["pc"])
    first, last = found.ranking("pc")
    assert {first.name, last.name} == {"only", REFERENCE}
    assert last.against_next is None
    assert len(found.sentences("pc")) == 1
    assert found.verdicts == {"baseline": {"only": "no better than random"}}
    assert "*" not in repr(found)


def test_metrics_may_be_objects(problem):
    found = calls.compare(*problem, metrics=["pc", DirectedPredictionChange("signed", steps=3)])
    assert found.metrics == ("pc", "dpc")
    assert "believe gradient (DPC 0.04" in repr(found)


def test_the_table_is_aligned_and_complete(found):
    lines = repr(found).splitlines()
    assert lines[:3] == [*found.answers.values(), ""]
    table = lines[3:9]
    starts = [[match.start() for match in re.finditer(r"(?:(?<=  )|^)\S", line)] for line in table]
    assert all(line == starts[0] for line in starts[:-1])
    assert set(starts[-1]) < set(starts[0])  # the random one has no verdict
    assert [line.split("  ")[0] for line in table] == ["attribution", *found.names]
    assert lines[9].startswith(
        "Means over 40 inputs with 95 % intervals; *: not significantly different from the best, paired; "
    )
    assert lines[10].startswith("Model: Sequential; tracked: probability of the predicted class: ")
    assert lines[11] == ""
    assert len(lines) == 12 + 4 + 3  # DPC decides nothing, so it is in words; of all three it is said what is known
    assert f"DPC: {found.ranking('dpc')[0].against_next}" in lines


def test_html_shows_names_as_they_are(problem):
    model, x, attributions = problem
    found = calls.compare(model, x, {"<script>": attributions["noise"], "b & c": x}, metrics=["pc"])
    page = found._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == 4
    assert "b &amp; c" in page


@pytest.mark.parametrize(("stack", "names"), [(False, ["attribution"]), (True, ["attribution 0", "attribution 1"])])
def test_arrays_without_names_are_compared_by_their_numbers(stack, names):
    torch.manual_seed(0)
    model, x = torch.nn.Linear(6, 2), torch.randn(40, 6)
    effects = x * (model.weight[1] - model.weight[0]).detach()
    values = torch.stack([effects, -effects]) if stack else effects
    comparison = verax.compare(verax.Problem(model, x, target=1), values)
    by_name = verax.compare(verax.Problem(model, x, target=1), dict(zip(names, [effects, -effects], strict=False)))
    assert list(comparison.verdicts["baseline"]) == names
    assert comparison.verdicts == by_name.verdicts
    assert comparison.verdicts["baseline"][names[0]] == "best"


def test_wrong_arguments_are_named(problem, found):
    model, x, attributions = problem
    with pytest.raises(ValueError, match=r"metric: expected one of 'pc', 'dpc', 'infidelity', got 'area'"):
        found.ranking("area")
    with pytest.raises(ValueError, match=r"attribution: expected one of 'noise', .*, got 'lime'"):
        found.pair("noise", "lime", "pc")
    with pytest.raises(TypeError, match="attributions: expected a dict of names to arrays, got a dict with other keys"):
        calls.compare(model, x, {1: x})
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(ValueError, match="level: expected a number between 0 and 1"):
            calls.compare(model, x, attributions, level=level)
