"""What methods, metrics and configurations are called on a page."""

from collections.abc import Iterable

from verax.analysis.tables import REFERENCE_METHODS

LOCAL, ORIENTED, REFERENCE = "local", "baseline-oriented", "reference"
KINDS = (LOCAL, ORIENTED, REFERENCE)
METRIC_NAMES = {
    "pc": "PC",
    "dpc_magnitude": "DPC",
    "dpc_signed": "DPC, signed order",
    "dpc_literal": "DPC, literal",
    "infidelity": "Infidelity",
    "infidelity_baseline": "Infidelity, baseline-oriented",
}
METHOD_NAMES = {
    "Gradient": "Gradient",
    "GuidedBackprop": "Guided Backpropagation",
    "SmoothGrad": "SmoothGrad",
    "VarGrad": "VarGrad",
    "LimeTabular": "LIME",
    "LimeImage": "LIME",
    "IntegratedGradients": "Integrated Gradients",
    "DeepLiftSHAP": "DeepLiftSHAP",
    "Edges": "Edges",
    "Random": "Random",
}
TIMES = "\N{MULTIPLICATION SIGN}"


def method_name(method: str) -> str:
    """A method as people write it; a method of the user's own keeps its name.

    Example:
        >>> method_name("LimeTabular"), method_name("Mine")
        ('LIME', 'Mine')
    """
    return METHOD_NAMES.get(method, method)


def kind_of(method: str, local: bool) -> str:
    """Whether a method explains the model near the input, the way from a baseline, or nothing at all."""
    if method in REFERENCE_METHODS:
        return REFERENCE
    return LOCAL if local else ORIENTED


def label_of(method: str, local: bool) -> str:
    """A method with its variant: what multiplies by the input says so.

    Example:
        >>> label_of("SmoothGrad", local=True), label_of("DeepLiftSHAP", local=False) == f"DeepLiftSHAP {TIMES} input"
        ('SmoothGrad', True)
    """
    return method_name(method) + (f" {TIMES} input" if kind_of(method, local) == ORIENTED else "")


def in_order(variants: Iterable[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Methods with their variants in reading order: local ones, baseline-oriented ones, references; Random last.

    Example:
        >>> in_order([("Random", True), ("IntegratedGradients", False), ("Mine", True), ("Gradient", True)])
        [('Gradient', True), ('Mine', True), ('IntegratedGradients', False), ('Random', True)]
    """
    known = list(METHOD_NAMES)

    def place(variant: tuple[str, bool]) -> tuple[int, int, str]:
        method, local = variant
        at = known.index(method) if method in known else known.index("IntegratedGradients")
        return KINDS.index(kind_of(method, local)), at, method

    return sorted(set(variants), key=place)
