"""Python to paste: a study's settings belong to standardised rows, so the code standardises the reader's rows first."""

import re
from types import ModuleType

import verax.attribution
import verax.metrics
from verax.study.ranking import Winner
from verax.study.summary import method_of
from verax.study.tables import ModelInfo, Scale

_MODULES: tuple[ModuleType, ...] = (verax.attribution, verax.metrics)
_CLASS = re.compile(r"\b([A-Z]\w*)\(")


def pasted(model: ModelInfo, label: str, found: Winner) -> str:
    """Code that computes the winner and its score from a model and rows in their own units; empty where unknown.

    Args:
        model: What is explained.
        label: What the method is called.
        found: The winner.
    """
    scale = model.scale
    if scale is None or not found.metric.code:
        return ""
    method = _with_pixels(found.configuration, scale)
    imports = _imports(method, found.metric.code)
    if imports is None:
        return ""
    return "\n".join([*imports, "", *_scale(model, scale), *_call(label, method, found.metric.code)])


def _imports(*code: str) -> list[str] | None:
    """The lines that import every class that the code names; None where one is not public, or is no plain value."""
    names = [name for text in code for name in _CLASS.findall(text)]
    if any("tensor(" in text or "array(" in text for text in code):
        return None
    homes = {name: next((home for home in _MODULES if hasattr(home, name)), None) for name in names}
    public = {home.__name__: sorted(name for name, place in homes.items() if place is home) for home in _MODULES}
    lines = [f"from {home} import {', '.join(own)}" for home, own in public.items() if own]
    return None if None in homes.values() else ["import numpy as np", "import verax", *lines]


def _scale(model: ModelInfo, scale: Scale) -> list[str]:
    """Rows as the study had them: in double precision for models of one's own, in single precision for networks."""
    kind = "float64" if scale.wrapped and scale.columns else "float32"
    cell = "" if scale.columns else "[:, None, None]"
    lines = [f"columns = {list(scale.columns)!r}"] if scale.columns else []
    rows = "the rows that were explained and the training rows, these columns in this order, in their own units"
    pixels = "images that were explained and training images, pixels from 0 to 1"
    lines += [
        f"mean = np.array({list(scale.mean)!r}, np.{kind}){cell}",
        f"std = np.array({list(scale.std)!r}, np.{kind}){cell}",
        f"# x and train: {rows if scale.columns else pixels}",
        f"x, train = ((np.asarray(part, np.{kind}) - mean) / std for part in (x, train))",
    ]
    if scale.wrapped:
        names = ", names=columns" if scale.columns else ""
        return [*lines, f"model = verax.models.standardised(model, mean, std{names})"]
    file = f"models/{model.name}.safetensors"
    returns = "values" if model.task == "regression" else "logits"
    lines.append(f"model = verax.models.load({file!r}).module  # in the study's directory; it takes standardised rows")
    return [*lines, f"model = verax.Scorer(model, returns={returns!r})"]


def _call(label: str, method: str, metric: str) -> list[str]:
    return [
        "problem = verax.Problem(model, x, background=train)",
        f"print(verax.compare(problem, {{{label!r}: {method}}}, [{metric}]))",
    ]


def _with_pixels(configuration: str, scale: Scale) -> str:
    """LIME on segments as the study runs it: it undoes the standardisation before it looks for segments."""
    if method_of(configuration) != "LimeImage":
        return configuration
    configuration = configuration.replace("pixel_mean=None", f"pixel_mean={scale.mean!r}")
    return configuration.replace("pixel_std=None", f"pixel_std={scale.std!r}")
