"""What all commands share."""

import contextlib
from collections.abc import Iterator

import typer


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """What a user can mend is told in one line, with exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, ImportError, MemoryError, FloatingPointError) as error:
        typer.echo(f"verax: {error}", err=True)
        raise typer.Exit(2) from None


def checked_device_name(device: str) -> str:
    """Refuse a device that is not there before anything is loaded or trained for it."""
    import torch

    from verax.scoring import checked_device

    found = checked_device(device)
    if found is not None and found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"--device: {device} was asked for, but torch finds no CUDA device here; use cpu.")
    return device
