"""The trials find what is known of Captum's Infidelity: normalised, it cannot tell an explanation from its opposite."""

import pytest
import torch
from captum.metrics import infidelity
from torch import Tensor

from verax.auditing import cases
from verax.auditing.audited_problem import AuditContext, Bench, case_subject
from verax.auditing.trials.truth import TruthWins
from verax.problem.replacement import BASELINE

CASES = {case.name: case for case in cases(inputs=32)}


def noise(inputs: Tensor) -> tuple[Tensor, Tensor]:
    moved = 0.2 * torch.randn(inputs.shape, dtype=inputs.dtype, generator=torch.Generator().manual_seed(0))
    return moved, inputs - moved


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", ["linear", "product", "planted patch"])
def test_normalised_infidelity_of_captum_takes_the_opposite_for_the_truth(name: str, normalize: bool) -> None:
    subject = case_subject(CASES[name], {})
    truth, module = CASES[name].local, subject.problem.scorer.adapter.module
    assert truth is not None
    assert module is not None
    ground, trial = AuditContext(subject, "local", truth.attribution, seed=0, level=0.95), TruthWins()
    shown = trial.explanations(ground)
    found = {
        one: -infidelity(module, noise, subject.values, subject.shaped(a), n_perturb_samples=40, normalize=normalize)
        for one, a in shown.items()
    }
    bench = Bench(subject, {}, BASELINE)
    outcomes = {one.trial: one for _, one in trial.outcomes(ground, shown, {"captum": found}, bench)}
    opposite = outcomes["truth_wins: -a"]
    assert opposite.passed is not normalize
    assert opposite.ties == float(normalize)
    assert outcomes["truth_wins: permuted"].passed
