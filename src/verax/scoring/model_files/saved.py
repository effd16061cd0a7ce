"""Trained models on disk: weights as safetensors, a JSON sidecar that describes them, and architectures as values."""

import dataclasses
import hashlib
import importlib
import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from verax.core.arguments import checked_seed
from verax.core.files import write_atomically
from verax.core.packages import __version__
from verax.data.base import PARTS, Dataset, Standardisation
from verax.data.columns import Task
from verax.data.file import element_names

ARCHITECTURES = dict.fromkeys(("Linear", "MLP", "InceptionV1"), "verax.paper.models")
"""Names of the architectures that files may hold, and the modules that define them, imported when a file names one."""
TRAINING = "verax.paper.models.shipped"
"""The module that trains the networks that studies name, imported when one does."""


@dataclasses.dataclass(frozen=True)
class Architecture(ABC):
    """What a network looks like. Equal values build networks with equal parts; a seed draws the weights.

    Example:
        >>> from verax.paper.models import MLP
        >>> small = MLP(6, hidden=(4,))
        >>> small.form()
        {'name': 'MLP', 'settings': {'features': 6, 'hidden': [4], 'dropout': 0.2, 'outputs': 1}}
        >>> small.build(seed=0)(torch.zeros(3, 6)).shape
        torch.Size([3, 1])
    """

    def build(self, seed: int = 0) -> nn.Module:
        """Make a network in training mode whose weights depend on the seed alone; global random state is untouched."""
        network = self.blank().to_empty(device="cpu")
        initialise(network, torch.Generator().manual_seed(checked_seed(seed) % 2**63))
        return network

    def blank(self) -> nn.Module:
        """Make the network without memory for its weights, on torch's meta device; enough to ask for its shapes."""
        with torch.device("meta"):
            return self.network()

    @abstractmethod
    def network(self) -> nn.Module:
        """Make the network with whatever weights torch gives it; ``build`` draws them anew."""

    def form(self) -> dict[str, Any]:
        """Name and settings as JSON can hold them; ``from_form`` reads them back."""
        settings = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return {"name": type(self).__name__, "settings": plain}

    def misfit(self, state: Mapping[str, Tensor]) -> str:
        """Why tensors are not those of this architecture; empty if they are."""
        expected = self.blank().state_dict()
        for word, names in (("missing", expected.keys() - state.keys()), ("unknown", state.keys() - expected.keys())):
            if names:
                first = next(name for name in (*expected, *state) if name in names)
                return f"{len(names)} tensors are {word}, the first is {first}"
        for name, tensor in expected.items():
            if state[name].shape != tensor.shape:
                return f"{name}: expected shape {tuple(tensor.shape)}, got {tuple(state[name].shape)}"
            if state[name].is_floating_point() != tensor.is_floating_point():
                return f"{name}: expected numbers like {tensor.dtype}, got {state[name].dtype}"
        return ""


def is_known(architecture: Architecture) -> bool:
    name = type(architecture).__name__
    return name in ARCHITECTURES and _class_of(name) is type(architecture)


def _class_of(name: str) -> type[Architecture]:
    kind: type[Architecture] = getattr(importlib.import_module(ARCHITECTURES[name]), name)
    return kind


def from_form(form: Any) -> Architecture:
    name, settings = (form.get("name"), form.get("settings")) if isinstance(form, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise ValueError(f"architecture: expected a name and settings, got {form!r}.")
    if name not in ARCHITECTURES:
        raise ValueError(f"architecture: expected one of {', '.join(ARCHITECTURES)}, got {name!r}.")
    kind = _class_of(name)
    expected = {field.name for field in dataclasses.fields(kind)}
    if set(settings) != expected:
        names = ", ".join(sorted(settings)) or "none"
        raise ValueError(f"architecture: {name} has the settings {', '.join(sorted(expected))}, got {names}.")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()})


