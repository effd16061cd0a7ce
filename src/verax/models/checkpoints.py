"""Checkpoints of a training run, from which a killed run goes on, and weights to start from. Nothing is unpickled.

A checkpoint is one safetensors file: tensors by name, and everything else as JSON in its header. One file is replaced
in one step, so a kill at any moment leaves the old one or the new one.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError  # what torch.load(weights_only=True) raises; nothing is unpickled
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from verax.datasets.base import PARTS, Dataset
from verax.models.architecture import Architecture
from verax.models.inception import Inception, load_googlenet_state

_KEY, _FORMAT = "verax.checkpoint", 1


@dataclass(frozen=True)
class Epoch:
    """What happened in one epoch; ``progress`` is called with it.

    Attributes:
        number: From 1.
        loss: Mean loss over the training rows, as the steps saw them.
        accuracy: Share of training rows that the steps got right.
        auroc: On the validation rows, afterwards.
        learning_rate: Of the last step.
        seconds: Wall clock, validation included.
        best: Whether no epoch before had a better ``auroc``.
    """

    number: int
    loss: float
    accuracy: float
    auroc: float
    learning_rate: float
    seconds: float
    best: bool


def write(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write a checkpoint whole or not at all, in place of the one that is there.

    Args:
        path: Where to; the folder is made if need be.
        tensors: Tensors by name.
        state: What JSON can hold.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        save_file(own, part, metadata={_KEY: json.dumps({"format": _FORMAT, **state})})
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read a checkpoint; None where there is none, an error where the file is something else or damaged."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {}).get(_KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"checkpoint: {path} is damaged or no checkpoint ({error}); delete it to start anew."
        ) from None
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError(f"checkpoint: {path} is a safetensors file but no checkpoint of a run; choose another path.")
    return tensors, state


def check_same_run(path: Path, found: Any, wanted: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another run, and say what differs.

    Args:
        path: The checkpoint.
        found: The identity that it holds.
        wanted: The identity of the run that would go on from it.
    """
    there, here = _flat("", found), _flat("", json.loads(json.dumps(wanted)))
    for name in sorted(here.keys() | there.keys()):
        if there.get(name) != here.get(name):
            raise ValueError(
                f"checkpoint: {path} belongs to another run: {name} is {there.get(name)!r} there and "
                f"{here.get(name)!r} here. Delete it to start anew, or choose another path."
            )


def identity(architecture: Architecture, dataset: Dataset, recipe: Any, init: Path | None) -> dict[str, Any]:
    """What makes a run the same run: architecture, recipe (a dataclass), data with their split, initial weights."""
    split = hashlib.sha256()
    for part in PARTS:
        split.update(np.ascontiguousarray(dataset.split.rows(part), dtype=np.int64).tobytes() + b"/")
    return {
        "architecture": architecture.form(),
        "recipe": dataclasses.asdict(recipe),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint, "split": split.hexdigest()},
        "init": _file_hash(init),
    }


def write_run(
    path: Path,
    modules: Mapping[str, nn.Module],
    best: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    history: Sequence[Epoch],
    run: Mapping[str, Any],
) -> None:
    """Write the checkpoint of a run; ``modules`` are its networks by name, ``run`` is its identity.

    Random numbers are keyed by seed and epoch, so there is no generator whose state would have to be kept.
    """
    memory = optimizer.state_dict()["state"]
    moments = {f"{number}.{name}": value for number, entry in memory.items() for name, value in entry.items()}
    states = {name: module.state_dict() for name, module in modules.items()}
    groups = {**states, "best": best, "optimizer": moments}
    tensors = {f"{group}.{name}": value for group, part in groups.items() for name, value in part.items()}
    write(path, tensors, {"identity": run, "history": [dataclasses.asdict(epoch) for epoch in history]})


def read_run(
    path: Path, wanted: Mapping[str, Any], modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], list[Epoch]] | None:
    """Give networks and optimizer back what a checkpoint holds; returns best weights and history, None without a file.

    Args:
        path: The checkpoint.
        wanted: Identity of the run that wants to go on; that of the checkpoint must be the same.
        modules: The networks by name; the one that learns is ``"model"``.
        optimizer: Its optimizer.
    """
    found = read(path)
    if found is None:
        return None
    tensors, state = found
    check_same_run(path, state.get("identity"), wanted)
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _group("optimizer", tensors).items():
        number, _, entry = name.partition(".")
        moments.setdefault(int(number), {})[entry] = tensor
    best = _group("best", tensors)
    try:
        history = [Epoch(**entry) for entry in state["history"]]
        modules["model"].load_state_dict(best)  # only to see that they fit
        for name, module in modules.items():
            module.load_state_dict(_group(name, tensors))
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
        for weight, entry in optimizer.state.items():  # a file has no memory layouts; a fused optimizer wants one
            entry.update({name: torch.empty_like(weight).copy_(value) for name, value in entry.items() if value.ndim})
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"checkpoint: {path} is damaged ({error}); delete it to start anew.") from None
    return best, history


def _group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def start_from(path: Path, module: nn.Module) -> None:
    """Load initial weights: a ``.safetensors`` file, or a ``.pt`` or ``.pth`` file with tensors by name.

    For InceptionV1 also torchvision's ``googlenet`` checkpoints, where a head for other classes stays as it is.
    """
    state = _weights(path)
    try:
        if isinstance(module, Inception):
            load_googlenet_state(module, state)
        else:
            module.load_state_dict(state)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"init: {path} does not fit the architecture: {error}") from None


def _file_hash(path: Path | None) -> str | None:
    if path is None:
        return None
    if not path.is_file():
        raise ValueError(f"init: no file {path}.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights(path: Path) -> dict[str, Tensor]:
    try:
        found = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, UnpicklingError) as error:
        raise ValueError(f"init: {path} holds no weights that can be read safely ({error}).") from None
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"init: {path} does not hold tensors by name.")
    return found


def _flat(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    below = [_flat(f"{name}.{key}" if name else str(key), entry) for key, entry in value.items()]
    return {key: entry for part in below for key, entry in part.items()}
