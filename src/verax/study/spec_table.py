"""What all tables of a spec share: strict types, no unknown keys, names that are names."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

Count = Annotated[int, Field(ge=1)]
UNKNOWN_NAME = "unknown_name"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?")


def plain_name(name: str) -> str:
    """Refuse a name that could be taken for a path, or that a terminal or a file system would not take as it is."""
    if not _NAME.fullmatch(name):
        allowed = "letters, digits, '_', '-', '.' and spaces, beginning with a letter or digit, and no path"
        raise ValueError(f"expected a name: {allowed}")
    return name


Name = Annotated[str, AfterValidator(plain_name)]


class SpecTable(BaseModel):
    """A table of a spec."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def unknown_name(message: str) -> PydanticCustomError:
    """The error of a name that nothing is known by; how to make it known is added to the message later."""
    return PydanticCustomError(UNKNOWN_NAME, "{message}", {"message": message})


class Mistakes(list[InitErrorDetails]):
    """All that is wrong in a table, because pydantic takes a single error from whatever else checks a value.

    Example:
        >>> found = Mistakes()
        >>> for place, word in enumerate(["1", "one", "two"]):
        ...     with found.at("list", place):
        ...         number = int(word)
        >>> found.refusal().error_count()
        2
    """

    @contextmanager
    def at(self, *place: str | int) -> Iterator[None]:
        """Note what a check refuses, and where; what was found for the check to say."""
        try:
            yield
        except PydanticCustomError as error:
            self.append(InitErrorDetails(type=error, loc=place, input={}))
        except (ValueError, TypeError) as error:
            self.note(str(error), *place)

    def note(self, message: str, *place: str | int) -> None:
        """Note what is wrong, and where."""
        kind = PydanticCustomError("value_error", "{message}", {"message": message})
        self.append(InitErrorDetails(type=kind, loc=place, input={}))

    def add(self, error: ValidationError) -> None:
        """Note what pydantic found by itself."""
        for one in error.errors():
            custom: Any = PydanticCustomError  # whose types say that the name of a kind is known when it is written
            kind = custom(one["type"], "{message}", {"message": one["msg"]})
            self.append(InitErrorDetails(type=kind, loc=one["loc"], input=one["input"]))

    def refusal(self) -> ValidationError:
        """All of them as one error, which pydantic takes apart again."""
        return ValidationError.from_exception_data("spec", self)
