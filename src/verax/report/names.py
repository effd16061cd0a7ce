"""What methods and their variants are called on a page, and in which order they stand."""

from collections.abc import Iterable

from verax.attribution import METHODS
from verax.report.methods import is_reference, label_of_method

LOCAL, ORIENTED, REFERENCE = "local", "baseline-oriented", "reference"
KINDS = (LOCAL, ORIENTED, REFERENCE)
TIMES = "\N{MULTIPLICATION SIGN}"


def kind_of(method: str, local: bool) -> str:
    """Whether a method explains the model near the input, the way from a baseline, or nothing at all."""
    if is_reference(method):
        return REFERENCE
    return LOCAL if local else ORIENTED


def label_of(method: str, local: bool) -> str:
    """A method with its variant: what multiplies by the input says so.

    Example:
        >>> label_of("SmoothGrad", local=True), label_of("DeepLiftSHAP", local=False) == f"DeepLiftSHAP {TIMES} input"
        ('SmoothGrad', True)
    """
    multiplied = not local and method in METHODS and hasattr(METHODS.get(method), "multiply_by_inputs")
    return label_of_method(method) + (f" {TIMES} input" if multiplied else "")


def in_order(variants: Iterable[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Methods with their variants in reading order: local ones, baseline-oriented ones, references; each by label."""
    return sorted(set(variants), key=lambda variant: (KINDS.index(kind_of(*variant)), label_of(*variant), variant))


def labels_in_order(methods: Iterable[str]) -> list[str]:
    """Labels of methods without their variants, references last.

    Example:
        >>> labels_in_order(["Random", "LimeTabular", "Mine", "LimeImage", "Gradient"])
        ['Gradient', 'LIME', 'Mine', 'Random']
    """
    return list(dict.fromkeys(label_of_method(name) for name, _ in in_order((name, True) for name in methods)))
