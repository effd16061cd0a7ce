"""What all tables of a spec share: strict types, no unknown keys, names that are names."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

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
