"""The page of a monitor: whether the fidelity fell, a chart of the windows, and all of them in a table."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from verax.core.display import counted
from verax.core.palette import BLUE, GREY, VERMILION
from verax.report.html import fixed_style, inline, rendered
from verax.report.plots import legend, panels, plain
from verax.statistics.intervals import Estimate

if TYPE_CHECKING:
    from verax.scale.monitor import Monitor, Track, Window

_WIDTH, _SIZE = 5.2, 9  # inches and points: it can be read on a phone, where it shrinks to the page
_COLOURS = {"reference": GREY, "watched": BLUE, "alarm": VERMILION}
_TERMS = {"model": "SHA-256 of the model"}
_HEAD = ("window", "label", "metric", "attribution", "rows", "mean", "evidence", "")


def monitoring_page(monitor: "Monitor", facts: Mapping[str, str] | None = None) -> str:
    """The page as text; it needs no network and runs no script."""
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
        head=_HEAD,
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
    """The chart as SVG: a panel for each metric of each attribution."""
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
