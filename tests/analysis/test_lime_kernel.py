"""The script about LIME's kernel: its figures are those of the metrics, its lines means over seeds."""

import argparse
import importlib.util
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

import verax
from verax.attribution import LimeTabular, attribute, grid
from verax.datasets.embedded import load_breast_cancer
from verax.metrics import Infidelity

SCRIPT = Path(__file__).parents[2] / "scripts" / "lime_kernel.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("lime_kernel", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_kernel_has_figures_of_its_own(script):
    data = load_breast_cancer()
    weight = torch.linspace(-1, 1, 30)[None]
    model = verax.Scorer(lambda rows: torch.tanh(rows) @ weight.T, returns="logits")
    given = argparse.Namespace(rows=3, samples=20, every=61, plain=False)
    found = list(script.measured(model, data, given))
    assert [(one["kernel width"], one["metric"]) for one in found] == [
        (kernel, metric) for kernel in script.KERNELS.values() for metric in ("DPC", "LPC", "Effect correlation")
    ]
    inputs, _ = data.part("validation", 3)
    lime = [one for one in grid("tabular", scale_kernel=True) if isinstance(one, LimeTabular)][::61]
    result = verax.evaluate(model, inputs, attribute(lime, model, inputs), ("dpc", Infidelity(samples=20)))
    means = [[float(values.mean()) for values in result[name].value.values()] for name in ("dpc", "infidelity")]
    assert found[3]["spearman"] == pytest.approx(spearmanr(*means).statistic)


def test_a_line_is_the_mean_over_seeds_with_students_interval(script):
    key = {"model": "mlp", "recipe": "shipped", "kernel width": "absolute", "metric": "DPC"}
    runs = [{**key, "seed": at, "spearman": value, "pareto": 9, "band": 0.5} for at, value in enumerate((-0.2, 0.2))]
    assert script.table(runs)[2:] == [
        "| mlp | shipped | absolute | DPC | +0.00 [-2.54, +2.54] | -0.20, +0.20 | 9.0 [9.0, 9.0] | 50% |"  # t is 12.7
    ]
