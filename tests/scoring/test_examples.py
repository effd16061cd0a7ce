"""Small examples of what modules of this folder share among themselves."""

import pandas as pd
import torch
import torch.nn as nn

from verax.data.base import Standardisation
from verax.scoring.adapters import adapt
from verax.scoring.adapters.base import RowArguments
from verax.scoring.batchnorm_folding import folded
from verax.scoring.class_scores import class_scores, resolve_target
from verax.scoring.frames import column_order, fitted_places
from verax.scoring.inference import failure
from verax.scoring.meter import Counts, Mark, Meter
from verax.scoring.model_files.safe_loading import is_known
from verax.scoring.output_checks import are_probabilities
from verax.scoring.raw_rows import on_standardised


def test_session_failure():
    assert (
        repr(failure(RuntimeError("mat1 and mat2 shapes cannot be\n multiplied"), 20))
        == "ModelError('model: it failed on a batch of 20 rows: mat1 and mat2 shapes cannot be multiplied.')"
    )


def test_raw_rows_on_standardised():
    scale = Standardisation(torch.tensor([10.0]), torch.tensor([2.0]))
    assert (
        repr(on_standardised(adapt(nn.Identity(), "values", None), scale)(torch.tensor([[1.0]]), "torch"))
        == "tensor([[12.]])"
    )


def test_output_checks_are_probabilities():
    assert (are_probabilities(torch.tensor([[0.2, 0.8]])), are_probabilities(torch.tensor([[0.9, 0.8]]))) == (
        True,
        False,
    )


def test_model_files_safe_loading_is_known():
    assert (is_known("lightgbm.basic.Booster"), is_known("lightgbm.basic.Dataset")) == (True, False)


def test_meter_mark():
    counts = Counts()
    before = Mark.of(counts, torch.device("cpu"))
    counts.rows += 3
    assert repr(Mark.of(counts, torch.device("cpu")).since(before).rows) == "Rows(forward=3, backward=0)"


def test_meter_meter():
    counts = Counts()
    meter = Meter(counts)
    counts.rows += 3
    assert (
        repr((meter.read().rows, meter.read().rows.forward, meter.total().rows.forward))
        == "(Rows(forward=3, backward=0), 0, 3)"
    )


def test_frames_column_order():
    order = column_order(["a", "b"], pd.DataFrame({"b": [1.0], "a": [2.0]}))
    assert repr(order("baselines", [10.0, 20.0])) == "array([20., 10.])"


def test_frames_fitted_places():
    assert fitted_places("frame", ["town", "age", "name"], ["age", "town"]) == [1, 0]


def test_class_scores_class_scores():
    assert (
        repr(class_scores(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), "probabilities", "logit")[:, 1])
        == "tensor([15.9424,  0.0000])"
    )


def test_class_scores_resolve_target():
    assert repr(resolve_target("yes", torch.tensor([0, 0]), 2, labels=["no", "yes"])) == "tensor([1, 1])"


def test_batchnorm_folding_folded():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    assert repr(folded(model)).split("\n")[1:4] == [
        "  (0): ConvolutionReLU(3, 8, kernel_size=(3, 3), stride=(1, 1))",
        "  (1): Identity()",
        "  (2): Identity()",
    ]


def test_adapters_base_row_arguments():
    both = RowArguments({"weight": torch.tensor([1.0, 10.0])})
    assert (
        repr(both.at(torch.tensor([1, 1])).call(lambda x, weight: x[:, 0] * weight, torch.tensor([[1.0], [2.0]])))
        == "tensor([10., 20.])"
    )
