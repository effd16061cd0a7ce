"""When a model of a running program is the same one again: by its content, and by what it predicts."""

import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import joblib
import torch
from torch import Tensor, nn

from verax.core import noise
from verax.core.hashing import digest, tensor_hash
from verax.core.shapes import Float
from verax.scoring.adapters import Adapter
from verax.scoring.adapters.torch_module import TorchModule
from verax.study.explained_models import state_hash
from verax.study.materials import Material

_MOST = 1024  # rows of each kind that are predicted
_UNHASHABLE = (
    pickle.PicklingError,
    TypeError,
    AttributeError,
    ValueError,
    NotImplementedError,
    RuntimeError,  # RecursionError among them
)

Predict = Callable[[Float[Tensor, "n *shape"]], Tensor]


def model_identity(model: Any, adapter: Adapter, material: Material, predict: Predict) -> str:
    """Hash of a model that was given as an object.

    The weights and the settings of a torch module. Of any other model the serialised content, unless it cannot be
    serialised or changes as the model predicts, and in any case its predictions, because functions are serialised by
    name alone: on the data, and on rows that the data do not hold, where models that predict alike on the data differ.

    Args:
        model: What the user gave.
        adapter: The same behind the interface of the scorer.
        material: The data.
        predict: Scores of standardised rows.
    """
    module = adapter.module if isinstance(adapter, TorchModule) else None
    if module is not None and any(True for _ in module.parameters()):
        settings = _content_hash([_settings(part) for part in module.modules()])
        weights = state_hash(module)
        if settings is not None:
            return digest(weights=weights, module=repr(module), settings=settings)
        return digest(weights=weights, module=repr(module), predictions=_predictions(material, predict))
    before = _content_hash(model)
    predictions = _predictions(material, predict)
    content = before if before == _content_hash(model) else None
    return digest(content=content, predictions=predictions)


def _settings(module: nn.Module) -> dict[str, Any]:
    """What a module holds beside weights, buffers and parts; not its mode, which the scorer sets."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    kind = type(module)
    return {"class": f"{kind.__module__}.{kind.__qualname__}", **{name: _plain(value) for name, value in own.items()}}


def _plain(value: Any) -> Any:
    return tensor_hash(value) if isinstance(value, Tensor) else value


def _content_hash(content: Any) -> str | None:
    """Hash of a serialised form, the same in every process; None where there is none."""
    with contextlib.suppress(*_UNHASHABLE):
        return str(joblib.hash(content, hash_name="sha1"))
    return None


def _predictions(material: Material, predict: Predict) -> str:
    """Hash of the scores of the data's rows, of rows mixed from pairs of them, and of rows with features removed."""
    background = material.background[:_MOST]
    keys = noise.input_keys(torch.arange(len(background))[:, None].double(), 0, "identity")
    kept = noise.uniforms(keys, 0, 1, background[0].numel()).reshape(background.shape) < 0.5
    removed = torch.zeros_like(background[:1]) if material.baselines is None else material.baselines
    mixed = torch.where(kept, background, background.roll(1, 0))
    without = torch.where(kept, background, removed.to(background))
    return tensor_hash(*(predict(rows) for rows in (material.inputs[:_MOST], background, mixed, without)))
