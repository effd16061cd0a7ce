"""Cases: what they call true is true, by the definitions."""

from math import comb

import pytest
import torch
from torch import Tensor

import verax
from verax.auditing import Case, cases
from verax.auditing.known_truth.base import product_shares
from verax.metrics import Infidelity, PredictionChange
from verax.problem.features import Groups

INPUTS = 3
ALL = {case.name: case for case in cases(inputs=INPUTS, seed=5)}
LOCAL = [name for name, case in ALL.items() if case.local is not None]
STEP = 1e-5


def score(case: Case, rows: Tensor) -> Tensor:
    module = case.problem.scorer.adapter.module
    assert module is not None
    found: Tensor = module(rows)
    return found


def members(case: Case) -> Tensor:
    """Which elements of a row belong to each feature, (F, *shape)."""
    features = case.problem.features
    shape = case.problem.inputs.shape[1:]
    numbers = features.numbers()[0] if isinstance(features, Groups) else torch.arange(shape.numel()).reshape(shape)
    return torch.stack([numbers == one for one in range(int(numbers.max()) + 1)])


def brute_force_shapley(case: Case) -> Tensor:
    """The definition: over all sets without a feature, what it adds."""
    parts, x = members(case), case.problem.inputs
    count = len(parts)
    sets = torch.arange(2**count)
    kept = (sets[:, None] >> torch.arange(count)) % 2 == 1
    fixed = ~parts.any(0)
    stays = torch.einsum("sf,f...->s...", kept.long(), parts.long()).bool() | fixed
    worth = torch.stack(
        [
            score(case, torch.where(stays, row, baseline))
            for row, baseline in zip(x, case.problem.baselines, strict=True)
        ]
    )
    sizes = kept.sum(1)
    found = []
    for one in range(count):
        without = sets[~kept[:, one]]
        ways = [count * comb(count - 1, int(size)) for size in sizes[without]]
        weight = 1 / torch.tensor(ways, dtype=torch.float64)
        found.append((worth[:, without | 1 << one] - worth[:, without]) @ weight)
    return torch.stack(found, dim=1)


def central_differences(case: Case, step: float) -> Tensor:
    x = case.problem.inputs
    moves = [step * part.double() for part in members(case)]
    return torch.stack([(score(case, x + move) - score(case, x - move)) / (2 * step) for move in moves], dim=1)


def gradient(case: Case) -> Tensor:
    """By autograd; a feature of many elements has the sum of theirs."""
    leaf = case.problem.inputs.clone().requires_grad_()
    (found,) = torch.autograd.grad(score(case, leaf).sum(), leaf)
    return torch.stack([found[:, part].sum(1) for part in members(case)], dim=1)


