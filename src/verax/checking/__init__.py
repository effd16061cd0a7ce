"""Requirements on explanations that pass or fail, and reasons that hold."""

from verax.checking.check import check
from verax.checking.reasons import Reasons, reasons
from verax.checking.requirement import Requirement, Segments
from verax.checking.result import Check, Checked

__all__ = ["Check", "Checked", "Reasons", "Requirement", "Segments", "check", "reasons"]
