"""Run a study from spec to report: prepare, plan, compute what is missing, finish, write the report."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from verax.core.display import escape
from verax.core.engine import Engine
from verax.core.files import DiskError, named_disk_errors
from verax.core.ray_engine import Cluster, connected
from verax.report.study_report import need_study_extra, write_study_report
from verax.study.engine import study_engine, unit_tasks
from verax.study.examples import examples_stem, make_examples
from verax.study.models import Live
from verax.study.plan import Plan, plan_of
from verax.study.progress import Watcher, watching
from verax.study.results import chosen_examples, read_results, weak_models
from verax.study.spec import StudySpec
from verax.study.store import Store, StoreError
from verax.study.study import Study, planned, prepare
from verax.study.study_data import Machine, one_thread
from verax.study.trust import TRUST, questions
from verax.study.uncertainty import uncertainty_tables
from verax.study.units import Unit

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

    def to_frame(self) -> pl.DataFrame:
        """The table of scores: one row for each model, configuration and input, one column for each metric."""
        return read_results(self.study).tables.scores


def run_study(
    spec: StudySpec,
    folder: str | Path,
    *,
    machine: Machine = _HERE,
    cluster: Cluster | None = None,
    workers: int = 1,
    log: Callable[[str], None] = lambda line: None,
    live: Live | None = None,
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
        live: Objects that the spec names as live, which are computed in this process.
    """
    need_study_extra()
    store = Store(folder)

    def say(line: str) -> None:
        log(escape(line))

    # a cluster that is not there is noticed before anything is trained
    with connected(cluster), store.lock(), _disk_errors(store):
        store.sweep()
        study = prepare(spec, store, machine, say, live)
        for line in weak_models(study.models.values()):
            say(f"WARNING: {line}")
        contents = store.contents("scores", study.stems)
        todo = [unit for unit in study.units if unit.stem not in contents.files]
        for line in store.set_aside(contents.strange + store.contents("attributions").strange):
            say(line)
        with one_thread(machine):
            plan = plan_of(study, todo, machine, workers)
            for line in plan.lines():
                say(line)
            if len(todo) < 2 or live is not None or plan.quicker_than(_QUICK):
                workers = 1
            with watching(len(todo)) as watcher, study_engine(study, machine, cluster, workers) as engine:
                tables = _lacking(study, "uncertainty", list(uncertainty_tables(study)), watcher)
                units, tables = _longest_first(study, todo, tables, plan) if workers > 1 else (todo, tables)
                complete(study, engine, [*unit_tasks(study, units, machine, cluster), *tables], machine, watcher)
            return Finished(study, write_study_report(study, workers=workers), len(todo))


@contextmanager
def _disk_errors(store: Store) -> Iterator[None]:
    """Name the file of an error of the disk, and say what is left."""
    try:
        with named_disk_errors(store.folder):
            yield
    except DiskError as error:
        raise StoreError(f"{error.filename}: {error.strerror}. What was finished is stored.") from None


def plan_study(spec: StudySpec, folder: str | Path, machine: Machine = _HERE, workers: int = 1) -> Plan:
    """Say what a study would compute and cost; nothing is trained or written."""
    study = planned(spec, Store(folder))
    finished = study.store.contents("scores", study.stems).files
    with one_thread(machine):
        return plan_of(study, [unit for unit in study.units if unit.stem not in finished], machine, workers)


def complete(
    study: Study, engine: Engine, tasks: Sequence[str | tuple[str, ...]], machine: Machine, watcher: Watcher
) -> None:
    """Compute what is left of a study: units and tables, then, when all scores are there, questions and examples."""
    for rows in engine.run(tasks, watcher, _named):
        if rows is not None:
            watcher.done(rows)
    scores = study.scores()
    list(engine.run(_lacking(study, TRUST, list(questions(study, scores)), watcher), watcher, _named))
    if not study.spec.examples:
        return
    chosen = {name: chosen_examples(study, model, scores) for name, model in study.models.items()}
    stems = {examples_stem(model, study.spec, chosen[name]): model for name, model in study.models.items()}
    for stem in _lacking(study, "examples", list(stems), watcher):
        watcher.family("examples")
        content = make_examples(stems[stem], study.spec, chosen[stems[stem].name], machine, study.cache)
        study.store.put("examples", stem, content, ".safetensors")


def _named(task: str | tuple[str, ...]) -> str:
    """Which file, or which units, an error is about."""
    return task if isinstance(task, str) else f"{task[0]} and {len(task) - 1} others" if len(task) > 1 else task[0]


def _longest_first(study: Study, todo: list[Unit], lacking: list[str], plan: Plan) -> tuple[list[Unit], list[str]]:
    """Units, and tables of the resampling study: what takes longest first, so that no worker waits long at the end."""
    seconds = {model.name: (model.seconds or 0.0) / max(1, model.inputs) for model in plan.models}
    tables = uncertainty_tables(study)
    units = sorted(todo, key=lambda unit: -seconds[unit.model] * unit.inputs)
    return units, sorted(lacking, key=lambda stem: -seconds[tables[stem].model.name])


def _lacking(study: Study, kind: str, stems: list[str], watcher: Watcher) -> list[str]:
    contents = study.store.contents(kind, stems)
    for line in study.store.set_aside(contents.strange):
        watcher.log(line)
    return [stem for stem in stems if stem not in contents.files]
