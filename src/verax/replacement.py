"""Replacements: what a removed feature becomes. Its baseline, something on the way to it, or what the data hold."""

from verax.problem.replacement import *  # noqa: F403
from verax.problem.replacement import __all__  # noqa: F401
