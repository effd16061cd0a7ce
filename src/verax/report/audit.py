"""The page of an audit: what to use, what each metric passed, where it failed, and what was asked."""

import math
from typing import TYPE_CHECKING, Any

from verax.core.display import significant
from verax.report.html import rendered

if TYPE_CHECKING:
    from verax.auditing.finding import Finding
    from verax.auditing.result import Audit

_MOST = 500  # failures on a page; the table in a file has all


def audit_page(audit: "Audit") -> str:
    """The page as text; it needs no network and runs no script.

    Args:
        audit: What was found.
    """
    table = audit.table()
    failed = [one for one in audit.findings if one.passed is False]
    return rendered(
        "audit.html",
        about="your model" if audit.inputs else "models whose true explanations are known",
        facts=audit.facts,
        sentences=audit.sentences,
        head=table.head,
        rows=table.rows,
        caption=table.caption,
        trials=[(trial.name, trial.asks, trial.passes, trial.validity) for trial in audit.trials],
        blind=list(audit.blind_spots.items()),
        misled=list(audit.misled.items()),
        failed=[_cells(one) for one in failed[:_MOST]],
        more=max(0, len(failed) - _MOST),
        notes=audit.notes,
    )


def _cells(finding: "Finding") -> list[Any]:
    value, low, high = (_figure(one) for one in (finding.value, finding.low, finding.high))
    scale = "" if finding.scale is None else f", within {finding.scale:g}"
    kind = f"{finding.kind}{scale}"
    where = (finding.metric, kind, finding.replacement, finding.case, finding.trial)
    return [*where, f"{value} [{low}, {high}]", f"{finding.inputs:,}", f"{100 * finding.ties:.0f} %", finding.says]


def _figure(value: float) -> str:
    return "none" if math.isinf(value) else significant(value, 3)  # no damage is found, or no number is enough
