"""Model files: open those of other libraries, save and load trained networks."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verax.scoring.model_files.opening import open_model, register_model_file
    from verax.scoring.model_files.saved import ARCHITECTURES, Architecture, ModelFileError, SavedModel, load, save
    from verax.scoring.raw_rows import standardised

_HOMES = {
    "ARCHITECTURES": "verax.scoring.model_files.saved",
    "Architecture": "verax.scoring.model_files.saved",
    "ModelFileError": "verax.scoring.model_files.saved",
    "SavedModel": "verax.scoring.model_files.saved",
    "load": "verax.scoring.model_files.saved",
    "open_model": "verax.scoring.model_files.opening",
    "register_model_file": "verax.scoring.model_files.opening",
    "save": "verax.scoring.model_files.saved",
    "standardised": "verax.scoring.raw_rows",
}
__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "ModelFileError",
    "SavedModel",
    "load",
    "open_model",
    "register_model_file",
    "save",
    "standardised",
]


def __getattr__(name: str) -> Any:
    """Import what is used, when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'verax.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
