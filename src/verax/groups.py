"""Group numbers, for ``features=``: windows of a series, the values of a token."""

from verax.problem.features import tokens, windows

__all__ = ["tokens", "windows"]
