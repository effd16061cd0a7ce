"""Run a study from spec to report: prepare, plan, compute what is missing, finish, write the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from verax.core.display import escape
from verax.core.engine import Engine
from verax.core.files import DiskError, named_disk_errors
from verax.core.ray_engine import Cluster, connected
from verax.report.study_report import need_study_extra, write_study_report
from verax.study.engine import study_engine, unit_tasks, watched
from verax.study.examples import examples_stem, make_examples
from verax.study.models import Live
from verax.study.plan import Plan, plan_of
from verax.study.progress import Watcher, watching
from verax.study.results import chosen_examples, read_results, weak_models
from verax.study.spec import StudySpec
from verax.study.store import Store, StoreError
from verax.study.study import Study, planned, prepare
from verax.study.study_data import Machine, one_thread
from verax.study.trust import TRUST, finished_scores, questions
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

    with connected(cluster), store.lock():  # a cluster that is not there is noticed before anything is trained
        try:
            with named_disk_errors(store.folder):
                return _run(spec, store, machine, cluster, workers, say, live)
        except DiskError as error:
            raise StoreError(f"{error.filename}: {error.strerror}. What was finished is stored.") from None


def _run(
    spec: StudySpec,
    store: Store,
    machine: Machine,
    cluster: Cluster | None,
    workers: int,
    log: Callable[[str], None],
    live: Live | None,
) -> Finished:
    store.sweep()
    study = prepare(spec, store, machine, log, live)
    for line in weak_models(study.models.values()):
        log(f"WARNING: {line}")
    contents = store.contents("scores", study.stems)
    todo = [unit for unit in study.units if unit.stem not in contents.found]
    strange = contents.strange + store.contents("attributions").strange
    for line in store.set_aside(strange):
        log(line)
    with one_thread(machine):
        plan = plan_of(study, todo, machine, workers)
        for line in plan.lines():
            log(line)
        crew = workers > 1 and len(todo) > 1 and live is None and not plan.quicker_than(_QUICK)
        with (
            watching(len(todo)) as watcher,
            study_engine(study, machine, cluster, workers if crew else 1) as engine,
        ):
            units, tables = (
                _longest_first(study, todo, plan, watcher) if crew else (todo, _lacking_tables(study, watcher))
            )
            complete(study, engine, [*unit_tasks(study, units, machine, cluster), *tables], machine, watcher)
        return Finished(study, write_study_report(study, workers=workers if crew else 1), len(todo))


def plan_study(spec: StudySpec, folder: str | Path, machine: Machine = _HERE, workers: int = 1) -> Plan:
    """Say what a study would compute and cost; nothing is trained or written."""
    study = planned(spec, Store(folder))
    finished = study.store.contents("scores", study.stems).found
    with one_thread(machine):
        return plan_of(study, [unit for unit in study.units if unit.stem not in finished], machine, workers)


def complete(
    study: Study, engine: Engine, tasks: Sequence[str | tuple[str, ...]], machine: Machine, watcher: Watcher
) -> None:
    """Compute what is left of a study."""
    for rows in engine.run(tasks, watched(watcher), _named):
        if rows is not None:
            watcher.done(rows)
    list(engine.run(_unasked(study, watcher), watched(watcher), _named))
    _make_examples(study, machine, watcher)


def _make_examples(study: Study, machine: Machine, watcher: Watcher) -> None:
    """The examples of each model."""
    if not study.spec.examples:
        return
    scores = finished_scores(study)
    chosen = {name: chosen_examples(study, model, scores) for name, model in study.models.items()}
    stems = {examples_stem(model, study.spec, chosen[name]): model for name, model in study.models.items()}
    for stem in _lacking(study, "examples", list(stems), watcher):
        watcher.family("examples")
        content = make_examples(stems[stem], study.spec, chosen[stems[stem].name], machine, study.cache)
        study.store.put("examples", stem, content, ".safetensors")


def _named(task: str | tuple[str, ...]) -> str:
    """Which file, or which units, an error is about."""
    return task if isinstance(task, str) else f"{task[0]} and {len(task) - 1} others" if len(task) > 1 else task[0]


def _longest_first(study: Study, todo: list[Unit], plan: Plan, watcher: Watcher) -> tuple[list[Unit], list[str]]:
    """Units, and tables of the resampling study: what takes longest first, so that no worker waits long at the end."""
    seconds = {model.name: (model.seconds or 0.0) / max(1, model.inputs) for model in plan.models}
    tables = uncertainty_tables(study)
    return (
        sorted(todo, key=lambda unit: -seconds[unit.model] * unit.inputs),
        sorted(_lacking_tables(study, watcher), key=lambda stem: -seconds[tables[stem].model.name]),
    )


def _lacking_tables(study: Study, watcher: Watcher) -> list[str]:
    """Tables of how far Infidelity's own error reaches; they need the attributions of units."""
    return _lacking(study, "uncertainty", list(uncertainty_tables(study)), watcher)


def _unasked(study: Study, watcher: Watcher) -> list[str]:
    """The questions of trust of a study whose units are all there, by the names of their files."""
    questions_left = questions(study, finished_scores(study)) if study.spec.trust.inputs else {}
    return _lacking(study, TRUST, list(questions_left), watcher)


def _lacking(study: Study, kind: str, stems: list[str], watcher: Watcher) -> list[str]:
    contents = study.store.contents(kind, stems)
    for line in study.store.set_aside(contents.strange):
        watcher.log(line)
    return [stem for stem in stems if stem not in contents.found]
