"""What a model may be: every supported kind becomes one forward contract, a batch in and raw class outputs out."""

from verax.core.arrays import ArrayKind
from verax.scoring.adapters.base import Adapter, Returns, feature_names_of, floating_dtype, home, labels_of, model_name
from verax.scoring.adapters.encoded import Encoded, encoded
from verax.scoring.adapters.function import adapt

__all__ = [
    "Adapter",
    "ArrayKind",
    "Encoded",
    "Returns",
    "adapt",
    "encoded",
    "feature_names_of",
    "floating_dtype",
    "home",
    "labels_of",
    "model_name",
]
