"""Verdicts of a comparison: what is best, what beats random, what to believe, and when there is no answer."""

import json
import warnings
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import verax
from verax.cli.evaluate import ranking_facts
from verax.core.arrays import Layout
from verax.evaluation.ranking import REFERENCE
from verax.evaluation.verdicts import Judgement, Verdict
from verax.metrics import DirectedPredictionChange, EffectCorrelation, Infidelity, PredictionChange, Result
from verax.metrics.result import Context
from verax.statistics.paired import holm, paired_p_values

BEST, TIED, BETTER, NO_BETTER, WORSE = get_args(Verdict)
WEIGHTS = torch.tensor([2.0, -1.5, 1.2, -0.9, 0.7, -0.5, 0.3, 0.2])


def linear(scale=0.3):
    """A linear classifier with one logit."""
    model = torch.nn.Linear(8, 1)
    with torch.no_grad():
        model.weight.copy_(scale * WEIGHTS[None])
        model.bias.zero_()
    return verax.Scorer(model, returns="logits")


@pytest.fixture(scope="module")
def problem():
    torch.manual_seed(0)
    return verax.Problem(linear(), torch.randn(64, 8), target=1)


@pytest.fixture(scope="module")
def explanations(problem):
    torch.manual_seed(1)
    slopes, x = WEIGHTS.expand(64, 8), problem.inputs
    return {"slopes": slopes, "contributions": slopes * x, "noise": torch.randn(64, 8), "contrary": -slopes}


@pytest.fixture(scope="module")
def found(problem, explanations):
    return verax.compare(problem, explanations)


def judgement(level=0.95, metric=None, **scores):
    """Verdicts of made-up scores, one list per explanation; ``random`` is the reference."""
    values = torch.stack([torch.as_tensor(one, dtype=torch.float64) for one in scores.values()])
    names = tuple(REFERENCE if name == "random" else name for name in scores)
    layout = Layout("dict", names, "torch", torch.device("cpu"), torch.float64)
    metric = metric or PredictionChange()
    result = Result(metric, Context(layout, torch.zeros(values.shape[1], dtype=torch.int64), 0, 0.0), values)
    return Judgement(metric.kind, metric.name, result, REFERENCE, level)


def test_holm_is_its_definition():
    generator = np.random.default_rng(0)
    for _ in range(50):
        p = generator.uniform(size=7) ** 3
        for level in (0.01, 0.05, 0.2):
            rejected, order = set(), np.argsort(p)
            for rank, place in enumerate(order):
                if p[place] > level / (len(p) - rank):
                    break
                rejected.add(place)
            assert rejected == {place for place, q in enumerate(holm(p.tolist())) if q <= level}
    assert holm([0.01, float("nan")]) == [0.02, 1.0]
    assert holm([]) == []


def test_p_values_are_those_of_scipys_paired_t_test():
    generator = np.random.default_rng(1)
    first, others = generator.normal(size=30), generator.normal(0.3, size=(4, 30))
    expected = [stats.ttest_rel(first, other).pvalue for other in others]
    assert paired_p_values(torch.from_numpy(first), torch.from_numpy(others)) == pytest.approx(expected, rel=1e-9)
    assert paired_p_values(torch.tensor([1.0, 2.0]), torch.tensor([[0.5, 1.5], [1.0, 2.0]])) == [0.0, 1.0]


def test_the_truth_of_each_question_is_best_and_its_opposite_worse_than_random(found, explanations):
    assert list(found.verdicts) == ["local", "baseline"]
    assert list(found.verdicts["local"]) == list(found.verdicts["baseline"]) == list(explanations)
    assert found.verdicts["local"]["slopes"] == found.verdicts["baseline"]["contributions"] == BEST
    assert found.verdicts["local"]["contrary"] == WORSE
    assert found.verdicts["local"]["noise"] == found.verdicts["baseline"]["noise"] == NO_BETTER


def test_both_questions_cost_321_rows_per_input_for_any_number_of_explanations(problem, explanations, found):
    assert found.rows == 64 * 321
    more = {f"another {place}": torch.randn(64, 8) for place in range(40)}
    fresh = verax.Problem(linear(), problem.inputs, target=1)
    assert verax.compare(fresh, explanations | more).rows == 64 * 321


