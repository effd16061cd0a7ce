"""The command ``verax evaluate``: a model file, inputs and attributions from files in; a table and a ranking out."""

import contextlib
import io
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from verax import cli_complete
from verax.cli_common import check_file, checked_device_name, examples, one_line_errors, print_json
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
    import polars as pl

    from verax.comparing import Comparison, Ranked

_SEVERAL = "--attributions"

EXAMPLES = examples(
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy lime.npy --out result.parquet",
    "verax evaluate --model m.pt2 --inputs x.csv --attributions ig.csv --target 1 --report result.html",
    "verax evaluate --model m.safetensors --inputs x.npy --attributions ig.npy --metric dpc --json",
)


class SeveralPaths(TyperCommand):
    """Lets several paths follow one ``--attributions``; it may be repeated as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option for each path, which is the form that the parser knows."""
        return super().parse_args(ctx, _repeated(args))


def evaluate(
    model: ModelFile,
    inputs: InputsFile,
    attributions: Annotated[
        list[Path], typer.Option(_SEVERAL, metavar="FILE...", help="One or several files, each an attribution.")
    ],
    out: Annotated[Path | None, typer.Option(help="A .parquet file: one row per attribution and input.")] = None,
    report: Annotated[Path | None, typer.Option(help="An .html file with table, rankings and charts.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="pc, dpc, infidelity or sensitivity_n; repeat it for several.",
            autocompletion=cli_complete.metrics,
        ),
    ] = None,
    target: Target = None,
    baseline: Baseline = "0",
    returns: Returned = None,
    steps: Annotated[int, typer.Option(help="PC and DPC: steps from input to baseline.")] = 20,
    samples: Annotated[int, typer.Option(help="Infidelity: draws per input.")] = 640,
    sigma: Annotated[float, typer.Option(help="Infidelity: standard deviation of the perturbation.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    level: Level = 0.95,
    device: DeviceName = None,
    batch_size: BatchSize = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rankings as JSON.")] = False,
) -> None:
    """Rank attributions of a model by how faithful they are.

    Measures PC, DPC and Infidelity, with intervals; the table says which attribution is better, and whether the
    difference is real. Attributions are arrays like the inputs: one number for each feature of each input. Every file
    is one attribution, called by its name; an .npz or .safetensors file may hold several.
    """
    with one_line_errors():
        from verax.comparing import compare
        from verax.tabular_files import read_attributions, read_inputs

        taken = [model, inputs, *attributions]
        if out is not None:
            check_file("--out", out, ".parquet", taken)
            taken.append(out)
        if report is not None:
            check_file("--report", report, ".html", taken)
        where = None if device is None else checked_device_name(device)
        scorer, rows = open_model(model, returns, where, read_inputs(inputs))
        found = compare(
            scorer,
            rows.values,
            read_attributions(attributions, rows),
            metric or ("pc", "dpc", "infidelity"),
            target=number_or_file("--target", target, int, rows),
            baselines=number_or_file("--baseline", baseline, float, rows),
            steps=steps,
            samples=samples,
            sigma=sigma,
            seed=seed,
            batch_size=batch_size,
            level=level,
        )
        facts = {"model": model, "inputs": inputs, "attributions": ", ".join(map(str, attributions))}
        facts |= {"target": target or "the predicted class", "baseline": baseline}
        written = _write(found, out, report, {name: str(value) for name, value in facts.items()})
    if as_json:
        print_json(ranking_facts(found))
    else:
        typer.echo(f"{found}\n\n{found.evaluation.rows:,} model rows.")
    for path in written:
        typer.echo(f"Saved as {path}", err=as_json)


def score_table(comparison: "Comparison") -> "pl.DataFrame":
    """One row per attribution and input: the scores, and Infidelity's Monte-Carlo standard error."""
    import polars as pl

    names, count = comparison.names, comparison.inputs
    results = comparison.evaluation
    target = next(iter(results.values())).context.target.cpu().numpy()
    columns: dict[str, Any] = {
        "attribution": [name for name in names for _ in range(count)],
        "input": list(range(count)) * len(names),
        "target": target.tolist() * len(names),
    }
    for name, result in results.items():
        columns[name] = result.scores.double().cpu().flatten().numpy()
        if name == "infidelity":
            columns["infidelity_se"] = result.errors.double().cpu().flatten().numpy()
    return pl.DataFrame(columns)


def ranking_facts(comparison: "Comparison") -> dict[str, Any]:
    """The rankings as plain values; numbers that are none, such as the interval of a single input, are NaN."""
    metrics = {
        name: {
            "higher_is_better": comparison.evaluation[name].metric.higher_is_better,
            "best": comparison.best(name),
            "ranking": [_plain(one) for one in comparison.ranking(name)],
        }
        for name in comparison.metrics
    }
    whole = {"inputs": comparison.inputs, "rows": comparison.evaluation.rows, "level": comparison.level}
    return whole | {"metrics": metrics}


def _plain(one: "Ranked") -> dict[str, Any]:
    after = one.against_next
    return asdict(one) | {"against_next": None if after is None else asdict(after) | {"word": after.word}}


def _repeated(args: Iterable[str]) -> list[str]:
    """Turn ``--attributions a b`` into ``--attributions a --attributions b``.

    Example:
        >>> _repeated(["--inputs", "x", "--attributions", "a", "b", "--seed", "1"])
        ['--inputs', 'x', '--attributions', 'a', '--attributions', 'b', '--seed', '1']
    """
    found: list[str] = []
    inside = False
    for arg in args:
        if arg.startswith("-"):
            inside = arg.split("=")[0] == _SEVERAL
        elif inside and found[-1] != _SEVERAL:
            found.append(_SEVERAL)
        found.append(arg)
    return found


def _write(comparison: "Comparison", out: Path | None, report: Path | None, facts: dict[str, str]) -> list[Path]:
    """Write what was asked for: all of it, or nothing."""
    from verax.datasets.download import whole_or_nothing

    files: dict[Path, bytes] = {}
    if out is not None:
        buffer = io.BytesIO()
        score_table(comparison).write_parquet(buffer)
        files[out] = buffer.getvalue()
    if report is not None:
        from verax.report.comparison import comparison_page

        files[report] = comparison_page(comparison, facts).encode()
    with contextlib.ExitStack() as stack:  # a file appears under its name when the last one is written
        opened = [(stack.enter_context(whole_or_nothing(path)), content) for path, content in files.items()]
        for file, content in opened:
            file.write(content)
    return list(files)
