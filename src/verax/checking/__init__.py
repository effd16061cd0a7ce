"""Requirements on explanations that pass or fail, and reasons that hold."""

from verax.checking.reasons import Reasons, reasons

__all__ = ["Reasons", "reasons"]
