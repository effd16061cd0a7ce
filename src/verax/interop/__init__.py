"""Verax beside other libraries, each module loaded on first use: Captum's calls, Quantus metrics, shap explanations."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verax.interop import captum, quantus, shap

__all__ = ["captum", "quantus", "shap"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'verax.interop' has no attribute {name!r}")
    return importlib.import_module(f"verax.interop.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
