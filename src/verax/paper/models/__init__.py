"""The paper's networks, and how they are trained."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verax.paper.models.dense import MLP, Linear
    from verax.paper.models.inception import InceptionOutputs, InceptionV1, load_googlenet_state

_HOMES = {
    "InceptionOutputs": "inception",
    "InceptionV1": "inception",
    "Linear": "dense",
    "MLP": "dense",
    "load_googlenet_state": "inception",
}
__all__ = ["MLP", "InceptionOutputs", "InceptionV1", "Linear", "load_googlenet_state"]


def __getattr__(name: str) -> Any:
    """Import what is used, when it is first used: a spec's recipes need no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'verax.paper.models' has no attribute {name!r}")
    return getattr(importlib.import_module(f"verax.paper.models.{_HOMES[name]}"), name)
