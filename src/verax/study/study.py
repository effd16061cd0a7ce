"""A study opened: its spec, its directory, its models and its units, for whoever computes or reads."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from verax.datasets.base import Dataset
from verax.datasets.catalogue import load_named, source_of
from verax.models.checkpoints import CheckpointError, Epoch
from verax.models.files import ModelFileError, SavedModel, load
from verax.models.recipes import Recipe
from verax.study.cache import Cache
from verax.study.data_spec import LIVE, DataSpec, ModelSpec
from verax.study.explained_models import ExplainedModel, explained_model
from verax.study.machine import Machine
from verax.study.materials import Material, column_material, material
from verax.study.metrics import StudyMetrics, metrics_of
from verax.study.own_models import Live, is_own, own_model
from verax.study.spec import StudySpec
from verax.study.store import EarlierStudyError, Store, StoreError, versions
from verax.study.trained_models import check_fits, obtain_model, untrained
from verax.study.units import Unit, units_of

Log = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """A study and its directory.

    Attributes:
        spec: What is studied.
        store: Where.
        planning: Whether models that are not there yet are taken untrained, which is enough for a plan.
        live: Objects of the running program that the study is about, if any.
    """

    spec: StudySpec
    store: Store
    planning: bool = False
    live: Live | None = None

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """Inputs and background of each data set."""
        return tuple(material(data, self._dataset(data)) for data in self.spec.data)

    @cached_property
    def metrics(self) -> StudyMetrics:
        """What is measured, by its column."""
        return metrics_of(self.spec.metrics)

    @cached_property
    def models(self) -> dict[str, ExplainedModel]:
        """Every model with what it is explained on, by its name."""
        return {
            spec.name: self.own_models.get(spec.name)
            or explained_model(data, spec, encoded, self._saved(spec, encoded.dataset))
            for data, encoded in zip(self.spec.data, self.materials, strict=True)
            for spec in data.models
        }

    @cached_property
    def own_models(self) -> dict[str, ExplainedModel]:
        """Those of them that are no shipped architectures; opened and tried."""
        found: dict[str, ExplainedModel] = {}
        for data, encoded in zip(self.spec.data, self.materials, strict=True):
            own = [spec for spec in data.models if is_own(spec)]
            columns = column_material(data, encoded.dataset) if own else encoded
            found |= {spec.name: own_model(data, spec, columns, self.live) for spec in own}
        return found

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units of the study."""
        return tuple(unit for model in self.models.values() for unit in units_of(model, self.metrics))

    def kind(self, unit: Unit) -> tuple[object, ...]:
        """What the number of a unit's model rows depends on, however many rows of the data set come before it."""
        return unit.model, unit.inputs, tuple(self.metrics.on(unit.rows))

    @cached_property
    def cache(self) -> Cache:
        """The attribution cache, one and the same at every call, because it knows its size."""
        return self.store.cache(self.spec.cache_gib)

    @property
    def imports(self) -> list[str]:
        """The modules of metrics, methods and data sets that are not part of Verax."""
        methods = [type(method) for model in self.models.values() for method in model.configurations]
        loaders = [source_of(data.name).load for data in self.spec.data if data.name != LIVE]
        modules = {kind.__module__ for kind in (*map(type, self.metrics.values()), *methods, *loaders)}
        return sorted(name for name in modules if name.partition(".")[0] not in ("verax", "__main__"))

    def facts(self) -> dict[str, Any]:
        """Versions, hashes and modules: what the study is run with."""
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

    def _saved(self, spec: ModelSpec, dataset: Dataset) -> SavedModel:
        path = self.store.model(spec.name)
        saved = untrained(spec, dataset) if self.planning and not path.is_file() else load(path)
        check_fits(spec, dataset, saved)
        return saved


