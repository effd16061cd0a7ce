"""The command ``verax lake``: rows and attributions in many Parquet files, scored part by part."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, complete, model_options
from verax.cli.common import check_extra
from verax.core.arguments import checked_level

if TYPE_CHECKING:
    from verax.core.ray_engine import Cluster
    from verax.problem.files import ProblemFiles
    from verax.problem.problem import Problem

_FIRST = 16  # files that are enough to know the columns
EXAMPLES = common.examples(
    "verax lake --model m.onnx --inputs 'rows/*.parquet' --attributions shap='shap/*.parquet' --key id --out scores/",
    "verax lake --model m.onnx --inputs rows/ --method KernelShap --metric effect_correlation --out scores/",
    "verax lake --model m.onnx --inputs s3://lake/rows --method TreeShap --out s3://lake/scores --engine ray",
)


Engine = Literal["local", "ray"]  # where parts are scored


def lake(
    model: model_options.ModelFile,
    inputs: Annotated[
        str, typer.Option(metavar="LAKE", help="A folder, a pattern in quotes or a URL of .parquet files.")
    ],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="A folder or URL for the scores.")],
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
    output: model_options.TrackedScore = "probability",
    trust_model: model_options.TrustModel = False,
    replacement: model_options.ReplacementWords = None,
    limits: model_options.Limits = False,
    level: model_options.Level = 0.95,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    engine: Annotated[Engine, typer.Option(help="On this machine, or on a Ray cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of the Ray cluster: local, auto or ray://HOST:PORT.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes or actors; by default one per core or GPU, on Ray what fits."),
    ] = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the means as JSON.")] = False,
) -> None:
    """Score attributions of the rows of many Parquet files.

    Rows find their attributions by --key, so that parts may be cut and sorted in any way. Scores are written to the
    folder --out as they come; run it again to go on where it stopped.
    """
    with common.one_line_errors(imports):
        check_extra("verax lake", "lake")
        from verax.lakes import score_lake
        from verax.problem.files import ProblemFiles
        from verax.scale.scoring import METRICS

        addresses = named_addresses(attributions or ())
        explanations = model_options.joined(addresses, model_options.methods_of(method or ()))
        if not explanations:
            raise ValueError("--attributions, --method: expected files or a method, got neither.")
        metrics = model_options.metrics_of(metric or METRICS)
        if Path(out).is_file():
            raise ValueError(f"--out: {out} is a file; the scores of a lake are many, in a folder.")
        cluster = _cluster(engine, address, workers)
        checked_level(level)
        changed = None if replacement is None else model_options.replacement_of(replacement, background)
        question = {"target": _target_of(target), "output": output, "replacement": changed, "batch_size": batch_size}
        question["baselines"] = _baselines_of(baselines, background)
        place = device and common.checked_device_name(device)
        files = ProblemFiles(
            model, Path(inputs), background, returns=returns, missing=missing, device=place, trust=trust_model
        )
        problem = _problem(files, inputs, addresses, key, question)
        log = logging.getLogger("verax.lakes")
        log.setLevel(logging.INFO)
        log.addHandler(handler := _Lines())
        try:
            with common.one_line_errors(stopped=f"What was finished is stored in {out}; run it again to go on."):
                scores = score_lake(
                    problem, inputs, explanations, out, metrics, key=key, limits=limits, engine=cluster or workers
                )
        finally:
            log.removeHandler(handler)
    scores = replace(scores, facts={**scores.facts, "model": str(model)})
    text = (
        f"{scores.table(level).text()}\n\n{scores.computed:,} of {scores.rows:,} rows scored now. Scores: {scores.out}"
    )
    facts = {"out": scores.out, "rows": scores.rows, "computed": scores.computed, "level": level}
    means = {name: scores.mean(name, level) for name in scores.metrics}
    facts["metrics"] = {name: {label: asdict(mean) for label, mean in listed.items()} for name, listed in means.items()}
    common.show(facts | {"about": dict(scores.facts)}, text, as_json=as_json)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        common.tell(f"verax: {record.getMessage()}")


def _cluster(engine: Engine, address: str | None, workers: int | None) -> "Cluster | None":
    if engine == "ray":
        check_extra("--engine ray", "ray")
        from verax.core.ray_engine import Cluster

        return Cluster(address or "local", workers)
    if address is not None:
        raise ValueError("--address: is that of a Ray cluster; say --engine ray as well.")
    return None


def _problem(
    files: "ProblemFiles",
    inputs: str,
    addresses: Mapping[str, str],
    key: str,
    question: Mapping[str, Any],
) -> "Problem":
    """The model and what is asked about it, shown some rows of the lake."""
    from verax.data.array_files import listed, read_table, table_array
    from verax.problem.files import check_model
    from verax.problem.problem import Problem
    from verax.scale.lake import feature_columns, first_rows, open_lake
    from verax.scoring.model_files.opening import open_scorer

    check_model(files)
    rows = open_lake("--inputs", inputs, most=_FIRST)
    lakes = {name: open_lake("--attributions", address, most=_FIRST) for name, address in addresses.items()}
    takes_missing = None if files.missing is None else files.missing == "allow"
    scorer = open_scorer(
        files.model, returns=files.returns, device=files.device, trust=files.trust, takes_missing=takes_missing
    )
    names = feature_columns(rows, key, scorer.feature_names, lakes)
    data = None
    if files.background is not None:
        table = read_table(files.background)
        if lost := [name for name in names if name not in table.columns]:
            raise ValueError(
                f"--background: {files.background}: expected the columns of the inputs; missing {listed(lost)}."
            )
        data = table_array(table.select(names), files.background, gaps=True).values
    example = first_rows(rows, names)
    if not scorer.takes_missing:
        example = example.fill_nan(0.0)  # which the score of this row will name
    return Problem(scorer, example.to_numpy(order="c"), names=names, background=data, **question)


def is_lake(inputs: str) -> bool:
    """Whether inputs are many files: a folder, a URL, or a pattern of Parquet files that is no file's name."""
    from verax.core.folders import MAGIC

    path = Path(inputs)
    pattern = MAGIC.search(inputs) is not None and path.suffix in ("", ".parquet") and not path.exists()
    return "://" in inputs or path.is_dir() or pattern


