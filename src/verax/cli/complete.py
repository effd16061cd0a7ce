"""Names that the shell offers on TAB and that help texts list, without the import of torch."""

from collections.abc import Iterable
from pathlib import Path

METRICS = (
    "pc",
    "dpc",
    "lpc",
    "deletion",
    "insertion",
    "srg",
    "comprehensiveness",
    "sufficiency",
    "effect_correlation",
    "infidelity",
    "infidelity_uncertainty",
    "sensitivity_n",
)
METHODS = (
    "AttentionRollout",
    "DeepLiftSHAP",
    "Edges",
    "Gradient",
    "GuidedBackprop",
    "IntegratedGradients",
    "KernelShap",
    "LimeGroups",
    "LimeImage",
    "LimeTabular",
    "Occlusion",
    "PermutationShap",
    "Random",
    "SmoothGrad",
    "TreeShap",
    "VarGrad",
)
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


def devices(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("cpu", "cuda"))


def metrics(incomplete: str) -> list[str]:
    return _beginning(incomplete, METRICS)


def methods(incomplete: str) -> list[str]:
    """Names of attribution methods, after those that were typed already."""
    typed = incomplete[: incomplete.rfind(",") + 1]
    return _beginning(incomplete, [typed + name for name in METHODS])


def datasets(incomplete: str) -> list[str]:
    return _beginning(incomplete, DATASETS)


def architectures(incomplete: str) -> list[str]:
    return _beginning(incomplete, ARCHITECTURES)


def replacing(incomplete: str) -> list[str]:
    """Names of replacements, each with the settings that it needs."""
    return _beginning(incomplete, [form.split("=")[0] for form in REPLACEMENTS])


def baselines(incomplete: str) -> list[str]:
    """Words for what removed features become, and files."""
    return _beginning(incomplete, ("mean", "median", "mode", "zero", "missing")) + _arrays(incomplete)


def features(incomplete: str) -> list[str]:
    """Words for what a feature is, and files."""
    return _beginning(incomplete, ("element", "pixel")) + _arrays(incomplete)


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
