"""A search on disk: one Parquet file, a row for each trial with its scores on every input, written whole or not at all.

What the search was about is in the file's metadata: a file of another model, other data or another question is refused.
So is a damaged one, by a hash of the whole file that its metadata hold: of bytes that are not what was written, Polars
may make other numbers, or end the program.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from verax.attribution import Attribution
from verax.core.files import write_atomically
from verax.core.sealing import BLANK, is_sealed, sealed
from verax.core.shapes import Float
from verax.tuning.race import Candidate

FORMAT = 3  # raise it when the file, the rule of races or the way of proposing changes
_KEY = "verax.tune"
_PLAIN = ("number", "batch", "cost", "rows", "seconds", "values", "alive", "reason")
_SAME_MODEL = 1e-3  # probabilities within it are those of the same model, maybe on another device


@dataclass(frozen=True)
class Asked:
    """What a search is about, which must be the same to go on with it."""

    facts: Mapping[str, str]  # hashes and settings by the name of the argument
    clean: Float[Tensor, " n"]  # the probability of each input's class: the model, as far as a search can see

    def differs_from(self, facts: Mapping[str, str], clean: Sequence[float]) -> list[str]:
        """The arguments in which another search differs."""
        different = [name for name, value in self.facts.items() if facts.get(name) != value]
        if "seed" in different:  # it orders the inputs, so that nothing that goes with them can be compared
            return ["seed"]
        if "inputs" in different or "target" in different:
            return different
        stored = torch.tensor(clean, dtype=torch.float64)
        same = torch.allclose(stored, self.clean.double(), rtol=0, atol=_SAME_MODEL)
        return different if same else ["model", *different]


def write(path: Path, asked: Asked, candidates: Sequence[Candidate], metrics: Sequence[str]) -> None:
    """Store all trials."""
    import polars as pl  # noqa: PLC0415  # to keep ``import verax`` light

    schema: dict[str, Any] = {"number": pl.Int64, "batch": pl.Int64, "cost": pl.Float64, "rows": pl.Float64}
    schema |= {"seconds": pl.Float64, "values": pl.List(pl.Float64), "alive": pl.Boolean, "reason": pl.String}
    columns: dict[str, Any] = {name: [getattr(candidate, name) for candidate in candidates] for name in _PLAIN}
    columns["configuration"] = [candidate.configuration.canonical for candidate in candidates]
    for at, name in enumerate(metrics):
        columns[f"scores_{name}"] = [candidate.scores[at].tolist() for candidate in candidates]
        schema[f"scores_{name}"] = pl.List(pl.Float64)
    about = {"format": FORMAT, "seal": BLANK, "facts": dict(asked.facts), "clean": asked.clean.double().tolist()}
    buffer = io.BytesIO()
    pl.DataFrame(columns, schema_overrides=schema).write_parquet(buffer, metadata={_KEY: json.dumps(about)})
    write_atomically(path, sealed(buffer.getvalue()))


def read(path: Path, asked: Asked, configurations: Sequence[Attribution], metrics: Sequence[str]) -> list[Candidate]:
    """Read the trials of the same search, or say what is wrong with the file."""
    import polars as pl  # noqa: PLC0415

    content = path.read_bytes()
    if not is_sealed(content):
        raise ValueError(f"store: {path} is no file of verax.tune, or it is damaged; wanted is another path.")
    about = json.loads(pl.read_parquet_metadata(io.BytesIO(content))[_KEY])
    if about["format"] != FORMAT:
        raise ValueError(f"store: {path} was written by another version of Verax; wanted is another path.")
    if different := asked.differs_from(about["facts"], about["clean"]):
        found = f"a search with another {' and another '.join(different)}"
        raise ValueError(f"store: {path} holds {found}; give the same again to go on, or another path to begin anew.")
    by_name = {configuration.canonical: configuration for configuration in configurations}
    candidates = []
    for row in pl.read_parquet(io.BytesIO(content)).iter_rows(named=True):
        scores = torch.tensor([row[f"scores_{name}"] for name in metrics], dtype=torch.float64)
        plain = {name: row[name] for name in _PLAIN}
        candidates.append(Candidate(configuration=by_name[row["configuration"]], scores=scores, **plain))
    return candidates
