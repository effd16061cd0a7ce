"""The best and the worst attribution of every method: heat maps for images, bars with feature names for tables."""

import base64
from io import BytesIO
from typing import Any

import altair as alt
import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image

from verax.attribution.names import label_of_method, labels_in_order
from verax.report.curves import ROLES, has_content, identified, input_key, input_label, members
from verax.report.html import as_columns, number
from verax.report.plots import panels, plain
from verax.report.vega import NEGATIVE, POSITIVE, scale_of, tooltips, vega_lite
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


LARGEST = 112  # pixels on a side: sharp enough beside its neighbours, small enough for a page with a hundred of them
COLOURS = "RdBu"  # red against, blue for; distinct to the colour-blind
_LEVELS = 63  # odd, so that zero has a colour of its own; few, so that the files stay small

Pixels = npt.NDArray[np.floating[Any]]


def per_pixel(attribution: Pixels) -> Pixels:
    """One value per pixel, as the metrics see it: channels summed."""
    return attribution.sum(0) if attribution.ndim == 3 else attribution


def grey(image: Pixels) -> Pixels:
    """An image of channels, each between 0 and 1, as brightness between 0 and 1."""
    weights = np.array([0.299, 0.587, 0.114]) if len(image) == 3 else np.full(len(image), 1 / len(image))
    return np.tensordot(weights, image.astype(np.float64), 1).clip(0, 1)


def scaled(values: Pixels) -> Pixels:
    """Values between -1 and 1: divided by the 99th percentile of their sizes, so that single pixels do not rule."""
    sizes = np.abs(values)
    largest = float(np.quantile(sizes, 0.99)) or float(sizes.max())
    return (values / largest).clip(-1, 1) if largest > 0 else np.zeros_like(values)


def heat_map(attribution: Pixels) -> str:
    """A data URI of the attribution: blue raises the score, red lowers it, white says nothing."""
    values = scaled(smaller(per_pixel(attribution)))
    levels = np.rint((values + 1) / 2 * (_LEVELS - 1)).astype(np.uint8)
    picture = Image.fromarray(levels).convert("P")
    colours = mpl.colormaps[COLOURS](np.linspace(0, 1, _LEVELS))[:, :3]
    picture.putpalette(np.rint(colours * 255).astype(np.uint8).tobytes())
    return _data_uri(picture)


def grey_image(image: Pixels) -> str:
    return _data_uri(Image.fromarray(np.rint(smaller(grey(image)) * 255).astype(np.uint8)))


def smaller(values: Pixels) -> Pixels:
    """The mean over blocks, so that no side is longer than ``LARGEST``; a rest at the lower and right edge is cut."""
    block = -(-max(values.shape) // LARGEST)
    height, width = (side // block for side in values.shape)
    kept = values[: height * block, : width * block].astype(np.float64)
    means: Pixels = kept.reshape(height, block, width, block).mean((1, 3))
    return means


def _data_uri(picture: Image.Image) -> str:
    file = BytesIO()
    picture.save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
