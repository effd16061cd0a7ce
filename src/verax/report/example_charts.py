"""Examples of explained inputs: their perturbation curves, and attributions as heat maps or as bars by feature."""

import base64
from collections.abc import Iterator
from io import BytesIO
from itertools import product
from typing import Any

import altair as alt
import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image

from verax.attribution.names import label_of_method, labels_in_order
from verax.report.html import as_columns, number
from verax.report.plots import CURVES, legend, panels, plain
from verax.report.vega import NEGATIVE, POSITIVE, scale_of, tooltips, vega_lite
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


def curve_columns(view: View) -> dict[str, list[Any]]:
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


def curve_methods(view: View) -> list[str]:
    return labels_in_order(method for example in view.examples for method in example.methods)


def curve_charts(view: View) -> dict[str, Any]:
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


def curve_figure(example: Example) -> Figure:
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


SHOWN = 3  # images per model in the page
SMALL = 64  # pixels on a side: images that are enlarged show their pixels
FEATURES = 30  # bars per attribution, the largest


def is_image(example: Example) -> bool:
    return example.inputs.ndim == 4


def bar_examples(view: View) -> list[Example]:
    """The examples with bars: those on tables that have anything to show."""
    return [example for example in view.examples if has_content(example) and not is_image(example)]


def gallery(example: Example) -> dict[str, Any]:
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


def bar_columns(view: View) -> dict[str, list[Any]]:
    """One row per table input and configuration: feature labels and attributions as lists."""
    rows = []
    for example in bar_examples(view):
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


def bar_charts(view: View) -> dict[str, Any]:
    return {
        f"bars-{at}": vega_lite(_bars(example), input=input_key(example.model, 0), role=ROLES[0])
        for at, example in enumerate(bar_examples(view))
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


def attribution_figure(example: Example) -> Figure:
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
