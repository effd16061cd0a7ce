"""Run a study from spec to report: prepare, plan, compute what is missing, finish, write the report."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from verax.study.engine import one_thread, run_local
from verax.study.examples import examples_stem, make_examples
from verax.study.explanations import Machine
from verax.study.pool import run_pool
from verax.study.progress import Watcher, watching
from verax.study.ray_engine import Cluster, connected, run_ray
from verax.study.report import write_study_report
from verax.study.results import chosen_examples
from verax.study.spec import StudySpec
from verax.study.store import Store, StoreError, parquet, read_tables
from verax.study.study import Study, prepare
from verax.study.summary import Plan, plan_of
from verax.study.uncertainty import uncertainty_stem, uncertainty_table

_HERE = Machine()
_QUICK = 20.0  # seconds of a study for which worker processes, which take some to start, do not pay


@dataclass(frozen=True)
class Finished:
    """A study that was run.

    Attributes:
        study: The study.
        report: Its report.
        computed: Units computed by this run.
    """

    study: Study
    report: Path
    computed: int


def run_study(
    spec: StudySpec,
    folder: str | Path,
    *,
    machine: Machine = _HERE,
    cluster: Cluster | None = None,
    workers: int = 1,
    log: Callable[[str], None] = lambda line: None,
) -> Finished:
    """Run a study, or what is left of it, and write its report.

    Args:
        spec: What to study.
        folder: Its directory; run again with the same one to go on.
        machine: Where to compute.
        cluster: A Ray cluster to compute on; None computes on this machine.
        workers: Processes that compute at once on its CPU, unless all is done in seconds. A script that asks for more
            than one must begin its work under ``if __name__ == "__main__"``.
        log: Told what will be done, and what happens.
    """
    store = Store(folder)
    with connected(cluster), store.lock():  # a cluster that is not there is noticed before anything is trained
        try:
            store.sweep()
            study = prepare(spec, store, machine, log)
            contents = store.contents("scores", [unit.stem for unit in study.units])
            todo = [unit for unit in study.units if unit.stem not in contents.found]
            strange = contents.strange + store.contents("attributions").strange
            for line in store.set_aside(strange):
                log(line)
            with one_thread(machine):
                plan = plan_of(study, todo, machine, workers)
                for line in plan.lines():
                    log(line)
                with watching(len(todo)) as watcher:
                    if cluster is not None:
                        run_ray(study, todo, machine, watcher, cluster)
                    elif workers > 1 and len(todo) > 1 and not plan.quicker_than(_QUICK):
                        run_pool(study, todo, machine, watcher, workers)
                    else:
                        run_local(study, todo, machine, watcher)
                    _finish(study, machine, watcher)
            return Finished(study, write_study_report(study), len(todo))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise StoreError(
                f"{folder}: no room left on the disk ({error.strerror}). What was finished is stored; make room and "
                "run the same command again."
            ) from None
        except SafetensorError as error:  # a checkpoint of a training, written by a library that has its own errors
            raise StoreError(f"{folder}: a file could not be written ({error}). Run the same command again.") from None


def plan_study(spec: StudySpec, folder: str | Path, machine: Machine = _HERE, workers: int = 1) -> Plan:
    """Say what a study would compute and cost; nothing is trained or written."""
    study = Study(spec, Store(folder), planning=True)
    found = study.store.contents("scores", [unit.stem for unit in study.units]).found
    with one_thread(machine):
        return plan_of(study, [unit for unit in study.units if unit.stem not in found], machine, workers)


def _finish(study: Study, machine: Machine, watcher: Watcher) -> None:
    """The resampling study and the examples of each model."""
    cache = study.store.cache(study.spec.cache_gib)
    subjects = study.subjects.values()
    if study.spec.metrics.infidelity and study.spec.uncertainty.inputs:
        wanted = {uncertainty_stem(one, study.spec): one for one in subjects}
        for stem in _lacking(study, "uncertainty", list(wanted), watcher):
            watcher.family("uncertainty of Infidelity")
            table = uncertainty_table(wanted[stem], study.spec, machine, cache)
            study.store.put("uncertainty", stem, parquet(table, {"unit": stem}), ".parquet")
    if not study.spec.examples:
        return
    scores = study.store.contents("scores", [unit.stem for unit in study.units]).found
    table = read_tables([scores[unit.stem] for unit in study.units])
    chosen = {one.model.name: chosen_examples(one, table) for one in subjects}
    wanted = {examples_stem(one, study.spec, chosen[one.model.name]): one for one in subjects}
    for stem in _lacking(study, "examples", list(wanted), watcher):
        watcher.family("examples")
        subject = wanted[stem]
        content = make_examples(subject, study.spec, chosen[subject.model.name], machine, cache)
        study.store.put("examples", stem, content, ".safetensors")


def _lacking(study: Study, kind: str, stems: list[str], watcher: Watcher) -> list[str]:
    contents = study.store.contents(kind, stems)
    for line in study.store.set_aside(contents.strange):
        watcher.log(line)
    return [stem for stem in stems if stem not in contents.found]