def stored(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights: He's normal draws for convolutions, torch's usual ones for linear layers; reset batch norms."""
    for name, part in network.named_modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu", generator=generator)
        elif isinstance(part, nn.Linear):
            bound = part.in_features**-0.5
            nn.init.uniform_(part.weight, -bound, bound, generator=generator)
            nn.init.uniform_(part.bias, -bound, bound, generator=generator)
        elif isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.reset_parameters()
        elif [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            raise TypeError(f"network: no rule to initialise {name!r}, a {type(part).__name__}.")


FORMAT = "verax model 1"
_SIDECAR_HASH = "sidecar_sha256"
_KEYS = ("format", "architecture", "data", "hyperparameters", "metrics", "seed", "versions", "weights", _SIDECAR_HASH)


class ModelFileError(ValueError):
    """A model's files are not what they say; the message tells which file and why."""


class CheckpointError(ModelFileError):
    """A checkpoint that cannot be used: damaged, or of another run; the message says which file and what to do."""


@dataclass(frozen=True)
class SavedModel:
    """A model read from disk, with what is needed to use it.

    Attributes:
        module: The network, in evaluation mode.
        architecture: What it looks like.
        standardisation: What to apply to raw inputs (pixels as numbers from 0 to 1) before the network sees them; None
            where the model was saved without data.
        class_names: Names of the classes, in the order of their numbers; empty for a regression.
        feature_names: Names of the columns that the network takes; empty for images.
        info: All that the sidecar says: data, split, hyperparameters, metrics, seed, versions.
    """

    module: nn.Module
    architecture: Architecture
    standardisation: Standardisation | None
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    info: dict[str, Any]

    @property
    def task(self) -> Task:
        """What it predicts: classes, or values in the unit of the labels."""
        data = self.info.get("data")
        return "regression" if isinstance(data, dict) and data.get("task") == "regression" else "classification"

    @property
    def returns(self) -> Literal["logits", "values"]:
        """What its outputs are, as ``verax.Scorer`` asks."""
        return "values" if self.task == "regression" else "logits"


def save(
    path: str | Path,
    module: nn.Module,
    architecture: Architecture,
    *,
    dataset: Dataset | None,
    hyperparameters: Mapping[str, Any],
    metrics: Mapping[str, Any],
    seed: int,
    name: str | None = None,
) -> None:
    """Write a model and its sidecar, each whole or not at all, the sidecar last.

    Args:
        path: The weights file, ``NAME.safetensors``; the sidecar becomes ``NAME.json`` beside it.
        module: The network, on any device and in any mode.
        architecture: What built it.
        dataset: The data on which it was trained; None for none.
        hyperparameters: Names and JSON values: how it was trained.
        metrics: Names and JSON values: how good it is.
        seed: The seed of the training.
        name: What it is called, where that has to be told from the files alone.

    Example:
        >>> import tempfile
        >>> from verax.models import load, save
        >>> from verax.paper.models import Linear
        >>> model = Linear(3).build(seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/model.safetensors"
        ...     save(path, model, Linear(3), dataset=None, hyperparameters={}, metrics={"auroc": 0.8}, seed=0)
        ...     saved = load(path)
        >>> saved.architecture, saved.info["metrics"]["auroc"]
        (Linear(shape=(3,), outputs=1), 0.8)
    """
    import safetensors.torch  # noqa: PLC0415  # not needed by who only computes metrics

    weights_path, sidecar_path = model_paths(path)
    if not is_known(architecture):
        raise TypeError(f"architecture: expected one of {', '.join(ARCHITECTURES)}, got {architecture!r}.")
    state = stored(getattr(module, "_orig_mod", module).state_dict())  # also of a network that was compiled
    if reason := architecture.misfit(state):
        raise ValueError(f"module: not what {architecture} builds: {reason}.")
    weights = safetensors.torch.save(state)
    content = {
        "format": FORMAT,
        "architecture": architecture.form(),
        "data": None if dataset is None else _data_form(dataset),
        "hyperparameters": dict(hyperparameters),
        "metrics": dict(metrics),
        "seed": checked_seed(seed),
        "versions": {"verax": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "weights": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
    }
    if name is not None:
        content["name"] = name
    sidecar = _sidecar_text(content).encode()  # before anything is written: it may raise
    write_atomically(weights_path, weights)
    write_atomically(sidecar_path, sidecar)


def load(path: str | Path) -> SavedModel:
    """Read a model that ``save`` or ``verax train`` wrote, or raise with the reason.

    Args:
        path: The weights file, ``NAME.safetensors``, with its sidecar ``NAME.json`` beside it.

    Raises:
        FileNotFoundError: There is no such weights file.
        ModelFileError: The files are not what they say: no safetensors file, truncated or changed since they were
            saved, a sidecar that is missing, edited or incomplete, an unknown architecture, tensors that do not fit.
    """
    import safetensors.torch  # noqa: PLC0415  # as in save

    weights_path, sidecar_path = model_paths(path)
    if not weights_path.is_file():
        raise FileNotFoundError(f"path: there is no file {weights_path}.")
    weights = weights_path.read_bytes()
    if reason := _not_safetensors(weights):
        raise ModelFileError(f"{weights_path}: not a safetensors file: {reason}.")
    info = _read_sidecar(sidecar_path)
    try:
        architecture = from_form(info["architecture"])
        standardisation, class_names, feature_names = _read_data(info["data"])
        _check_weights(weights, info["weights"])
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{sidecar_path}: does not describe {weights_path.name}: {error}") from error
    try:
        state = safetensors.torch.load(weights)
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{weights_path}: not a whole safetensors file: {error}.") from error
    if reason := architecture.misfit(state):
        raise ModelFileError(f"{weights_path}: not the weights of {architecture}: {reason}.")
    module = architecture.blank()
    module.load_state_dict(state, assign=True)
    return SavedModel(module.eval(), architecture, standardisation, class_names, feature_names, info)


def model_paths(path: str | Path) -> tuple[Path, Path]:
    """The weights file and its sidecar, or what is wrong with the name."""
    weights = Path(path)
    if weights.suffix != ".safetensors":
        raise ValueError(f"path: expected a file name that ends in .safetensors, got {str(path)!r}.")
    return weights, weights.with_suffix(".json")


def _data_form(dataset: Dataset) -> dict[str, Any]:
    parts = {part: dataset.split.rows(part) for part in PARTS}
    total = sum(map(len, parts.values()))
    rows = hashlib.sha256("".join(f"{part} {places.tolist()}" for part, places in parts.items()).encode())
    scale = dataset.standardisation
    return {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "split": {
            "seed": dataset.split.seed,
            "rows": {part: len(places) for part, places in parts.items()},
            "shares": {part: len(places) / total for part, places in parts.items()},
            "fingerprint": rows.hexdigest(),
        },
        "standardisation": {"mean": scale.mean.float().tolist(), "std": scale.std.float().tolist()},
        "class_names": list(dataset.class_names),
        "feature_names": list(element_names(dataset)),
        "task": dataset.task,
    }


def _read_data(data: Any) -> tuple[Standardisation | None, tuple[str, ...], tuple[str, ...]]:
    if data is None:
        return None, (), ()
    numbers, *names = (_member("data", data, key) for key in ("standardisation", "class_names", "feature_names"))
    mean, std = (torch.tensor(_member("standardisation", numbers, key)).float() for key in ("mean", "std"))
    for words in names:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"class_names, feature_names: expected lists of names, got {words!r}.")
    return Standardisation(mean, std), tuple(names[0]), tuple(names[1])


def _member(name: str, value: Any, key: str) -> Any:
    if not isinstance(value, dict) or key not in value:
        raise ValueError(f"{name}: expected an object with {key}, got {value!r}.")
    return value[key]


def _sidecar_text(content: dict[str, Any]) -> str:
    def number(value: Any) -> Any:  # NumPy's and torch's single numbers as Python's
        if getattr(value, "ndim", None) == 0:
            return value.item()
        raise TypeError(f"got {value!r}")

    try:
        plain = json.loads(json.dumps(content, allow_nan=False, default=number))
    except (TypeError, ValueError) as error:
        raise ValueError(f"hyperparameters, metrics: expected finite numbers and JSON values: {error}.") from error
    return json.dumps(plain | {_SIDECAR_HASH: _content_hash(plain)}, indent=2) + "\n"


def _content_hash(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != _SIDECAR_HASH}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read_sidecar(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ModelFileError(f"{path}: missing; a model is read with the sidecar that was saved beside it.")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # wrong JSON, wrong text, or too deep
        raise ModelFileError(f"{path}: not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path}: not a sidecar of a model: expected a JSON object.")
    if missing := [key for key in _KEYS if key not in content]:
        raise ModelFileError(f"{path}: not a whole sidecar of a model: it lacks {', '.join(missing)}.")
    if content["format"] != FORMAT:
        raise ModelFileError(f"{path}: expected the format {FORMAT!r}, got {content['format']!r}.")
    if content[_SIDECAR_HASH] != _content_hash(content):
        raise ModelFileError(f"{path}: changed since it was saved: its content does not fit its own hash.")
    return content


def _not_safetensors(data: bytes) -> str:
    """Why bytes cannot be a safetensors file, from its beginning; empty if they can."""
    if data[8:9] != b"{":  # where every safetensors file begins to describe itself
        if data.startswith((b"PK", b"\x80")):
            return "it looks like a pickle or an archive, as torch.save writes them, and nothing is unpickled"
        return f"it has no header in its {len(data):,} bytes"
    length = int.from_bytes(data[:8], "little")
    if 8 + length > len(data):
        return f"its header ends at byte {8 + length:,} of {len(data):,}; it is truncated"
    return ""


def _check_weights(weights: bytes, entry: Any) -> None:
    size, digest = (_member("weights", entry, key) for key in ("bytes", "sha256"))
    if len(weights) != size:
        how = "is truncated" if len(weights) < size else "is another file"
        raise ValueError(f"it has {len(weights):,} bytes where {size:,} were saved; it {how}.")
    if hashlib.sha256(weights).hexdigest() != digest:
        raise ValueError("it was changed, or another file put in its place: its hash is not the one saved.")
