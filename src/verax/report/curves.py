"""Perturbation curves of single inputs: the score while features go, most relevant first and least relevant first."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import altair as alt
import numpy as np
from matplotlib.figure import Figure

from verax.attribution.names import label_of_method, labels_in_order
from verax.report.html import as_columns, number
from verax.report.plots import CURVES, legend, panels, plain
from verax.report.vega import scale_of, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import Example

SIZE = (430, 170)
ROLES = ("best", "worst")
_FIELDS = ("pc_morf", "pc_lerf", "dpc_morf", "dpc_lerf")  # fields of an example


def has_content(example: Example) -> bool:
    return bool(len(example.input_ids) and example.configurations)


def input_key(model: str, at: int) -> str:
    return f"{at} {model}"


def input_label(example: Example, at: int) -> str:
    """An input for people: its id, and what the model says to it."""
    score = number(float(example.probabilities[at]), 3 if not example.class_names else 2)
    if not example.class_names:
        return f"{example.input_ids[at]}: value {score}"
    target = int(example.targets[at])
    name = example.class_names[target] if target < len(example.class_names) else str(target)
    return f"{example.input_ids[at]}: {name} with probability {score}"


def members(example: Example) -> list[tuple[str, str, int]]:
    """Name of the method, role and place of every configuration; where a method has one, it is best and worst."""
    places: dict[str, dict[str, int]] = {}
    for c, (method, role) in enumerate(zip(example.methods, example.roles, strict=True)):
        places.setdefault(label_of_method(method), {})[role] = c
    return [
        (name, role, by_role.get(role, next(iter(by_role.values()))))
        for name, by_role in places.items()
        for role in ROLES
    ]


def columns(view: View) -> dict[str, list[Any]]:
    """One row per example input and configuration, with its four curves as lists."""
    rows = []
    for example in view.examples:
        share = np.linspace(0, 1, example.pc_morf.shape[-1]).round(4).tolist()
        for at, c, row in identified(example):
            curves = {name: getattr(example, name)[c, at].astype(float).tolist() for name in _FIELDS}
            rows.append({**row, "share": share, "pc": float(example.pc[c, at]), **curves})
    return as_columns(rows)


def identified(example: Example) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Place of input and configuration, and the beginning of a row of the page's tables for them."""
    for at, (name, role, c) in product(range(len(example.input_ids)), members(example)):
        form, dpc = example.configurations[c], float(example.dpc[c, at])
        key = input_key(example.model, at)
        yield at, c, {"input": key, "name": name, "role": role, "configuration": form, "dpc": dpc}


def methods(view: View) -> list[str]:
    """Methods that the examples show, in reading order."""
    return labels_in_order(method for example in view.examples for method in example.methods)


def charts(view: View) -> dict[str, Any]:
    """PC's and DPC's curves of the input and method that the reader chooses, best and worst configuration."""
    first = next((example for example in view.examples if has_content(example)), None)
    if first is None:
        return {}
    choices = {"input": input_key(first.model, 0), "method": _telling(first)}
    charts = {}
    for metric, title in (("pc", "PC: score"), ("dpc", "DPC: directed curve")):
        both = alt.vconcat(*(_of_role(metric, title, role) for role in ROLES), spacing=26)
        described = both.properties(description=f"{title} while features of one input are removed.")
        charts[f"curves-{metric}"] = vega_lite(described, **choices)
    return charts


def _telling(example: Example) -> str:
    """A method to begin with: the first whose best and worst configurations differ."""
    forms: dict[str, set[str]] = {}
    for name, _, c in members(example):
        forms.setdefault(name, set()).add(example.configurations[c])
    return next((name for name, different in forms.items() if len(different) > 1), next(iter(forms)))


def _of_role(metric: str, title: str, role: str) -> Any:
    first, second = CURVES
    x = alt.X("share:Q", title="share of features removed", axis=alt.Axis(format="%", tickCount=5))
    between = alt.Chart().mark_area(opacity=0.12, color="currentColor", aria=False)
    between = between.encode(x=x, y=alt.Y("morf:Q", title=title, scale=alt.Scale(zero=False)), y2="lerf:Q")
    lines = alt.Chart().transform_fold(["morf", "lerf"], as_=["curve", "score"])
    lines = lines.transform_calculate(curve=f"datum.curve == 'morf' ? '{first}' : '{second}'")
    names = alt.Legend(orient="top", labelLimit=220)
    lines = lines.mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.6, aria=False).encode(
        x=x,
        y=alt.Y("score:Q", title=title),
        color=alt.Color("curve:N", title=None, scale=scale_of(CURVES), legend=names),
        tooltip=tooltips("curve", ("share", "removed", ".0%"), ("score", "score", ".4g")),
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
    drawn, axes = panels(2 * len(best), width=3.2, height=1.7, columns=2)
    for at, ax in enumerate(axes):
        c, directed = best[at // 2], at % 2 == 1
        morf, lerf = (example.dpc_morf, example.dpc_lerf) if directed else (example.pc_morf, example.pc_lerf)
        share = np.linspace(0, 1, morf.shape[-1])
        for curve, (label, colour) in zip((morf[c, 0], lerf[c, 0]), CURVES.items(), strict=True):
            ax.plot(share, curve, color=colour, linewidth=1.2, label=label)
        ax.fill_between(share, morf[c, 0], lerf[c, 0], color="0.5", alpha=0.15, linewidth=0)
        value = float((example.dpc if directed else example.pc)[c, 0])
        name = plain(label_of_method(example.methods[c]))
        ax.set_title(f"{name}: {'DPC' if directed else 'PC'} {number(value)}")
    for ax in axes[-2:]:
        ax.set_xlabel("share of features removed")
    legend(drawn, axes)
    drawn.suptitle(plain(f"{example.model}, {input_label(example, 0)}"), fontsize=9)
    return drawn
