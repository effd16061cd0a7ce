"""Run a study from spec to report, prepared, planned, computed and shown; and tell how far it is meanwhile."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from verax.core.blocks import one_thread_on_cpu
from verax.core.display import escape
from verax.core.engine import Engine
from verax.core.files import DiskError, named_disk_errors
from verax.core.packages import optional_package
from verax.core.ray_engine import Cluster, connected
from verax.study.engine import study_engine, unit_tasks
from verax.study.examples import examples_stem, make_examples
from verax.study.explained_models import Machine
from verax.study.models import Live
from verax.study.plan import Plan, duration, plan_of
from verax.study.results import chosen_examples, read_results, weak_models
from verax.study.spec import StudySpec
from verax.study.store import Store, StoreError
from verax.study.study import Study, planned, prepare
from verax.study.trust import TRUST, questions
from verax.study.uncertainty import uncertainty_tables

_HERE = Machine()
_QUICK = 20.0  # seconds of a study for which worker processes, which take some to start, do not pay
PLAIN_SECONDS = 60.0


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

    ``workers`` processes compute at once on a CPU, unless all is done in seconds; what is ``live``, in this process.
    """
    for module in ("altair", "vl_convert", "skimage", "PIL", "tomli_w", "filelock"):  # before any work
        optional_package(module, "verax[study]", "a study")
    store = Store(folder)

    def log_lines(lines: Sequence[str]) -> None:
        for line in lines:
            log(escape(line))

    # a missing cluster is noticed before anything is trained
    with connected(cluster), store.lock(), _disk_errors(store):
        store.sweep()
        study = prepare(spec, store, machine, lambda line: log_lines([line]), live)
        log_lines([f"WARNING: {line}" for line in weak_models(study.models.values())])
        contents = store.contents("scores", study.stems)
        todo = [unit for unit in study.units if unit.stem not in contents.files]
        log_lines(store.set_aside(contents.strange + store.contents("attributions").strange))
        with one_thread_on_cpu(machine.device):  # sums then have the same order, and the same bits, everywhere
            plan = plan_of(study, todo, machine, workers)
            log_lines(plan.lines())
            if len(todo) < 2 or live is not None or plan.quicker_than(_QUICK):
                workers = 1
            with watching(len(todo)) as watcher, study_engine(study, machine, cluster, workers) as engine:
                resampled = uncertainty_tables(study)
                tables, units = _lacking(study, "uncertainty", list(resampled), watcher), todo
                if workers > 1:  # what takes longest first, so that no worker waits long at the end
                    seconds = {model.name: (model.seconds or 0.0) / max(1, model.inputs) for model in plan.models}
                    units = sorted(todo, key=lambda unit: -seconds[unit.model] * unit.inputs)
                    tables = sorted(tables, key=lambda stem: -seconds[resampled[stem].model.name])
                complete(study, engine, [*unit_tasks(study, units, machine, cluster), *tables], machine, watcher)
            return Finished(study, write_report(study, workers), len(todo))


def write_report(study: Study, workers: int) -> Path:
    from verax.report.page import write_study_report  # noqa: PLC0415  # needs packages of an extra

    return write_study_report(study, workers=workers)


@contextlib.contextmanager
def _disk_errors(store: Store) -> Iterator[None]:
    """Name the file of an error of the disk, and say what is left."""
    try:
        with named_disk_errors(store.folder):
            yield
    except DiskError as error:
        raise StoreError(f"{error.filename}: {error.strerror}. What was finished is stored.") from None


def plan_study(spec: StudySpec, folder: str | Path, machine: Machine = _HERE, workers: int = 1) -> Plan:
    """What a study would compute and cost; nothing is trained or written."""
    study = planned(spec, Store(folder))
    finished = study.store.contents("scores", study.stems).files
    with one_thread_on_cpu(machine.device):
        return plan_of(study, [unit for unit in study.units if unit.stem not in finished], machine, workers)


def complete(
    study: Study, engine: Engine, tasks: Sequence[str | tuple[str, ...]], machine: Machine, watcher: "Watcher"
) -> None:
    """Compute what is left of a study: units and tables, then, when all scores are there, questions and examples."""
    for rows in engine.run(tasks, watcher, _named):
        if rows is not None:
            watcher(rows)
    scores = study.scores()
    list(engine.run(_lacking(study, TRUST, list(questions(study, scores)), watcher), watcher, _named))
    if not study.spec.examples:
        return
    chosen = {name: chosen_examples(study, model, scores) for name, model in study.models.items()}
    stems = {examples_stem(model, study.spec, chosen[name]): model for name, model in study.models.items()}
    for stem in _lacking(study, "examples", list(stems), watcher):
        watcher("examples")
        content = make_examples(stems[stem], study.spec, chosen[stems[stem].name], machine, study.cache)
        study.store.put("examples", stem, content, ".safetensors")


def _named(task: str | tuple[str, ...]) -> str:
    """Which file, or which units, an error is about."""
    return task if isinstance(task, str) else f"{task[0]} and {len(task) - 1} others" if len(task) > 1 else task[0]


def _lacking(study: Study, kind: str, stems: list[str], watcher: "Watcher") -> list[str]:
    contents = study.store.contents(kind, stems)
    for line in study.store.set_aside(contents.strange):
        watcher.log(line)
    return [stem for stem in stems if stem not in contents.files]


class Watcher:
    """Prints how far a study is, a line a minute and at the end, and what is logged."""

    def __init__(self, units: int, to: Any) -> None:  # a text stream
        self.units, self.finished, self.rows = units, 0, 0
        self.to, self.current = to, ""
        self.began = self.last = time.monotonic()

    def __call__(self, event: str | int) -> None:
        """Take what is computed now, in words, or the model rows of a unit that is stored."""
        if isinstance(event, str):
            self.current = escape(event)
        else:
            self.finished, self.rows = self.finished + 1, self.rows + event
        self._show(last=isinstance(event, int) and self.finished == self.units)

    def log(self, line: str) -> None:
        print(escape(line), file=self.to, flush=True)  # this is what it is for

    def pace(self) -> str:
        """Rows so far, and the time that is left at this pace."""
        passed = max(1e-9, time.monotonic() - self.began)
        if not self.finished:
            return "measuring the pace"
        left = passed / self.finished * (self.units - self.finished)
        return f"{self.rows / passed:,.0f} rows/s, {duration(left)} left"

    def _show(self, last: bool) -> None:
        if last or time.monotonic() - self.last >= PLAIN_SECONDS:
            self.last = time.monotonic()
            self.log(f"{self.finished} of {self.units} units, {self.pace()}, {self.current}")


class Bar(Watcher):
    """A bar on a terminal, with lines above it."""

    def __init__(self, units: int, to: Any) -> None:
        super().__init__(units, to)
        text = TextColumn("{task.description}", markup=False)
        columns = (TextColumn("[bold]units"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text)
        self.bar = Progress(*columns, console=Console(file=to))
        self.task = self.bar.add_task("", total=units)

    def log(self, line: str) -> None:
        self.bar.console.print(escape(line), highlight=False, markup=False)

    def _show(self, last: bool) -> None:
        self.bar.update(self.task, description=f"{self.pace()}  {self.current}", completed=self.finished)


@contextlib.contextmanager
def watching(units: int, to: TextIO | None = None) -> Iterator[Watcher]:
    """A watcher that fits where the output goes."""
    stream = to or sys.stderr
    if not stream.isatty():
        yield Watcher(units, stream)
        return
    watcher = Bar(units, stream)
    with watcher.bar:
        yield watcher
