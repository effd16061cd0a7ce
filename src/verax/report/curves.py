"""Perturbation curves of single inputs: the score while features go, most relevant first and least relevant first."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import altair as alt
import numpy as np
from matplotlib.figure import Figure

from verax.analysis.tables import Example
from verax.report.draw import legend_below, panels, plain
from verax.report.names import method_name
from verax.report.rows import as_columns
from verax.report.spec import spec
from verax.report.style import BLUE, VERMILION, number
from verax.report.view import View

SIZE = (430, 170)
CURVES = {"MoRF, most relevant first": VERMILION, "LeRF, least relevant first": BLUE}
ROLES = ("best", "worst")


def input_key(model: str, at: int) -> str:
    """What stands for an input in the page's choices."""
    return f"{at} {model}"


def input_label(example: Example, at: int) -> str:
    """An input for people: its id, and what the model says to it."""
    target = int(example.targets[at])
    name = example.class_names[target] if target < len(example.class_names) else str(target)
    return f"{example.input_ids[at]}: {name} with probability {number(float(example.probabilities[at]), 2)}"


def members(example: Example) -> list[tuple[str, str, int]]:
    """Name of the method, role and place of every configuration; where a method has one, it is best and worst."""
    places: dict[str, dict[str, int]] = {}
    for c, (method, role) in enumerate(zip(example.methods, example.roles, strict=True)):
        places.setdefault(method_name(method), {})[role] = c
    return [
        (name, role, found.get(role, next(iter(found.values())))) for name, found in places.items() for role in ROLES
    ]


def columns(view: View) -> dict[str, list[Any]]:
    """One row per example input and configuration, with its four curves as lists."""
    return as_columns(_rows(view))


def _rows(view: View) -> Iterator[dict[str, Any]]:
    for example in view.examples:
        share = np.linspace(0, 1, example.pc_morf.shape[-1]).round(4).tolist()
        for at, (name, role, c) in product(range(len(example.input_ids)), members(example)):
            yield {
                "input": input_key(example.model, at),
                "name": name,
                "role": role,
                "configuration": example.configurations[c],
                "share": share,
                "pc": float(example.pc[c, at]),
                "dpc": float(example.dpc[c, at]),
                "pc_morf": example.pc_morf[c, at].astype(float).tolist(),
                "pc_lerf": example.pc_lerf[c, at].astype(float).tolist(),
                "dpc_morf": example.dpc_morf[c, at].astype(float).tolist(),
                "dpc_lerf": example.dpc_lerf[c, at].astype(float).tolist(),
            }


def methods(view: View) -> list[str]:
    """Methods that the examples show, in reading order."""
    there = {method_name(method) for example in view.examples for method in example.methods}
    return [name for name in view.method_names if name in there]


def charts(view: View) -> dict[str, Any]:
    """PC's and DPC's curves of the input and method that the reader chooses, best and worst configuration."""
    first = next((one for one in view.examples if len(one.input_ids) and one.configurations), None)
    if first is None:
        return {}
    choices = {"input": input_key(first.model, 0), "method": _telling(first)}
    titles = {"pc": "PC: class score", "dpc": "DPC: directed curve"}
    return {f"curves-{metric}": spec(_panel(metric, title), **choices) for metric, title in titles.items()}


def _telling(example: Example) -> str:
    """A method to begin with: the first whose best and worst configurations differ."""
    places: dict[str, set[int]] = {}
    for name, _, c in members(example):
        places.setdefault(name, set()).add(c)
    forms = {name: {example.configurations[c] for c in found} for name, found in places.items()}
    return next((name for name, found in forms.items() if len(found) > 1), next(iter(forms)))


def _panel(metric: str, title: str) -> Any:
    both = alt.vconcat(*(_of_role(metric, title, role) for role in ROLES), spacing=26)
    return both.properties(description=f"{title} while features of one input are removed.")


def _of_role(metric: str, title: str, role: str) -> Any:
    first, second = CURVES
    x = alt.X("share:Q", title="share of features removed", axis=alt.Axis(format="%", tickCount=5))
    between = alt.Chart().mark_area(opacity=0.12, color="currentColor", aria=False)
    between = between.encode(x=x, y=alt.Y("morf:Q", title=title, scale=alt.Scale(zero=False)), y2="lerf:Q")
    lines = alt.Chart().transform_fold(["morf", "lerf"], as_=["curve", "score"])
    lines = lines.transform_calculate(curve=f"datum.curve == 'morf' ? '{first}' : '{second}'")
    colour = alt.Scale(domain=list(CURVES), range=list(CURVES.values()))
    lines = lines.mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.6, aria=False).encode(
        x=x,
        y=alt.Y("score:Q", title=title),
        color=alt.Color("curve:N", title=None, scale=colour, legend=alt.Legend(orient="top", labelLimit=220)),
        tooltip=[
            alt.Tooltip("curve:N"),
            alt.Tooltip("share:Q", title="removed", format=".0%"),
            alt.Tooltip("score:Q", format=".4g"),
        ],
    )
    area = f"'{role}, {metric.upper()} ' + format(datum.{metric}, '.3g') + ': ' + datum.configuration"
    words = alt.Chart().transform_filter("datum.share == 0").transform_calculate(words=area)
    words = words.mark_text(align="left", baseline="bottom", limit=SIZE[0]).encode(
        text="words:N", x=alt.value(0), y=alt.value(-4)
    )
    panel = alt.layer(between, lines, words, data=alt.NamedData(name="curves"))
    panel = panel.transform_filter(f"datum.input == input && datum.name == method && datum.role == '{role}'")
    panel = panel.transform_flatten(["share", f"{metric}_morf", f"{metric}_lerf"], ["share", "morf", "lerf"])
    return panel.properties(width=SIZE[0], height=SIZE[1])


def figure(example: Example) -> Figure:
    """Curves of the first input of a model: a row per method's best configuration, PC left and DPC right."""
    best = [c for _, role, c in members(example) if role == ROLES[0]]
    drawn, axes = panels(2 * len(best), width=3.2, height=1.7)
    for at, ax in enumerate(axes):
        c, directed = best[at // 2], at % 2 == 1
        morf, lerf = (example.dpc_morf, example.dpc_lerf) if directed else (example.pc_morf, example.pc_lerf)
        share = np.linspace(0, 1, morf.shape[-1])
        for curve, (label, colour) in zip((morf[c, 0], lerf[c, 0]), CURVES.items(), strict=True):
            ax.plot(share, curve, color=colour, linewidth=1.2, label=label)
        ax.fill_between(share, morf[c, 0], lerf[c, 0], color="0.5", alpha=0.15, linewidth=0)
        value = float((example.dpc if directed else example.pc)[c, 0])
        name = plain(method_name(example.methods[c]))
        ax.set_title(f"{name}: {'DPC' if directed else 'PC'} {number(value)}")
    for ax in axes[-2:]:
        ax.set_xlabel("share of features removed")
    legend_below(drawn, axes)
    drawn.suptitle(plain(f"{example.model}, {input_label(example, 0)}"), fontsize=9)
    return drawn
