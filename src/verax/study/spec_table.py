"""What all tables of a spec share: strict types, no unknown keys, and names that a module of one's own may define."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

Count = Annotated[int, Field(ge=1)]
UNKNOWN_NAME = "unknown_name"


class SpecTable(BaseModel):
    """A table of a spec."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def unknown_name(message: str) -> PydanticCustomError:
    """The error of a name that nothing is known by; how to make it known is added to the message later."""
    return PydanticCustomError(UNKNOWN_NAME, "{message}", {"message": message})
