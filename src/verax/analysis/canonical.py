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
    try:
        call = ast.parse(configuration, mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or call.args:
        raise ValueError(f"configuration: expected a form such as 'SmoothGrad(sigma=0.1)', got {configuration!r}.")
    return {
        word.arg: ast.unparse(word.value) if isinstance(word.value, ast.Call) else ast.literal_eval(word.value)
        for word in call.keywords
        if word.arg is not None
    }


def method(configuration: str) -> str:
    """The name of the method."""
    return configuration.partition("(")[0]


def with_other_input_factor(configuration: str) -> str | None:
    """The configuration that differs only in whether it multiplies by the inputs, or None for other methods."""
    multiplied, alone = "multiply_by_inputs=True", "multiply_by_inputs=False"
    if multiplied in configuration:
        return configuration.replace(multiplied, alone)
    return configuration.replace(alone, multiplied) if alone in configuration else None
