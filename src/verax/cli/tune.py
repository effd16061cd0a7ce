"""The command ``verax tune``: a model and inputs from files in; the method and settings that explain it best out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, complete, model_options
from verax.cli.common import check_extra
from verax.core.files import table_bytes
from verax.core.registry import split_settings, to_dict

if TYPE_CHECKING:
    from verax.attribution import Attribution
    from verax.tuning import Tuned, TunedByQuestion

STORE = "trials.parquet"

EXAMPLES = common.examples(
    "verax tune --model m.pt2 --trust-model --inputs x.npy --background train.npy --out tuned",
    "verax tune --model m.onnx --inputs x.csv --methods lime --trials 64 --out tuned     # again: goes on",
    "verax tune --model m.onnx --inputs x.csv --question baseline",
    "verax tune --model FOLDER --inputs texts.csv --unit word --methods kernelshap,occlusion",
    "verax tune --model m.safetensors --inputs x.npy --metric dpc --metric pc --metric cost --json",
)


def tune(
    model: model_options.ModelFile,
    inputs: model_options.InputsFile,
    background: model_options.Background = None,
    background_labels: Annotated[Path | None, typer.Option(help="Their classes, 0 or 1, one per row.")] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Such as lime,SmoothGrad, each with all its settings, or with those in brackets: "
            "'KernelShap(samples=256)'; by default all that can be used.",
            autocompletion=complete.methods,
        ),
    ] = None,
    question: Annotated[
        Literal["local", "baseline"] | None,
        typer.Option(
            help="Ask one question alone: what would a small change do, or what made the score; by default both.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar=model_options.SHORT_FORM,
            help=f"Search by something else: {', '.join(complete.METRICS)}. Repeat it, also with cost, for all "
            "that no other beats.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Configurations to try at most, earlier runs included.")] = 200,
    seconds: Annotated[float | None, typer.Option(help="Start nothing further after so long.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same search.")] = 0,
    target: model_options.Target = None,
    text_column: model_options.TextColumn = None,
    word_column: model_options.WordColumn = None,
    unit: model_options.UnitWord = None,
    replace: model_options.ReplaceWord = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    replacement: model_options.ReplacementWords = None,
    missing: model_options.Missing = None,
    returns: model_options.Returned = None,
    output: model_options.TrackedScore = "probability",
    trust_model: model_options.TrustModel = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for trials, table, chart and best configuration.")
    ] = None,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find the attribution method and the settings that explain a model best, for each of two questions.

    What would a small change of the input do is decided by the effect correlation under noise, what made the score what
    it is by that under removal; a random explanation stands beside the best. Configurations race on growing numbers of
    inputs, and those shown to be no better than another are dropped. With --out, the same command goes on where an
    earlier one stopped, and leaves trials.parquet, table.csv, best.json, plot.svg and plot.html in the folder.
    """
    stopped = "Run the same again to go on with the finished trials." if out else "Nothing was written."
    with common.one_line_errors(imports, stopped):
        check_extra("verax tune", "tune")
        from verax.tuning.space import optuna
        from verax.tuning.store import SearchSettings
        from verax.tuning.tuner import search

        optuna()  # raises where it is missing

        metrics = model_options.metrics_of(metric, ["cost"]) if metric else None
        replaced = None if replacement is None else model_options.replacement_of(replacement, background)
        chosen = None if methods is None else _methods(methods)
        if out is not None:
            common.check_folder("--out", out)
        problem, _ = model_options.opened(locals(), replacement=replaced, background_labels=background_labels)
        settings = SearchSettings.checked(trials, seconds, seed, question, metrics, problem)
        tuned = search(problem, chosen, settings, None if out is None else out / STORE, common.tell)
        written = [] if out is None else _write(tuned, out)
    common.show(_facts(tuned), str(tuned), as_json=as_json, written=written)
    if tuned.stopped == "interrupted":
        raise typer.Exit(common.STOPPED)


def settings(configuration: Any) -> dict[str, Any]:
    """A configuration as a table with ``method``, in the form that a study's spec takes."""
    return {"method": type(configuration).__name__} | to_dict(configuration)


def _facts(tuned: "Tuned | TunedByQuestion") -> dict[str, Any]:
    """The result as plain values; that of two questions by question."""
    from verax.tuning import Tuned

    if not isinstance(tuned, Tuned):
        cost = {"rows": tuned.rows, "seconds": tuned.seconds, "stopped": tuned.stopped}
        return {question: _facts(answer) for question, answer in tuned.searches.items()} | cost
    best = tuned.pareto.row(0, named=True)
    return {
        "best": settings(tuned.best),
        "configuration": tuned.best.canonical,
        "code": tuned.code,
        "answer": tuned.answer,
        "scores": {
            name: {"mean": best[name], "low": best[f"{name}_low"], "high": best[f"{name}_high"]}
            for name in tuned.metrics
        },
        "cost": best["cost"],
        "inputs_used": best["inputs"],
        "inputs": tuned.inputs,
        "trials": len(tuned.candidates),
        "stopped": tuned.stopped,
        "about": dict(tuned.facts),
        "rows": tuned.rows,
        "seconds": tuned.seconds,
        "pareto": tuned.pareto.select("trial", *tuned.metrics, "cost", "configuration").to_dicts(),
        "not_significantly_different": [configuration.canonical for configuration in tuned.equals],
        "left_out": tuned.left_out,
    }


def _methods(parts: list[str]) -> "list[str | Attribution]":
    """Names and short forms between commas; what no method is called raises before anything is opened."""
    from verax.attribution import METHODS
    from verax.tuning.space import methods_named

    labels = [label for kind in METHODS.values() for label in (kind.__name__, kind.label)]
    methods: list[str | Attribution] = []
    for name in (name.strip() for part in parts for name in split_settings(part)):
        if "(" in name:
            methods += model_options.methods_of([name], "--methods").values()
        elif not methods_named(name):
            common.checked_name("--methods", name, list(dict.fromkeys(labels)))
        else:
            methods.append(name)
    return methods


def _write(tuned: "Tuned | TunedByQuestion", folder: Path) -> list[Path]:
    import vl_convert

    from verax.tuning import Tuned

    chart = tuned.plot()
    best = (
        settings(tuned.best)
        if isinstance(tuned, Tuned)
        else {question: settings(answer.best) for question, answer in tuned.searches.items()}
    )
    files = {
        folder / "table.csv": table_bytes(tuned.table, ".csv"),
        folder / "best.json": (json.dumps(best, indent=2) + "\n").encode(),
        folder / "plot.svg": vl_convert.vegalite_to_svg(chart.to_json()).encode(),
        folder / "plot.html": chart.to_html(inline=True).encode(),
    }
    common.write_together(files)
    return [folder / STORE, *files]
