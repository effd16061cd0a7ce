"""Fidelity of a model in production: windows, a small state file, an alarm."""
