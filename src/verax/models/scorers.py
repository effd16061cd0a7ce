"""A scorer from a model file of any kind: what the command line and workers of a cluster open."""

from pathlib import Path
from typing import Any

import torch

from verax.models.files import load
from verax.models.foreign_files import open_model
from verax.scoring.adapters import Returns
from verax.scoring.scorer import Reopened, Scorer


def open_scorer(
    path: Path,
    *,
    returns: Returns | None = None,
    device: str | torch.device | None = None,
    trust: bool = False,
    takes_missing: bool | None = None,
) -> Scorer:
    """Open a model file of Verax or of another library; pickled, the scorer is opened anew from the same path.

    Args:
        path: ``.safetensors`` of ``verax train``, or whatever ``open_model`` opens.
        returns: What the model returns, where the file does not say it.
        device: Where the model runs.
        trust: Whether a file may be opened that can run code.
        takes_missing: Whether the model takes NaN, where it does not know itself.
    """
    settings: dict[str, Any] = {"device": device, "takes_missing": takes_missing}
    if path.suffix.lower() == ".safetensors":
        saved = load(path)
        settings |= {"feature_names": saved.feature_names or None, "labels": saved.class_names or None}
        scorer = Scorer(saved.module, returns=returns or saved.returns, **settings)
    else:
        scorer = Scorer(open_model(path, returns=returns, trust=trust), returns=returns, **settings)
    place = path.expanduser().absolute()
    scorer.reopened = Reopened(open_scorer, place, returns, device, trust, takes_missing)
    return scorer
