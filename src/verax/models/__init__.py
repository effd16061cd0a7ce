"""Models: architectures as values that build networks, and files that hold trained ones."""

from verax.models.architecture import Architecture
from verax.models.dense import MLP, Linear
from verax.models.files import ARCHITECTURES, ModelFileError, SavedModel, load, save
from verax.models.foreign_files import open_model, register_model_file
from verax.models.inception import InceptionOutputs, InceptionV1, load_googlenet_state
from verax.models.raw_rows import standardised

__all__ = [
    "ARCHITECTURES",
    "MLP",
    "Architecture",
    "InceptionOutputs",
    "InceptionV1",
    "Linear",
    "ModelFileError",
    "SavedModel",
    "load",
    "load_googlenet_state",
    "open_model",
    "register_model_file",
    "save",
    "standardised",
]
