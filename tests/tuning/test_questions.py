"""Searches by question: the truth of a linear model is found for each, in one search, and must beat a random one."""

import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

import verax
from verax.attribution import Gradient, IntegratedGradients, KernelShap, LimeTabular, Occlusion, Random, SmoothGrad
from verax.metrics import EffectCorrelation
from verax.metrics.choose import QUESTIONS
from verax.tuning import Tuned

WEIGHTS = torch.tensor([2.0, -1.5, 1.2, -0.9, 0.7, -0.5])
METHODS = [
    Gradient(),
    IntegratedGradients("zero", points=8),
    IntegratedGradients("zero", multiply_by_inputs=False, points=8),
    Occlusion(),
    SmoothGrad(0.5, samples=8),
    LimeTabular(samples=64),
    LimeTabular(samples=16),
    Random(),
]


def linear(outputs=1):
    """A linear classifier."""
    torch.manual_seed(1)
    model = torch.nn.Linear(6, outputs)
    with torch.no_grad():
        model.weight.copy_(0.4 * torch.stack([WEIGHTS * (1 - 2 * place) for place in range(outputs)]))
    return verax.Scorer(model, returns="logits")


@pytest.fixture(scope="module")
def problem():
    torch.manual_seed(0)
    return verax.Problem(linear(), torch.randn(60, 6), target=1)


@pytest.fixture(scope="module")
def found(problem):
    return verax.tune(problem, METHODS)


def direction(values):
    return values / values.norm(dim=1, keepdim=True)


def same_direction(values, truth):
    return float((direction(values) * direction(truth)).sum(1).min()) > 0.99


def test_each_question_finds_its_truth_or_an_equal(problem, found):
    slopes, contributions = WEIGHTS.expand(60, 6), WEIGHTS * problem.inputs
    assert same_direction(found["local"].best(problem), slopes)
    assert same_direction(found["baseline"].best(problem), contributions)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("question", ["local", "baseline"])
def test_of_all_methods_the_truth_of_a_linear_model_or_an_equal_is_found(question, outputs):
    torch.manual_seed(2)
    x = torch.randn(48, 6)
    problem = verax.Problem(linear(outputs), x, target=0, background=x)
    found = verax.tune(problem, question=question, trials=48, seed=1)
    slopes = Gradient()(problem)
    truth = slopes if question == "local" else KernelShap(samples=64)(problem)
    wanted = EffectCorrelation(samples=160, perturbation="gaussian" if question == "local" else "baseline")
    scores = verax.evaluate(problem, {"truth": truth, "found": found.best(problem)}, [wanted])["effect_correlation"]
    mean = {name: one.mean for name, one in scores.mean().items()}
    assert mean["found"] >= mean["truth"] - 0.01
    assert found.question == question
    assert found[question] is found


def test_one_question_has_its_best_at_once(problem, found):
    local = verax.tune(problem, METHODS, question="local")
    assert isinstance(local, Tuned)
    assert same_direction(local.best(problem), WEIGHTS.expand(60, 6))
    assert list(local.answers) == ["local"]
    with pytest.raises(KeyError, match="this search answers 'local', got 'baseline'"):
        local["baseline"]


def test_two_questions_have_no_single_best(found):
    with pytest.raises(ValueError, match=r'use tuned\["local"\].best or tuned\["baseline"\].best'):
        _ = found.best


def test_what_is_found_is_ready_to_be_explained_and_pasted(problem, found):
    best = found["local"].best
    explained = verax.explain(problem, {"best": best})
    assert explained["best"].shape == problem.inputs.shape
    *imports, call = best.code.splitlines()
    names = {}
    exec("\n".join(imports), names)  # noqa: S102  # code that was just written
    assert eval(call, names) == best  # noqa: S307
    assert best.code in str(found)


def test_two_questions_share_attributions(problem):
    fresh = [verax.Problem(linear(), problem.inputs, target=1) for _ in range(3)]
    methods = [LimeTabular(samples=4096), LimeTabular(alpha=0.1, samples=4096), KernelShap(samples=32)]
    both = verax.tune(fresh[0], methods).rows
    apart = sum(
        verax.tune(fresh[at], methods, question=question).rows for at, question in enumerate(QUESTIONS, start=1)
    )
    assert both < 0.8 * apart


def test_the_answers_say_that_the_best_beats_a_random_explanation(found):
    for question, label in (("local", "Effect correlation"), ("baseline", "Effect correlation (removal)")):
        one = found[question]
        said = f"believe {one.best.canonical} ({label} {one.score}, significantly better than a random explanation)."
        assert found.answers[question] == one.answer
        assert one.answer.endswith(said)
        assert one.answer in str(found)
    assert found.table.height == len(METHODS)
    assert {"effect_correlation", "effect_correlation_baseline"} <= set(found.table.columns)


def test_where_only_random_ones_were_tried_none_is_to_be_believed(problem):
    found = verax.tune(problem, [Random(seed=seed) for seed in range(6)])
    assert all("believe none of those tried" in answer for answer in found.answers.values())


def test_a_search_goes_on_where_it_stopped(problem, tmp_path):
    path = tmp_path / "trials.parquet"
    verax.tune(problem, METHODS, trials=4, store=path)
    again = verax.tune(problem, METHODS, store=path)
    assert again.table.height == len(METHODS)
    with pytest.raises(ValueError, match="a search with another metric"):
        verax.tune(problem, METHODS, question="local", store=path)


def test_a_forest_is_asked_one_question():
    torch.manual_seed(0)
    x = torch.randn(80, 4)
    forest = RandomForestRegressor(8, random_state=0).fit(x.numpy(), x[:, 0].numpy())
    problem = verax.Problem(forest, x.numpy()[:32])
    methods = [Occlusion(), KernelShap(samples=16)]
    found = verax.tune(problem, methods)
    assert found.question == "baseline"
    assert found["baseline"].best in methods
    with pytest.raises(ValueError, match="has no answer here: the model is made of trees"):
        verax.tune(problem, methods, question="local")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"question": "local", "metric": "pc"}, "question, metric: a question has a metric that decides it"),
    ],
)
def test_what_cannot_be_asked_is_said(problem, asked, message):
    with pytest.raises(ValueError, match=message):
        verax.tune(problem, METHODS, **asked)


def test_pages_and_notebooks_have_both_answers(found, tmp_path):
    found.save(tmp_path / "search.html")
    page = (tmp_path / "search.html").read_text()
    for shown in (page, found._repr_html_()):
        assert all(
            one.best.canonical.replace("'", "&#39;") in shown.replace("&#x27;", "&#39;")
            for one in found.searches.values()
        )
    assert found.plot().to_dict()


def test_what_is_significantly_behind_is_no_equal_of_the_best(problem):
    """Eight inputs are too few for bets to drop a trial, but not for a paired difference to show that it is worse."""
    tuned = verax.tune(problem[:8], METHODS)["baseline"]
    behind = dict(tuned.table.select("configuration", "behind_low").iter_rows())
    assert sum(trial.alive for trial in tuned.candidates) > 1 + len(tuned.equals)
    assert {tuned.best, *tuned.equals} == {METHODS[1], Occlusion()}  # equal but for rounding
    assert all(behind[configuration.canonical] <= 0 for configuration in tuned.equals)
    assert "Random" not in str(tuned).split("Not significantly different")[1].split("import")[0]
