"""Shapes in annotations. jaxtyping reads them for type checkers and in the tests; at run time they cost nothing.

A program that has not imported jaxtyping gets plain names instead, so that ``import verax`` needs only torch and numpy.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int, Shaped
else:

    class _Plain:
        """``Float[Tensor, "n d"]`` is ``Tensor``."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = Shaped = _Plain

__all__ = ["Bool", "Float", "Int", "Shaped"]
