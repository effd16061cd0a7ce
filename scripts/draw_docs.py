"""Draw the pictures of the documentation.

``python scripts/draw_docs.py`` draws those of the concepts from their formulae and those of the tutorials and of the
README by running them; all data come with scikit-learn. ``--demo demo-study`` names the directory of a finished
``verax study run demo``: the report's figures are copied, and headless Chromium takes a picture of its first screen.
"""

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import matplotlib as mpl

os.environ["SOURCE_DATE_EPOCH"] = "0"  # pictures do not tell when they were drawn
mpl.use("agg")
mpl.rcParams.update({"svg.hashsalt": "verax", "svg.fonttype": "none", "font.size": 9})  # same numbers, same file

import numpy as np  # noqa: E402
import torch  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

import verax  # noqa: E402
from verax.metrics.areas import decay_weights  # noqa: E402

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#007a5e", "#777777"
DEMO = ("methods-pc", "methods-dpc", "input-factor-dpc", "scatter-others", "uncertainty", "curves-2", "attributions-4")
PAGES = {  # the picture that a page saves, and where it is kept
    "README.md": ("ranking.svg", "readme-ranking.svg"),
    "docs/tutorials/scikit-learn-credit-model.md": ("ranking.svg", "tutorials/ranking.svg"),
    "docs/tutorials/own-torch-model.md": ("curves.svg", "tutorials/torch-curves.svg"),
    "docs/tutorials/image-heat-maps.md": ("heat-maps.png", "tutorials/heat-maps.png"),
    "docs/tutorials/mixed-table.md": ("ranking.svg", "tutorials/mixed-ranking.svg"),
    "docs/tutorials/regression.md": ("ranking.svg", "tutorials/regression-ranking.svg"),
}


def score(x: float | np.ndarray) -> np.ndarray:
    """A class score that rises with the feature."""
    return 1 / (1 + np.exp(-np.asarray(x)))


def save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {}, dpi=110)
    plt.close(figure)
    return path


def draw_cases(out: Path) -> Path:
    """Cases i to iv of the paper: which way the feature moves, and which way the attribution says the score goes."""
    cases = (("(i)", 1.5, -1, "finds the error"), ("(ii)", 1.5, 1, "finds it true"))
    cases += (("(iii)", -1.5, 1, "takes it for an error"), ("(iv)", -1.5, -1, "takes it for true"))
    figure, axes = plt.subplots(1, 4, figsize=(10, 3.1), sharey=True, layout="constrained")
    line = np.linspace(-3.2, 3.2, 200)
    for panel, (name, x, sign, verdict) in zip(axes, cases, strict=True):
        panel.plot(line, score(line), color=GREY, linewidth=1)
        colour = GREEN if sign > 0 else ORANGE
        panel.plot([x - 0.8, x + 0.8], score(x) + sign * np.array([-0.16, 0.16]), color=colour, linewidth=2.5)
        panel.annotate(
            "", (0, score(0)), (x, score(x)), arrowprops={"arrowstyle": "->", "color": BLUE, "linewidth": 1.5}
        )
        panel.plot([x, 0], [score(x), score(0)], "o", color=BLUE, markersize=5)
        beside = (-15, 6) if sign > 0 else (8, 4) if x > 0 else (-15, -11)  # where no line runs
        for place, label, offset in ((x, "$x_i$", beside), (0, "$b$", (4, -12))):
            panel.annotate(label, (place, score(place)), xytext=offset, textcoords="offset points", color=BLUE)
        change = float(score(0) - score(x))
        factor = int(np.sign(x)) * sign
        panel.set_title(f"{name}  $a_i$ {'> 0, true' if sign > 0 else '< 0, false'}", color=colour, fontsize=10)
        directed = "finds it true" if sign > 0 else "finds the error"
        panel.set_xlabel(f"PC {change:+.2f}: {verdict}\nDPC {factor * change:+.2f}: {directed}")
        panel.set(xticks=[], ylim=(-0.1, 1.1))
    axes[0].set_ylabel("class score")
    return save(figure, out / "cases.svg")


def linear() -> tuple[verax.Scorer, torch.Tensor, dict[str, torch.Tensor]]:
    """A linear model, inputs, and four attributions of it."""
    generator = torch.Generator().manual_seed(0)
    w, x = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((20,), (500, 20)))
    model = verax.Scorer(lambda rows: rows @ w, returns="logits")
    gradient = w.expand(500, 20)
    random = torch.randn(500, 20, generator=generator, dtype=torch.float64)
    return model, x, {"w": gradient, "x · w": x * w, "-w": -gradient, "random": random}


