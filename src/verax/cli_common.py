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
