import pytest
import torch
from captum.attr import Saliency
from torch import Tensor, nn

import calls
import verax
from attribution.networks import convnet, mlp, rows
from calls import attribute
from verax.attribution import Gradient

NETWORKS = {"perceptron": (mlp, (6,)), "convolutional": (convnet, (3, 12, 12))}


@pytest.mark.parametrize("name", NETWORKS)
def test_equals_captum(name: str) -> None:
    build, shape = NETWORKS[name]
    model, x = build().double().eval(), rows(9, *shape, dtype=torch.float64)
    target = torch.arange(9) % 3
    wanted = Saliency(model).attribute(x.clone().requires_grad_(), target=target, abs=False)
    torch.testing.assert_close(Gradient()(calls.problem(model, x, target=target)), wanted, rtol=0, atol=1e-8)


def test_of_a_linear_model_is_its_weights() -> None:
    model = nn.Linear(5, 3)
    found = Gradient()(calls.problem(model, rows(4, 5), target=[2, 0, 1, 1]))
    assert torch.equal(found, model.weight[[2, 0, 1, 1]])


def test_of_probabilities_is_that_of_their_logit() -> None:
    model, x = mlp(outputs=1).double().eval(), rows(5, 6, dtype=torch.float64)
    scorer = verax.Scorer(nn.Sequential(model, nn.Sigmoid()), returns="probabilities")
    for target in (0, 1):
        models = (scorer, verax.Scorer(model, returns="logits"))
        found, wanted = (Gradient()(calls.problem(one, x, target=target)) for one in models)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-8)


def test_a_class_that_ignores_the_input_has_no_gradient() -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.sum(1), torch.zeros(len(x))], 1)

    assert torch.equal(Gradient()(calls.problem(Constant(), rows(3, 4), target=1)), torch.zeros(3, 4))


def test_costs_one_backward_row_per_input() -> None:
    found = attribute([Gradient(), Gradient()], mlp(), rows(9, 6))
    assert (len(found), found.rows, found.rows_backward, found.delta) == (1, 18, 9, {})
