"""What a study explains models on: the inputs and the background of a data set, standardised; and on which device."""

import contextlib
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verax.attribution.base import Modality
from verax.core import noise
from verax.core.blocks import one_thread_on_cpu
from verax.core.shapes import Float, Int, Shaped
from verax.data.base import Dataset, Standardisation, as_numbers
from verax.data.file import column_baselines, column_values
from verax.problem.problem import Problem
from verax.scoring.class_scores import Scale
from verax.scoring.scorer import Scorer
from verax.study.data_spec import DataSpec


@dataclass(frozen=True)
class Machine:
    """Where and how to compute; no result depends on it beyond rounding.

    Attributes:
        device: ``"cpu"`` or a CUDA device.
        batch_size: Rows in a model call; found automatically.
        compile: Whether models are compiled, which pays on a GPU.
    """

    device: str = "cpu"
    batch_size: int | None = None
    compile: bool = False

    def gpus(self) -> tuple["Machine", ...]:
        """The same for each of its GPUs, where none is named and there are several; this one alone otherwise."""
        device = torch.device(self.device)
        count = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
        return tuple(replace(self, device=f"cuda:{number}") for number in range(count)) if count > 1 else (self,)

    @property
    def name(self) -> str:
        """The device in words, and whether models are compiled: results with the same name have the same bits."""
        threads = torch.get_num_threads()
        name = "cpu" if threads == 1 else f"cpu, {threads} threads"
        if torch.device(self.device).type == "cuda":
            name = torch.cuda.get_device_name(self.device)
        return name + (", compiled" if self.compile else "")


def one_thread(machine: Machine) -> AbstractContextManager[None]:
    """Compute with one thread on a CPU, however many there are: sums then have the same order, and the same bits."""
    return one_thread_on_cpu(machine.device)


_IMAGES_IN_BACKGROUND = 1024


@dataclass(frozen=True)
class Material:
    """Inputs and background of a data set, standardised; all models that take rows of this kind share them."""

    dataset: Dataset  # the data set
    rows: Int[np.ndarray, " n"]  # row numbers of the inputs in it, in the random order in which they are explained
    inputs: Float[Tensor, "n *shape"]  # what is explained
    background: Float[Tensor, "m *shape"]  # training rows
    labels: Int[Tensor, " m"] | None  # their classes; None for a regression
    scale: Standardisation  # how inputs are brought back to their own units
    # the feature of each element, where some take several; None for the usual
    features: Int[Tensor, " elements"] | None = None
    baselines: Float[Tensor, " elements"] | None = None  # what removed features become, where that is not 0
    # which elements are categories, which have no direction and take no noise; None for none
    codes: Shaped[Tensor, " elements"] | None = None
    explained: Scale = "log_odds"  # what methods explain

    @property
    def categories(self) -> list[str]:
        """Names of the columns that hold categories."""
        table = self.dataset.columns
        return (
            [] if table is None else [name for name, words in zip(table.names, table.categories, strict=True) if words]
        )

    @property
    def facts(self) -> dict[str, Tensor]:
        """What belongs to the inputs beside their values, by name; nothing for plain ones."""
        named = {"features": self.features, "baselines": self.baselines, "codes": self.codes}
        return {name: value for name, value in named.items() if value is not None}

    def problem(self, scorer: Scorer, rows: slice, machine: Machine, *, background: bool) -> Problem:
        """The question about some inputs, with or without the background; metrics of a study are told what they need.

        Args:
            scorer: The model.
            rows: Which inputs.
            machine: Where it runs.
            background: Whether methods or replacements are to see the training rows.
        """
        return Problem(
            scorer,
            self.inputs[rows].to(machine.device),
            explained=self.explained,
            features="auto" if self.features is None else self.features,
            baselines=0.0 if self.baselines is None else self.baselines,
            names=self.dataset.feature_names if self.facts else None,
            categorical=self.codes,
            batch_size=machine.batch_size,
            device=machine.device,
            background=self.background.to(machine.device) if background else None,
            background_labels=self.labels if background else None,
        )


