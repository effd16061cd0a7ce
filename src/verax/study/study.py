"""A study opened: its spec, its directory, its subjects and its units, for whoever computes or reads."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from verax.datasets.named import load_named
from verax.models.checkpoints import Epoch
from verax.models.files import ModelFileError, SavedModel, load
from verax.models.recipes import Recipe
from verax.study.explanations import Machine
from verax.study.plan import Unit, units_of
from verax.study.spec import ModelSpec, StudySpec
from verax.study.store import Frozen, Store, StoreError, versions
from verax.study.subjects import Material, Subject, material, obtain_model, subject, untrained

Log = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """A study and its directory.

    Attributes:
        spec: What is studied.
        store: Where.
        planning: Whether models that are not there yet are taken untrained, which is enough for a plan.
    """

    spec: StudySpec
    store: Store
    planning: bool = False

    @cached_property
    def materials(self) -> tuple[Material, ...]:
        """Inputs and background of each data set."""
        return tuple(
            material(data, load_named(data.name, None if data.path is None else Path(data.path), seed=data.seed))
            for data in self.spec.data
        )

    @cached_property
    def subjects(self) -> dict[str, Subject]:
        """Every model with what it is explained on, by the model's name."""
        return {
            model.name: subject(data, model, own, self._saved(model, own))
            for data, own in zip(self.spec.data, self.materials, strict=True)
            for model in data.models
        }

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units of the study."""
        return tuple(unit for one in self.subjects.values() for unit in units_of(one, self.spec.metrics))

    def _saved(self, model: ModelSpec, own: Material) -> SavedModel:
        path = self.store.model(model.name)
        return untrained(model, own.dataset) if self.planning and not path.is_file() else load(path)

    def facts(self) -> dict[str, Any]:
        """Versions and hashes: what the study is run with."""
        data = [{"name": own.dataset.name, "fingerprint": own.dataset.fingerprint} for own in self.materials]
        models = [
            {"name": name, "weights": one.weights_hash, "metrics": one.metrics} for name, one in self.subjects.items()
        ]
        return {"versions": versions(), "data": data, "models": models}


def prepare(spec: StudySpec, store: Store, machine: Machine, log: Log = lambda line: None) -> Study:
    """Open a directory for a study: check that it is the same one, train what is not trained, freeze the spec."""
    _check_same(spec, store, log)
    study = Study(spec, store)
    for data, own in zip(spec.data, study.materials, strict=True):
        for model in data.models:
            _model(model, own, store, machine, log)
    store.freeze(spec, study.facts())
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


def _model(model: ModelSpec, own: Material, store: Store, machine: Machine, log: Log) -> SavedModel:
    path = store.model(model.name)
    if not path.is_file():
        log(f"{model.name}: training" if model.file is None else f"{model.name}: from {model.file}")

    def progress(epoch: Epoch, recipe: Recipe) -> None:
        if epoch.number == 1 or epoch.number % 10 == 0:
            figures = f"loss {epoch.loss:.3f}, validation AUROC {epoch.auroc:.4f}"
            log(f"{model.name}: epoch {epoch.number} of {recipe.epochs}, {figures}")

    try:
        return obtain_model(model, own.dataset, path, machine.device, progress)
    except ModelFileError as error:
        if model.file is not None and not path.is_file():
            raise
        files = [(one, str(error)) for one in (path, path.with_suffix(".json")) if one.is_file()]
        for line in store.set_aside(files):
            log(line)
        return obtain_model(model, own.dataset, path, machine.device, progress)


def _check_same(spec: StudySpec, store: Store, log: Log) -> None:
    """Refuse the directory of another study; a damaged ``study.toml`` is set aside."""
    if not store.toml.is_file():
        return
    try:
        there: Frozen = store.frozen()
    except StoreError as error:
        log(str(error))
        for line in store.set_aside([(store.toml, "damaged or changed by hand")]):
            log(line)
        return
    old, new = (_flat("", _identity(one)) for one in (there.spec, spec))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            raise StoreError(
                f"{store.folder}: holds another study: {name} is {old.get(name)!r} there and {new.get(name)!r} here. "
                "Choose another --out."
            )
    for then, now in zip(there.spec.data, spec.data, strict=True):
        if now.limit is not None and (then.limit is None or now.limit < then.limit):
            whole = "all" if then.limit is None else f"{then.limit}"
            raise StoreError(f"{store.folder}: explains {whole} inputs of {then.name}; a study may grow, not shrink.")


def _identity(spec: StudySpec) -> dict[str, Any]:
    """A study may grow, and its data may be moved: limits and paths do not make it another one."""
    form = spec.form()
    for data in form["data"]:
        data.pop("limit", None)
        data.pop("path", None)
    form.pop("cache_gib", None)
    return form


def _flat(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        items = [(f"{name}.{key}" if name else str(key), entry) for key, entry in value.items()]
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        items = [(f"{name}.{place}", entry) for place, entry in enumerate(value)]
    else:
        return {name: value}
    return {key: entry for below in items for key, entry in _flat(*below).items()}
