"""Fidelity of a model in production: windows, a small state file, an alarm."""

from verax.scale.monitor import Monitor, Window

__all__ = ["Monitor", "Window"]
