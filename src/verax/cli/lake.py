"""The command ``verax lake``: rows and attributions in many Parquet files, scored part by part."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.cli import common, complete, model_options
from verax.cli.extras import check_extra
from verax.core import extensions
from verax.core.arguments import checked_level

if TYPE_CHECKING:
    from verax.lakes import LakeScores, Settings
    from verax.study.ray_engine import Cluster

EXAMPLES = common.examples(
    "verax lake --model m.onnx --inputs 'rows/*.parquet' --attributions shap='shap/*.parquet' --key id --out scores/",
    "verax lake --model m.onnx --inputs rows/ --method KernelShap --metric effect_correlation --out scores/",
    "verax lake --model m.onnx --inputs s3://lake/rows --method TreeShap --out s3://lake/scores --engine ray",
)


class EngineName(StrEnum):
    """Where parts are scored."""

    local = "local"
    ray = "ray"


def lake(
    model: model_options.ModelFile,
    inputs: Annotated[
        str, typer.Option(metavar="LAKE", help="A folder, a pattern in quotes or a URL of .parquet files.")
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="A folder or URL for the scores of each part.")],
    attributions: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]LAKE...", help="Attributions of the rows, found by --key.")
    ] = None,
    method: model_options.MethodWords = None,
    key: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that says which row is which; id by default.")
    ] = "id",
    metric: model_options.MetricWords = None,
    target: Annotated[
        str | None,
        typer.Option(help="One class or value for all rows, number or name; by default the predicted class."),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            "--baselines",
            "--baseline",
            metavar="VALUE",
            help="What removed features become: a number, zero, mean, median or mode; 0 by default.",
            autocompletion=complete.baselines,
        ),
    ] = None,
    background: model_options.Background = None,
    missing: model_options.Missing = None,
    returns: model_options.Returned = None,
    output: model_options.FollowedScore = "probability",
    trust_model: model_options.TrustModel = False,
    replacement: model_options.ReplacementWords = None,
    limits: Annotated[
        bool, typer.Option("--limits", help="PC, DPC, LPC: also find what the best possible attribution would score.")
    ] = False,
    level: model_options.Level = 0.95,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    engine: Annotated[EngineName, typer.Option(help="On this machine, or on a Ray cluster.")] = EngineName.local,
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster: local, auto or ray://HOST:PORT.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parts at once; one per core or GPU by default, on Ray as many as fit.")
    ] = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the means as JSON.")] = False,
) -> None:
    """Score attributions of the rows of many Parquet files.

    Rows find their attributions by --key, so that parts may be cut and sorted in any way. The scores of each part are
    written to the folder --out; run it again to go on where it stopped.
    """
    with common.one_line_errors():
        from verax.lakes import ModelFile, Settings, score_lake
        from verax.lakes.urls import shown
        from verax.problem_files import ProblemFiles, check_model

        extensions.load(imports or ())
        given = model_options.joined(named_addresses(attributions or ()), model_options.methods_of(method or ()))
        if not given:
            raise ValueError("--attributions, --method: expected files or a method, got neither.")
        model_options.check_output(output)
        tracked: Any = output  # which is checked
        given_by: Any = returns
        settings = Settings(
            metrics=model_options.metrics_of(metric or Settings.metrics),
            target=_target_of(target),
            baselines=_baselines_of(baselines, background),
            replacement=None if replacement is None else model_options.replacement_of(replacement, background),
            limits=limits,
            output=tracked,
        )
        cluster = _cluster(engine, address, workers)
        checked_level(level)
        if Path(out).is_file():
            raise ValueError(f"--out: {out} is a file; the scores of a lake are many, in a folder.")
        place = device and common.checked_device_name(device)
        check_model(ProblemFiles(model=model, inputs=Path(inputs), returns=returns, missing=missing, device=place))
        try:
            found = score_lake(
                ModelFile(model, given_by, trust_model, place, batch_size),
                inputs,
                given,
                out,
                key=key,
                settings=settings,
                background=background,
                missing=None if missing is None else missing == "allow",
                workers=workers,
                cluster=cluster,
                log=lambda line: common.tell(f"verax: {line}"),
            )
        except KeyboardInterrupt:
            common.tell(f"verax: stopped. What was finished is stored in {shown(out)}; run it again to go on.")
            raise typer.Exit(common.STOPPED) from None
    from verax.metrics.about import fact_line

    about = {"model": str(model), "followed": _followed(settings), "removed features": _removed(settings)}
    table = replace(found.table(level), about=fact_line(about)).text()
    text = f"{table}\n\n{found.computed} of {found.parts} parts scored now. Scores: {found.out}"
    common.show(_facts(found, level) | {"about": about}, text, as_json=as_json)


def _cluster(engine: EngineName, address: str | None, workers: int | None) -> "Cluster | None":
    """The cluster to work on; None for this machine."""
    if engine is EngineName.ray:
        check_extra("--engine ray", "ray")
        from verax.study.ray_engine import Cluster

        return Cluster(address or "local", workers)
    if address is not None:
        raise ValueError("--address: is that of a Ray cluster; say --engine ray as well.")
    return None


def is_lake(inputs: str) -> bool:
    """Whether inputs are many files: a folder, a URL, or a pattern of Parquet files that is no file's name."""
    from verax.lakes.storage import has_pattern

    path = Path(inputs)
    pattern = has_pattern(inputs) and path.suffix in ("", ".parquet") and not path.exists()
    return "://" in inputs or path.is_dir() or pattern


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
    from verax.problem_files.said import is_file, read_target

    if is_file(text):
        raise ValueError(f"--target: {text} has one class per row; for a lake say one class for all, or none.")
    return read_target(text)


def _baselines_of(text: str | None, background: Path | None) -> float | str | None:
    """Read ``--baselines`` for a lake: a number, or a statistic of the training data."""
    from verax.problem_files.said import STATISTICS, number

    if text in STATISTICS and background is None:
        raise ValueError(f"--baselines: {text} is one of the training data; pass --background FILE as well.")
    if text is None or text == "zero" or text in STATISTICS:
        return text
    return number("--baselines", text, f"a number, zero, {', '.join(STATISTICS)}")


def _followed(settings: "Settings") -> str:
    """Which score of the model is followed; the labels of a lake's classes stand in its scores."""
    return f"{settings.output} of {'the predicted class' if settings.target is None else f'class {settings.target}'}"


def _removed(settings: "Settings") -> str:
    if settings.replacement is not None:
        return str(getattr(settings.replacement, "short_form", settings.replacement))
    from verax.problem.baselines import baseline_words

    return baseline_words(settings.baselines)


def _facts(found: "LakeScores", level: float) -> dict[str, Any]:
    means = {metric: {name: asdict(one) for name, one in found.mean(metric, level).items()} for metric in found.metrics}
    whole = {"out": found.out, "rows": found.rows, "parts": found.parts, "computed": found.computed, "level": level}
    return whole | {"metrics": means}
