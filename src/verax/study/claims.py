"""The paper's claims, answered over one study or over several together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verax.analysis.claims import Claim, as_frame, as_markdown, claims, evidences_of
from verax.analysis.evidence import Evidence
from verax.analysis.readings import Readings, readings
from verax.analysis.small_tables import small_tables
from verax.analysis.tables import Tables
from verax.core.files import write_atomically
from verax.core.saving import table_bytes
from verax.study.results import read_results, read_runtime
from verax.study.store import StoreError
from verax.study.study import open_study

ENDINGS = (".md", ".csv", ".json")


@dataclass(frozen=True)
class AnsweredClaims:
    """The claims as in the paper, those that depend on how a metric is read under each other reading, and what decided.

    Attributes:
        claims: As in the paper.
        readings: None where no other reading was measured.
        evidences: Of each model what was measured, for the tables beside the claims.
    """

    claims: list[Claim]
    readings: Readings | None
    evidences: Sequence[Evidence] = ()

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

    def save_all(self, folder: Path) -> list[Path]:
        """Write the page and the claims as tables into a folder, with what they rest on as small tables.

        ``claims.md``, ``claims.csv``, ``claims-by-reading.csv``, and of ``analysis.small_tables`` ``models.csv``,
        ``ranks.csv`` (rank agreement, ties and sizes of Pareto sets), and ``means-MODEL.csv`` with ``errors-MODEL.csv``
        (of each configuration and metric).
        """
        tables = dict(small_tables(self.evidences))
        if self.readings is not None:
            tables["claims-by-reading"] = self.readings.to_frame()
        pages = [folder / f"claims{ending}" for ending in (".md", ".csv")]
        for page in pages:
            self.save(page)
        paths = {folder / f"{name}.csv": table for name, table in tables.items()}
        for path, table in paths.items():
            write_atomically(path, table_bytes(table, ".csv"))
        return [*pages, *paths]


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
    return AnsweredClaims(own, read if read.metrics else None, evidences)


def _measured(folder: Path, tables: Tables) -> Tables:
    if tables.scores.is_empty():
        raise StoreError(f"{folder}: no finished unit yet, so there is nothing to answer.")
    return tables
