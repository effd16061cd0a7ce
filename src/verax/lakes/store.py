"""The folder of scores: a manifest of what was asked, and one sealed file for each finished part."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from verax.core.files import Sealed, sweep_parts
from verax.core.hashing import digest
from verax.core.version import __version__
from verax.lakes.score import Scored, Task
from verax.lakes.storage import Folder, LocalFolder, folder_of
from verax.statistics.totals import ScoreSums
from verax.study.said_names import said_name

MANIFEST = "lake.json"
FORMAT = 1


@dataclass
class Contents:
    """What is finished, and what had to be removed.

    Attributes:
        found: Parts that are stored and as they would be computed now.
        removed: A line for each file that was damaged, or scored from parts that were written anew since.
    """

    found: dict[str, Scored] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


class ScoreFolder:
    """Where scores are kept."""

    def __init__(self, out: str) -> None:
        self.folder: Folder = folder_of(out)

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse a folder that holds scores of something else; nothing is written."""
        if self._names(MANIFEST):
            self._compare(asked)
        elif parts := self._parts():
            raise ValueError(
                f"out: {self.folder.root} holds scores ({next(iter(parts))}), but no {MANIFEST} that says of what; "
                "put it back, or use another folder."
            )

    def begin(self, asked: Mapping[str, str]) -> None:
        """Claim the folder for what is asked; refuse it where another run was faster."""
        content = {"format": FORMAT, "asked": dict(asked), "verax": __version__}
        text = json.dumps({**content, "seal": digest(**content)}, indent=2)
        self.folder.create(MANIFEST, text.encode())
        self._compare(asked)

    def contents(self, tasks: Mapping[str, Task]) -> Contents:
        """Read and check what is there of some parts; what is damaged or out of date is removed and named."""
        if isinstance(self.folder, LocalFolder):
            sweep_parts(Path(self.folder.root))
        contents = Contents()
        for name, stem in self._parts().items():
            if stem not in tasks:
                address = self.folder.address(name)
                raise ValueError(
                    f"out: {address}: no part of the inputs has this name any more; remove it, or use another folder."
                )
            scored, fault = _read(self.folder, name, stem, tasks[stem])
            if scored is not None and stem not in contents.found:
                contents.found[stem] = scored
            else:
                self.folder.remove(name)
                contents.removed.append(f"{self.folder.address(name)}: {fault or 'a second one'}; scored anew")
        return contents

    def _compare(self, asked: Mapping[str, str]) -> None:
        path = self.folder.address(MANIFEST)
        try:
            content = json.loads(self.folder.read(MANIFEST))
            seal = content.pop("seal")
            whole = seal == digest(**content) and content["format"] == FORMAT
            before: dict[str, str] = content["asked"]
        except (ValueError, KeyError, TypeError, AttributeError):
            whole, before = False, {}
        if not whole:
            raise ValueError(f"out: {path}: damaged or changed by hand; put it back, or use another folder.")
        names = dict.fromkeys((*before, *asked))
        other = [name for name in names if before.get(name) != asked.get(name)]
        if other:
            words = "; ".join(f"{name}: {before.get(name, 'none')}, now {asked.get(name, 'none')}" for name in other)
            raise ValueError(f"out: {self.folder.root} holds scores of something else ({words}); use another folder.")

    def _parts(self) -> dict[str, str]:
        """Files of scores, with the parts that they are of."""
        stems = {name: stem_of(name) for name in self._names("**/*.parquet")}
        return {name: stem for name, stem in stems.items() if stem is not None}

    def _names(self, pattern: str) -> list[str]:
        try:
            return [file.name for file in self.folder.files(pattern)]
        except FileNotFoundError:  # made with the first file
            return []


def stem_of(name: str) -> str | None:
    """The part that a file holds the scores of; None for a file of another kind.

    Example:
        >>> stem_of("2026/part-0.ed7002b439e9ac84.parquet"), stem_of("part-0.parquet")
        ('2026/part-0', None)
    """
    path = Path(name)
    stem = Sealed.stem(path)
    return None if stem is None else path.with_name(stem).as_posix()


def _read(folder: Folder, name: str, stem: str, task: Task) -> tuple[Scored | None, str]:
    """A stored part, or why it does not do."""
    content = folder.read(name)
    if Sealed.name(stem, content, ".parquet") != name:
        return None, "damaged: its content is not what its name says"
    if said_name(content, ".parquet") != stem:
        return None, "not what its name says"
    facts = json.loads(pl.read_parquet_metadata(io.BytesIO(content))["verax"])
    if facts["key"] != task.key:
        return None, "its rows or attributions were written anew since"
    totals = {
        attribution: {metric: ScoreSums.from_json(sums) for metric, sums in own.items()}
        for attribution, own in facts["totals"].items()
    }
    return Scored(stem, task.inputs.rows, totals), ""
