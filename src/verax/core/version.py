"""The version of Verax."""

__version__ = "0.1.0"