@contextlib.contextmanager
def known_warnings_silenced() -> Iterator[None]:
    """Silence what a study says of its categories once, and what is no doubt where the study itself explains."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\w+ counts 0 for features that are categorical")
        warnings.filterwarnings("ignore", message="target: .* below 0 for inputs predicted")
        yield


def modality_of(dataset: Dataset) -> Modality:
    return "tabular" if dataset.inputs.ndim == 2 else "image"


def material(data: DataSpec, dataset: Dataset) -> Material:
    """Inputs and background as the shipped architectures take them: numbers without gaps, categories as 0 and 1."""
    rows, train = _rows(data, dataset)
    inputs, background = (dataset.standardisation.apply(as_numbers(dataset.inputs[some])) for some in (rows, train))
    codes = None
    if dataset.columns is not None and dataset.features is not None:
        words = np.array([kinds is not None for kinds in dataset.columns.categories])
        codes = words[dataset.features]
    return Material(
        dataset,
        rows,
        inputs,
        background,
        _labels(dataset, train),
        dataset.standardisation,
        _tensor(dataset.features),
        _tensor(dataset.baselines, inputs.dtype),
        _tensor(codes) if codes is not None and codes.any() else None,
        data.attributions.explained,
    )


def column_material(data: DataSpec, dataset: Dataset) -> Material:
    """Inputs and background for models of one's own: a number for each column of a table, with gaps where there are.

    In double precision, so that a model gets its rows as they were: trees ask on which side of a number a value is.
    """
    if dataset.inputs.ndim != 2:
        return material(data, dataset)
    rows, train = _rows(data, dataset)
    values, scale = column_values(dataset)
    inputs, background = (scale.apply(torch.from_numpy(values[some]).double()) for some in (rows, train))
    words = () if dataset.columns is None else dataset.columns.categories
    codes = torch.tensor([kinds is not None for kinds in words]) if any(words) else None
    baselines = _tensor(column_baselines(dataset), inputs.dtype) if any(words) else None
    labels, explained = _labels(dataset, train), data.attributions.explained
    return Material(dataset, rows, inputs, background, labels, scale, None, baselines, codes, explained)


def _rows(data: DataSpec, dataset: Dataset) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """The rows to explain, in an order of which any beginning is a random sample, and those of the background."""
    rows = _shuffled(dataset.split.rows(data.part), data.seed, "explained rows")[: data.limit]
    if not len(rows):
        raise ValueError(f"data: {dataset.name} has no {data.part} rows.")
    data.attributions.configurations(modality_of(dataset))  # raises for what is not for such data, before any training
    # training rows, all of a table or some of many images, chosen by the seed of the split
    train, count = dataset.split.train, data.background
    if count is None:
        count = len(train) if dataset.inputs.ndim == 2 else _IMAGES_IN_BACKGROUND
    return rows, np.sort(_shuffled(train, dataset.split.seed, "background")[:count])


def _shuffled(rows: Int[np.ndarray, " n"], seed: int, purpose: str) -> Int[np.ndarray, " n"]:
    """Rows in an order that hangs on their number, the seed and the purpose alone."""
    key = noise.input_keys(torch.zeros(1, 1), seed, purpose)
    shuffled: Int[np.ndarray, " n"] = rows[noise.words(key, 0, len(rows))[0].argsort(stable=True).numpy()]
    return shuffled


def _labels(dataset: Dataset, rows: Int[np.ndarray, " m"]) -> Int[Tensor, " m"] | None:
    return None if dataset.task == "regression" else torch.from_numpy(dataset.labels[rows])


def _tensor(values: Any, dtype: torch.dtype | None = None) -> Any:
    return None if values is None else torch.as_tensor(values, dtype=dtype)
