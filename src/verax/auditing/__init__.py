"""Which metric can be trusted: cases with known truth, trials, and ``verax.audit``."""

from verax.auditing import trials
from verax.auditing.audit import audit
from verax.auditing.finding import Finding, LeftOut
from verax.auditing.known_truth import cases
from verax.auditing.known_truth.base import Case, Truth
from verax.auditing.result import Audit

__all__ = ["Audit", "Case", "Finding", "LeftOut", "Truth", "audit", "cases", "trials"]
