"""The resampling study of Infidelity: chunk by chunk it is what it is at once, and it can take all of LIME."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal

import calls
import verax
from verax.attribution import LimeTabular
from verax.metrics import Infidelity, InfidelityUncertainty
from verax.metrics.infidelity_uncertainty import UncertaintyResult
from verax.study import uncertainty
from verax.study.explained_models import Machine
from verax.study.spec import UncertaintySpec
from verax.study.store import Store
from verax.study.study import open_study
from verax.study.uncertainty import joined, uncertainty_table

ASKED = UncertaintySpec(inputs=5, samples=16, sizes=(4, 16), resamples=3, independent=2, every=1)


@pytest.mark.parametrize("independent", [0, 2])
def test_parts_join_to_the_whole(independent: int) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs, noise = torch.randn(2, 7, 4, generator=generator, dtype=torch.float64)
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh()).double()
    study = InfidelityUncertainty(Infidelity(samples=16), sizes=(4, 16), resamples=5, independent=independent)

    def result(rows: slice) -> UncertaintyResult:
        given = {"inputs": inputs[rows], "noise": noise[rows]}
        return calls.infidelity_uncertainty(model, inputs[rows], given, study, target=1)

    whole, parts = result(slice(0, 7)), joined([result(slice(0, 3)), result(slice(3, 7))])
    for name in ("mean_value", "mean_resampled", "mean_analytic", "mean_independent", "resampled", "analytic"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), msg=name)


def test_every_configuration_of_lime_is_studied_in_chunks(finished: Path, tmp_path: Path) -> None:
    lime = tuple(LimeTabular(alpha, samples=8) for alpha in (0.01, 0.1, 1.0))
    model = replace(open_study(finished).models["Cancer-Linear"], configurations=lime)
    cache = Store(tmp_path).cache(0.0)

    def studied(chunk: int) -> pl.DataFrame:
        cut = replace(model, data=model.data.model_copy(update={"chunk": chunk}))
        return uncertainty_table(cut, Infidelity(), ASKED, Machine(), cache)

    parts = studied(2)
    assert parts["configuration"].unique(maintain_order=True).to_list() == [one.canonical for one in lime]
    assert (len(parts), parts["inputs"].unique().to_list()) == (3 * 2, [5])
    assert_frame_equal(parts, studied(5), check_exact=False)


def test_attributions_too_large_for_the_memory_are_resampled_in_parts(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_study(finished).models["Cancer-Linear"]
    model = replace(model, configurations=(LimeTabular(samples=8), LimeTabular(1.0, samples=8)))
    cache = Store(tmp_path).cache(0.0)
    calls_made: list[int] = []
    run = InfidelityUncertainty.__call__

    def counted(resampling: InfidelityUncertainty, problem: verax.Problem, attributions: Any) -> Any:
        calls_made.append(len(problem))
        return run(resampling, problem, attributions)

    monkeypatch.setattr(InfidelityUncertainty, "__call__", counted)
    whole = uncertainty_table(model, Infidelity(), ASKED, Machine(), cache)
    monkeypatch.setattr(uncertainty, "_RESAMPLED_BYTES", 2 * 2 * 4 * model.inputs[0].numel())
    parts = uncertainty_table(model, Infidelity(), ASKED, Machine(), cache)
    assert calls_made == [4, 1, 2, 2, 1]  # units of four inputs, then two at once
    assert_frame_equal(parts, whole, check_exact=False)
