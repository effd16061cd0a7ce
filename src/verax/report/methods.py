"""What methods are called and how they are coloured wherever they are shown.

All facts come from the class of the method. One that is not defined here, as in a study from elsewhere, is shown by its
own name, is no reference, and takes a spare colour.
"""

from collections.abc import Sequence

from verax.attribution import METHODS
from verax.core.palette import SPARE


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