def named_addresses(words: Sequence[str]) -> dict[str, str]:
    """Attributions by name: ``NAME=ADDRESS``, or an address whose last folder is the name.

    Example:
        >>> named_addresses(["shap=s3://lake/a/*.parquet", "lime/*.parquet"])
        {'shap': 's3://lake/a/*.parquet', 'lime': 'lime/*.parquet'}
    """
    from verax.core.folders import split_pattern

    addresses: dict[str, str] = {}
    for word in words:
        name, sign, address = word.partition("=")
        if not sign or "/" in name:
            name, address = Path(split_pattern(word)[0]).name, word
        if not name or not address:
            raise ValueError(f"--attributions: expected NAME=PATTERN or a pattern in a folder, got {word}.")
        if name in addresses:
            raise ValueError(f"--attributions: a second one called {name}; say NAME=PATTERN.")
        addresses[name] = address
    return addresses


def _target_of(text: str | None) -> Any:
    """Read ``--target`` for a lake: one class for all rows."""
    from verax.problem.files.tables import is_file, read_target

    if is_file(text):
        raise ValueError(f"--target: {text} has one class per row; for a lake say one class for all, or none.")
    return read_target(text)


def _baselines_of(text: str | None, background: Path | None) -> float | str:
    """Read ``--baselines`` for a lake: a number, or a statistic of the training data."""
    from verax.problem.files.tables import STATISTICS, number

    if text in STATISTICS and background is None:
        raise ValueError(f"--baselines: {text} is one of the training data; pass --background FILE as well.")
    if text is None:
        return 0.0
    if text == "zero" or text in STATISTICS:
        return text
    return number("--baselines", text, f"a number, zero, {', '.join(STATISTICS)}")
