"""The best and the worst attribution of every method: heat maps for images, bars with feature names for tables."""

from typing import Any

import altair as alt
import numpy as np
from matplotlib.figure import Figure

from verax.attribution.names import label_of_method, labels_in_order
from verax.report.curves import ROLES, has_content, identified, input_key, input_label, members
from verax.report.figure import panels, plain
from verax.report.heatmaps import COLOURS, grey, grey_image, heat_map, per_pixel, scaled
from verax.report.rows import as_columns
from verax.report.style import NEGATIVE, POSITIVE, number
from verax.report.vega import scale_of, tooltips, vega_lite
from verax.report.view import View
from verax.study.tables import Example

SHOWN = 3  # images per model in the page
SMALL = 64  # pixels on a side: images that are enlarged show their pixels
FEATURES = 30  # bars per attribution, the largest


def is_image(example: Example) -> bool:
    """Whether the example's inputs are pictures (E, channels, height, width)."""
    return example.inputs.ndim == 4


def tables(view: View) -> list[Example]:
    """The examples with bars: those on tables that have anything to show."""
    return [example for example in view.examples if has_content(example) and not is_image(example)]


def gallery(example: Example) -> dict[str, Any]:
    """What the page shows of an image model: per input the image in grey, and by role one heat map per method."""
    methods = labels_in_order(example.methods)
    places = {(name, role): c for name, role, c in members(example)}
    pictures = []
    for at in range(min(SHOWN, len(example.input_ids))):
        cells = {role: [_cell(example, places[method, role], at) for method in methods] for role in ROLES}
        label = input_label(example, at)
        pictures.append({"label": label, "image": grey_image(example.inputs[at]), "cells": cells})
    small = max(example.inputs.shape[-2:]) < SMALL
    return {"model": example.model, "methods": methods, "pictures": pictures, "small": small}


def _cell(example: Example, c: int, at: int) -> dict[str, str]:
    form, dpc = example.configurations[c], number(float(example.dpc[c, at]))
    return {"src": heat_map(example.attributions[c, at]), "configuration": form, "dpc": dpc}


def columns(view: View) -> dict[str, list[Any]]:
    """One row per table input and configuration: feature labels and attributions as lists."""
    rows = []
    for example in tables(view):
        for at, c, row in identified(example):
            shown = largest_features(example, at)
            values = example.attributions[c, at].reshape(-1)[shown].astype(float)
            share = values / (float(np.abs(values).max()) or 1.0)
            names = [_features(example, at)[place] for place in shown]
            rows.append({**row, "feature": names, "attribution": values.tolist(), "share": share.tolist()})
    return as_columns(rows)


def largest_features(example: Example, at: int) -> list[int]:
    """The features to show of an input: all, or the ``FEATURES`` with the largest attributions on average."""
    values = np.abs(example.attributions[:, at].reshape(len(example.configurations), -1).astype(float))
    shares = values / np.maximum(values.max(1, keepdims=True), np.finfo(float).tiny)
    ranked = np.argsort(-shares.mean(0), kind="stable")[:FEATURES]
    return sorted(ranked.tolist())


def _features(example: Example, at: int) -> list[str]:
    values = example.inputs[at].reshape(-1)
    names = example.feature_names or tuple(f"feature {place}" for place in range(len(values)))
    words = example.texts[at] if example.texts else [number(float(value)) for value in values]
    return [f"{name} = {word}" for name, word in zip(names, words, strict=True)]


def charts(view: View) -> dict[str, Any]:
    """One chart of bars per model on tables."""
    return {
        f"bars-{at}": vega_lite(_bars(example), input=input_key(example.model, 0), role=ROLES[0])
        for at, example in enumerate(tables(view))
    }


def _bars(example: Example) -> Any:
    methods = labels_in_order(example.methods)
    base = (
        alt.Chart(alt.NamedData(name="bars"))
        .transform_filter("datum.input == input && datum.role == role")
        .transform_flatten(["feature", "attribution", "share"])
        .transform_calculate(size="abs(datum.share)", sign="datum.share < 0 ? 'lowers the score' : 'raises the score'")
    )
    signs = {"raises the score": POSITIVE, "lowers the score": NEGATIVE}
    order = alt.EncodingSortField(field="size", op="mean", order="descending")
    bars = base.mark_bar(aria=False).encode(
        x=alt.X("share:Q", title=None, scale=alt.Scale(domain=[-1, 1]), axis=alt.Axis(values=[0], labels=False)),
        y=alt.Y("feature:N", sort=order, title=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color("sign:N", title=None, scale=scale_of(signs), legend=alt.Legend(orient="top")),
        tooltip=tooltips(
            "configuration", "feature", ("attribution", "attribution", ".4g"), ("dpc", "DPC of the input", ".3g")
        ),
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
    return f"{plain(label_of_method(example.methods[c]))}\nDPC {number(float(example.dpc[c, 0]))}"
