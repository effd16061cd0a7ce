"""The page of a monitor: whether the fidelity fell, a chart of the windows, and all of them in a table."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from verax.core.display import counted
from verax.core.packages import optional_package
from verax.core.palette import BLUE, FONT, GREY, VERMILION
from verax.report.html import rendered
from verax.statistics.intervals import Estimate

if TYPE_CHECKING:
    from verax.scale.monitor import Monitor, Track, Window

_WIDTH = 400  # pixels of the plot: with its axis it can be read on a phone, where it shrinks to the page
_TERMS = {"model": "SHA-256 of the model"}
_HEAD = ("window", "label", "metric", "attribution", "rows", "mean", "evidence", "")


def monitoring_page(monitor: "Monitor", facts: Mapping[str, str] | None = None) -> str:
    """The page as text; it needs no network and runs no script.

    Args:
        monitor: What is reported.
        facts: What else is known of what is watched, by name, such as the model's file and the tracked class.
    """
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
        chart=Markup(_drawn(monitor)),  # noqa: S704 - Vega escapes the names in it
        head=_HEAD,
        rows=[_cells(window) for window in reversed(monitor.windows)],
        needed=f"{needed:.2f}",
        notes=monitor.notes,
        about=[*(facts or {}).items(), *((_TERMS.get(name, name), value) for name, value in monitor.about.items())],
    )


def _lead(monitor: "Monitor") -> str:
    fallen = [track for track in monitor.tracks if track.alarm]
    if fallen:
        said = [f"{track.metric} of {track.attribution}, told in window {_first_alarm(track)}" for track in fallen]
        return f"Yes: {'; '.join(said)}."
    watched = sum(not window.reference for window in monitor.tracks[0].windows)
    if not watched:
        return "Not asked yet: the windows so far are the reference."
    return f"No sign of it in {counted(watched, 'window')} after the reference."


def _first_alarm(track: "Track") -> str:
    window = next(window for window in track.windows if window.alarm)
    return f"{window.window}{f' ({window.label})' if window.label else ''}"


def _cells(window: "Window") -> list[str]:
    mean = Estimate(window.mean, math.nan, window.low, window.high)
    state = "alarm" if window.alarm else "reference" if window.reference else ""
    evidence = "" if window.evidence is None else f"{window.evidence:.2f}"
    return [
        str(window.window),
        window.label,
        window.metric,
        window.attribution,
        f"{window.rows:,}",
        str(mean),
        evidence,
        state,
    ]


def _drawn(monitor: "Monitor") -> Any:
    """The chart as SVG: a panel for each metric of each attribution."""
    alt = optional_package("altair", "verax[study]", "The page of a monitor")
    vl_convert = optional_package("vl_convert", "verax[study]", "The page of a monitor")
    panels = [_panel(alt, track) for track in monitor.tracks if track.windows]
    return vl_convert.vegalite_to_svg(alt.vconcat(*panels).configure(font=FONT, background="white").to_json())


def _panel(alt: Any, track: "Track") -> Any:
    states = {"reference": GREY, "watched": BLUE, "alarm": VERMILION}
    rows = [
        {
            "window": window.window,
            "mean": window.mean,
            "low": window.low if math.isfinite(window.low) else window.mean,
            "high": window.high if math.isfinite(window.high) else window.mean,
            "state": "alarm" if window.alarm else "reference" if window.reference else "watched",
        }
        for window in track.windows
    ]
    colours = alt.Scale(domain=list(states), range=list(states.values()))
    colour = alt.Color("state:N", scale=colours, title=None, legend=alt.Legend(orient="bottom"))
    marked = list(range(1, len(rows) + 1, 1 + len(rows) // 10))
    inside = alt.Scale(zero=False, padding=12)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("window:Q", title="window", axis=alt.Axis(values=marked, format="d"), scale=inside), color=colour
    )
    height = alt.Y("low:Q", title=f"{track.metric} of {track.attribution}", scale=alt.Scale(zero=False))
    parts = [base.mark_rule(opacity=0.4).encode(y=height, y2="high:Q"), base.mark_point(filled=True).encode(y="mean:Q")]
    if track.test is not None:
        bound = track.test.bound if track.higher_is_better else -track.test.bound
        held = alt.Chart(alt.Data(values=[{"bound": bound}]))
        parts.append(held.mark_rule(strokeDash=[4, 3], color=GREY).encode(y="bound:Q"))
    return alt.layer(*parts).properties(width=_WIDTH, height=220)
