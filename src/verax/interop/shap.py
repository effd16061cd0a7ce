"""Explanations made by shap as inputs and attributions. shap itself is not needed to read them."""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Explained", "from_explanation"]


class Explained(NamedTuple):
    """What an explanation holds.

    Attributes:
        inputs: The rows that were explained.
        attributions: One value for each of their elements.
    """

    inputs: Any
    attributions: Any


def from_explanation(explanation: Any, target: Any = None) -> Explained:
    """Read a ``shap.Explanation``.

    Args:
        explanation: An object with ``data``, the rows ``(N, ...)``, and ``values`` of the same shape or with one more
            axis for the classes.
        target: Where there is an axis for the classes: the class to take, one number or one for each row.

    Returns:
        Inputs and attributions, for ``verax.evaluate(verax.Problem(model, inputs, target=...), attributions)``.
        Evaluate the class that the values explain: ``target`` here, or what the explainer was made for (class 1, as a
        rule, where a binary model has values without an axis for the classes).

    Example:
        >>> from types import SimpleNamespace
        >>> import numpy as np
        >>> from verax.interop.shap import from_explanation
        >>> explanation = SimpleNamespace(data=np.ones((5, 3)), values=np.zeros((5, 3, 2)))  # or explainer(x)
        >>> inputs, attributions = from_explanation(explanation, target=1)
        >>> inputs.shape, attributions.shape
        ((5, 3), (5, 3))
    """
    data, values = (_numbers(name, getattr(explanation, name, None)) for name in ("data", "values"))
    if data.ndim < 2:
        advice = "take a slice of one row, explanation[:1], instead of explanation[0]"
        raise ValueError(f"explanation: expected data with rows, shape (N, ...), got shape {data.shape}; {advice}.")
    if values.shape == data.shape:
        if target is not None:
            raise ValueError(f"target: values of shape {values.shape} have no axis for classes; leave target out.")
        return Explained(data, values)
    if values.shape[:-1] != data.shape:
        problem = f"values of shape {values.shape} do not fit data of shape {data.shape}"
        raise ValueError(f"explanation: {problem}; expected that shape, or it with one more axis for the classes.")
    return Explained(data, _picked(values, target))


def _numbers(name: str, value: Any) -> Any:
    if value is None:
        raise TypeError(f"explanation: expected an object like shap.Explanation, got none of its {name}.")
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"explanation: expected {name} to hold numbers, got {array.dtype}; encode the rows first.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


def _picked(values: Any, target: Any) -> Any:
    count, classes = len(values), values.shape[-1]
    expected = f"one of 0 to {classes - 1}, or one for each of {count} rows"
    if target is None:
        raise ValueError(f"target: the values explain {classes} classes; say which, {expected}.")
    chosen = np.asarray(target)
    if chosen.dtype.kind not in "iu":
        raise TypeError(f"target: expected a class number, {expected}; got {target!r}.")
    if chosen.shape not in ((), (count,)) or chosen.min() < 0 or chosen.max() >= classes:
        raise ValueError(f"target: expected a class number, {expected}; got {target!r}.")
    index = np.broadcast_to(chosen, (count,)).reshape(count, *[1] * (values.ndim - 1))
    return np.take_along_axis(values, index, axis=-1)[..., 0]
