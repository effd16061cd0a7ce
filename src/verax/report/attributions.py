"""The best and the worst attribution of every method: heat maps for images, bars with feature names for tables."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import altair as alt
import numpy as np
from matplotlib.figure import Figure

from verax.analysis.tables import Example
from verax.report.curves import ROLES, input_key, input_label, members
from verax.report.draw import panels, plain
from verax.report.heatmaps import COLOURS, grey, grey_image, heat_map, per_pixel, scaled
from verax.report.names import METHOD_NAMES, method_name
from verax.report.rows import as_columns
from verax.report.spec import spec
from verax.report.style import NEGATIVE, POSITIVE, number
from verax.report.view import View

SHOWN = 3  # images per model in the page
SMALL = 64  # pixels on a side: images that are enlarged show their pixels
FEATURES = 30  # bars per attribution, the largest


def is_image(example: Example) -> bool:
    """Whether the example's inputs are pictures (E, channels, height, width)."""
    return example.inputs.ndim == 4


def has_content(example: Example) -> bool:
    """Whether there is anything to show."""
    return bool(len(example.input_ids) and example.configurations)


def methods_of(example: Example) -> list[str]:
    """Names of the example's methods in reading order."""
    known = list(dict.fromkeys(METHOD_NAMES.values()))
    names = dict.fromkeys(method_name(method) for method in example.methods)
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def gallery(example: Example) -> dict[str, Any]:
    """What the page shows of an image model: per input the image in grey, and by role one heat map per method."""
    methods = methods_of(example)
    places = {(name, role): c for name, role, c in members(example)}
    pictures = []
    for at in range(min(SHOWN, len(example.input_ids))):
        rows = [
            {"role": role, "cells": [_cell(example, places[method, role], at) for method in methods]} for role in ROLES
        ]
        label = input_label(example, at)
        pictures.append({"label": label, "image": grey_image(example.inputs[at]), "rows": rows})
    small = max(example.inputs.shape[-2:]) < SMALL
    return {"model": example.model, "methods": methods, "pictures": pictures, "small": small}


def _cell(example: Example, c: int, at: int) -> dict[str, str]:
    form, dpc, pc = example.configurations[c], number(float(example.dpc[c, at])), number(float(example.pc[c, at]))
    return {"src": heat_map(example.attributions[c, at]), "configuration": form, "dpc": dpc, "pc": pc}


def columns(view: View) -> dict[str, list[Any]]:
    """One row per table input and configuration: feature labels and attributions as lists."""
    return as_columns(_rows(view))


def _rows(view: View) -> Iterator[dict[str, Any]]:
    for example in view.examples:
        if is_image(example):
            continue
        for at, (name, role, c) in product(range(len(example.input_ids)), members(example)):
            shown = largest_features(example, at)
            values = example.attributions[c, at].reshape(-1)[shown].astype(float)
            largest = float(np.abs(values).max()) or 1.0
            yield {
                "input": input_key(example.model, at),
                "name": name,
                "role": role,
                "configuration": example.configurations[c],
                "dpc": float(example.dpc[c, at]),
                "feature": [_features(example, at)[place] for place in shown],
                "attribution": values.tolist(),
                "share": (values / largest).tolist(),
            }


def largest_features(example: Example, at: int) -> list[int]:
    """The features to show of an input: all, or the ``FEATURES`` with the largest attributions on average."""
    values = np.abs(example.attributions[:, at].reshape(len(example.configurations), -1).astype(float))
    shares = values / np.maximum(values.max(1, keepdims=True), np.finfo(float).tiny)
    ranked = np.argsort(-shares.mean(0), kind="stable")[:FEATURES]
    return sorted(ranked.tolist())


def _features(example: Example, at: int) -> list[str]:
    values = example.inputs[at].reshape(-1)
    names = example.feature_names or tuple(f"feature {place}" for place in range(len(values)))
    return [f"{name} = {number(float(value))}" for name, value in zip(names, values, strict=True)]