def draw_linear(out: Path) -> Path:
    """PC and DPC of a linear model: each has its own best attribution."""
    model, x, attributions = linear()
    found = verax.evaluate(verax.Problem(model, x, target=1, output="logit"), attributions, ["pc", "dpc"])
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True, layout="constrained")
    for panel, name in zip(axes, ("pc", "dpc"), strict=True):
        means = [found[name].mean()[one].mean for one in attributions]
        bars = panel.barh(list(attributions), means, color=[BLUE, ORANGE, BLUE, GREY], height=0.6)
        panel.bar_label(bars, [f"{one:+.1f}" for one in means], padding=3)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set(title=f"{name.upper()} → better", xlim=(-11, 12))
    axes[0].invert_yaxis()
    return save(figure, out / "linear.svg")


def draw_area(out: Path) -> Path:
    """From curves to a number: the gap between the curves, and the weights of its points."""
    w, x = torch.tensor([2.0, 1.2, 0.8, 0.5, 0.3, -0.2, -0.5, -1.0]), torch.ones(1, 8)
    problem = verax.Problem(verax.Scorer(lambda rows: rows @ w, returns="logits"), x, target=1)
    result = verax.metrics.PredictionChange()(problem, x * w)
    morf, lerf = (curve[0].numpy() for curve in (result.morf, result.lerf))
    steps = np.arange(len(morf))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", width_ratios=(3, 2))
    left.plot(steps, lerf, "o-", color=BLUE, markersize=4, label="least relevant first, $L$")
    left.plot(steps, morf, "o-", color=ORANGE, markersize=4, label="most relevant first, $M$")
    left.fill_between(steps, morf, lerf, color=GREY, alpha=0.15)
    left.set(xlabel="step", ylabel="class score", title=f"weighted area {float(result.value):.3f}", ylim=(0, 1.05))
    left.legend(fontsize=8)
    right.bar(steps, decay_weights(torch.from_numpy(morf)).numpy(), color=GREY)
    right.set(xlabel="step", title="weight of each point, $w$")
    return save(figure, out / "area.svg")


def draw_effects(out: Path) -> Path:
    """Predicted against actual change over random draws, for a true and for a random attribution."""
    generator = torch.Generator().manual_seed(0)
    w, other = (torch.randn(20, generator=generator) for _ in range(2))
    x = 0.1 * torch.ones(1, 20)
    noise = 0.2 * torch.randn(150, 20, generator=generator)
    actual = torch.sigmoid(x @ w) - torch.sigmoid((x - noise) @ w)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3), layout="constrained", sharey=True)
    for panel, (name, a) in zip(axes, (("gradient", w), ("random", other)), strict=True):
        predicted = noise @ a
        correlation = float((predicted * actual).sum() / (predicted.square().sum() * actual.square().sum()).sqrt())
        panel.scatter(predicted, actual, s=6, color=BLUE, alpha=0.6)
        panel.axhline(0, color=GREY, linewidth=0.8)
        panel.axvline(0, color=GREY, linewidth=0.8)
        panel.set(title=f"{name}: effect correlation {correlation:.2f}", xlabel="predicted change, $P$")
    axes[0].set_ylabel("actual change, $S$")
    return save(figure, out / "effects.svg")


def programs(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def draw_page(page: Path, made: str, kept: Path) -> Path:
    """Run a page in an empty directory and keep the picture that it saves."""
    module = ModuleType("page")
    sys.modules["page"] = module
    torch.manual_seed(0)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for program in programs(page):
            exec(program, module.__dict__)  # noqa: S102
        shutil.copy(made, kept)
    return kept


def copy_demo(study: Path, out: Path) -> list[Path]:
    """Figures of a finished demo study, and its report as a browser shows it."""
    out.mkdir(parents=True, exist_ok=True)
    kept = [Path(shutil.copy(study / "figures" / f"{name}.svg", out / f"{name}.svg")) for name in DEMO]
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium: not found; it takes the picture of the report.")
    picture = out / "report.png"
    size = "--window-size=1240,720"
    page = (study / "report.html").resolve().as_uri()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size]
    subprocess.run([browser, *options, f"--screenshot={picture.resolve()}", page], check=True, capture_output=True)  # noqa: S603
    return [*kept, picture]


def show(path: Path) -> None:
    print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path, f"{path.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--demo", type=Path, help="directory of a finished demo study")
    given = parser.parse_args()
    for draw in (draw_cases, draw_linear, draw_area, draw_effects):
        show(draw(given.out / "concepts"))
    for name, (made, kept) in PAGES.items():
        show(draw_page(ROOT / name, made, given.out / kept))
    for path in copy_demo(given.demo, given.out / "demo") if given.demo else ():
        show(path)


if __name__ == "__main__":
    main()
