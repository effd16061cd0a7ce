"""Settings read back from the canonical form of a configuration. Nothing is evaluated."""

import ast
from typing import Any


def settings(configuration: str) -> dict[str, Any]:
    """The settings of a configuration by name; a setting that is itself a configuration stays text.

    Example:
        >>> settings("IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)")
        {'baseline': 'max', 'multiply_by_inputs': True, 'points': 64}
        >>> settings("LimeImage(alpha=0.1, segmenter=Slic(n_segments=48, sigma=4.0))")["segmenter"]
        'Slic(n_segments=48, sigma=4.0)'
    """
    return {word.arg: _value(word.value) for word in _call(configuration).keywords if word.arg is not None}


def method(configuration: str) -> str:
    """The name of the method.

    Example:
        >>> method("SmoothGrad(sigma=0.1, samples=64, seed=0)")
        'SmoothGrad'
    """
    return ast.unparse(_call(configuration).func)


def twin(configuration: str) -> str | None:
    """The configuration that differs only in whether it multiplies by the inputs, or None for other methods.

    Example:
        >>> twin("IntegratedGradients(baseline='max', multiply_by_inputs=True, points=64)")
        "IntegratedGradients(baseline='max', multiply_by_inputs=False, points=64)"
        >>> twin("Gradient()")
    """
    multiplies = settings(configuration).get("multiply_by_inputs")
    if multiplies is None:
        return None
    return configuration.replace(f"multiply_by_inputs={multiplies}", f"multiply_by_inputs={not multiplies}")


def _call(configuration: str) -> ast.Call:
    try:
        found = ast.parse(configuration, mode="eval").body
    except SyntaxError:
        found = None
    if not isinstance(found, ast.Call) or found.args:
        raise ValueError(f"configuration: expected a form such as 'SmoothGrad(sigma=0.1)', found {configuration!r}.")
    return found


def _value(node: ast.expr) -> Any:
    return ast.unparse(node) if isinstance(node, ast.Call) else ast.literal_eval(node)
