"""Fidelity of a model in production: windows, a small state file, an alarm."""

from verax.monitoring.monitor import Monitor
from verax.monitoring.track import Window

__all__ = ["Monitor", "Window"]
