"""What a model may be: derive from ``Adapter`` to make another kind of model known."""

from verax.scoring.adapters import Adapter, Encoded, encoded

__all__ = ["Adapter", "Encoded", "encoded"]
