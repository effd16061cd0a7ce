"""Architectures as values: a name and settings that say everything about a network but its weights."""

import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from verax.core.arguments import checked_seed

ARCHITECTURES = dict.fromkeys(("Linear", "MLP", "InceptionV1"), "verax.paper.models")
"""Names of the architectures that files may hold, and the modules that define them, imported when a file names one."""


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
        if missing := [name for name in expected if name not in state]:
            return f"{len(missing)} tensors are missing, the first is {missing[0]}"
        if extra := [name for name in state if name not in expected]:
            return f"{len(extra)} tensors are unknown, the first is {extra[0]}"
        for name, tensor in expected.items():
            if state[name].shape != tensor.shape:
                return f"{name}: expected shape {tuple(tensor.shape)}, got {tuple(state[name].shape)}"
            if state[name].is_floating_point() != tensor.is_floating_point():
                return f"{name}: expected numbers like {tensor.dtype}, got {state[name].dtype}"
        return ""


def is_known(architecture: Architecture) -> bool:
    """Whether ``from_form`` can read the architecture back."""
    name = type(architecture).__name__
    return name in ARCHITECTURES and _class_of(name) is type(architecture)


def _class_of(name: str) -> type[Architecture]:
    kind: type[Architecture] = getattr(importlib.import_module(ARCHITECTURES[name]), name)
    return kind


def from_form(form: Any) -> Architecture:
    """Read an architecture from what ``Architecture.form`` gave."""
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
    """Tensors as safetensors wants them."""
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
