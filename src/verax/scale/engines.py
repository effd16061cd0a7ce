"""Where batches are scored and their scores written: processes of this machine, or actors of a cluster by Ray Data."""

import copy
import pickle
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import polars as pl
import torch

from verax.core.blocks import one_thread_on_cpu
from verax.core.folders import File, Folder
from verax.core.packages import optional_package
from verax.core.worker_processes import available_cores, run_tasks
from verax.data.array_files import first_line
from verax.scale.lake import Lake
from verax.scale.scoring import INPUTS, BatchScorer, RowError
from verax.scale.store import score_file

if TYPE_CHECKING:
    from verax.study.resources import Cluster

# libraries read these when they are loaded: a core has one worker, and a second thread would get in its way
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
_RETRIES = 3  # of a batch whose actor died


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

    def __call__(self, rows: pl.DataFrame) -> Stored:
        """Score and write a batch."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = self.scorer.scores(rows)
        self.out.write(*score_file(scores))
        messages = {re.sub(r"\d", "", text): text for text in (str(warning.message) for warning in caught)}
        return Stored(len(rows), tuple(messages.values()))

    @property
    def on_gpu(self) -> bool:
        """Whether the model runs on a GPU."""
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
    if count == 1:
        with one_thread_on_cpu("cuda" if writer.on_gpu else "cpu"):
            yield from map(writer, batches)
        return
    writers = [writer if gpus < 2 else writer.on_device(f"cuda:{number % gpus}") for number in range(count)]
    yield from run_tasks(list(map(joblib.wrap_non_picklable_objects, writers)), batches, _ONE_THREAD)


def run_ray(
    writer: BatchWriter, lakes: Mapping[str, Lake], scored: Sequence[File], cluster: "Cluster"
) -> Iterator[Stored]:
    """Read, join and score on a cluster, where Ray Data cuts batches and tries again what was lost."""
    from verax.study.resources import connected, load_ray  # noqa: PLC0415  # needs an extra

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
            fn_constructor_args=(tuple(sys.path), cloudpickle.dumps(writer), threads),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=actors),
            num_cpus=threads,
            num_gpus=int(writer.on_gpu),
            max_task_retries=_RETRIES,
        )
        try:
            for row in stored.iter_rows():
                result = pickle.loads(row["result"])  # noqa: S301  # which a worker has sent
                if isinstance(result, RowError):
                    raise result
                yield result
        except ray.exceptions.RayError as error:
            raise ConnectionError(f"engine: Ray gave up: {first_line(error)}.") from error


class RayWriter:
    """What runs in an actor: a block of Ray's is sorted and cut into batches, so that all runs cut it alike."""

    def __init__(self, path: Sequence[str], writer: bytes, threads: int) -> None:
        sys.path += [entry for entry in path if entry not in sys.path]  # before metrics of the user's own are imported
        torch.set_num_threads(threads)
        self.writer: BatchWriter = pickle.loads(writer)  # noqa: S301  # which this run has sent

    def __call__(self, block: Any) -> dict[str, Any]:
        """Score and write the rows of a block; a bad row is a result, because Ray loses the cause of errors."""
        rows, size = pl.DataFrame(block).sort(self.writer.scorer.key), self.writer.scorer.batch_rows
        results: list[Stored | RowError] = []
        try:
            results += [self.writer(rows[start : start + size]) for start in range(0, len(rows), size)]
        except RowError as error:
            results.append(error)
        return {"result": np.array([pickle.dumps(result) for result in results], object)}


def _read(data: Any, scorer: BatchScorer, name: str, lake: Lake) -> Any:
    """The rows, or an attribution, with the columns as ``BatchScorer`` takes them."""
    columns = dict(zip(scorer.features, scorer.joined(name) if name else scorer.features, strict=True))
    key = pl.col(scorer.key).cast(lake.key_type(scorer.key))

    def prepared(block: Any) -> Any:
        return pl.DataFrame(block).select(key, *(pl.col(old).alias(new) for old, new in columns.items())).to_arrow()

    paths, names = [file.path for file in lake.files], [scorer.key, *columns]
    table = data.read_parquet(paths, filesystem=lake.folder.system, columns=names, partitioning=None)
    return table.map_batches(prepared, batch_format="pyarrow")
