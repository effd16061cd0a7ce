"""What a model may be: every supported kind becomes one forward contract, a batch in and raw class outputs out."""

from verax.adapters.base import Adapter, ArrayKind, Returns, floating_dtype, home
from verax.adapters.choose import adapt
from verax.adapters.encoded import Encoded, encoded

__all__ = ["Adapter", "ArrayKind", "Encoded", "Returns", "adapt", "encoded", "floating_dtype", "home"]
