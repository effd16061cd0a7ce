"""The spec of a study: which data, which models, which attributions, which metrics. A TOML file, or a shipped name."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_validator, model_validator

from verax.auditing.trials import TRIALS
from verax.data.catalogue import names, source_of
from verax.scoring.inference import Precision
from verax.study.data_spec import (
    UNKNOWN_NAME,
    AttributionsSpec,
    Count,
    DataSpec,
    ModelSpec,
    Name,
    SpecTable,
    list_of,
    mistake,
)
from verax.study.metrics import MetricsSpec, metrics_of


class SpecError(ValueError):
    """A spec that cannot be used; the message names file, key, what was found and what is allowed."""


class UncertaintySpec(SpecTable):
    """The paper's resampling study of Infidelity."""

    # so many inputs of each model, the first that were drawn; 0 leaves the study out
    inputs: Annotated[int, Field(ge=0)] = 64
    samples: Count = 640  # the pool of draws
    # how many of them are resampled
    sizes: Annotated[tuple[Count, ...], list_of("numbers", least=1)] = (20, 40, 80, 160, 320, 640)
    resamples: Annotated[int, Field(ge=2)] = 64  # resamples of each size
    # whether a draw can be in a resample more than once. Without, resamples overlap the more the larger they are, and
    # their spread, 0 for the whole pool, is below the true error.
    with_replacement: bool = False
    independent: Annotated[int, Field(ge=0)] = 0  # repetitions with fresh draws, the honest reference; 0 for none
    every: Count = 25  # of LIME's configurations, every so manieth

    @field_validator("independent")
    @classmethod
    def _none_or_some(cls, repetitions: int) -> int:
        if repetitions == 1:
            raise ValueError("expected 0 or at least 2, because one repetition has no spread")
        return repetitions


def _trial(name: Any) -> Any:
    try:
        TRIALS.get(name)
    except ValueError as error:
        raise mistake(error, UNKNOWN_NAME) from None
    return name


class TrustSpec(SpecTable):
    """Whether the numbers can be trusted, asked of a few inputs of each model once its scores are there."""

    # so many inputs of each model, the first that were drawn; 0, the default, asks nothing
    inputs: Annotated[int, Field(ge=0)] = 0
    # model rows for the limits of a table's model: what the best possible attribution would score
    limit_rows: Count = 2**18
    # what the audit of the study's metrics asks, by name; all trials that need no truth where left out
    trials: Annotated[tuple[Annotated[Any, AfterValidator(_trial)], ...], list_of("names")] = ()


class StudySpec(SpecTable):
    name: Name  # what it is called; its directory is named after it, so it is a name and no path
    data: Annotated[tuple[DataSpec, ...], list_of("tables", least=1)]  # data sets with their models
    metrics: MetricsSpec = MetricsSpec()  # how faithfulness is measured
    uncertainty: UncertaintySpec = UncertaintySpec()  # how Infidelity's own error is studied
    trust: TrustSpec = TrustSpec()  # how far the numbers can be trusted
    # inputs of each model whose attributions and curves are shown in the report
    examples: Annotated[int, Field(ge=0)] = 4
    cache_gib: Annotated[float, Field(ge=0)] = 2.0  # room for attributions on disk, in GiB; 0 keeps none

    @model_validator(mode="after")
    def _distinct_names(self) -> "StudySpec":
        names = [model.name for data in self.data for model in data.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"models need different names, got {twice[0]!r} more than once")
        if max(self.uncertainty.sizes, default=0) > self.uncertainty.samples:
            raise ValueError("uncertainty.sizes: cannot resample more draws than uncertainty.samples")
        return self

    def form(self) -> dict[str, Any]:
        """The spec as TOML can hold it: every setting that is not None, and every metric in full."""
        form = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        form["metrics"]["list"] = metrics_of(self.metrics).form()
        return form


def shipped() -> dict[str, Traversable]:
    """The files of shipped specs by their names: the demo is the library's, all others are the paper's."""
    folders = [resources.files(package) / "specs" for package in ("verax.study", "verax.paper")]
    files = sorted((file for folder in folders for file in folder.iterdir()), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def load_spec(
    spec: str | Path,
    *,
    data: str | Path | None = None,
    limit: int | None = None,
    precision: Precision | None = None,
) -> StudySpec:
    """Read a shipped spec by its name, or a TOML file.

    Example:
        >>> load_spec("paper-heloc").metrics.samples
        1280
    """
    source, files = str(spec), shipped()
    try:
        if source.endswith(".toml"):
            text = Path(spec).read_text(encoding="utf-8")
        elif source in files:
            source, text = f"{spec}.toml (shipped)", files[source].read_text(encoding="utf-8")
        else:
            raise SpecError(f"SPEC: expected {', '.join(files)} or a path that ends in .toml, got {source!r}.")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{spec}: cannot be read: {error}.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{source}: no TOML: {error}.") from None
    return parse_spec(_with_options(content, data, limit, precision), source)


def parse_spec(content: Mapping[str, Any], source: str, imports: Sequence[str] = ("MODULE",)) -> StudySpec:
    try:
        return StudySpec.model_validate(content)
    except ValidationError as error:
        raise SpecError("\n".join(_explained(source, mistake, imports) for mistake in error.errors())) from None


def _with_options(
    content: dict[str, Any], data: str | Path | None, limit: int | None, precision: Precision | None
) -> dict[str, Any]:
    """Put what the command line says where it belongs."""
    tables = content.get("data")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return content
    if data is not None:
        known = names()  # an unknown one raises when all is checked
        takers = [table for table in tables if table.get("name") not in known or source_of(table["name"]).takes_path]
        if len(takers) != 1:
            raise SpecError(f"--data: the study has {len(takers)} data sets that take a path; write paths into a spec.")
        takers[0]["path"] = str(data)
    for table in tables:
        table.update({} if limit is None else {"limit": limit})
        models = table.get("models")
        for model in models if precision is not None and isinstance(models, list) else ():
            if isinstance(model, dict):
                model["precision"] = precision
    return content


def _explained(source: str, error: Any, imports: Sequence[str]) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the study"
    if error["type"] == "extra_forbidden":
        return f"{source}: {where}: no such key; expected one of {', '.join(_allowed(error['loc']))}."
    message = error["msg"].removeprefix("Value error, ").rstrip(".")
    line = f"{source}: {where}: {message[0].lower()}{message[1:]}"
    if error["type"] == UNKNOWN_NAME:
        hint = " ".join(f"--import {module}" for module in imports)
        return f"{line}{'' if line.endswith('?') else '.'} What is not part of Verax needs {hint}."
    value = error.get("input")
    shown = not isinstance(value, dict | list) and error["type"] not in ("missing", "mistake")
    return f"{line}, got {value!r}." if shown else f"{line}."


def _allowed(loc: Sequence[Any]) -> list[str]:
    """The keys of the table in which an unknown one was found."""
    tables: dict[str, type[BaseModel]] = {"data": DataSpec, "models": ModelSpec, "attributions": AttributionsSpec}
    tables |= {"metrics": MetricsSpec, "uncertainty": UncertaintySpec, "trust": TrustSpec}
    table = next((tables[part] for part in reversed(loc[:-1]) if part in tables), StudySpec)
    return sorted(field.alias or name for name, field in table.model_fields.items())
