"""The paper's claims, answered over one study or over several together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verax.analysis.claims import Claim, as_frame, as_markdown, claims, evidences_of
from verax.analysis.readings import Readings, readings
from verax.analysis.tables import Tables
from verax.core.files import write_atomically
from verax.core.saving import table_bytes
from verax.study.results import read_results, read_runtime
from verax.study.store import StoreError
from verax.study.study import open_study

ENDINGS = (".md", ".csv", ".json")


@dataclass(frozen=True)
class AnsweredClaims:
    """The claims as in the paper, and those that depend on how a metric is read under each other reading."""

    claims: list[Claim]
    readings: Readings | None

    def as_markdown(self) -> str:
        """All tables on one page, each claim with the rule of its verdict."""
        text = as_markdown(self.claims)
        if self.readings is None:
            return text
        return f"{text}\nUnder each reading that was measured:\n\n{self.readings.as_markdown()}"

    def save(self, path: Path) -> None:
        """Write the page (``.md``), or the claims as in the paper as a table (``.csv``, ``.json``)."""
        ending = path.suffix.lower()
        page = ending == ".md"
        write_atomically(path, self.as_markdown().encode() if page else table_bytes(as_frame(self.claims), ending))


def answer_claims(folders: Sequence[Path], runtimes: Sequence[Path] = ()) -> AnsweredClaims:
    """Answer the paper's claims over the models of all studies together.

    Args:
        folders: Of studies whose models have different names.
        runtimes: Files of ``benchmarks/runtime_table.py``, beside ``runtime.json`` in the folders.
    """
    studies = [(folder, open_study(folder)) for folder in folders]
    places: dict[str, Path] = {}
    for folder, study in studies:
        for name in study.models:
            if name in places:
                raise ValueError(f"DIR: expected each model in one study, got {name} in {places[name]} and {folder}.")
            places[name] = folder
    timed = tuple(read_runtime(path) for path in runtimes)
    first, *rest = [_measured(folder, read_results(study).tables) for folder, study in studies]
    several = [replace(first, runtimes=first.runtimes + timed), *rest]
    evidences = evidences_of(*several)
    own = claims(*several, evidences=evidences)
    read = readings(*several, own=own, evidences=evidences)
    return AnsweredClaims(own, read if read.metrics else None)


def _measured(folder: Path, tables: Tables) -> Tables:
    if tables.scores.is_empty():
        raise StoreError(f"{folder}: no finished unit yet, so there is nothing to answer.")
    return tables
