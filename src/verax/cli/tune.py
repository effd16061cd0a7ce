"""The command ``verax tune``: a model and inputs from files in; the method and settings that explain it best out."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verax.attribution import METHODS
from verax.cli import common, complete, model_inputs, model_options, texts
from verax.cli.extras import check_extra
from verax.core import extensions
from verax.core.saving import table_bytes
from verax.core.settings import plain
from verax.metrics import METRICS

if TYPE_CHECKING:
    from verax.tuning import Tuned

STORE = "trials.parquet"

EXAMPLES = common.examples(
    "verax tune --model m.pt2 --trust-model --inputs x.npy --background train.npy --out tuned",
    "verax tune --model m.onnx --inputs x.csv --methods lime --trials 64 --out tuned     # again: goes on",
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
            help="Such as lime,SmoothGrad; by default all that can be used.",
            autocompletion=complete.methods,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(METRICS)}; dpc by default, pc for texts. Repeat it, also with cost, for all that no "
            "other beats.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Configurations to try at most, earlier runs included.")] = 200,
    seconds: Annotated[float | None, typer.Option(help="Start nothing further after so long.")] = None,
    tolerance: Annotated[float, typer.Option(help="An advantage not worth further model rows, as a share.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Same seed, same search.")] = 0,
    level: model_options.Level = 0.95,
    target: model_options.Target = None,
    text_column: texts.TextColumn = None,
    word_column: texts.WordColumn = None,
    unit: texts.UnitWord = None,
    replace: texts.ReplaceWord = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    replacement: model_options.ReplacementWords = None,
    missing: model_options.Missing = None,
    returns: model_options.Returned = None,
    output: model_options.FollowedScore = "probability",
    sigma: model_options.Sigma = None,
    effect: model_options.EffectWord = None,
    trust_model: model_options.TrustModel = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for trials, table, chart and best configuration.")
    ] = None,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find the attribution method and the settings that are most faithful to a model.

    Configurations race on growing numbers of inputs, and those that surely are no better are dropped. With --out, the
    same command goes on where an earlier one stopped, and leaves trials.parquet, table.csv, best.json, plot.svg and
    plot.html in the folder.
    """
    stopped = "Run the same again to go on with the finished trials." if out else "Nothing was written."
    with common.one_line_errors(stopped):
        check_extra("verax tune", "tune")
        from verax.tuning import tune as search

        extensions.load(imports or ())
        for name in metric or ():
            common.checked_name("--metric", name, [*METRICS, "cost"])
        model_options.check_words(output=output, effect=effect)
        noise = model_options.sigma_of(sigma, background)
        objectives = _objectives(metric or ["pc" if model.is_dir() else "dpc"], noise, effect)
        replaced = None if replacement is None else model_options.replacement_of(replacement, background)
        wanted = None if methods is None else _methods(methods)
        if out is not None:
            common.check_folder("--out", out)
        subject = texts.open_explained(
            model_inputs.Files(
                model=model,
                inputs=inputs,
                background=background,
                features=features,
                baselines=baselines,
                returns=returns,
                missing=missing,
                device=device,
                trust=trust_model,
            ),
            texts.TextOptions(text_column, word_column, unit, replace),
        )
        labels = background_labels and model_options.class_numbers("--background-labels", str(background_labels))
        found = search(
            subject.scorer,
            subject.inputs,
            wanted,
            background=subject.background,
            background_labels=labels,
            metric=objectives,
            trials=trials,
            seconds=seconds,
            seed=seed,
            store=None if out is None else out / STORE,
            tolerance=tolerance,
            level=level,
            target=model_options.target_of(target),
            sigma=noise,
            replacement=replaced,
            output=output,  # type: ignore[arg-type]  # checked above
            batch_size=batch_size,
            progress=common.tell,
        )
        written = [] if out is None else _write(found, out)
    common.show(facts(found), str(found), as_json=as_json, written=written)
    if found.stopped == "interrupted":
        raise typer.Exit(common.STOPPED)


def settings(configuration: Any) -> dict[str, Any]:
    """A configuration as a table with ``method``, in the form that a study's spec takes."""
    return {"method": type(configuration).__name__} | plain(configuration)


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
        "about": dict(found.facts),
        "rows": found.rows,
        "seconds": found.seconds,
        "pareto": found.pareto.select("trial", *found.metrics, "cost", "configuration").to_dicts(),
        "not_told_apart": [configuration.canonical for configuration in found.equals],
        "left_out": found.left_out,
    }


def _objectives(names: list[str], sigma: float | str | None, effect: str | None) -> list[Any]:
    """What is searched for: metrics with the settings that were said, where they have them, and cost."""
    said = {name: value for name, value in (("sigma", sigma), ("effect", effect)) if value is not None}
    found: list[Any] = []
    for name in names:
        kind = METRICS.get(name) if name in METRICS else None
        own = {} if kind is None else {field.name: said[field.name] for field in fields(kind) if field.name in said}
        found.append(kind(**own) if kind is not None and own else name)
    return found


def _methods(parts: list[str]) -> list[str]:
    """The names between commas; what no method is called is refused before anything is opened."""
    from verax.tuning.space import methods_named

    labels = [label for kind in METHODS.values() for label in (kind.__name__, kind.label)]
    names = [name.strip() for part in parts for name in part.split(",")]
    for name in names:
        if not methods_named(name):
            common.checked_name("--methods", name, list(dict.fromkeys(labels)))
    return names


def _write(found: "Tuned", folder: Path) -> list[Path]:
    """Write table, chart and best configuration beside the trials: all of it, or nothing."""
    import vl_convert

    chart = found.plot()
    files = {
        folder / "table.csv": table_bytes(found.table, ".csv"),
        folder / "best.json": (json.dumps(settings(found.best), indent=2) + "\n").encode(),
        folder / "plot.svg": vl_convert.vegalite_to_svg(chart.to_json()).encode(),
        folder / "plot.html": chart.to_html(inline=True).encode(),
    }
    common.write_together(files)
    return [folder / STORE, *files]
