"""Attributions as other libraries hand them out: what is no array yet becomes one, or the message says who makes it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

Shape = tuple[int, ...]


def plain_attributions(attributions: Any) -> Any:
    """Arrays in the place of a ``shap.Explanation``, a tuple of Captum's and a list of arrays; the rest as it is.

    Of the pair that ``verax.interop.shap.from_explanation`` returns, the attributions.

    To be called before columns are put in the model's order, which needs arrays.

    Example:
        >>> from types import SimpleNamespace
        >>> explanation = SimpleNamespace(values=np.zeros((5, 3)), base_values=np.zeros(5))  # or explainer(x)
        >>> plain_attributions({"shap": explanation, "captum": (torch.zeros(5, 3),)})["shap"].shape
        (5, 3)
    """
    if isinstance(attributions, Mapping):
        return {name: _plain(f"attributions[{name!r}]", value) for name, value in attributions.items()}
    return _plain("attributions", attributions)


def explanations_of(attributions: Any) -> dict[str | None, Any]:
    """Every ``shap.Explanation`` among attributions, by name; under None where it is the only attribution."""
    held = attributions if isinstance(attributions, Mapping) else {None: attributions}
    return {name: value for name, value in held.items() if _is_explanation(value)}


def fitted_attributions(attributions: Any, fit: Callable[[Any], Any]) -> Any:
    """Every attribution as the inputs want it, before it becomes an array.

    Args:
        attributions: One, or a dict of them.
        fit: What the inputs make of one.
    """
    if isinstance(attributions, Mapping):
        return {name: fit(value) for name, value in attributions.items()}
    return fit(attributions)


def with_rows(array: Tensor, shapes: Collection[Shape]) -> Tensor:
    """The attribution of a single input without an axis for rows gets one; any other stays as it is.

    Args:
        array: What was given.
        shapes: Shapes that an attribution of these inputs may have.
    """
    found = tuple(array.shape)
    fits = found in shapes or found[1:] in shapes
    return array[None] if not fits and (1, *found) in shapes else array


def advice(found: Shape, inputs: Shape) -> str:
    """What to do with an array that does not fit, as the end of a message; empty where nothing is known.

    Example:
        >>> advice((5, 3, 2), (5, 3)).rpartition("; ")[2]
        'if embeddings of tokens, verax.text.per_token(attributions) makes one number per token'
    """
    if found[:-1] == inputs:
        converter = "verax.interop.shap.from_explanation(explanation, target=...)"
        vectors = "verax.text.per_token(attributions)"
        return (
            f"; if its last axis are classes, {converter} takes one of them; if embeddings of tokens, {vectors} makes "
            "one number per token"
        )
    if found[1:] == inputs:
        return "; of several arrays give each a name of its own, of one per class take that of the class explained"
    return ""


def _plain(label: str, value: Any) -> Any:
    if _is_explanation(value):
        return value.values
    if isinstance(value, tuple) and hasattr(value, "attributions"):  # what from_explanation gives
        return value.attributions
    if isinstance(value, tuple) and len(value) == 1:  # Captum's answer to inputs in a tuple
        return value[0]
    if isinstance(value, list | tuple) and value and all(isinstance(one, Tensor | np.ndarray) for one in value):
        return _stacked(label, value)
    return value


def _is_explanation(value: Any) -> bool:
    return hasattr(value, "base_values") and hasattr(value, "values")  # a shap.Explanation, without importing shap


def _stacked(label: str, arrays: list[Any] | tuple[Any, ...]) -> Any:
    shapes = list(dict.fromkeys(tuple(one.shape) for one in arrays))
    if len(shapes) > 1:
        raise ValueError(
            f"{label}: expected arrays of one shape, got {' and '.join(map(str, shapes))}; attributions of several "
            "input tensors, as Captum gives them, go to verax.interop.captum.prediction_change and its like."
        )
    if all(isinstance(one, Tensor) for one in arrays):
        return torch.stack([one.detach() for one in arrays])
    return np.stack([one.detach().cpu().numpy() if isinstance(one, Tensor) else one for one in arrays])
