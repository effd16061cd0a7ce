"""The folder of scores: a manifest of the job and its files, sealed files of scores, and their totals."""

import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import torch

from verax.core.display import Shown, TextTable, counted, metric_head
from verax.core.files import Sealed, read_sealed_json, sealed_json
from verax.core.folders import File, open_folder
from verax.core.packages import __version__
from verax.metrics.about import fact_line
from verax.metrics.base import Metric
from verax.statistics.intervals import LEVEL, Estimate
from verax.statistics.sums import ScoreSums

_LOG = logging.getLogger("verax.lakes")
MANIFEST = "lake.json"
FORMAT = 2
_STEM, _SUFFIX = "scores", ".parquet"

Totals = dict[str, dict[str, ScoreSums]]
"""Exact sums of scores by attribution and metric."""


class ScoreFolder:
    """Where scores are kept."""

    def __init__(self, out: str, job: Mapping[str, str], metrics: Sequence[str]) -> None:
        self.folder, self.job, self.metrics = open_folder(out), dict(job), metrics
        self._totals: dict[str, Totals] = {}  # by the path of a file, whose name holds a hash of its content

    def check(self) -> dict[str, str]:
        """Raise for a folder with scores of another job; returns the files that its scores are of."""
        content = self.folder.read(f"{self.folder.base}/{MANIFEST}")
        if content is None:
            if files := self._files():
                name = self.folder.name(files[0].path)
                raise ValueError(f"out: {name} holds scores, without the {MANIFEST} of their job; use another folder.")
            return {}
        manifest = read_sealed_json(content)
        if manifest is None or manifest["format"] != FORMAT:
            name = self.folder.name(f"{self.folder.base}/{MANIFEST}")
            raise ValueError(f"out: {name}: damaged or of another version; use another folder.")
        before: dict[str, str] = manifest["job"]
        if names := [name for name in {**before, **self.job} if before.get(name) != self.job.get(name)]:
            words = "; ".join(f"{name}: {before.get(name)}, now {self.job.get(name)}" for name in names)
            raise ValueError(f"out: {self.folder.address} holds scores of another job ({words}); use another folder.")
        marks: dict[str, str] = manifest["files"]
        return marks

    def claim(self) -> dict[str, str]:
        """Claim the folder for the job; of two jobs that begin at once, one raises. Returns as ``check``."""
        self.folder.create(MANIFEST, self._manifest({}))
        self.folder.sweep()
        return self.check()

    def note_files(self, marks: Mapping[str, str]) -> None:
        """Record of which files the scores are."""
        self.folder.write(MANIFEST, self._manifest(marks))

    def whole_files(self) -> list[File]:
        """The files of scores whose content is what their name says; others are removed."""
        files = []
        for file in self._files():
            if file.path not in self._totals:
                content = self.folder.read(file.path) or b""
                if not file.path.endswith(f"/{Sealed.name(_STEM, content, _SUFFIX)}"):
                    self.remove(file, "damaged: its content is not what its name says")
                    continue
                sums: Totals = {}
                for (name,), rows in pl.read_parquet(io.BytesIO(content)).group_by("attribution", maintain_order=True):
                    scores = {metric: torch.from_numpy(rows[metric].to_numpy().copy()) for metric in self.metrics}
                    sums[str(name)] = {metric: ScoreSums.of(values) for metric, values in scores.items()}
                self._totals[file.path] = sums
            files.append(file)
        return files

    def remove(self, file: File, reason: str) -> None:
        self.folder.remove(file.path)
        _LOG.info("%s: %s; its rows are scored again", self.folder.name(file.path), reason)

    def totals(self, files: Sequence[File]) -> Totals:
        whole: Totals = {}
        for file in files:
            for name, metrics in self._totals[file.path].items():
                sums = whole.setdefault(name, {})
                for metric, more in metrics.items():
                    sums[metric] = sums.get(metric, ScoreSums()) + more
        return whole

    def _files(self) -> list[File]:
        try:
            return self.folder.files(f"{_STEM}.*{_SUFFIX}")
        except FileNotFoundError:  # created with the first file
            return []

    def _manifest(self, marks: Mapping[str, str]) -> bytes:
        return sealed_json({"format": FORMAT, "job": self.job, "files": dict(marks), "verax": __version__})


def score_file(table: Any) -> tuple[str, bytes]:
    """The name and the content of a file of scores: the same bytes from every worker."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", metadata={"verax": __version__, "torch": torch.__version__})
    content = buffer.getvalue()
    return Sealed.name(_STEM, content, _SUFFIX), content


@dataclass(frozen=True, repr=False)
class LakeScores(Shown):
    """A lake whose scores are stored.

    Attributes:
        out: The folder of the scores: Parquet files with key, attribution, target, and a column for each metric.
        rows: Rows of the lake.
        computed: Rows that this run has scored; the others were stored before.
        metrics: What was measured, by the names of the columns.
        totals: Exact sums of the scores, by attribution and metric.
        facts: Model, tracked class, baseline and date, in words.
    """

    out: str
    rows: int
    computed: int
    metrics: Mapping[str, Metric]
    totals: Totals
    facts: Mapping[str, str]

    def mean(self, metric: str, level: float = LEVEL) -> dict[str, Estimate]:
        """The mean over all rows with its interval, by attribution."""
        return {name: sums[metric].estimate(level) for name, sums in self.totals.items()}

    def table(self, level: float = LEVEL) -> TextTable:
        """Means with intervals, a row for each attribution."""
        heads = [metric_head(metric.label, metric.higher_is_better) for metric in self.metrics.values()]
        rows = [(name, *(str(self.mean(metric, level)[name]) for metric in self.metrics)) for name in self.totals]
        caption = f"Means over {counted(self.rows, 'row')} with {100 * level:.4g} % intervals"
        return TextTable(("attribution", *heads), tuple(rows), caption, about=fact_line(self.facts))

    _table = table  # what is shown
