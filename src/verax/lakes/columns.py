"""Which columns of a lake the model takes, and whether its attributions have the same."""

from collections.abc import Iterable, Sequence

from verax.datasets.array_files import listed
from verax.lakes.parts import Lake, Part

_NUMBERS = ("Int", "UInt", "Float", "Decimal", "Boolean", "Null")


def model_columns(lake: Lake, key: str, wanted: Sequence[str] | None, given: Iterable[Lake]) -> tuple[str, ...]:
    """The columns that the model takes: by name where it knows names, otherwise those that some attribution is of.

    Where no attribution is read, they are all but the key.
    """
    part = lake.parts[0]
    explained = {name for one in given for name in one.parts[0].columns} or set(part.columns)
    names = tuple(wanted or (name for name in part.columns if name in explained - {key}))
    if lost := [name for name in names if name not in part.columns]:
        raise ValueError(f"{part.address}: expected the columns of the model; missing {listed(lost)}.")
    if not names:
        raise ValueError(f"{part.address}: expected columns that the attributions have as well, found none.")
    _check_numbers(part, names)
    return names


def check_columns(lake: Lake, key: str, features: Sequence[str]) -> None:
    """Refuse attributions that are not one number for each feature."""
    part = lake.parts[0]
    words = {
        "missing": [name for name in features if name not in part.columns],
        "unknown": [name for name in part.columns if name not in features and name != key],
    }
    if found := " and ".join(f"{word} {listed(names)}" for word, names in words.items() if names):
        raise ValueError(f"{part.address}: expected {key} and the columns of the inputs; {found}.")
    _check_numbers(part, features)


def _check_numbers(part: Part, names: Sequence[str]) -> None:
    kinds = dict(part.types)
    if other := [f"{name} ({kinds[name]})" for name in names if not kinds[name].startswith(_NUMBERS)]:
        raise ValueError(f"{part.address}: expected numbers, not so in {listed(other)}.")