def test_the_answers_say_whom_to_believe_with_the_score_and_its_interval(found):
    slopes = found.evaluation["effect_correlation"].mean()["slopes"]
    said = f"believe slopes (Effect correlation {slopes}, significantly better than the other three)."
    assert found.answers["local"] == f'For "what would a small change of the input do", {said}'
    assert found.answers["baseline"].startswith('For "what made the score what it is", believe contributions (')


def test_the_table_has_a_line_per_explanation_and_the_answers_come_first(found, explanations):
    lines = str(found).splitlines()
    assert lines[:2] == list(found.answers.values())
    for name in explanations:
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert all(found.verdicts[kind][name] in line for kind in found.verdicts)
    assert sum(line.startswith("random") for line in lines) == 1
    assert f"{found.rows:,} model rows" in str(found)
    assert "(Holm)" in str(found)


def test_notebook_page_and_frame_have_the_answers_too(found, tmp_path):
    found.save(tmp_path / "report.html")
    for page in (found._repr_html_(), (tmp_path / "report.html").read_text()):
        assert "believe slopes (Effect correlation" in page
        assert "worse than random" in page
        assert REFERENCE in page
    assert set(found.to_frame()["attribution"]) == set(found.names)


def test_wins_are_the_share_of_inputs_above_the_random_explanation(found):
    scores = dict(zip(found.names, found.evaluation["effect_correlation"].scores, strict=True))
    for name, share in found.judgements["local"].wins.items():
        assert share == float((scores[name] > scores[REFERENCE]).double().mean())


def test_verdicts_of_scores_made_up():
    spread = torch.linspace(-0.1, 0.1, 40, dtype=torch.float64)
    turned = spread.flip(0)
    made_up = judgement(
        top=0.8 + spread,
        nearly=0.79 + turned,
        middle=0.4 + spread,
        nothing=turned,
        bad=-0.5 + spread,
        random=spread * 0,
    )
    assert made_up.verdicts == {"top": BEST, "nearly": TIED, "middle": BETTER, "nothing": NO_BETTER, "bad": WORSE}
    assert "believe top (PC 0.800" in made_up.answer
    assert "or nearly, not significantly different from it" in made_up.answer


def test_where_lower_is_better_the_lowest_is_best():
    spread = torch.linspace(0, 0.1, 40, dtype=torch.float64)
    made_up = judgement(metric=Infidelity(), low=0.1 + spread, high=0.9 + spread, random=0.5 + spread.flip(0))
    assert made_up.verdicts == {"low": BEST, "high": WORSE}


def test_equal_explanations_are_best_and_not_significantly_different():
    spread = torch.linspace(0, 0.1, 20, dtype=torch.float64)
    made_up = judgement(one=0.5 + spread, other=0.5 + spread, random=spread)
    assert made_up.verdicts == {"one": BEST, "other": TIED}


def test_where_nothing_beats_random_none_is_to_be_believed():
    generator = torch.Generator().manual_seed(0)
    made_up = judgement(**{name: torch.randn(50, generator=generator) for name in ("a", "b", "random")})
    assert set(made_up.verdicts.values()) == {NO_BETTER}
    assert "believe none of these: none is significantly better than a random explanation" in made_up.answer


def test_one_input_has_no_answer(problem):
    found = verax.compare(problem[:1], {"a": problem.inputs[:1], "b": -problem.inputs[:1]})
    assert set(found.verdicts["baseline"].values()) == {NO_BETTER}
    assert "one input shows no significant difference" in found.answers["baseline"]


def test_of_ten_random_explanations_one_beats_random_in_at_most_five_of_a_hundred_comparisons():
    generator = torch.Generator().manual_seed(0)
    false = 0
    for _ in range(400):
        drawn = {str(place): torch.rand(64, generator=generator) for place in range(10)}
        words = judgement(**drawn, random=torch.rand(64, generator=generator)).verdicts.values()
        false += any(word not in (NO_BETTER, WORSE) for word in words)
    assert false / 400 <= 0.05  # one side of a two-sided test: 0.025 is expected


def test_the_truly_best_is_hardly_ever_called_worse():
    generator = torch.Generator().manual_seed(1)
    lost = 0
    for _ in range(300):
        noise = torch.randn(12, 64, generator=generator, dtype=torch.float64)
        equal = {str(place): 3 + noise[place] for place in range(10)}  # all are the best
        verdicts = judgement(**equal, random=noise[10]).verdicts
        lost += verdicts["0"] == BETTER
    assert lost / 300 <= 0.05


