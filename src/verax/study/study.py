"""A study opened: its spec, its directory, its models and its units, for whoever computes or reads."""

import contextlib
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import torch

import verax
from verax.attribution.base import Modality
from verax.data.base import Dataset
from verax.data.catalogue import load_named, source_of
from verax.scoring.model_files.saved import ModelFileError, load
from verax.study.data_spec import LIVE, DataSpec
from verax.study.explained_models import (
    ExplainedModel,
    Machine,
    Material,
    explained_model,
    material,
    modality_of,
    usable,
)
from verax.study.metrics import StudyMetrics, metrics_of, written
from verax.study.models import Live, check_fits, is_own, keep_model, own_model, untrained
from verax.study.spec import StudySpec
from verax.study.store import Cache, Frozen, Store, StoreError
from verax.study.units import Stage, Unit, is_needed, one_table, parts_of, units_of

Log = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Study:
    """A study and its directory."""

    spec: StudySpec  # what is studied
    store: Store  # where
    planning: bool = False  # whether models that are not there yet are taken untrained, which is enough for a plan
    live: Live | None = None  # objects of the running program that the study is about, if any
    earlier: tuple[StudySpec, ...] = ()  # the specs that it had before it grew, the first one first

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        return tuple(material(data, self._dataset(data)) for data in self.spec.data)

    @cached_property
    def metrics(self) -> StudyMetrics:
        return metrics_of(self.spec.metrics)

    @cached_property
    def models(self) -> dict[str, ExplainedModel]:
        models: dict[str, ExplainedModel] = {}
        for data, encoded in zip(self.spec.data, self.materials, strict=True):
            for spec in data.models:
                if spec.name in self.own_models:
                    models[spec.name] = self.own_models[spec.name]
                    continue
                path = self.store.model(spec.name)
                saved = untrained(spec, encoded.dataset) if self.planning and not path.is_file() else load(path)
                check_fits(spec, encoded.dataset, saved)
                models[spec.name] = explained_model(data, spec, encoded, saved)
        return models

    @cached_property
    def own_models(self) -> dict[str, ExplainedModel]:
        """Those of them that are no shipped architectures; opened and tried."""
        models: dict[str, ExplainedModel] = {}
        for data, encoded in zip(self.spec.data, self.materials, strict=True):
            specs = [spec for spec in data.models if is_own(spec)]
            columns = material(data, encoded.dataset, by_column=True) if specs else encoded
            models |= {spec.name: own_model(data, spec, columns, self.live) for spec in specs}
        return models

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        stages = {name: self.stages(model)[-1] for name, model in self.models.items()}
        return tuple(unit for unit in self._all_units if is_needed(unit.part, stages[unit.model]))

    @property
    def stems(self) -> list[str]:
        """Names of all units in the store, also of metrics that the spec has no more."""
        return [unit.stem for unit in self._all_units]

    @cached_property
    def _all_units(self) -> tuple[Unit, ...]:
        parts = [part for model in self.models.values() for part in parts_of(model, self.stages(model))]
        return tuple(unit for part in parts for unit in units_of(part))

    def stages(self, model: ExplainedModel) -> list[Stage]:
        """What was asked of a model, at first and each time the spec had grown."""
        place = next(place for place, data in enumerate(self.spec.data) if model.spec in data.models)
        stages = [
            Stage(usable(spec.data[place], model.spec, model.material, model.module)[0], metrics_of(spec.metrics))
            for spec in self.earlier
        ]
        return [*stages, Stage(model.configurations, self.metrics)]

    def scores(self) -> pl.DataFrame:
        files = self.store.contents("scores", self.stems).files
        table = self.store.table([files[unit.stem] for unit in self.units if unit.stem in files])
        return one_table(table, self.models, self.metrics) if self.earlier and table.width else table

    def kind(self, unit: Unit) -> tuple[object, ...]:
        """What the number of a unit's model rows depends on, however many rows of the data set come before it."""
        return unit.part, unit.inputs, tuple(unit.part.metrics.on(unit.rows))

    @cached_property
    def cache(self) -> Cache:
        return self.store.cache(self.spec.cache_gib)

    @property
    def imports(self) -> list[str]:
        methods = [type(method) for model in self.models.values() for method in model.configurations]
        loaders = [source_of(data.name).load for data in self.spec.data if data.name != LIVE]
        modules = {kind.__module__ for kind in (*map(type, self.metrics.values()), *methods, *loaders)}
        return sorted(name for name in modules if name.partition(".")[0] not in ("verax", "__main__"))

    def facts(self) -> dict[str, Any]:
        data = [{"name": each.dataset.name, "fingerprint": each.dataset.fingerprint} for each in self.materials]
        models = [
            {"name": name, "weights": model.weights_hash, "metrics": model.metrics}
            for name, model in self.models.items()
        ]
        return {"versions": versions(), "data": data, "models": models, "imports": self.imports}

    def _dataset(self, data: DataSpec) -> Dataset:
        if data.name != LIVE:
            path = None if data.path is None else Path(data.path)
            return load_named(data.name, path, seed=data.seed, label=data.label, task=data.task, held_out=data.held_out)
        if self.live is None:
            raise StoreError(
                f"{self.store.folder}: its data were objects of a Python program; run the program again, "
                "verax.run_study(..., out=...) with the same directory, to go on or to have the report written anew."
            )
        return self.live.dataset


