"""False explanations are what their names say, input by input."""

import math

import pytest
import torch

import verax
from verax.auditing.audited_problem import AuditContext, case_subject
from verax.auditing.known_truth.base import Case, Truth
from verax.auditing.trials.base import damaged, false_explanations, half_reversed, inverse, permuted, present, randomly
from verax.scoring.scorer import Scorer

X = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
SLOPES = torch.tensor([2.0, -1.0, 0.5, -0.25, 3.0], dtype=torch.float64).expand(6, 5)


@pytest.fixture(scope="module")
def ground():
    model = Scorer(lambda rows: rows @ SLOPES[0], returns="values", takes="torch")
    truths = (Truth(SLOPES, "the gradient"), Truth(SLOPES * X, "contributions"))
    return AuditContext(
        case_subject(Case("own", "A sum.", verax.Problem(model, X), *truths), {}), "local", SLOPES, 0, 0.95
    )


def test_every_alternative(ground):
    found = false_explanations(ground, SLOPES)
    assert torch.equal(found["-a"], -SLOPES)
    assert torch.equal(found["-1/a"], -1 / SLOPES)
    assert torch.allclose(found["a constant added"] - SLOPES, torch.tensor(6.0, dtype=torch.float64))
    assert torch.allclose(found["sign(g) |g (x - b)|"], SLOPES.sign() * (SLOPES * X).abs())
    assert torch.equal(found["the truth of the other kind"], SLOPES * X)
    assert torch.equal(found["half-reversed signs"][0], torch.tensor([2.0, -1.0, -0.5, 0.25, 3.0], dtype=torch.float64))
    assert torch.equal(found["permuted"].sort(1).values, SLOPES.sort(1).values)
    assert len(found["permuted"].unique(dim=0)) > 1  # each input has a permutation of its own
    drawn = [(found[f"noise {size}"] - SLOPES) / size for size in (0.25, 0.5, 1.0, 2.0)]
    assert all(torch.allclose(drawn[0], one) for one in drawn[1:])  # one direction, several sizes


def test_what_is_not_defined_is_the_truth():
    truth = torch.tensor([[1.0, 0.0, 2.0], [1.0, -4.0, 2.0]], dtype=torch.float64)
    there = torch.ones(2, 3, dtype=torch.bool)
    found = inverse(truth, there)
    assert torch.equal(found[0], truth[0])
    assert found[1].tolist() == [-1.0, 0.25, -0.5]


def test_absent_features_stay_as_they_are(ground):
    there = torch.tensor([[True, True, True, False, False]]).expand(6, 5)
    assert torch.equal(half_reversed(SLOPES, there)[:, 3:], SLOPES[:, 3:])
    assert torch.equal(inverse(SLOPES, there)[:, 3:], SLOPES[:, 3:])
    assert bool(present(ground.subject).all())


def test_damage_goes_from_the_truth_to_noise_of_its_size(ground):
    subject = ground.subject
    assert torch.equal(damaged(subject, 0, SLOPES, 0.0), SLOPES)
    whole, half = (damaged(subject, 0, SLOPES, size) for size in (1.0, 0.5))
    assert torch.allclose(half, (SLOPES + whole) / 2)
    many = torch.stack([randomly(subject, seed, SLOPES) for seed in range(200)])
    assert float(many.square().mean().sqrt()) == pytest.approx(math.sqrt(float(SLOPES.square().mean())), rel=0.1)


def test_draws_belong_to_the_input_not_to_its_place(ground):
    subject = ground.subject
    some = subject.at(slice(2, 5))
    assert torch.equal(permuted(some, 0, SLOPES[2:5]), permuted(subject, 0, SLOPES)[2:5])
    assert torch.equal(damaged(some, 0, SLOPES[2:5], 0.5), damaged(subject, 0, SLOPES, 0.5)[2:5])
