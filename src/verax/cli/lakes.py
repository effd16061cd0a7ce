"""Lakes on the command line: ``verax evaluate`` where the inputs are many Parquet files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import common, model_inputs, model_options
from verax.cli.extras import check_extra
from verax.core.arguments import checked_level
from verax.metrics.about import fact_line
from verax.problem.baselines import baseline_words

if TYPE_CHECKING:
    from verax.lakes import LakeScores, Settings
    from verax.study.ray_engine import Cluster


class EngineName(StrEnum):
    """Where parts are scored."""

    local = "local"
    ray = "ray"


Key = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Lakes: the column that says which row is which; id by default.")
]
Engine = Annotated[
    EngineName | None, typer.Option(help="Lakes: on this machine, which is the default, or on a Ray cluster.")
]
Address = Annotated[str | None, typer.Option(help="Lakes on Ray: local, auto or ray://HOST:PORT.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Lakes: parts at once; one per core or GPU by default, on Ray as many as fit.")
]


@dataclass(frozen=True)
class LakeOptions:
    """What is said of a lake beside where it is."""

    key: str | None
    engine: EngineName | None
    address: str | None
    workers: int | None

    def cluster(self) -> "Cluster | None":
        """The cluster to work on; None for this machine."""
        if self.engine is EngineName.ray:
            check_extra("--engine ray", "ray")
            from verax.study.ray_engine import Cluster

            return Cluster(self.address or "local", self.workers)
        if self.address is not None:
            raise ValueError("--address: is that of a Ray cluster; say --engine ray as well.")
        return None

    def refuse(self, inputs: str) -> None:
        """Refuse what only lakes have, where the inputs are one file."""
        for name, value in asdict(self).items():
            if value is not None:
                raise ValueError(
                    f"--{name}: is for a lake; --inputs {inputs} is one file. A lake is a folder, a pattern in quotes "
                    "such as 'rows/*.parquet', or a URL."
                )


def is_lake(inputs: str) -> bool:
    """Whether inputs are many files: a folder, a URL, or a pattern of Parquet files that is no file's name."""
    from verax.lakes.storage import has_pattern

    path = Path(inputs)
    pattern = has_pattern(inputs) and path.suffix in ("", ".parquet") and not path.exists()
    return "://" in inputs or path.is_dir() or pattern


def refuse_with_lake(**options: Any) -> None:
    """Refuse options that need all rows at once."""
    for name, value in options.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')}: is not for a lake, whose rows are never all at hand.")


def settings_of(
    metrics: Sequence[str] | None,
    target: str | None,
    baselines: str | None,
    background: Path | None,
    measured: Mapping[str, Any],
) -> "Settings":
    """What is measured in every part.

    Args:
        metrics: Their names.
        target: One class for all rows.
        baselines: A number, or a statistic of the training data.
        background: The file of training data.
        measured: The other settings, as ``verax.evaluate`` takes them.
    """
    from verax.lakes import Settings

    return Settings(
        metrics=tuple(metrics or ("pc", "dpc", "infidelity")),
        target=_target_of(target),
        baselines=_baselines_of(baselines, background),
        **measured,
    )


def evaluate_lake(
    files: model_inputs.Files,
    inputs: str,
    attributions: Sequence[str],
    out: str | None,
    options: LakeOptions,
    settings: "Settings",
    batch_size: int | None,
    level: float,
    as_json: bool,
) -> None:
    """Score a lake and print its means."""
    from verax.lakes import ModelFile, score_lake
    from verax.lakes.urls import shown

    cluster = options.cluster()
    checked_level(level)
    if out is None:
        raise ValueError("--out: say in which folder the scores of a lake are to be kept.")
    if Path(out).is_file():
        raise ValueError(f"--out: {out} is a file; the scores of a lake are many, in a folder.")
    model_inputs.check_model(files)
    device = None if files.device is None else common.checked_device_name(files.device)
    try:
        found = score_lake(
            ModelFile(files.model, files.returns, files.trust, device, batch_size),
            inputs,
            named_addresses(attributions),
            out,
            key=options.key or "id",
            settings=settings,
            background=files.background,
            missing=None if files.missing is None else files.missing == "allow",
            workers=options.workers,
            cluster=cluster,
            log=lambda line: common.tell(f"verax: {line}"),
        )
    except KeyboardInterrupt:
        common.tell(f"verax: stopped. What was finished is stored in {shown(out)}; run it again to go on.")
        raise typer.Exit(common.STOPPED) from None
    about = {"model": str(files.model), "followed": _followed(settings), "removed features": _removed(settings)}
    facts = _facts(found, level) | {"about": about}
    table = replace(found.table(level), about=fact_line(about)).text()
    text = f"{table}\n\n{found.computed} of {found.parts} parts scored now. Scores: {found.out}"
    common.show(facts, text, as_json=as_json)


def named_addresses(words: Sequence[str]) -> dict[str, str]:
    """Attributions by name: ``NAME=ADDRESS``, or an address whose last folder is the name.

    Example:
        >>> named_addresses(["shap=s3://lake/a/*.parquet", "lime/*.parquet"])
        {'shap': 's3://lake/a/*.parquet', 'lime': 'lime/*.parquet'}
    """
    from verax.lakes.storage import split_pattern
    from verax.lakes.urls import shown

    found: dict[str, str] = {}
    for word in words:
        name, sign, address = word.partition("=")
        if not sign or "/" in name:
            name, address = Path(shown(split_pattern(word)[0])).name, word
        if not name or not address:
            raise ValueError(f"--attributions: expected NAME=PATTERN or a pattern in a folder, found {shown(word)}.")
        if name in found:
            raise ValueError(f"--attributions: a second one called {name}; say NAME=PATTERN.")
        found[name] = address
    return found


def _target_of(text: str | None) -> Any:
    """Read ``--target`` for a lake: one class for all rows."""
    if text is not None and model_options.is_file(text):
        raise ValueError(f"--target: {text} has one class per row; for a lake say one class for all, or none.")
    return model_options.target_of(text)


def _baselines_of(text: str | None, background: Path | None) -> float | str | None:
    """Read ``--baselines`` for a lake: a number, or a statistic of the training data."""
    statistics = ("mean", "median", "mode")
    if text in statistics and background is None:
        raise ValueError(f"--baselines: {text} is one of the training data; pass --background FILE as well.")
    if text is None or text == "zero" or text in statistics:
        return text
    return model_options.number("--baselines", text, f"a number, zero, {', '.join(statistics)}")


def _followed(settings: "Settings") -> str:
    """Which score of the model is followed; the labels of a lake's classes stand in its scores."""
    return f"{settings.output} of {'the predicted class' if settings.target is None else f'class {settings.target}'}"


def _removed(settings: "Settings") -> str:
    if settings.replacement is not None:
        return str(getattr(settings.replacement, "short_form", settings.replacement))
    return baseline_words(settings.baselines)


def _facts(found: "LakeScores", level: float) -> dict[str, Any]:
    means = {metric: {name: asdict(one) for name, one in found.mean(metric, level).items()} for metric in found.metrics}
    whole = {"out": found.out, "rows": found.rows, "parts": found.parts, "computed": found.computed, "level": level}
    return whole | {"metrics": means}
