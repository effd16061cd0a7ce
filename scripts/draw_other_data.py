"""Draw the figures of the tutorials on time series and tokens, by running the tutorials.

``python scripts/draw_other_data.py`` writes ``time-series.svg`` and ``tokens.svg`` to ``docs/figures/tutorials``. The
data come with Matplotlib and SciPy.
"""

import argparse
import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from draw_docs import programs  # and its settings of Matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#808080"


def run_page(name: str) -> dict[str, Any]:
    """What the Python blocks of a tutorial leave behind."""
    left: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in programs(DOCS / "tutorials" / f"{name}.md"):
            exec(program, left)  # noqa: S102
    return left


def draw_time_series(page: dict[str, Any]) -> Figure:
    """A window of the recording above its attributions, and the curves of three explanations."""
    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.25, 1))
    above, right = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[:, 1])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    probability = page["model"](page["x"]).detach().softmax(1)[:, 1]
    shown = int(probability.argmax())
    voltage = (page["x"][shown, :, 0] * page["spread"][0] + page["mean"][0]).numpy()
    steps = np.arange(page["length"]) - page["length"]
    above.plot(steps, voltage, color="black", linewidth=1)
    above.set(ylabel="voltage, no unit", title=f"probability of a spike {float(probability[shown]):.2f}")
    above.tick_params(labelbottom=False)
    groups = page["in_time"]
    shares = [float(page["attributions"]["IG"][shown][groups == group].sum()) for group in range(int(groups.max()) + 1)]
    colours = [BLUE if share > 0 else VERMILION for share in shares]
    below.bar(steps[:: len(steps) // len(shares)], shares, width=3.6, align="edge", color=colours)
    below.axhline(0, color=GREY, linewidth=0.8)
    below.set(xlabel="step before the forecast", ylabel="contribution")
    _curves(right, page)
    for ax in (above, below, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _curves(ax: Axes, page: dict[str, Any]) -> None:
    pc = page["result"].evaluation["pc"]
    for name, colour in (("IG", BLUE), ("gradient", VERMILION), ("random", GREY)):
        share = np.linspace(0, 1, pc.steps + 1)
        for curve, style, words in ((pc.morf, "-", "most relevant first"), (pc.lerf, "--", "least relevant first")):
            ax.plot(share, curve[name].mean(0).numpy(), style, color=colour, label=f"{name}, {words}")
    ax.set(xlabel="share of windows removed", ylabel="probability of a spike", title="mean over inputs", ylim=(0, 1))
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def draw_tokens(page: dict[str, Any]) -> Figure:
    """One sentence of each class, the attribution of its tokens beside it."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    probability, shares = page["head"](page["x"]).detach().softmax(1), page["attributions"]["IG"].sum(-1)
    sentences = [words for words, held_out in zip(page["sentences"], page["test"], strict=True) if held_out]
    for number, name in enumerate(page["parts"]):
        right = (page["predicted"] == number) & (page["labels"][page["test"]] == number)
        short = page["present"].sum(1) <= 10
        shown = int(torch.where(right & short, probability[:, number], 0).argmax())
        values = shares[shown, : len(sentences[shown])].numpy()
        ax = figure.add_subplot(1, len(page["parts"]), number + 1)
        ax.barh(range(len(values)), values, color=[BLUE if value > 0 else VERMILION for value in values])
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set_yticks(range(len(values)), sentences[shown])
        ax.invert_yaxis()
        ax.set(title=f"{name}, probability {float(probability[shown, number]):.3f}", xlabel="contribution to the logit")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS / "figures" / "tutorials")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        figures = {"time-series": draw_time_series(run_page("time-series")), "tokens": draw_tokens(run_page("tokens"))}
    for name, figure in figures.items():
        figure.savefig(out / f"{name}.svg", metadata={"Date": None})
        print(out / f"{name}.svg")


if __name__ == "__main__":
    main()