def prepare(
    spec: StudySpec, store: Store, machine: Machine, log: Log = lambda line: None, live: Live | None = None
) -> Study:
    """Open a directory for a study: check that it is the same one, train what is not trained, freeze the spec."""
    _check_same(spec, store, log)
    before = store.frozen().facts if store.toml.is_file() else {}
    begun = before.get("begun") or datetime.now(UTC).date().isoformat()
    study = Study(spec, store, live=live)
    own = study.own_models  # refused, if they cannot be used, before any other is trained
    for data, learnt in zip(spec.data, study.materials, strict=True):
        for model in data.models:
            if model.name not in own:
                _train(model, learnt.dataset, store, machine, log)
    for explained in study.models.values():
        for line in explained.left_out:
            log(f"{explained.name}: {line}")
    for learnt in study.materials:
        if words := learnt.categories:
            log(f"{learnt.dataset.name}: categories have no direction, so that DPC counts them 0: {', '.join(words)}")
    store.freeze(spec, {**study.facts(), "begun": begun})
    return study


def open_study(folder: str | Path) -> Study:
    """Open a study that was run, as its directory says, and refuse data or models that are not the frozen ones."""
    store = Store(folder)
    frozen = store.frozen()
    study = Study(frozen.spec, store)
    try:
        now = study.facts()
    except (ModelFileError, FileNotFoundError) as error:
        raise StoreError(f"{folder}: {error} Run the study again to have it made anew.") from None
    for kind, field in (("data", "fingerprint"), ("models", "weights")):
        for then, here in zip(frozen.facts[kind], now[kind], strict=True):
            if then[field] != here[field]:
                raise StoreError(f"{folder}: {then['name']}: the {kind} are not those of the study; {field} differs.")
    return study


def _train(model: ModelSpec, dataset: Dataset, store: Store, machine: Machine, log: Log) -> None:
    """Train a model or copy its file, unless that was done; what is damaged or another model is set aside."""
    path = store.model(model.name)
    if not path.is_file():
        log(f"{model.name}: training" if model.path is None else f"{model.name}: from {model.path}")

    def progress(epoch: Epoch, recipe: Recipe) -> None:
        if epoch.number == 1 or epoch.number % 10 == 0:
            log(f"{model.name}: epoch {epoch.number} of {recipe.epochs}, loss {epoch.loss:.3f}, {epoch.words}")

    try:
        obtain_model(model, dataset, path, machine.device, progress)
    except (ModelFileError, CheckpointError) as error:
        if model.path is not None and not path.is_file():
            raise
        endings = (".checkpoint",) if isinstance(error, CheckpointError) else (".safetensors", ".json")
        kept = [path.with_suffix(ending) for ending in endings]
        files = [(file, str(error)) for file in kept if file.exists()]
        for line in store.set_aside(files):
            log(line)
        obtain_model(model, dataset, path, machine.device, progress)


def _check_same(spec: StudySpec, store: Store, log: Log) -> None:
    """Refuse the directory of another study; a damaged ``study.toml`` is set aside."""
    if not store.toml.is_file():
        return
    try:
        frozen = store.frozen()
    except EarlierStudyError:
        raise
    except StoreError as error:
        log(str(error))
        for line in store.set_aside([(store.toml, "damaged or changed by hand")]):
            log(line)
        return
    old, new = (_flat("", _identity(each)) for each in (frozen.spec, spec))
    for name in sorted(old.keys() | new.keys(), key=lambda name: (name.count("."), name)):
        if old.get(name) != new.get(name):
            raise StoreError(
                f"{store.folder}: holds another study: {name} is {old.get(name)!r} there and {new.get(name)!r} here. "
                "Choose another --out."
            )
    for then, now in zip(frozen.spec.data, spec.data, strict=True):
        if now.limit is not None and (then.limit is None or now.limit < then.limit):
            whole = "all" if then.limit is None else f"{then.limit}"
            raise StoreError(f"{store.folder}: explains {whole} inputs of {then.name}; a study may grow, not shrink.")


def _identity(spec: StudySpec) -> dict[str, Any]:
    """A study may grow, its files may be moved, more may be asked of it: none of that makes it another one."""
    form = spec.form()
    for data in form["data"]:
        data.pop("limit", None)
        data.pop("path", None)
        for model in data["models"]:
            model.pop("path", None)
    form.pop("cache_gib", None)
    form.pop("trust", None)
    return form


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        items = [(f"{name}.{key}" if name else str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        items = [(f"{name}.{place}", entry) for place, entry in enumerate(value)]
    else:
        return {name: value}
    return {key: entry for below in items for key, entry in _flat(*below).items()}
