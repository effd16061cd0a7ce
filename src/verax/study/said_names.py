"""What a file says it is: the name that it was written under, kept inside, so that a swapped file is found."""

import io
import json
from collections.abc import Mapping
from typing import Any

import polars as pl

_KEY = "verax"


def words(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts that JSON can hold as the metadata of a Parquet or safetensors file; ``unit`` is the name."""
    return {_KEY: json.dumps(dict(facts))}


def said_name(content: bytes, suffix: str) -> str | None:
    """The name that a Parquet or safetensors file says; None where it says none.

    Example:
        >>> from safetensors.torch import save
        >>> said_name(save({}, words({"unit": "some"})), ".safetensors")
        'some'
    """
    try:
        metadata = _parquet(content) if suffix == ".parquet" else _safetensors(content)
        said = json.loads(metadata[_KEY])["unit"]
    except (pl.exceptions.PolarsError, OSError, ValueError, KeyError, TypeError):  # not such a file
        return None
    return said if isinstance(said, str) else None


def _parquet(content: bytes) -> Mapping[str, str]:
    return pl.read_parquet_metadata(io.BytesIO(content))


def _safetensors(content: bytes) -> Any:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])["__metadata__"]
