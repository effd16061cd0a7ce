"""The command ``verax tune``: a model and inputs from files in; the method and settings that explain it best out."""

import contextlib
import io
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax import cli_complete
from verax.cli_common import STOPPED, check_folder, checked_device_name, examples, one_line_errors, print_json, tell
from verax.cli_model import (
    Baseline,
    BatchSize,
    DeviceName,
    InputsFile,
    Level,
    ModelFile,
    Returned,
    Target,
    number_or_file,
    open_model,
)

if TYPE_CHECKING:
    from verax.tabular_files import Array
    from verax.tuning import Tuned

STORE = "trials.parquet"

EXAMPLES = examples(
    "verax tune --model m.pt2 --inputs x.npy --background train.npy --out tuned",
    "verax tune --model m.onnx --inputs x.csv --methods lime --trials 64 --out tuned     # again: goes on",
    "verax tune --model m.safetensors --inputs x.npy --metric dpc --metric pc --metric cost --json",
)


def tune(
    model: ModelFile,
    inputs: InputsFile,
    background: Annotated[
        Path | None, typer.Option(help="Rows of the training data, for methods that need it.")
    ] = None,
    background_labels: Annotated[Path | None, typer.Option(help="Their classes, 0 or 1, one per row.")] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Such as lime,SmoothGrad; by default all that can be used."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="dpc (default), pc or infidelity; repeat it, also with cost, for all that no other beats.",
            autocompletion=cli_complete.metrics,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Configurations to try at most, earlier runs included.")] = 200,
    seconds: Annotated[float | None, typer.Option(help="Start nothing further after so long.")] = None,
    tolerance: Annotated[float, typer.Option(help="An advantage not worth further model rows, as a share.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Same seed, same search.")] = 0,
    level: Level = 0.95,
    target: Target = None,
    baseline: Baseline = "0",
    returns: Returned = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for trials, table, chart and best configuration.")
    ] = None,
    device: DeviceName = None,
    batch_size: BatchSize = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find the attribution method and the settings that are most faithful to a model.

    Configurations race on growing numbers of inputs, and those that surely are no better are dropped. With --out, the
    same command goes on where an earlier one stopped, and leaves trials.parquet, table.csv, best.json, plot.svg and
    plot.html in the folder.
    """
    with one_line_errors("Run the same again to go on with the finished trials." if out else "Nothing was written."):
        from verax.tabular_files import read_inputs
        from verax.tuning import tune as search

        if out is not None:
            check_folder("--out", out)
        where = None if device is None else checked_device_name(device)
        labels = None if background_labels is None else str(background_labels)
        scorer, rows = open_model(model, returns, where, read_inputs(inputs))
        found = search(
            scorer,
            rows.values,
            None if methods is None else [name.strip() for part in methods for name in part.split(",")],
            background=None if background is None else _like(read_inputs(background), rows),
            background_labels=number_or_file("--background-labels", labels, int, rows),
            metric=metric or "dpc",
            trials=trials,
            seconds=seconds,
            seed=seed,
            store=None if out is None else out / STORE,
            tolerance=tolerance,
            level=level,
            target=number_or_file("--target", target, int, rows),
            baselines=number_or_file("--baseline", baseline, float, rows),
            batch_size=batch_size,
            progress=tell,
        )
        written = [] if out is None else _write(found, out)
    if as_json:
        print_json(facts(found))
    else:
        typer.echo(str(found))
    for path in written:
        typer.echo(f"Saved as {path}", err=as_json)
    if found.stopped == "interrupted":
        raise typer.Exit(STOPPED)


def settings(configuration: Any) -> dict[str, Any]:
    """A configuration as a table with ``method``, in the form that a study's spec takes.

    Example:
        >>> from verax.attribution import IntegratedGradients
        >>> settings(IntegratedGradients("max"))
        {'method': 'IntegratedGradients', 'baseline': 'max', 'multiply_by_inputs': True, 'points': 64}
    """
    values = {field.name: getattr(configuration, field.name) for field in fields(configuration)}
    plain = {name: settings(value) if is_dataclass(value) else value for name, value in values.items()}
    return {"method": type(configuration).__name__} | {name: one for name, one in plain.items() if one is not None}


def facts(found: "Tuned") -> dict[str, Any]:
    """What was found, as plain values."""
    best = found.pareto.row(0, named=True)
    return {
        "best": settings(found.best),
        "configuration": found.best.canonical,
        "scores": {
            name: {"mean": best[name], "low": best[f"{name}_low"], "high": best[f"{name}_high"]}
            for name in found.metrics
        },
        "cost": best["cost"],
        "inputs_used": best["inputs"],
        "inputs": found.inputs,
        "trials": len(found.candidates),
        "stopped": found.stopped,
        "rows": found.rows,
        "seconds": found.seconds,
        "pareto": found.pareto.select("trial", *found.metrics, "cost", "configuration").to_dicts(),
        "not_told_apart": [one.canonical for one in found.equals],
        "left_out": found.left_out,
    }


def _like(background: "Array", inputs: "Array") -> Any:
    """The background's numbers, its columns in the order of the inputs', in their precision."""
    ordered = background if inputs.columns is None else background.ordered(inputs.columns, inputs.source)
    return ordered.values.astype(inputs.values.dtype)


def _write(found: "Tuned", folder: Path) -> list[Path]:
    """Write table, chart and best configuration beside the trials: all of it, or nothing."""
    import json

    import vl_convert

    from verax.datasets.download import whole_or_nothing

    chart = found.plot()
    buffer = io.BytesIO()
    found.table.write_csv(buffer)
    files = {
        folder / "table.csv": buffer.getvalue(),
        folder / "best.json": (json.dumps(settings(found.best), indent=2) + "\n").encode(),
        folder / "plot.svg": vl_convert.vegalite_to_svg(chart.to_json()).encode(),
        folder / "plot.html": chart.to_html(inline=True).encode(),
    }
    with contextlib.ExitStack() as stack:  # a file appears under its name when the last one is written
        opened = [(stack.enter_context(whole_or_nothing(path)), content) for path, content in files.items()]
        for file, content in opened:
            file.write(content)
    return [folder / STORE, *files]
