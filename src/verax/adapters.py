"""What a model may be: derive from ``Adapter`` to make another kind of model known."""

from verax.scoring.adapters import Adapter, Encoded, Returns, adapt, encoded, labels_of, model_name

__all__ = ["Adapter", "Encoded", "Returns", "adapt", "encoded", "labels_of", "model_name"]
