"""A search on disk: one Parquet file, a row for each trial with its scores on every input, written whole or not at all.

What the search was about is in the file's metadata: a file of another model, other data or another question is refused.
"""

import importlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Attribution
from verax.datasets.download import write_atomically
from verax.shapes import Float
from verax.tuning.race import Candidate

FORMAT = 1  # raise it when the file, the rule of races or the way of proposing changes
_KEY = b"verax.tune"
_PLAIN = ("number", "batch", "cost", "rows", "seconds", "values", "alive", "reason")
_SAME_MODEL = 1e-3  # probabilities within it are those of the same model, maybe on another device


@dataclass(frozen=True)
class Asked:
    """What a search is about.

    Attributes:
        facts: Hashes and settings by the name of the argument; all must be the same to go on with a search.
        clean: The probability of each input's class: what the model is, as far as a search can see.
    """

    facts: Mapping[str, str]
    clean: Float[Tensor, " n"]

    def differs_from(self, facts: Mapping[str, str], clean: Sequence[float]) -> list[str]:
        """The arguments in which another search differs."""
        found = [name for name, value in self.facts.items() if facts.get(name) != value]
        if "seed" in found:  # it orders the inputs, so that nothing that goes with them can be compared
            return ["seed"]
        if "inputs" in found or "target" in found:
            return found
        others = torch.tensor(clean, dtype=torch.float64)
        same = torch.allclose(others, self.clean.double(), rtol=0, atol=_SAME_MODEL)
        return found if same else ["model", *found]


def write(path: Path, asked: Asked, candidates: Sequence[Candidate], metrics: Sequence[str]) -> None:
    """Store all trials."""
    import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

    parquet: Any = importlib.import_module("pyarrow.parquet")
    schema = {"number": pl.Int64, "batch": pl.Int64, "cost": pl.Float64, "rows": pl.Float64, "seconds": pl.Float64}
    schema |= {"values": pl.List(pl.Float64), "alive": pl.Boolean, "reason": pl.String}  # type: ignore[dict-item]
    columns: dict[str, Any] = {name: [getattr(one, name) for one in candidates] for name in _PLAIN}
    columns["configuration"] = [one.configuration.canonical for one in candidates]
    for at, name in enumerate(metrics):
        columns[f"scores_{name}"] = [one.scores[at].tolist() for one in candidates]
        schema[f"scores_{name}"] = pl.List(pl.Float64)  # type: ignore[assignment]
    table = pl.DataFrame(columns, schema_overrides=schema).to_arrow()
    about = {"format": FORMAT, "facts": dict(asked.facts), "clean": asked.clean.double().tolist()}
    buffer = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({_KEY: json.dumps(about).encode()}), buffer)
    write_atomically(path, buffer.getvalue())


def read(path: Path, asked: Asked, configurations: Sequence[Attribution], metrics: Sequence[str]) -> list[Candidate]:
    """Read the trials of the same search, or say what is wrong with the file."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(io.BytesIO(path.read_bytes()))
        about = json.loads((table.schema.metadata or {})[_KEY])
    except (arrow.ArrowException, KeyError, json.JSONDecodeError):
        raise ValueError(f"store: {path} is no file of verax.tune, or it is damaged; wanted is another path.") from None
    if about["format"] != FORMAT:
        raise ValueError(f"store: {path} was written by another version of Verax; wanted is another path.")
    if other := asked.differs_from(about["facts"], about["clean"]):
        raise ValueError(
            f"store: {path} holds a search with another {' and another '.join(other)}; give the same again to go on "
            "with it, or another path to begin anew."
        )
    by_name = {one.canonical: one for one in configurations}
    return [_candidate(row, by_name, metrics) for row in table.to_pylist()]


def _candidate(row: Mapping[str, Any], by_name: Mapping[str, Attribution], metrics: Sequence[str]) -> Candidate:
    scores = torch.tensor([row[f"scores_{name}"] for name in metrics], dtype=torch.float64)
    own = {name: row[name] for name in _PLAIN}
    return Candidate(configuration=by_name[row["configuration"]], scores=scores, **own)
