"""The paper's networks, and how they are trained."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verax.paper.models.networks import MLP, InceptionOutputs, InceptionV1, Linear, load_googlenet_state

__all__ = ["MLP", "InceptionOutputs", "InceptionV1", "Linear", "load_googlenet_state"]


def __getattr__(name: str) -> Any:
    """Import what is used, when it is first used: a spec's recipes need no torch."""
    if name not in __all__:
        raise AttributeError(f"module 'verax.paper.models' has no attribute {name!r}")
    return getattr(importlib.import_module("verax.paper.models.networks"), name)
