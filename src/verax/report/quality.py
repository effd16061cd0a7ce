"""How good the models are, in the figures that fit what they predict."""

from collections.abc import Sequence

from verax.report.style import number, percent
from verax.study.tables import ModelInfo

_LABELS = {
    "auroc": "AUROC",
    "r2": "R\N{SUPERSCRIPT TWO}",
    "rmse": "RMSE",
    "accuracy": "accuracy",
}  # the most telling first
_SHARES = {"auroc", "accuracy"}


def figure_names(models: Sequence[ModelInfo]) -> dict[str, str]:
    """The figures that any of the models has, with what they are called."""
    known = {name for name in _LABELS for model in models if figure_of(model, name) is not None}
    return {name: label for name, label in _LABELS.items() if name in known}


def main_figure(model: ModelInfo) -> str:
    """The most telling figure of a model in words, with its rows unless they are a test split; empty if unknown.

    Example:
        >>> main_figure(ModelInfo("a", "data", "tabular", "mlp", {"test": {"accuracy": 0.8, "auroc": 0.912}}, 9, 3))
        'AUROC 91.2 %'
    """
    name = next((name for name in _LABELS if figure_of(model, name) is not None), None)
    rows = "" if model.measured_on == "test split" else f" on {model.measured_on}"
    return f"{_LABELS[name]} {figure_text(model, name)}{rows}" if name else ""


def figure_text(model: ModelInfo, name: str, digits: int = 1) -> str:
    """A figure of a model to read; a dash where it is not known."""
    value = figure_of(model, name)
    return percent(value, digits) if name in _SHARES else number(value)


def figure_of(model: ModelInfo, name: str) -> float | None:
    """A figure of a model on the test split, or on the first split that has it."""
    splits = [model.metrics.get("test", {}), *model.metrics.values()]
    return next((float(split[name]) for split in splits if name in split), None)
