"""What methods are called, how they are coloured, and in which order they stand, in every table, figure and page.

All facts come from the class of the method. One that is not defined here, as in a study from elsewhere, is shown by its
own name, is no reference, and takes a spare colour.
"""

from collections.abc import Iterable, Sequence

from verax.attribution import METHODS
from verax.core.palette import SPARE

LOCAL, ORIENTED, REFERENCE = "local", "baseline-oriented", "reference"
KINDS = (LOCAL, ORIENTED, REFERENCE)
TIMES = "\N{MULTIPLICATION SIGN}"


def label_of_method(name: str) -> str:
    """A method as people write it.

    Example:
        >>> label_of_method("LimeTabular"), label_of_method("Mine")
        ('LIME', 'Mine')
    """
    return METHODS.get(name).label if name in METHODS else name


def abbreviation(name: str) -> str:
    """The same, where room is short."""
    return METHODS.get(name).abbreviation if name in METHODS else name


def is_reference(name: str) -> bool:
    """Whether a method knows nothing of the model, so that any explanation should beat it."""
    return name in METHODS and METHODS.get(name).reference


def lime_methods() -> list[str]:
    """The methods that are LIME, whose grids are looked at alone."""
    return [name for name in METHODS if label_of_method(name) == "LIME"]


def method_colours(labels: Sequence[str]) -> list[str]:
    """One colour per label of a method, the same in every chart; those without one take the spare ones in turn.

    Example:
        >>> method_colours(["Gradient", "Mine"])
        ['#0072B2', '#AA4499']
    """
    known = {method.label: method.colour for method in METHODS.values() if method.colour}
    others = [label for label in labels if label not in known]
    spare = {label: SPARE[place % len(SPARE)] for place, label in enumerate(others)}
    return [known.get(label) or spare[label] for label in labels]


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
