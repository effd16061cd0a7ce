"""Whether a directory holds the study of a spec, as it is or before it grew; anything else is raised."""

from collections.abc import Callable
from typing import Any

from verax.attribution.base import Modality
from verax.study.data_spec import DataSpec
from verax.study.metrics import metrics_of, written
from verax.study.spec import StudySpec
from verax.study.store import Frozen, Store, StoreError


def check_grown(frozen: Frozen, spec: StudySpec, store: Store, modality: Callable[[int], Modality]) -> None:
    """Raise where a spec is of another study than the directory.

    A study may get more rows, methods and metrics, and lose metrics; its files may be moved.

    Args:
        frozen: What the directory was last run with.
        spec: What is to be run.
        store: The directory.
        modality: The kind of each data set, asked only where its attributions differ.
    """
    forms = [_identity(each) for each in (frozen.spec, spec)]
    for form, metrics in zip(forms, _changed_metrics(frozen, spec), strict=True):
        said = form.pop("metrics")  # named first, where it is the table that says a setting of all metrics
        settings = {name for entry in metrics.values() for name in entry}
        form["metrics"] = {name: said[name] for name in said.keys() & settings} | {"list": metrics}
    if len(frozen.spec.data) == len(spec.data):
        for place, (then, now) in enumerate(zip(frozen.spec.data, spec.data, strict=True)):
            same = then.attributions == now.attributions
            if then.name == now.name and (same or _has_all(then, now, modality(place))):
                for form in forms:
                    form["data"][place].pop("attributions")
    old, new = (_flat("", form) for form in forms)
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


def earlier_specs(frozen: Frozen, spec: StudySpec, store: Store) -> tuple[StudySpec, ...]:
    """The specs of a directory whose scores are used by the next one; none where there are no scores."""
    if not any((store.folder / "scores").glob("*.parquet")):
        return ()
    known = [_asked(each) for each in (*frozen.earlier, spec)]
    return frozen.earlier if _asked(frozen.spec) in known else (*frozen.earlier, frozen.spec)


def _asked(spec: StudySpec) -> tuple[Any, ...]:
    return metrics_of(spec.metrics).form(), [data.attributions for data in spec.data]


def _changed_metrics(frozen: Frozen, spec: StudySpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of columns that were measured in another way before, then and now: a further metric needs a new name."""
    now, then = _columns(spec), dict[str, dict[str, Any]]()
    for before in (frozen.spec, *frozen.earlier):
        then = _columns(before) | then
    changed = [column for column in now if then.get(column, now[column]) != now[column]]
    return (
        {column: _without(then[column], now[column]) for column in changed},
        {column: _without(now[column], then[column]) for column in changed},
    )


def _without(settings: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Settings that others have not, or in another way."""
    return {name: value for name, value in settings.items() if others.get(name) != value}


def _columns(spec: StudySpec) -> dict[str, dict[str, Any]]:
    return {column: written(column, metric) for column, metric in metrics_of(spec.metrics).items()}


def _has_all(then: DataSpec, now: DataSpec, modality: Modality) -> bool:
    return set(then.attributions.configurations(modality)) <= set(now.attributions.configurations(modality))


def _identity(spec: StudySpec) -> dict[str, Any]:
    """The spec without what may be moved or asked in addition."""
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
