"""The version of Verax, and packages that it can do without: named where they are missing."""

import importlib
import warnings
from typing import Any

__version__ = "0.1.0"
PIP_NAMES = {"skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow", "vl_convert": "vl-convert-python"}
"""What pip calls a module that has another name there."""


def optional_package(module: str, install: str, purpose: str) -> Any:
    """Import a module that Verax can do without, or say how to install it.

    Example:
        >>> optional_package("two_left_feet", "verax[dance]", "verax.dance")
        Traceback (most recent call last):
        ImportError: verax.dance needs two_left_feet: pip install 'verax[dance]'
    """
    try:
        with warnings.catch_warnings():  # what it uses that its own dependencies deprecate is not the user's business
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name).split(".")[0]
        raise ImportError(f"{purpose} needs {PIP_NAMES.get(missing, missing)}: pip install '{install}'") from error