def test_categories_have_no_small_change(explanations):
    tokens = torch.randint(0, 5, (40, 6), generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0])
    model = verax.Scorer(lambda rows: weights[torch.as_tensor(rows)].sum(1), returns="values")
    problem = verax.Problem(model, tokens, baselines=0, categorical=True)
    found = verax.compare(problem, {"words": weights[tokens], "noise": torch.randn(40, 6)})
    assert list(found.evaluation) == ["effect_correlation_baseline"]
    assert found.verdicts["local"] == {}
    assert "there is no answer: all values are categories" in found.answers["local"]
    assert found.verdicts["baseline"] == {"words": BEST, "noise": NO_BETTER}
    assert list(verax.evaluate(problem, weights[tokens])) == ["effect_correlation_baseline", "pc", "infidelity"]


def test_trees_have_no_slope_also_behind_a_pipeline():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 4))
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(8, max_depth=2, random_state=0)).fit(x, x[:, 0] > 0)
    found = verax.compare(verax.Problem(forest, x[:32]), {"noise": generator.normal(size=(32, 4))})
    assert list(found.evaluation) == ["effect_correlation_baseline"]
    assert "made of trees" in found.answers["local"]


def test_a_model_that_is_flat_in_fact_has_no_answer_either():
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    steps = verax.Scorer(lambda rows: (torch.as_tensor(rows) > 0).float() @ WEIGHTS[:4], returns="values")
    found = verax.compare(verax.Problem(steps, x), {"weights": WEIGHTS[:4].expand(32, 4)})
    assert found.verdicts["local"] == {}
    assert "of small changes leave the score exactly as it is" in found.answers["local"]
    assert found.verdicts["baseline"]["weights"] in (BEST, NO_BETTER)


