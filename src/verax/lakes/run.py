"""Score a lake from addresses to totals: check, join, score what is missing, add up."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from verax.attribution.base import Attribution
from verax.core import extensions
from verax.core.hashing import digest
from verax.core.warn import warn
from verax.datasets.array_files import listed
from verax.lakes.columns import check_columns, model_columns
from verax.lakes.engine import Crew, run_tasks
from verax.lakes.gather import numbers
from verax.lakes.job import Job, Measurement, ModelFile, Settings, default_workers
from verax.lakes.keys import check_key, find_holders
from verax.lakes.parts import Lake, identity, open_lake
from verax.lakes.processes import processes
from verax.lakes.result import LakeScores
from verax.lakes.schedule import Schedule
from verax.lakes.score import Scored, Task, check_gaps, merged
from verax.lakes.storage import ALL, Folder, folder_of, split_pattern
from verax.lakes.store import ScoreFolder

_DEFAULT = Settings()
_EVERY = 10.0  # seconds between two lines of progress


def score_lake(
    model: str | Path | ModelFile,
    inputs: str | Path,
    attributions: Mapping[str, str | Path | Attribution],
    out: str | Path,
    *,
    key: str = "id",
    settings: Settings = _DEFAULT,
    background: Path | None = None,
    missing: bool | None = None,
    workers: int | None = None,
    cluster: Any = None,
    log: Callable[[str], None] = lambda line: None,
) -> LakeScores:
    """Score attributions of the rows of many Parquet files, part by part; run it again to go on.

    Addresses are folders, patterns or URLs (``rows/``, ``"rows/*.parquet"``, ``"s3://lake/rows/*.parquet"``). The
    columns of an attribution are those of the inputs. Rows find their attributions by the key, so that parts may be cut
    and sorted in any way. The scores of a part are one Parquet file under the part's name, written whole or not at all,
    with the columns key, ``attribution``, ``target`` and one per metric; they are those that ``verax.evaluate`` gives.

    Args:
        model: A model file; a ``ModelFile`` says more about it.
        inputs: The rows.
        attributions: Addresses by name; or methods, such as ``verax.attribution.KernelShap()``, which are computed for
            every part.
        out: The folder, or URL, of the scores.
        key: The column that says which row is which.
        settings: What is measured.
        background: File with rows of the training data, for baselines that are a statistic of them.
        missing: Whether values may be missing; by default where the model is known to take them.
        workers: Processes or actors; by default one per core or GPU. A script that asks for more than one must begin
            its work under ``if __name__ == "__main__"``.
        cluster: A ``verax.study.ray_engine.Cluster`` to compute on; None computes on this machine.
        log: Told what happens.

    Example:
        >>> import tempfile, numpy as np, polars as pl
        >>> from verax.models import Linear, save
        >>> folder = tempfile.TemporaryDirectory()
        >>> columns = {"id": np.arange(6), "age": np.linspace(0, 1, 6), "income": np.linspace(2, 1, 6)}
        >>> for name in ("rows", "slopes"):
        ...     Path(folder.name, name).mkdir()
        ...     pl.DataFrame(columns).write_parquet(f"{folder.name}/{name}/part-0.parquet")
        >>> network = Linear(2).build(seed=0)
        >>> model = Path(folder.name, "m.safetensors")
        >>> save(model, network, Linear(2), dataset=None, hyperparameters={}, metrics={}, seed=0)
        >>> found = score_lake(
        ...     model,
        ...     f"{folder.name}/rows/*.parquet",
        ...     {"slopes": f"{folder.name}/slopes"},
        ...     f"{folder.name}/scores",
        ...     settings=Settings(("pc",)),
        ...     workers=1,
        ... )
        >>> found.mean("pc")["slopes"].low < found.mean("pc")["slopes"].high
        True
        >>> pl.read_parquet(f"{folder.name}/scores/*.parquet").columns
        ['id', 'attribution', 'target', 'pc']
        >>> folder.cleanup()
    """
    file = model if isinstance(model, ModelFile) else ModelFile(Path(model))
    file = replace(file, path=file.path.expanduser().absolute())  # workers are started elsewhere
    lake = open_lake("inputs", str(inputs))
    methods = {name: one for name, one in attributions.items() if isinstance(one, Attribution)}
    given = {name: open_lake("attributions", str(one)) for name, one in attributions.items() if name not in methods}
    for one in (lake, *given.values()):
        _check_apart(str(out), one)
    store = ScoreFolder(str(out))
    job = _job(file, lake, given, methods, store.folder, key, settings, background, missing)
    asked = job.facts() | {"attributions": ", ".join(attributions)}
    store.check(asked)
    if other := [name for name in lake.parts[0].columns if name not in (key, *job.features)]:
        log(f"columns that are left out, because no attribution is of them: {listed(other)}")
    log(f"reading the keys of {lake.rows:,} rows in {len(lake.parts)} parts")
    tasks = _tasks(lake, given, key, digest(**asked), log)
    store.begin(asked)
    contents = store.contents(tasks)
    for line in contents.removed:
        log(line)
    todo = {stem: task for stem, task in tasks.items() if stem not in contents.found}
    if contents.found:
        log(f"{len(contents.found)} of {len(tasks)} parts are scored already")
    if todo:
        with _crew(job, len(todo), workers, cluster) as crew:
            schedule = Schedule({stem: task.inputs.rows for stem, task in todo.items()})
            run_tasks(todo, crew, schedule, _Progress(schedule, crew.size, contents.found, log))
    store.check(asked)  # object stores cannot claim a folder: of two runs that began at once, one notices here
    totals = merged([contents.found[stem].totals for stem in tasks])
    return LakeScores(store.folder.root, lake.rows, len(tasks), len(todo), totals)


def _job(
    model: ModelFile,
    lake: Lake,
    given: Mapping[str, Lake],
    methods: Mapping[str, Attribution],
    out: Folder,
    key: str,
    settings: Settings,
    background: Path | None,
    missing: bool | None,
) -> Job:
    """What is asked of every part, after the first rows were tried."""
    if not given and not methods:
        raise ValueError("attributions: expected at least one.")
    for option, one in [("inputs", lake), *(("attributions", one) for one in given.values())]:
        check_key(option, one, key)
    if key in ("attribution", "target", *settings.chosen):
        raise ValueError(f"key: {key} is a column of the scores; call the column of keys otherwise.")
    scorer = model.open()
    features = model_columns(lake, key, scorer.feature_names, given.values())
    for one in given.values():
        check_columns(one, key, features)
    where = None if background is None else background.expanduser().absolute()
    allowed = scorer.takes_missing if missing is None else missing
    job = Job(model, settings, key, features, allowed, where, out, methods, extensions.loaded(), tuple(sys.path))
    return replace(job, model=replace(model, returns=_tried(job, lake)))


def _check_apart(out: str, lake: Lake) -> None:
    """Refuse to write scores where the next run would take them for parts."""
    base, pattern = split_pattern(lake.address)
    root, to = folder_of(base).root, folder_of(out).root
    if to == root or (to.startswith(f"{root}/") and pattern == ALL):
        raise ValueError(f"out: {to} lies in {lake.address}; scores would be taken for parts; use another folder.")


def _tried(job: Job, lake: Lake) -> Any:
    """Score the first rows, so that what does not fit is told before any work; what the model returns is known then."""
    measurement = Measurement(job)
    part = next((part for part in lake.parts if part.rows), None)
    if part is None:
        raise ValueError(f"inputs: {lake.address}: expected rows, found none.")
    first = next(part.pieces([job.key, *job.features]))[:2]
    rows = numbers(first.select(job.features))
    check_gaps(part, job, first[job.key], rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told with the scores
        measurement.evaluate(rows, {"ones": np.ones_like(rows)})
    return measurement.scorer.adapter.returns


def _tasks(lake: Lake, given: Mapping[str, Lake], key: str, asked: str, log: Callable[[str], None]) -> dict[str, Task]:
    holders = find_holders(lake, given, key)
    tasks = {}
    for number, part in enumerate(lake.parts):
        own = {name: parts[number] for name, parts in holders.items()}
        read = identity(part, *(one for parts in own.values() for one in parts))
        if part.rows:
            tasks[part.stem] = Task(part, own, digest(asked=asked, parts=read))
        else:
            log(f"{part.address}: has no rows, so there are no scores of it")
    return tasks


def _crew(job: Job, parts: int, workers: int | None, cluster: Any) -> AbstractContextManager[Crew]:
    """Who scores: processes of this machine, or actors of a cluster; no more than there are parts."""
    if cluster is None:
        return processes(job, min(parts, workers or default_workers(job.model.device)))
    from verax.lakes.ray_actors import ray_actors  # noqa: PLC0415  # needs what studies need

    return ray_actors(job, cluster if workers is None else replace(cluster, workers=workers), parts)


class _Progress:
    """Notes what is done, and says so now and then."""

    def __init__(self, schedule: Schedule, workers: int, found: dict[str, Scored], log: Callable[[str], None]) -> None:
        self.schedule, self.workers, self.found, self.log = schedule, workers, found, log
        self.rows, self.began = 0, time.monotonic()
        self.last = self.began
        self.warned: set[str] = set()

    def __call__(self, scored: Scored) -> None:
        """Note a part."""
        self.found[scored.stem] = scored
        self.rows += scored.rows
        for text in scored.warnings:
            self._warn(text)
        now = time.monotonic()
        if now - self.last >= _EVERY or self.schedule.finished_all:
            self.last = now
            left = timedelta(seconds=round(self.schedule.seconds_left(self.workers) or 0))
            done = f"{len(self.schedule.done)} of {len(self.schedule.rows)} parts"
            self.log(f"{done}, {self.rows / max(1e-9, now - self.began):,.0f} rows/s, {left} left")

    def _warn(self, text: str) -> None:
        kind = "".join(letter for letter in text if not letter.isdigit())
        if kind not in self.warned:
            self.warned.add(kind)
            warn(text)
