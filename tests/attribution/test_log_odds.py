"""What methods explain: log-odds by default, which move with the probability; the paper's logit where asked."""

import pytest
import torch

import verax
from attribution.networks import mlp, rows
from verax.attribution import DeepLiftSHAP, Gradient, IntegratedGradients, KernelShap, Occlusion
from verax.study.spec import load_spec


@pytest.fixture
def network():
    """A network of four classes."""
    return mlp(outputs=4).double().eval()


def test_the_gradient_is_that_of_the_log_odds(network):
    x = rows(5, 6, dtype=torch.float64).requires_grad_()
    chance = torch.softmax(network(x), 1)[:, 2]
    (wanted,) = torch.autograd.grad(torch.logit(chance).sum(), x)
    torch.testing.assert_close(Gradient()(verax.Problem(network, x.detach(), target=2)), wanted, rtol=1e-9, atol=1e-12)


def test_it_points_where_the_probability_goes(network):
    x = rows(5, 6, dtype=torch.float64)
    log_odds, chance = (
        Gradient()(verax.Problem(network, x, explained=explained)) for explained in ("log_odds", "probability")
    )
    torch.testing.assert_close(log_odds / log_odds.norm(dim=1, keepdim=True), chance / chance.norm(dim=1, keepdim=True))
    logit = Gradient()(verax.Problem(network, x, explained="logit"))
    assert not torch.allclose(logit / logit.norm(dim=1, keepdim=True), log_odds / log_odds.norm(dim=1, keepdim=True))


@pytest.mark.parametrize(
    "method", [Gradient(), KernelShap(), Occlusion(), DeepLiftSHAP("random", samples=3)], ids=lambda m: m.label
)
def test_of_one_logit_both_are_the_same(method):
    scorer = verax.Scorer(mlp(outputs=1), returns="logits")
    x = rows(4, 6)
    default, logit = (method(verax.Problem(scorer, x, background=x, **said)) for said in ({}, {"explained": "logit"}))
    torch.testing.assert_close(default, logit)


def test_a_value_is_explained_as_it_is():
    scorer = verax.Scorer(mlp(outputs=1), returns="values")
    x = rows(4, 6)
    assert torch.equal(Gradient()(verax.Problem(scorer, x)), Gradient()(verax.Problem(scorer, x, explained="logit")))


@pytest.mark.parametrize("explained", ["log_odds", "probability"])
def test_contributions_add_up_to_the_difference_of_what_is_explained(network, explained):
    x, reference = rows(5, 6, dtype=torch.float64), rows(1, 6, seed=3, dtype=torch.float64)
    problem = verax.Problem(network, x, target=1, explained=explained, background=reference, baselines=reference[0])
    wanted = problem.class_scores(explained)[:, 1] - problem.on(reference, target=1).class_scores(explained)[:, 1]
    for method in (DeepLiftSHAP("random", samples=1), KernelShap(samples=64)):
        torch.testing.assert_close(method(problem).sum(1), wanted, rtol=0, atol=1e-9)
    steps = IntegratedGradients("mean", points=256)(problem).sum(1)
    torch.testing.assert_close(steps, wanted, rtol=0, atol=0.03)  # a Riemann sum


def test_deeplift_on_log_odds_of_a_linear_model_is_the_mean_slope_times_the_difference():
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3).double()
    x, reference = torch.randn(4, 5, dtype=torch.float64), torch.randn(1, 5, dtype=torch.float64)
    found = DeepLiftSHAP("random", samples=1)(verax.Problem(model, x, target=0, background=reference))
    by_path = IntegratedGradients("mean", points=512)(verax.Problem(model, x, target=0, background=reference))
    torch.testing.assert_close(found, by_path, rtol=0, atol=1e-3)


def test_the_papers_studies_explain_the_logit_and_others_log_odds():
    said = {name: {data.attributions.explained for data in load_spec(name).data} for name in ("paper-heloc", "demo")}
    assert said == {"paper-heloc": {"logit"}, "demo": {"log_odds"}}
    assert {data.attributions.explained for data in load_spec("paper-isic").data} == {"logit"}