@pytest.fixture(scope="module")
def sure():
    """A network of two logits that is sure of most inputs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    with torch.no_grad():
        model[2].weight *= 60
    return model, torch.randn(48, 6)


def test_where_the_model_is_sure_the_warning_has_the_verdict_on_the_logit(sure):
    model, x = sure
    slopes = {"gradient": verax.attribution.Gradient()(verax.Problem(model, x)), "noise": torch.randn(48, 6)}
    problem = verax.Problem(model, x)
    chance = verax.Problem(model, x).class_scores("probability").amax(1)
    share = float((1 - chance < 1e-3).double().mean())
    assert share > 0.5
    with pytest.warns(UserWarning, match=f"the model is sure of {share:.0%} of the inputs") as given:
        found = verax.compare(problem, slopes)
    assert len(given) == 1
    assert found.rows == 48 * 321  # the logit costs no row
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_logit = verax.compare(verax.Problem(model, x, output="logit"), slopes)
    assert on_logit.answers["local"] in str(given[0].message)
    assert on_logit.answers["baseline"] in found.saturation_words()
    logits = found.evaluation.saturation.results["effect_correlation"].scores
    assert torch.equal(logits, on_logit.evaluation["effect_correlation"].scores)


def test_a_model_that_is_not_sure_warns_of_nothing(problem, explanations):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verax.compare(problem, explanations).saturation_words() == ""


def test_probabilities_alone_have_no_logit_to_compare(sure):
    model, x = sure
    scorer = verax.Scorer(lambda rows: torch.softmax(model(rows), 1), returns="probabilities")
    with pytest.warns(UserWarning, match="returns no logits"):
        verax.compare(verax.Problem(scorer, x), {"noise": torch.randn(48, 6)})


def test_metrics_that_are_not_followed_on_the_logit_say_nothing_of_it(sure):
    """PC removes features, which moves the probability of a sure model as well; the network does return logits."""
    model, x = sure
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = verax.compare(verax.Problem(model, x), {"noise": torch.randn(48, 6)}, ["pc"])
    assert found.saturation_words() == ""


def test_a_metric_of_the_call_decides_with_what_is_known_against_it(problem, explanations):
    found = verax.compare(problem, explanations, ["pc", DirectedPredictionChange(order="signed")])
    assert list(found.verdicts) == ["local", "baseline"]
    assert found.verdicts["baseline"]["contributions"] == BEST
    assert "Decided by PC, which verdicts should not rest on: It is blind" in found.answers["baseline"] or (
        PredictionChange().known_limitations in found.answers["baseline"]
    )
    only = verax.compare(problem, explanations, ["pc"])
    assert list(only.verdicts) == list(only.answers) == ["baseline"]


def test_of_several_metrics_the_first_that_may_decide_does(problem, explanations):
    found = verax.compare(problem, explanations, ["lpc", Infidelity(samples=40), EffectCorrelation(samples=40)])
    assert found.judgements["local"].column == "infidelity"
    found = verax.compare(problem, explanations, ["lpc", EffectCorrelation(samples=40)])
    assert found.judgements["local"].column == "effect_correlation"


def test_what_may_decide_is_what_the_audit_found_fit():
    fit = [EffectCorrelation(), EffectCorrelation(perturbation="baseline"), Infidelity()]
    unsuitable = [
        EffectCorrelation(perturbation="baseline", effect="dot"),
        Infidelity(normalize=False),
        Infidelity(perturbation="baseline"),
        PredictionChange(),
        DirectedPredictionChange(),
    ]
    assert all(metric.decides for metric in fit)
    assert not any(metric.decides for metric in unsuitable)


def test_metrics_by_one_word(problem, explanations):
    default = ["effect_correlation", "effect_correlation_baseline", "pc", "dpc", "infidelity"]
    slopes = {"slopes": explanations["slopes"][:8]}
    problem = problem[:8]
    assert list(verax.evaluate(problem, slopes)) == default
    assert list(verax.evaluate(problem, slopes, "paper")) == default[2:]
    every = verax.evaluate(problem, slopes, "all")
    assert list(every)[:5] == default
    assert {"lpc", "sensitivity_n", "deletion", "srg"} <= set(every)
    with pytest.raises(ValueError, match='metrics: expected a list of metrics, a dict that names them, "paper" or'):
        verax.evaluate(problem, slopes, "pc")


def test_all_metrics_of_tokens_leave_out_what_does_not_fit():
    tokens = torch.randint(0, 5, (6, 4), generator=torch.Generator().manual_seed(0))
    model = verax.Scorer(lambda rows: torch.as_tensor(rows).double().sum(1), returns="values")
    every = verax.evaluate(verax.Problem(model, tokens, baselines=0, categorical=True), tokens.double(), "all")
    assert "pc" in every
    assert "sensitivity_n" in every
    assert not {"dpc", "lpc", "effect_correlation"} & set(every)


def test_the_reference_has_a_name_of_its_own(problem, explanations):
    named = verax.compare(problem, {"random": explanations["noise"], "slopes": explanations["slopes"]})
    assert list(named.verdicts["local"]) == ["random", "slopes"]
    with pytest.raises(ValueError, match="rename it"):
        verax.compare(problem, {REFERENCE: explanations["noise"]})


def test_methods_that_are_compared_count_in_the_cost(problem):
    found = verax.compare(problem, {"IG": verax.attribution.IntegratedGradients(points=8)})
    assert found.rows >= 64 * 321
    assert found.evaluation.rows_backward == 64 * 8


def test_more_inputs_never_change_the_random_explanation_of_the_first(problem, explanations):
    first = {name: one[:10] for name, one in explanations.items()}
    few, many = verax.compare(problem[:10], first), verax.compare(problem, explanations)
    of_ten = few.evaluation["effect_correlation"].scores[-1]
    assert torch.allclose(of_ten, many.evaluation["effect_correlation"].scores[-1, :10], atol=1e-6)


def test_verdicts_are_plain_words_in_json(found):
    facts = json.loads(json.dumps(ranking_facts(found)))
    assert facts["verdicts"] == found.verdicts
    assert facts["answers"] == found.answers
    assert facts["wins"]["local"]["slopes"] == 1.0


def test_images_without_channels_stay_without_them():
    torch.manual_seed(0)
    images = torch.randn(6, 3, 4, 4)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    found = verax.compare(verax.Problem(model, images), {"map": torch.randn(6, 4, 4)})
    assert found.names == ("map", REFERENCE)
    assert all(one <= two for one, two in pairwise(sorted(found.judgements["local"].wins.values())))
