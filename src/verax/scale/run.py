"""Score a lake from addresses to totals: check, join, score what is missing in processes or on Ray Data, add up."""

import copy
import logging
import pickle
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import polars as pl
import torch

from verax.attribution.base import Attribution
from verax.core.blocks import one_thread_on_cpu
from verax.core.engine import Processes, TaskLostError, Tell, ThisProcess, ignore_event
from verax.core.folders import File, Folder
from verax.core.packages import optional_package
from verax.core.ray_engine import Cluster, RayWorker, connected, load_ray
from verax.core.system import available_cores
from verax.core.warn import once_per_call, warn
from verax.data.array_files import differences, first_line, listed
from verax.evaluation.engine import problem_facts
from verax.evaluation.evaluate import evaluate
from verax.problem.problem import Problem
from verax.scale.lake import Join, Lake, check_readable, open_lake
from verax.scale.scoring import INPUTS, METRICS, BatchScorer, RowError
from verax.scale.store import LakeScores, ScoreFolder, score_file


@dataclass(frozen=True)
class Stored:
    """A batch whose scores are written: its rows, and what was warned of."""

    rows: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class BatchWriter:
    """Scores batches and writes each one's scores as a file."""

    scorer: BatchScorer
    out: Folder

    def __call__(self, rows: pl.DataFrame, tell: Tell) -> Stored:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = self.scorer.scores(rows)
        self.out.write(*score_file(scores))
        messages = {re.sub(r"\d", "", text): text for text in (str(warning.message) for warning in caught)}
        return Stored(len(rows), tuple(messages.values()))

    def name(self, rows: pl.DataFrame) -> str:
        """Which batch an error is about."""
        keys = rows[self.scorer.key]
        return f"rows with {self.scorer.key} {keys[0]!r} to {keys[-1]!r}"

    @property
    def on_gpu(self) -> bool:
        problem = self.scorer.problem
        device = problem.device or problem.scorer.device
        return device is not None and torch.device(device).type == "cuda"

    def on_device(self, device: str) -> "BatchWriter":
        """The same on a GPU of its own."""
        problem = copy.copy(self.scorer.problem)
        problem.device = torch.device(device)
        return replace(self, scorer=replace(self.scorer, problem=problem))


def run_local(writer: BatchWriter, batches: Iterable[pl.DataFrame], workers: int | None) -> Iterator[Stored]:
    """Score batches in processes of one thread, by default one per core or GPU; one alone is this process."""
    gpus = torch.cuda.device_count() if writer.on_gpu else 0
    count = workers or gpus or available_cores()
    writers = [writer if gpus < 2 else writer.on_device(f"cuda:{number % gpus}") for number in range(count)]
    sent = map(joblib.wrap_non_picklable_objects, writers)
    engine = ThisProcess(writer) if count == 1 else Processes(list(sent))
    with one_thread_on_cpu("cuda" if writer.on_gpu else "cpu"), engine:
        yield from engine.run(batches, name=writer.name)


