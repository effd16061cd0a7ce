"""Models of a finished study with the inputs they are explained on.

Part of ``scripts/open_questions.py``.
"""

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import verax
from verax.attribution import Gradient, IntegratedGradients, KernelShap, Random, SmoothGrad
from verax.attribution.base import Modality
from verax.core.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from verax.study.study import open_study

Attributions = dict[str, Tensor]
COLOURS = {
    "gradient": BLUE,
    "SmoothGrad": GREEN,
    "SHAP": PURPLE,
    "gradient x input": ORANGE,
    "IG x input": VERMILION,
    "random": GREY,
}
MARKERS = dict(zip(COLOURS, "oDv^sx", strict=True))


@dataclass(frozen=True)
class AuditedProblem:
    """A model of a study and the first inputs of it; tables in double precision.

    Attributes:
        name: As in the study.
        module: The network.
        inputs: Standardised; 0 is the baseline.
        background: Training rows.
        held_out: Test rows; empty for images.
    """

    name: str
    module: Any
    inputs: Tensor
    background: Tensor
    held_out: Tensor

    @cached_property
    def scorer(self) -> verax.Scorer:
        """What runs the model."""
        return verax.Scorer(self.module, returns="logits")

    @cached_property
    def problem(self) -> verax.Problem:
        """The model and its inputs."""
        return verax.Problem(self.scorer, self.inputs)

    @property
    def is_table(self) -> bool:
        """Whether it takes rows of a table, not images."""
        return self.inputs.ndim == 2

    @property
    def finest(self) -> int:
        """Number of features: columns or pixels."""
        return self.inputs[0].numel() if self.is_table else self.inputs[0, 0].numel()

    @cached_property
    def gradient(self) -> Tensor:
        """The truth about small changes."""
        return Gradient()(self.problem)

    @cached_property
    def attributions(self) -> Attributions:
        """What is compared: slopes, contributions, and chance. SHAP on tables, SmoothGrad on images."""
        own = {"SHAP": KernelShap(1024)} if self.is_table else {"SmoothGrad": SmoothGrad(sigma=0.25)}
        methods = {**own, "IG x input": IntegratedGradients(), "random": Random()}
        found = {name: method(self.problem) for name, method in methods.items()}
        return {"gradient": self.gradient, "gradient x input": self.gradient * self.inputs, **found}

    def scores(self, attributions: Attributions, metrics: Any) -> dict[str, Attributions]:
        """By metric and attribution, one value per input."""
        found = verax.evaluate(self.problem, attributions, metrics)
        return {name: {key: value.double().cpu() for key, value in found[name].value.items()} for name in found}


def subjects(folder: Path, modality: Modality, limit: int | None, device: str = "cpu") -> list[AuditedProblem]:
    """The classifiers of a study that take tables, or those that take images."""
    found = []
    for model in open_study(folder).models.values():
        if model.modality != modality or model.dataset.task == "regression":
            continue
        dtype = torch.float64 if modality == "tabular" else torch.float32
        tests = model.dataset.part("test")[0] if modality == "tabular" else torch.zeros(0)
        rows = (model.inputs[:limit], model.background, tests)
        module = copy.deepcopy(model.module).to(device, dtype)
        found.append(AuditedProblem(model.name, module, *(part.to(device, dtype) for part in rows)))
    return found