def prepare(
    spec: StudySpec, store: Store, machine: Machine, log: Log = lambda line: None, live: Live | None = None
) -> Study:
    """Open a directory for a study: check that it is the same one, train what is not trained, freeze the spec."""
    frozen = _frozen(store, log)
    begun, study = datetime.now(UTC).date().isoformat(), Study(spec, store, live=live)
    if frozen is not None:
        begun, study = frozen.facts.get("begun", begun), _grown(study, frozen)
    own_models = study.own_models  # raises, if they cannot be used, before any other is trained
    for data, learnt in zip(spec.data, study.materials, strict=True):
        for model in data.models:
            if model.name not in own_models:
                keep_model(model, learnt.dataset, store, machine.device, log)
    for explained in study.models.values():
        for line in explained.left_out:
            log(f"{explained.name}: {line}")
    for learnt in study.materials:
        if words := learnt.categories:
            log(f"{learnt.dataset.name}: categories have no direction, so that DPC counts them 0: {', '.join(words)}")
    store.freeze(spec, {**study.facts(), "begun": begun, "earlier": [each.form() for each in study.earlier]})
    return study


def planned(spec: StudySpec, store: Store) -> Study:
    """A study as it would be run, with models that are not there yet untrained; nothing is written."""
    study = Study(spec, store, planning=True)
    with contextlib.suppress(StoreError):  # a directory that a run would not use says nothing about the plan
        return _grown(study, store.frozen())
    return study


def _frozen(store: Store, log: Log) -> Frozen | None:
    """What the directory was last run with, if anything; a damaged ``study.toml`` is set aside."""
    try:
        return store.frozen() if store.toml.is_file() else None
    except StoreError as error:
        for line in (str(error), *store.set_aside([(store.toml, "damaged or changed by hand")])):
            log(line)
        return None


def _grown(study: Study, frozen: Frozen) -> Study:
    """The study with the specs whose scores it uses; raises where the directory is of another study."""
    spec, store = study.spec, study.store
    check_grown(frozen, spec, store, lambda place: modality_of(study.materials[place].dataset))
    return replace(study, earlier=earlier_specs(frozen, spec, store))


def open_study(folder: str | Path) -> Study:
    """Open a study that was run, as its directory says, and raise for data or models that are not the frozen ones."""
    store = Store(folder)
    frozen = store.frozen()
    study = Study(frozen.spec, store, earlier=frozen.earlier)
    try:
        now = study.facts()
    except (ModelFileError, FileNotFoundError) as error:
        raise StoreError(f"{folder}: {error} Run the study again to have it made anew.") from None
    for kind, field in (("data", "fingerprint"), ("models", "weights")):
        for then, current in zip(frozen.facts[kind], now[kind], strict=True):
            if then[field] != current[field]:
                raise StoreError(f"{folder}: {then['name']}: the {kind} are not those of the study; {field} differs.")
    return study