@pytest.mark.parametrize("name", ALL)
def test_baseline_truth_is_the_shapley_values_by_brute_force(name: str) -> None:
    truth = ALL[name].baseline
    assert truth is not None
    torch.testing.assert_close(truth.attribution, brute_force_shapley(ALL[name]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", LOCAL)
def test_local_truth_is_the_central_difference_at_its_scale(name: str) -> None:
    truth = ALL[name].local
    assert truth is not None
    found = central_differences(ALL[name], STEP if truth.scale is None else truth.scale)
    torch.testing.assert_close(truth.attribution, found, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", LOCAL)
def test_local_truth_is_the_gradient_unless_it_has_a_scale(name: str) -> None:
    truth, found = ALL[name].local, gradient(ALL[name])
    assert truth is not None
    if truth.scale is None:
        torch.testing.assert_close(truth.attribution, found, rtol=0, atol=1e-13)
    else:
        assert (truth.attribution - found).abs().mean() > truth.attribution.abs().mean()  # shattered


@pytest.mark.parametrize("side", [-1, 1])
def test_shattered_gradients_are_whole_at_their_scale(side: int) -> None:
    """One-sided moves, and the best line through Gaussian noise: by Stein's lemma its slope is the mean gradient."""
    case = ALL["shattered gradients"]
    truth, x = case.local, case.problem.inputs
    assert truth is not None
    assert truth.scale is not None
    moves = side * truth.scale * members(case).double()
    one_sided = torch.stack([(score(case, x + move) - score(case, x)) / move.sum() for move in moves], dim=1)
    torch.testing.assert_close(truth.attribution, one_sided, rtol=0, atol=1e-12)
    grid = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    density = torch.exp(-(grid**2) / 2)
    leaf = (x[0] + truth.scale * grid[:, None]).requires_grad_()  # features add up: one grid serves all of them
    (slopes,) = torch.autograd.grad(score(case, leaf).sum(), leaf)
    torch.testing.assert_close(truth.attribution[0], density @ slopes / density.sum(), rtol=0, atol=1e-7)


def test_regions_of_the_piecewise_linear_network_reach_beyond_its_inputs() -> None:
    case = ALL["piecewise linear"]
    assert case.local is not None
    torch.testing.assert_close(case.local.attribution, central_differences(case, 0.03), rtol=0, atol=1e-13)
    assert case.local.attribution.abs().min() > 0  # one unit of each pair is always on


@pytest.mark.parametrize("name", ALL)
def test_inputs_are_generic(name: str) -> None:
    """No feature is at its baseline, inputs differ, and a truth has no ties but those of features without a say."""
    case = cases(inputs=64)[list(ALL).index(name)]
    removable = members(case).any(0)
    assert (case.problem.inputs != case.problem.baselines)[:, removable].all()
    assert len(case.problem.inputs.unique(dim=0)) == 64
    for truth in (case.local, case.baseline):
        if truth is not None:
            assert truth.attribution.dtype == torch.float64
            assert truth.attribution.shape == (64, len(members(case)))
            assert truth.attribution.any(1).all()
            if name != "decision tree":  # features that answer alike share alike
                for row in truth.attribution.abs():
                    said = row[row > 0]
                    assert len(said.unique()) == len(said)


def test_features_without_a_say_have_none() -> None:
    for name, idle in (
        ("uninformative", slice(6, 10)),
        ("duplicated", slice(4, 8)),
        ("uncertainty-aware", slice(4, 6)),
    ):
        for truth in (ALL[name].local, ALL[name].baseline):
            assert truth is not None
            assert not truth.attribution[:, idle].any()
    copies = ALL["duplicated"]
    for rows in (copies.problem.inputs, copies.problem.background):
        assert torch.equal(rows[:, :4], rows[:, 4:])


def test_a_case_that_leaves_a_truth_out_says_why() -> None:
    for case in ALL.values():
        assert (case.local is None or case.baseline is None) == bool(case.left_out), case.name
        assert case.truth("local") is case.local
        assert case.truth("baseline") is case.baseline


def test_the_seed_draws_the_inputs_and_fewer_are_the_first_of_more() -> None:
    before = torch.random.get_rng_state()
    again, other, more = cases(INPUTS, 5), cases(INPUTS, 6), cases(2 * INPUTS, 5)
    assert torch.equal(before, torch.random.get_rng_state())
    for one, same, new, longer in zip(ALL.values(), again, other, more, strict=True):
        assert torch.equal(one.problem.inputs, same.problem.inputs), one.name
        assert torch.equal(one.problem.inputs, longer.problem.inputs[:INPUTS]), one.name
        assert not torch.equal(one.problem.inputs, new.problem.inputs), one.name
        assert one.baseline is not None
        assert same.baseline is not None
        assert torch.equal(one.baseline.attribution, same.baseline.attribution), one.name


@pytest.mark.parametrize("name", ALL)
def test_evaluate_takes_a_case_as_it_is_and_knows_truth_from_its_opposite(name: str) -> None:
    """In the mean over 32 inputs; on an AND of two a false order may win a single one."""
    case = cases(inputs=32)[list(ALL).index(name)]
    assert case.baseline is not None
    given = {"true": case.baseline.attribution, "false": -case.baseline.attribution}
    metrics = [PredictionChange(), Infidelity(perturbation="baseline", samples=64)]
    found = verax.evaluate(case.problem, given, metrics)
    assert found["pc"].value["true"].mean() > found["pc"].value["false"].mean()
    assert found["infidelity"].value["true"].mean() < found["infidelity"].value["false"].mean()
    if case.local is not None:
        given = {"true": case.local.attribution, "false": -case.local.attribution}
        local = verax.evaluate(case.problem, given, [Infidelity(samples=64)])
        assert local["infidelity"].value["true"].mean() < local["infidelity"].value["false"].mean()


def test_no_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"inputs: expected a whole number of at least 1, got 0\."):
        cases(inputs=0)


def test_shares_of_a_product_add_up() -> None:
    """At any number of factors: to what the whole product changed by."""
    for factors in range(1, 12):
        drawn = torch.randn(2, 4, factors, dtype=torch.float64, generator=torch.Generator().manual_seed(factors))
        whole = drawn[0].prod(1) - drawn[1].prod(1)
        torch.testing.assert_close(product_shares(drawn[0], drawn[1]).sum(1), whole, rtol=0, atol=1e-12)
