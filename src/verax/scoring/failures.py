"""Failures inside a model, told in one line that says whose they are."""

import textwrap


class ModelError(ValueError, RuntimeError):
    """The model itself failed on the rows that it was given. Its own error is the cause of this one."""


def failure(error: RuntimeError, rows: int) -> ModelError:
    r"""What to raise in the place of a model's own error: torch's may be pages long, and name no argument.

    Example:
        >>> failure(RuntimeError("mat1 and mat2 shapes cannot be\n multiplied"), 20)
        ModelError('model: it failed on a batch of 20 rows: mat1 and mat2 shapes cannot be multiplied.')
    """
    said = textwrap.shorten(str(error), 300, placeholder=" ...") or type(error).__name__
    compiling = type(error).__module__.startswith(("torch._dynamo", "torch._inductor"))
    advice = " torch.compile cannot do with it: leave compile out." if compiling else ""
    return ModelError(f"model: it failed on a batch of {rows} rows: {said.rstrip('.')}.{advice}")
