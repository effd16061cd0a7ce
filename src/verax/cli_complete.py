"""What the shell offers on TAB: studies, spec files, names. Each function is given what was typed so far."""

from pathlib import Path


def specs(incomplete: str) -> list[str]:
    """Shipped specs, and TOML files.

    Example:
        >>> specs("paper")
        ['paper-heloc', 'paper-isic']
    """
    from verax.study.spec import shipped

    return [name for name in shipped() if name.startswith(incomplete)] + _below(incomplete, "*.toml")


def studies(incomplete: str) -> list[str]:
    """Directories of studies."""
    return [folder.removesuffix("/study.toml") for folder in _below(incomplete, "*/study.toml")]


def devices(incomplete: str) -> list[str]:
    """Kinds of devices."""
    return [name for name in ("cpu", "cuda") if name.startswith(incomplete)]


def metrics(incomplete: str) -> list[str]:
    """Names of metrics.

    Example:
        >>> metrics("p")
        ['pc']
    """
    return [name for name in ("pc", "dpc", "infidelity", "sensitivity_n") if name.startswith(incomplete)]


def returns(incomplete: str) -> list[str]:
    """What a model may give."""
    return [name for name in ("logits", "probabilities") if name.startswith(incomplete)]


def _below(incomplete: str, pattern: str) -> list[str]:
    """Paths that begin with what was typed, in the form in which it was typed."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    found = (f"{folder}{path.relative_to(folder or '.')}" for path in Path(folder or ".").glob(pattern))
    return sorted(path for path in found if path.startswith(incomplete))