def run_ray(
    writer: BatchWriter, lakes: Mapping[str, Lake], scored: Sequence[File], cluster: Cluster
) -> Iterator[Stored]:
    """Read, join and score on a cluster, where Ray Data cuts batches and tries again what was lost."""
    scorer, threads = writer.scorer, cluster.threads
    with connected(cluster):
        cloudpickle = optional_package("ray.cloudpickle", "verax[ray]", "a lake on a cluster")
        ray, data = load_ray(), optional_package("ray.data", "verax[ray]", "a lake on a cluster")
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.use_datasource_v2 = False  # whose threads fail over an import where there is no aiohttp
        join: dict[str, Any] = {"num_partitions": -(-lakes[INPUTS].rows // scorer.batch_rows), "on": (scorer.key,)}
        table = _read(data, scorer, INPUTS, lakes[INPUTS])
        if scored:
            paths = [file.path for file in scored]
            keys = data.read_parquet(paths, filesystem=writer.out.system, columns=[scorer.key], partitioning=None)
            table = table.join(keys, join_type="left_anti", **join)
        for name in scorer.attributions:
            table = table.join(_read(data, scorer, name, lakes[name]), join_type="inner", **join)
        kind, needed = ("GPU", 1) if writer.on_gpu else ("CPU", threads)
        actors = cluster.workers or max(1, int(ray.cluster_resources().get(kind, 1)) // needed)
        stored = table.map_batches(
            RayWriter,
            fn_constructor_args=(RayWorker(threads), cloudpickle.dumps(writer)),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=actors),
            num_cpus=threads,
            num_gpus=int(writer.on_gpu),
            max_task_retries=cluster.retries,
        )
        try:
            for row in stored.iter_rows():
                result = pickle.loads(row["result"])  # noqa: S301  # which a worker has sent
                if isinstance(result, RowError):
                    raise result
                yield result
        except (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError) as error:
            raise TaskLostError(f"a batch on the cluster {cluster.address}", cluster.retries + 1) from error
        except ray.exceptions.RayError as error:
            raise ConnectionError(f"engine: Ray gave up: {first_line(error)}.") from error


class RayWriter:
    """What runs in an actor: a block of Ray's is sorted and cut into batches, so that all runs cut it alike."""

    def __init__(self, worker: RayWorker, writer: bytes) -> None:
        worker.begin()  # before metrics of the user's own are imported
        self.writer: BatchWriter = pickle.loads(writer)  # noqa: S301  # which this run has sent

    def __call__(self, block: Any) -> dict[str, Any]:
        """Score and write the rows of a block; a bad row is a result, because Ray loses the cause of errors."""
        rows, size = pl.DataFrame(block).sort(self.writer.scorer.key), self.writer.scorer.batch_rows
        results: list[Stored | RowError] = []
        try:
            results += [self.writer(rows[start : start + size], ignore_event) for start in range(0, len(rows), size)]
        except RowError as error:
            results.append(error)
        return {"result": np.array([pickle.dumps(result) for result in results], object)}


def _read(data: Any, scorer: BatchScorer, name: str, lake: Lake) -> Any:
    """The rows, or an attribution, with the columns as ``BatchScorer`` takes them."""
    columns = dict(zip(scorer.features, scorer.joined(name) if name else scorer.features, strict=True))
    key = pl.col(scorer.key).cast(lake.key_type(scorer.key))
    chosen = [key, *(pl.col(old).alias(new) for old, new in columns.items())]
    paths, names = [file.path for file in lake.files], [scorer.key, *columns]
    table = data.read_parquet(paths, filesystem=lake.folder.system, columns=names, partitioning=None)
    return table.map_batches(_selected, fn_args=(chosen,), batch_format="pyarrow")


def _selected(block: Any, columns: Sequence[pl.Expr]) -> Any:
    """The columns of a block of Ray's; a function of a module, which workers find by its name."""
    return pl.DataFrame(block).select(columns).to_arrow()


Engine = int | Cluster | None
_LOG = logging.getLogger("verax.lakes")
_EVERY = 10.0  # seconds between two lines of progress


def score_lake(
    problem: Problem,
    inputs: str | Path,
    attributions: Mapping[str, str | Path | Attribution],
    out: str | Path,
    metrics: Any = METRICS,
    *,
    key: str = "id",
    limits: bool = False,
    engine: Engine = None,
) -> LakeScores:
    """Score attributions of the rows of many Parquet files; run it again to go on.

    Addresses are folders, patterns or URLs (``rows/``, ``"rows/*.parquet"``, ``"s3://lake/rows/*.parquet"``). The
    columns of an attribution are those of the inputs. Rows find their attributions by the key, so that files may be cut
    and sorted in any way. Rows are scored in batches; the scores of a batch are a Parquet file, written whole or not at
    all, with the columns key, ``attribution``, ``target`` and one per metric. They are those that ``verax.evaluate``
    gives for the rows of the batch. Rows whose keys are in the output are not scored again. Progress is logged to
    ``logging.getLogger("verax.lakes")``.

    Args:
        problem: The model and what is asked about it. Its rows only show what rows look like: a few with names, such
            as a data frame; their columns are those that are read.
        inputs: The rows.
        attributions: Addresses by name; or methods, such as ``verax.attribution.KernelShap()``, which are computed for
            every batch.
        out: The folder, or URL, of the scores.
        metrics: As ``verax.evaluate`` takes them.
        key: The column that identifies a row.
        limits: Whether to find what the best attribution would score as well.
        engine: A number of processes, by default one per core or GPU; or a ``verax.lakes.Cluster``. A script
            that asks for more than one process must begin its work under ``if __name__ == "__main__"``.

    Example:
        >>> import tempfile, polars as pl, torch, verax
        >>> folder = tempfile.TemporaryDirectory()
        >>> table = pl.DataFrame({"id": range(6), "age": np.linspace(0, 1, 6), "income": np.linspace(2, 1, 6)})
        >>> rows, slopes, out = (Path(folder.name, name) for name in ("rows", "slopes", "scores"))
        >>> for part in (rows, slopes):
        ...     part.mkdir()
        ...     table.write_parquet(part / "part-0.parquet")
        >>> problem = verax.Problem(torch.nn.Linear(2, 2), table.drop("id"))
        >>> scores = verax.lakes.score_lake(problem, rows, {"slopes": slopes}, out, ["pc"], engine=1)
        >>> scores.mean("pc")["slopes"].low < scores.mean("pc")["slopes"].high
        True
        >>> pl.read_parquet(out / "*.parquet").columns
        ['id', 'attribution', 'target', 'pc']
        >>> folder.cleanup()
    """
    methods = {name: method for name, method in attributions.items() if isinstance(method, Attribution)}
    addresses = {name: str(address) for name, address in attributions.items() if name not in methods}
    if not attributions:
        raise ValueError("attributions: expected at least one.")
    lakes = {INPUTS: open_lake("inputs", str(inputs))}
    lakes |= {name: open_lake("attributions", address) for name, address in addresses.items()}
    scorer = BatchScorer(problem, tuple(addresses), metrics, methods, key, limits)
    _check_columns(lakes, scorer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # given with the scores
        few = problem.on(problem.order.back(problem.inputs[:2].cpu().numpy()))  # before any work
        evaluate(few, {"ones": np.ones(few.inputs.shape)}, scorer.chosen)
    store = ScoreFolder(str(out), scorer.facts(), tuple(scorer.chosen))
    for lake in lakes.values():
        if lake.would_hold(store.folder):
            raise ValueError(f"out: {store.folder.address} lies in {lake.address}; scores would be taken for its rows.")
    store.check()
    with tempfile.TemporaryDirectory(prefix="verax-lake-") as spill, _named_rows(lakes, key, spill) as join:
        return _run(join, scorer, store, engine)


def _check_columns(lakes: Mapping[str, Lake], scorer: BatchScorer) -> None:
    """Raise for columns that are missing, unknown, no numbers, or of the same name as others."""
    key, features, rows = scorer.key, scorer.features, lakes[INPUTS]
    for name, lake in lakes.items():
        if key not in lake.types:
            raise ValueError(f"{lake.name()}: there is no column {key}, which key names.")
        if lake.key_type(key) != rows.key_type(key):
            raise ValueError(
                f"{lake.name()}: expected {key} to hold {rows.key_type(key)}, as in {rows.name()}, got "
                f"{lake.key_type(key)}."
            )
        missing = [feature for feature in features if feature not in lake.types]
        unknown = [column for column in lake.types if name and column not in (key, *features)]
        if text := differences({"missing": missing, "unknown": unknown}):
            raise ValueError(f"{lake.name()}: expected {key} and the columns that the model takes; {text}.")
        lake.check_numbers(features)
    columns = [key, *features, *(column for name in scorer.attributions for column in scorer.joined(name))]
    if key in ("attribution", "target", *scorer.chosen) or len({*columns}) < len(columns):
        raise ValueError(f"key: {key}, the features and the columns of the scores need names of their own.")
    if unused := [name for name in rows.types if name not in columns]:
        _LOG.info("columns that are left out, because the model does not take them: %s", listed(unused))


@contextmanager
def _named_rows(lakes: Mapping[str, Lake], key: str, spill: str) -> Iterator[Join]:
    """A join; errors that are the fault of a row or a file name it, which engines do not always do."""
    duckdb = optional_package("duckdb", "verax[lake]", "a lake")
    join = None
    try:
        join = Join(key, lakes, spill)
        yield join
    except RowError as error:
        assert join is not None  # noqa: S101  # which reads the rows
        raise ValueError(f"{join.holders(error.lake, error.key)[0]}: {error}") from error
    except TaskLostError:  # which no file is to blame for
        raise
    except (duckdb.Error, OSError, ConnectionError) as error:
        for lake in lakes.values():
            check_readable(lake)
        if isinstance(error, OSError):
            raise
        raise OSError(f"the join by key failed: {first_line(error)}.") from error
    finally:
        if join is not None:
            join.connection.close()


def _run(join: Join, scorer: BatchScorer, store: ScoreFolder, engine: Engine) -> LakeScores:
    """Check the keys, leave out what is stored, and score the rest."""
    rows = join.lakes[INPUTS].rows
    _LOG.info("reading the keys of %s rows in %s files", f"{rows:,}", len(join.lakes[INPUTS].files))
    join.check()
    marks = {path: mark for lake in join.lakes.values() for path, mark in lake.marks().items()}
    before = store.claim()
    files, scored = _valid(join, scorer, store, {path for path, mark in marks.items() if before.get(path) != mark})
    store.note_files(marks)
    if scored:
        _LOG.info("%s of %s rows are scored already", f"{scored:,}", f"{rows:,}")
    if scored < rows:
        writer = BatchWriter(scorer, store.folder)
        if engine is None or isinstance(engine, int):
            _follow(run_local(writer, join.batches(scorer, bool(scored)), engine), rows - scored)
        else:
            _follow(run_ray(writer, join.lakes, files, engine), rows - scored)
    store.check()  # object stores cannot claim a folder: of two jobs that began at once, one notices here
    files, stored = _valid(join, scorer, store, set())
    if stored != rows:
        raise ValueError(f"out: {store.folder.address}: files were changed meanwhile; run it again.")
    facts = problem_facts(scorer.problem, examples=True)
    return LakeScores(store.folder.address, rows, rows - scored, scorer.chosen, store.totals(files), facts)


def _valid(join: Join, scorer: BatchScorer, store: ScoreFolder, changed: set[str]) -> tuple[Sequence[File], int]:
    """The files of scores that are whole and of the lake as it is, and their rows; others are removed."""
    files = store.whole_files()
    while files and (rows := join.add_scores(store.folder, files, next(iter(scorer.names)))):
        outdated = join.outdated(changed)
        if not outdated:
            return files, rows
        for number, reason in outdated.items():
            store.remove(files[number], reason)
        files = [file for number, file in enumerate(files) if number not in outdated]
    return files, 0


def _follow(batches: Iterable[Stored], rows: int) -> None:
    """Wait for all batches, log the progress now and then, and give each kind of warning once."""
    began = logged = time.monotonic()
    done = 0
    with once_per_call():
        for batch in batches:
            done += batch.rows
            for text in batch.warnings:
                warn(text)
            now = time.monotonic()
            if now - logged >= _EVERY or done == rows:
                logged, pace = now, done / max(1e-9, now - began)
                left = timedelta(seconds=round((rows - done) / pace))
                _LOG.info("%s of %s rows, %s rows/s, %s left", f"{done:,}", f"{rows:,}", f"{pace:,.0f}", left)
