"""Fidelity of a model in production: windows, a small state file, an alarm."""

from verax.scale.monitor import Monitor
from verax.scale.track import Window

__all__ = ["Monitor", "Window"]
