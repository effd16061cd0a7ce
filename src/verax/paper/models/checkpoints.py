"""Checkpoints of a training run, from which a killed run goes on, and weights to start from. Nothing is unpickled.

A checkpoint is one safetensors file: tensors by name, and everything else as JSON in its header. One file is replaced
in one step, so a kill at any moment leaves the old one or the new one. It holds a hash of itself: one flipped bit, and
nothing is learnt from it.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError  # what torch.load(weights_only=True) raises; nothing is unpickled
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save
from torch import Tensor, nn

from verax.core.files import BLANK_CHECKSUM, has_valid_checksum, with_checksum, write_atomically
from verax.data.base import PARTS, Dataset
from verax.paper.models.networks import Inception, load_googlenet_state
from verax.paper.models.steps import Learner
from verax.scoring.model_files.saved import Architecture, CheckpointError, stored

_KEY, _FORMAT = "verax.checkpoint", 2


@dataclass(frozen=True)
class Epoch:
    """What happened in one epoch; ``progress`` is called with it."""

    number: int  # from 1
    loss: float  # mean over the training rows, as the steps saw them
    accuracy: float  # share of training rows that the steps got right; 0 for a regression
    auroc: float | None  # on the validation rows, afterwards; None for a regression
    learning_rate: float  # of the last step
    seconds: float  # wall clock, validation included
    best: bool  # whether no epoch before had a better ``score``
    r2: float | None = None  # of a regression, on the validation rows

    @property
    def score(self) -> float:
        """What chooses between epochs, the higher the better: AUROC, or R^2 of a regression."""
        score = self.r2 if self.auroc is None else self.auroc
        return -math.inf if score is None else score

    @property
    def words(self) -> str:
        return f"validation {'R^2' if self.auroc is None else 'AUROC'} {self.score:.4f}"


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint, or say that the file is something else or damaged."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        content = b""
    if not has_valid_checksum(content):
        raise CheckpointError(f"checkpoint: {path} is damaged, or no checkpoint of a run; delete it to start anew.")
    try:
        length = int.from_bytes(content[:8], "little")
        state = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][_KEY])
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"checkpoint: {path} is no checkpoint of a run ({error}); choose another path.") from None
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        reason = "was written by another version of Verax"
        raise CheckpointError(f"checkpoint: {path} {reason}; delete it to start anew.")
    return tensors, state


def identity(architecture: Architecture, dataset: Dataset, recipe: Any, init: Path | None) -> dict[str, Any]:
    """What makes a run the same run: architecture, recipe (a dataclass), data with their split, initial weights."""
    if init is not None and not init.is_file():
        raise ValueError(f"init: no file {init}.")
    split = hashlib.sha256()
    for part in PARTS:
        split.update(np.ascontiguousarray(dataset.split.rows(part), dtype=np.int64).tobytes() + b"/")
    return {
        "architecture": architecture.form(),
        "recipe": dataclasses.asdict(recipe),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint, "split": split.hexdigest()},
        "init": None if init is None else hashlib.sha256(init.read_bytes()).hexdigest(),
    }


def write_run(
    path: Path, run: Mapping[str, Any], learner: Learner, best: Mapping[str, Tensor], history: Sequence[Epoch]
) -> None:
    """Write the checkpoint of a run; ``run`` is its identity."""
    # Random numbers are keyed by seed and epoch, so there is no generator whose state would have to be kept.
    memory = learner.optimizer.state_dict()["state"]
    moments = {f"{number}.{name}": value for number, entry in memory.items() for name, value in entry.items()}
    states = {name: module.state_dict() for name, module in learner.modules().items()}
    groups = {**states, "best": best, "optimizer": moments}
    tensors = {f"{group}.{name}": value for group, part in groups.items() for name, value in stored(part).items()}
    epochs = [dataclasses.asdict(epoch) for epoch in history]
    state = {"format": _FORMAT, "seal": BLANK_CHECKSUM, "identity": run, "history": epochs}
    write_atomically(path, with_checksum(save(tensors, metadata={_KEY: json.dumps(state)})))


def read_run(path: Path, wanted: Mapping[str, Any], learner: Learner) -> tuple[dict[str, Tensor], list[Epoch]] | None:
    """Give a learner back what a checkpoint holds; returns best weights and history, None without a file."""
    if not path.exists():
        return None
    tensors, state = _read(path)
    saved, expected = _flat("", state.get("identity")), _flat("", json.loads(json.dumps(wanted)))
    for key in sorted(expected.keys() | saved.keys()):
        if saved.get(key) != expected.get(key):
            reason = f"belongs to another run: {key} is {saved.get(key)!r} there and {expected.get(key)!r} here"
            raise CheckpointError(f"checkpoint: {path} {reason}. Delete it to start anew, or choose another path.")
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _group("optimizer", tensors).items():
        number, _, entry = name.partition(".")
        moments.setdefault(int(number), {})[entry] = tensor
    best, optimizer = _group("best", tensors), learner.optimizer
    try:
        history = [Epoch(**entry) for entry in state["history"]]
        learner.module.load_state_dict(best)  # only to see that they fit
        for name, module in learner.modules().items():
            module.load_state_dict(_group(name, tensors))
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        for weight, entry in optimizer.state.items():  # a file has no memory layouts; a fused optimizer wants one
            entry.update({name: torch.empty_like(weight).copy_(value) for name, value in entry.items() if value.ndim})
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"checkpoint: {path} is damaged ({error}); delete it to start anew.") from None
    return best, history


def _group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def start_from(path: Path, module: nn.Module) -> None:
    """Load initial weights: a ``.safetensors`` file, or a ``.pt`` or ``.pth`` file such as torchvision's GoogLeNet."""
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, UnpicklingError) as error:
        raise ValueError(f"init: {path} holds no weights that can be read safely ({error}).") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"init: {path} does not hold tensors by name.")
    try:
        if isinstance(module, Inception):
            load_googlenet_state(module, state)
        else:
            module.load_state_dict(state)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"init: {path} does not fit the architecture: {error}") from None


def _flat(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    below = [_flat(f"{name}.{key}" if name else str(key), entry) for key, entry in value.items()]
    return {key: entry for part in below for key, entry in part.items()}