def check_grown(frozen: Frozen, spec: StudySpec, store: Store, modality: Callable[[int], Modality]) -> None:
    """Raise for a spec of another study; one may get more rows, methods and metrics, lose metrics, and be moved."""
    forms = [_identity(each) for each in (frozen.spec, spec)]
    for form, metrics in zip(forms, _changed_metrics(frozen, spec), strict=True):
        metrics_table = form.pop("metrics")  # named first, where it is the table that says a setting of all metrics
        settings = {name for entry in metrics.values() for name in entry}
        form["metrics"] = {name: metrics_table[name] for name in metrics_table.keys() & settings} | {"list": metrics}
    if len(frozen.spec.data) == len(spec.data):
        for place, (then, now) in enumerate(zip(frozen.spec.data, spec.data, strict=True)):
            old_methods, new_methods = then.attributions, now.attributions
            if then.name == now.name and (
                old_methods == new_methods
                or {*old_methods.configurations(modality(place))} <= {*new_methods.configurations(modality(place))}
            ):
                for form in forms:
                    form["data"][place].pop("attributions")
    old, new = (_flat("", form) for form in forms)
    for name in sorted(old.keys() | new.keys(), key=lambda name: (name.count("."), name)):
        if old.get(name) != new.get(name):
            raise StoreError(
                f"{store.folder}: holds another study: {name}: expected {old.get(name)!r}, got {new.get(name)!r}. "
                "Choose another --out."
            )
    for then, now in zip(frozen.spec.data, spec.data, strict=True):
        if now.limit is not None and (then.limit is None or now.limit < then.limit):
            whole = "all" if then.limit is None else f"{then.limit}"
            raise StoreError(f"{store.folder}: explains {whole} inputs of {then.name}; a study may grow, not shrink.")


def earlier_specs(frozen: Frozen, spec: StudySpec, store: Store) -> tuple[StudySpec, ...]:
    """The specs of a directory whose scores are used by the next one; none where there are no scores."""
    if not any((store.folder / "scores").glob("*.parquet")):
        return ()

    def scored(spec: StudySpec) -> tuple[Any, ...]:
        return metrics_of(spec.metrics).form(), [data.attributions for data in spec.data]

    known = [scored(each) for each in (*frozen.earlier, spec)]
    return frozen.earlier if scored(frozen.spec) in known else (*frozen.earlier, frozen.spec)


def _changed_metrics(frozen: Frozen, spec: StudySpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of columns that were measured in another way before, then and now: a further metric needs a new name."""
    now, then = _columns(spec), dict[str, dict[str, Any]]()
    for before in (frozen.spec, *frozen.earlier):
        then = _columns(before) | then
    changed = [column for column in now if then.get(column, now[column]) != now[column]]

    def different(settings: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if others.get(name) != value}

    return (
        {column: different(then[column], now[column]) for column in changed},
        {column: different(now[column], then[column]) for column in changed},
    )


def _columns(spec: StudySpec) -> dict[str, dict[str, Any]]:
    return {column: written(column, metric) for column, metric in metrics_of(spec.metrics).items()}


def _identity(spec: StudySpec) -> dict[str, Any]:
    """The spec without what may be moved or asked in addition."""
    form = spec.form()
    for data in form["data"]:
        data.pop("limit", None)
        for part in (data, *data["models"]):
            part.pop("path", None)
    return {name: value for name, value in form.items() if name not in ("cache_gib", "trust")}


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        items = [(f"{name}.{key}" if name else str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        items = [(f"{name}.{place}", entry) for place, entry in enumerate(value)]
    else:
        return {name: value}
    return {key: entry for below in items for key, entry in _flat(*below).items()}


def versions() -> dict[str, str]:
    return {
        "verax": verax.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
