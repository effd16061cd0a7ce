"""What is asked of every part: the model, the columns, the settings. Workers are sent it and open the model."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verax.attribution.base import Attribution
from verax.core import extensions
from verax.core.cores import available_cores
from verax.datasets.array_files import read_table, table_array
from verax.evaluation.evaluate import evaluate
from verax.evaluation.result import Evaluation
from verax.lakes.storage import Folder
from verax.metrics.base import Metric
from verax.metrics.choose import chosen
from verax.models.foreign_files import file_hash
from verax.models.scorers import open_scorer
from verax.problem.inputs import Inputs
from verax.problem.problem import Problem
from verax.scoring.adapters import Returns
from verax.scoring.class_scores import Output
from verax.scoring.scorer import Scorer


@dataclass(frozen=True)
class Settings:
    """What is measured in every part.

    Attributes:
        metrics: Metrics by the names of their columns; a list of names stands for their defaults.
        target: Which class score to track: one class for all rows, predicted by default.
        baselines: What removed features become: a number, or a statistic of the background.
        replacement: What they become instead, one of ``verax.replacement``.
        limits: Whether to find what the best attribution would score as well.
        output: The score that is tracked, ``"probability"`` or ``"logit"``.
    """

    metrics: Any = ("pc", "dpc", "infidelity")
    target: int | str | None = None
    baselines: float | str | None = None
    replacement: Any = None
    limits: bool = False
    output: Output = "probability"

    @property
    def chosen(self) -> dict[str, Metric]:
        """The metrics by the names of their columns."""
        return chosen(self.metrics, 1 << 62)

    def facts(self) -> dict[str, str]:
        """The settings as words, to tell whether two runs asked the same."""
        words = {name: str(getattr(self, name)) for name in ("target", "baselines", "limits", "output", "replacement")}
        return {"metrics": ", ".join(f"{name}: {metric!r}" for name, metric in self.chosen.items()), **words}


@dataclass(frozen=True)
class ModelFile:
    """A model file, and what must be said to open and to run it.

    Attributes:
        path: Where it is; workers on other machines find it under the same path.
        returns: ``"logits"``, ``"probabilities"`` or ``"values"``, where the file does not say it.
        trust: Whether it may be opened if it can run code.
        device: ``"cpu"``, ``"cuda"``, or None for where it is.
        batch_size: Rows in a model call; found automatically.
    """

    path: Path
    returns: Returns | None = None
    trust: bool = False
    device: str | None = None
    batch_size: int | None = None

    def open(self) -> Scorer:
        """The model, ready to score."""
        return open_scorer(self.path, returns=self.returns, device=self.device, trust=self.trust)

    def facts(self) -> dict[str, str]:
        """What tells the model from another."""
        return {"model": f"{self.path.name}, SHA-256 {file_hash(self.path)}", "returns": str(self.returns)}


@dataclass(frozen=True)
class Job:
    """What is asked of every part.

    Attributes:
        model: The model file.
        settings: What is measured.
        key: The column that says which row is which.
        features: The columns that the model takes, in its order.
        missing: Whether values may be missing.
        background: File with rows of the training data.
        out: The folder for the scores.
        methods: Explanations that are computed beside those that are read, by name.
        modules: Modules of the user's own, which workers import as well.
        path: Where modules are looked for.
    """

    model: ModelFile
    settings: Settings
    key: str
    features: tuple[str, ...]
    missing: bool
    background: Path | None
    out: Folder
    methods: Mapping[str, Attribution] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    path: tuple[str, ...] = ()

    def facts(self) -> dict[str, str]:
        """All on which scores depend, besides the rows and attributions: where two jobs differ, it says so."""
        background = "None" if self.background is None else f"SHA-256 {file_hash(self.background)}"
        methods = ", ".join(f"{name}: {method.canonical}" for name, method in self.methods.items())
        return {
            **self.model.facts(),
            **self.settings.facts(),
            "key": self.key,
            "features": ", ".join(self.features),
            "background": background,
            **({"methods": methods} if methods else {}),
        }


class Measurement:
    """A job that is open: the model is loaded, and scores blocks of rows."""

    def __init__(self, job: Job) -> None:
        sys.path += [entry for entry in job.path if entry not in sys.path]
        extensions.load(job.modules)
        self.job = job
        self.scorer = job.model.open()
        self.background = None if job.background is None else background_rows(job.background, job.features)

    @property
    def stretch(self) -> int:
        """Rows after which one call cuts its work anew: blocks of so many give the bits of one call for the part."""
        return self.scorer.stretch(np.zeros((1, len(self.job.features))), self.job.model.batch_size, None)

    def evaluate(self, values: Any, attributions: Mapping[str, Any]) -> Evaluation:
        """Score some rows, ``(N, features)``: attributions that were read, and those of the job's methods."""
        asked = self.job.settings
        problem = Problem(
            self.scorer,
            Inputs(values, baselines=asked.baselines, names=self.job.features),
            target=asked.target,
            output=asked.output,
            background=self.background,
            replacement=asked.replacement,
            batch_size=self.job.model.batch_size,
        )
        evaluation = evaluate(problem, {**attributions, **self.job.methods}, asked.chosen)
        return evaluation.with_limits() if asked.limits else evaluation


def background_rows(path: Path, features: tuple[str, ...]) -> Any:
    """Rows of the training data, with the columns that the model takes; others are left out."""
    table = read_table(path)
    if lost := [name for name in features if name not in table.columns]:
        raise ValueError(f"{path}: expected the columns of the inputs; missing {', '.join(lost)}.")
    return np.ascontiguousarray(table_array(table.select(features), path, gaps=True).values)


def default_workers(device: str | None) -> int:
    """A worker for each core, or for each GPU."""
    if device is not None and torch.device(device).type == "cuda":
        return max(1, torch.cuda.device_count())
    return available_cores()
