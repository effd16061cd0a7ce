"""Names that the shell offers on TAB and that help texts list, without the import of torch."""

from collections.abc import Callable, Iterable
from pathlib import Path

_GUIDED = ("pc", "dpc", "lpc", "deletion", "insertion", "srg", "comprehensiveness", "sufficiency")
METRICS = (*_GUIDED, "effect_correlation", "infidelity", "infidelity_uncertainty", "sensitivity_n")
_GRADIENTS = ("DeepLiftSHAP", "Gradient", "GuidedBackprop", "IntegratedGradients", "SmoothGrad", "VarGrad")
_REMOVALS = ("KernelShap", "LimeGroups", "LimeImage", "LimeTabular", "Occlusion", "PermutationShap", "TreeShap")
METHODS = tuple(sorted((*_GRADIENTS, *_REMOVALS, "AttentionRollout", "Edges", "Random")))
REPLACEMENTS = (
    "blur:sigma=NUMBER",
    "conditional",
    "marginal",
    "noisy_linear",
    "baseline",
    "toward:epsilon=NUMBER",
    "nudge:epsilon=NUMBER",
)
DATASETS = ("heloc", "isic", "breast-cancer", "digits", "diabetes", "file")
DATA_HELP = (
    "heloc: a CSV file (else downloaded); isic: the folder of images and labels; file: a .csv, .parquet or .npz file."
)
ARCHITECTURES = ("linear", "mlp", "inception")
SPECS = ("demo", "paper-heloc", "paper-isic")


def specs(incomplete: str) -> list[str]:
    return _beginning(incomplete, SPECS) + _below(incomplete, "*.toml")


def studies(incomplete: str) -> list[str]:
    return [folder.removesuffix("/study.toml") for folder in _below(incomplete, "*/study.toml")]


def methods(incomplete: str) -> list[str]:
    """Names of attribution methods, after those that were typed already."""
    typed = incomplete[: incomplete.rfind(",") + 1]
    return _beginning(incomplete, [typed + name for name in METHODS])


def _offered(names: Iterable[str], files: bool = False) -> Callable[[str], list[str]]:
    """What completes to one of these names, or to a file of an array."""

    def offered(incomplete: str) -> list[str]:
        return _beginning(incomplete, names) + (_arrays(incomplete) if files else [])

    return offered


devices = _offered(("cpu", "cuda"))
metrics = _offered(METRICS)
datasets = _offered(DATASETS)
architectures = _offered(ARCHITECTURES)
replacing = _offered([form.split("=")[0] for form in REPLACEMENTS])  # each with the settings that it needs
baselines = _offered(("mean", "median", "mode", "zero", "missing"), files=True)
features = _offered(("element", "pixel"), files=True)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _arrays(incomplete: str) -> list[str]:
    from verax.data.array_files import SUFFIXES

    return [path for suffix in SUFFIXES for path in _below(incomplete, f"*{suffix}")]


def _below(incomplete: str, pattern: str) -> list[str]:
    """Paths that begin with what was typed, in the form in which it was typed."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    paths = (f"{folder}{path.relative_to(folder or '.')}" for path in Path(folder or ".").glob(pattern))
    return sorted(path for path in paths if path.startswith(incomplete))
