"""The pages of an audit, a check and a search: what came out, all of it in tables, and how to compute it again."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from verax.checking.record import embedded
from verax.core.display import cost, metric_head, significant
from verax.core.packages import optional_package
from verax.report.html import number, rendered
from verax.statistics.intervals import Estimate

if TYPE_CHECKING:
    from verax.auditing.finding import Finding
    from verax.auditing.result import Audit
    from verax.checking.requirement import Requirement
    from verax.checking.result import Check
    from verax.tuning.result import Tuned

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from verax.core.display import counted
from verax.core.palette import BLUE, GREY, VERMILION
from verax.report.html import fixed_style, inline
from verax.report.plots import legend, panels, plain

if TYPE_CHECKING:
    from verax.scale.monitor import Monitor, Track, Window


_MOST = 500  # failures on a page; the table in a file has all


def audit_page(audit: "Audit") -> str:
    table = audit.table()
    failed = [finding for finding in audit.findings if finding.passed is False]
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
        failed=[_failure_cells(finding) for finding in failed[:_MOST]],
        more=max(0, len(failed) - _MOST),
        notes=audit.notes,
    )


def _failure_cells(finding: "Finding") -> list[Any]:
    value, low, high = (  # none where no damage is found, or no number is enough
        "none" if math.isinf(figure) else significant(figure, 3)
        for figure in (finding.value, finding.low, finding.high)
    )
    kind = finding.kind + ("" if finding.scale is None else f", within {finding.scale:g}")
    where = (finding.metric, kind, finding.replacement, finding.case, finding.trial)
    return [*where, f"{value} [{low}, {high}]", f"{finding.inputs:,}", f"{100 * finding.ties:.0f} %", finding.says]


POINTS = (
    (
        "MISSION KI quality standard, TR2.2, level C",
        "the relation of inputs and outputs is examined by tests; basic methods suffice, such as a simple metric",
        "any requirement: its metric, value and interval",
    ),
    (
        "MISSION KI quality standard, TR2.2, level B",
        "tests comprise basic and advanced methods, where their choice is justified",
        "requirements on PC or DPC (basic) beside effect correlation, shares of the limit and reasons (advanced)",
    ),
    (
        "MISSION KI quality standard, TR2.2, level A",
        "thresholds are minimum requirements, justified by the purpose, and graded by scenario of use as metrics are",
        "threshold and justification of each requirement, frozen before the run; segments, each with its own outcome",
    ),
    (
        "EU AI Act, Annex IV, 2(e)",
        "assessment of the technical measures that facilitate the interpretation of outputs by deployers",
        "what was required of the explanation that deployers are shown, the outcome, and what each metric misses",
    ),
    (
        "EU AI Act, Annex IV, 2(g)",
        "testing procedures, test data and their characteristics, metrics, dated and signed test logs and reports",
        "this page: date, hashes of model and data, segments, cost and versions; a person signs it",
    ),
    (
        "NIST AI RMF 1.0, MEASURE 2.9",
        "the model is explained, validated and documented; outputs are interpreted within their context",
        "whether explanations are validated against the model, and in which segments; the context is for you to add",
    ),
)
"""Points that a check is evidence for: where they stand, what they ask, and which part of the page answers."""


def check_page(check: "Check", record: Mapping[str, Any] | None = None) -> str:
    table = check.table()
    counts = Counter(requirement.outcome for requirement in check.requirements)
    listed = [f"{counts[word]} {word}" for word in ("passed", "failed", "undecided") if counts[word]]
    facts = {**check.facts, "cost": cost(check.rows, check.cost.seconds)}
    if record is not None:
        facts |= {f"SHA-256 of {name}": value for name, value in record["hashes"].items()}
        facts |= {"date": record["date"], **record["versions"]}
    return rendered(
        "check.html",
        outcome=check.outcome,
        counts=", ".join(listed),
        frozen=_frozen(record),
        head=table.head,
        rows=[(row[0], row[1:]) for row in table.rows],
        notes=table.notes,
        required=[_required(check, number, requirement) for number, requirement in enumerate(check.required)],
        facts=facts,
        points=POINTS,
        file=None if record is None else record["check"],
        text="" if record is None else record["text"],
        record=Markup("" if record is None else embedded(record)),  # noqa: S704 - escaped there
    )


def _frozen(record: Mapping[str, Any] | None) -> tuple[bool, str]:
    """Whether everything was stated before the numbers were seen, and the sentence about it."""
    no = "Not frozen: "
    if record is None:
        return False, f"{no}this page cannot show that the requirements were stated before the numbers were seen."
    if record["frozen"] is None:
        return False, f"{no}the requirements may have been written after the numbers were seen."
    since = f"Frozen on {record['frozen']['date']}, hash {record['frozen']['hash']}"
    if record["changed"]:
        return False, f"{since}. Changed since: {', '.join(record['changed'])}."
    return True, f"{since}. Nothing has changed since."


def _required(check: "Check", number: int, requirement: "Requirement") -> dict[str, Any]:
    metric, inputs, segments = requirement.metric, requirement.inputs, requirement.segments
    intervals = {line.interval for line in check.requirements if line.requirement == number}
    return {
        "title": str(requirement),
        "why": requirement.justification or "No justification was stated.",
        "asks": metric.asks,
        "misses": metric.known_limitations,
        "settings": {
            "level": f"{100 * requirement.level:.4g} %",
            "inputs": "all" if inputs is None else f"{inputs:,}",
            "seed": f"{requirement.seed}, of the draw of inputs and of a random explanation",
            "until": requirement.until or "all of them are measured",
            "segments": "none" if segments is None else f"{segments.words}, intervals corrected for their number",
            "intervals": ", ".join(sorted(intervals)),
            "metric": str(metric),
        },
    }


_TRIAL_HEAD = ("state", "inputs", "model rows per input", "configuration", "reason of a failure")


def tuning_page(tuned: "Tuned", summary: str) -> str:
    vl_convert = optional_package("vl_convert", "verax[tune]", "The page of a search")
    drawn = vl_convert.vegalite_to_svg(tuned.plot().configure(background="white").to_json())
    best, *lines = summary.splitlines()
    heads = [metric_head(tuned.label(name), metric.higher_is_better) for name, metric in tuned.metrics.items()]
    return rendered(
        "tuning.html",
        best=best,
        date=tuned.facts.get("date", ""),
        lines=lines,
        metrics=[(tuned.label(name), metric.asks) for name, metric in tuned.metrics.items() if metric.asks],
        chart=Markup(drawn),  # noqa: S704 - Vega escapes the names in it
        head=["trial", *heads, *_TRIAL_HEAD],
        rows=[_trial_cells(tuned, row) for row in tuned.table.iter_rows(named=True)],
    )


def _trial_cells(tuned: "Tuned", row: Mapping[str, Any]) -> list[str]:
    scores = [
        str(Estimate(row[name], math.nan, row[f"{name}_low"], row[f"{name}_high"])) if row[name] is not None else ""
        for name in tuned.metrics
    ]
    cost = number(row["cost"] and float(row["cost"]))
    return [
        *(str(row["trial"]), *scores, row["state"], f"{row['inputs']:,}", cost),
        *(row["configuration"], row["reason"] or ""),
    ]


_WIDTH, _SIZE = 5.2, 9  # inches and points: it can be read on a phone, where it shrinks to the page
_COLOURS = {"reference": GREY, "watched": BLUE, "alarm": VERMILION}
_TERMS = {"model": "SHA-256 of the model"}
_WINDOW_HEAD = ("window", "label", "metric", "attribution", "rows", "mean", "evidence", "")


def monitoring_page(monitor: "Monitor", facts: Mapping[str, str] | None = None) -> str:
    if not monitor.windows:
        raise ValueError("report: no window is finished yet, so that there is nothing to show.")
    needed = -math.log10(monitor.tracks[0].rate / 2)
    return rendered(
        "monitoring.html",
        lead=_lead(monitor),
        rule=(
            f"At most {100 * monitor.alarm:.4g} % of such monitors ever give a false alarm, over all windows and "
            f"{counted(len(monitor.tracks), 'track')} together."
        ),
        chart=Markup(_drawn(monitor)),  # noqa: S704 - names in it are escaped
        head=_WINDOW_HEAD,
        rows=[_cells(window) for window in reversed(monitor.windows)],
        needed=f"{needed:.2f}",
        notes=monitor.notes,
        about=[*(facts or {}).items(), *((_TERMS.get(name, name), value) for name, value in monitor.about.items())],
    )


def _lead(monitor: "Monitor") -> str:
    fallen = [track for track in monitor.tracks if track.alarm]
    if fallen:
        alarms = []
        for track in fallen:
            first = next(window for window in track.windows if window.alarm)
            label = f" ({first.label})" if first.label else ""
            alarms.append(f"{track.metric} of {track.attribution}, alarm in window {first.window}{label}")
        return f"Yes: {'; '.join(alarms)}."
    watched = sum(not window.reference for window in monitor.tracks[0].windows)
    if not watched:
        return "Not asked yet: the windows so far are the reference."
    return f"No sign of it in {counted(watched, 'window')} after the reference."


def _cells(window: "Window") -> list[str]:
    mean = Estimate(window.mean, math.nan, window.low, window.high)
    state = _state(window)
    evidence = "" if window.evidence is None else f"{window.evidence:.2f}"
    names = (str(window.window), window.label, window.metric, window.attribution)
    return [*names, f"{window.rows:,}", str(mean), evidence, "" if state == "watched" else state]


def _drawn(monitor: "Monitor") -> str:
    tracks = [track for track in monitor.tracks if track.windows]
    with fixed_style(_SIZE):
        chart, axes = panels(len(tracks), width=_WIDTH, columns=1)
        for track, ax in zip(tracks, axes, strict=True):
            _draw_windows(track, ax)
        legend(chart, axes, columns=len(_COLOURS))
        return inline(chart, "Mean score of each window with its interval, by metric and attribution")


def _draw_windows(track: "Track", ax: Axes) -> None:
    for state, colour in _COLOURS.items():
        windows = [window for window in track.windows if _state(window) == state]
        if windows:
            places, means, low, high = np.array([(each.window, each.mean, each.low, each.high) for each in windows]).T
            reach = np.nan_to_num([means - low, high - means], posinf=0.0)  # one row has no interval
            ax.errorbar(places, means, reach, fmt="o", color=colour, markersize=4, elinewidth=0.8, label=state)
    if track.test is not None:
        bound = track.test.bound if track.higher_is_better else -track.test.bound
        ax.axhline(bound, color=GREY, linewidth=1, linestyle="--")
    ax.set(xlabel="window", ylabel=plain(f"{track.metric} of {track.attribution}"))
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))


def _state(window: "Window") -> str:
    return "alarm" if window.alarm else "reference" if window.reference else "watched"
