"""A scorer from a model file of any kind: what the command line and workers of a cluster open."""

from pathlib import Path

import torch

from verax.models.files import load
from verax.models.foreign_files import open_model
from verax.scoring.adapters import Returns
from verax.scoring.scorer import Scorer


def open_scorer(
    path: Path, *, returns: Returns | None = None, device: str | torch.device | None = None, trust: bool = False
) -> Scorer:
    """Open a model file of Verax or of another library.

    Args:
        path: ``.safetensors`` of ``verax train``, or whatever ``open_model`` opens.
        returns: What the model returns, where the file does not say it.
        device: Where the model runs.
        trust: Whether a file may be opened that can run code.
    """
    if path.suffix.lower() != ".safetensors":
        return Scorer(open_model(path, returns=returns, trust=trust), returns=returns, device=device)
    saved = load(path)
    return Scorer(
        saved.module,
        returns=returns or saved.returns,
        device=device,
        feature_names=saved.feature_names or None,
        labels=saved.class_names or None,
    )