def charts(view: View) -> dict[str, Any]:
    """One chart of bars per model on tables."""
    tables = [example for example in view.examples if not is_image(example) and has_content(example)]
    return {
        f"bars-{at}": spec(_bars(example), input=input_key(example.model, 0), role=ROLES[0])
        for at, example in enumerate(tables)
    }


def _bars(example: Example) -> Any:
    methods = methods_of(example)
    base = (
        alt.Chart(alt.NamedData(name="bars"))
        .transform_filter("datum.input == input && datum.role == role")
        .transform_flatten(["feature", "attribution", "share"])
        .transform_calculate(size="abs(datum.share)", sign="datum.share < 0 ? 'against the class' : 'for the class'")
    )
    order = alt.EncodingSortField(field="size", op="mean", order="descending")
    bars = base.mark_bar(aria=False).encode(
        x=alt.X("share:Q", title=None, scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(values=[0], labels=False)),
        y=alt.Y("feature:N", sort=order, title=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color(
            "sign:N",
            title=None,
            scale=alt.Scale(domain=["for the class", "against the class"], range=[POSITIVE, NEGATIVE]),
            legend=alt.Legend(orient="top"),
        ),
        tooltip=[
            alt.Tooltip("configuration:N"),
            alt.Tooltip("feature:N"),
            alt.Tooltip("attribution:Q", format=".4g"),
            alt.Tooltip("dpc:Q", title="DPC of the input", format=".3g"),
        ],
    )
    sized = bars.properties(width=max(760 // max(len(methods), 1) - 8, 50), height={"step": 15})
    header = alt.Header(labelExpr="split(datum.label, ' ')", labelFontWeight="normal", labelFontSize=11)
    chart = sized.facet(column=alt.Column("name:N", sort=methods, title=None, header=header), spacing=6)
    return chart.properties(
        description=f"Attributions of {example.model} by feature and method, scaled to the largest."
    )


def figure(example: Example) -> Figure:
    """The first input of a model: the best configuration of every method as heat map or bars."""
    best = [c for _, role, c in members(example) if role == ROLES[0]]
    drawn = _drawn_maps(example, best) if is_image(example) else _drawn_bars(example, best)
    drawn.suptitle(plain(f"{example.model}, {input_label(example, 0)}"), fontsize=9)
    return drawn


def _drawn_maps(example: Example, members: list[int]) -> Figure:
    drawn, axes = panels(len(members) + 1, width=1.5, height=1.7, columns=6)
    axes[0].imshow(grey(example.inputs[0]), cmap="gray", vmin=0, vmax=1)
    axes[0].set_title("image", fontsize=7)
    for c, ax in zip(members, axes[1:], strict=True):
        ax.imshow(scaled(per_pixel(example.attributions[c, 0])), cmap=COLOURS, vmin=-1, vmax=1)
        ax.set_title(_headline(example, c), fontsize=7)
    for ax in axes:
        ax.set_axis_off()
    return drawn


def _drawn_bars(example: Example, members: list[int]) -> Figure:
    shown = largest_features(example, 0)
    labels = [plain(_features(example, 0)[place]) for place in shown]
    drawn, axes = panels(len(members), width=1.6, height=0.8 + 0.16 * len(labels), columns=len(members))
    for at, (c, ax) in enumerate(zip(members, axes, strict=True)):
        values = example.attributions[c, 0].reshape(-1)[shown].astype(float)
        ax.barh(range(len(labels)), values, color=[NEGATIVE if value < 0 else POSITIVE for value in values])
        ax.set_yticks(range(len(labels)), labels if at == 0 else [""] * len(labels), fontsize=6)
        ax.invert_yaxis()
        ax.tick_params(axis="x", labelsize=5)
        ax.set_title(_headline(example, c), fontsize=7)
    return drawn


def _headline(example: Example, c: int) -> str:
    return f"{plain(method_name(example.methods[c]))}\nDPC {number(float(example.dpc[c, 0]))}"
