"""The command ``verax evaluate``: a model file, inputs and attributions from files in; a table and a ranking out."""

import typing
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from verax.cli import common, complete, lakes, model_inputs, model_options, texts
from verax.core import extensions
from verax.core.arguments import checked_choice
from verax.core.saving import table_bytes
from verax.metrics import METRICS
from verax.perturbation.draws import Perturbation

if TYPE_CHECKING:
    from verax.evaluation.comparison import Comparison, Ranked

_SEVERAL = "--attributions"

EXAMPLES = common.examples(
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy lime.npy --out result.parquet",
    "verax evaluate --model m.pt2 --trust-model --inputs x.csv --attributions ig.csv --report result.html",
    "verax evaluate --model m.skops --inputs rows.csv --background train.csv --attributions shap.csv --sigma std",
    "verax evaluate --model m.safetensors --inputs x.npy --attributions ig.npy --metric dpc --json",
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy --replacement conditional --background b.npy",
    "verax evaluate --model FOLDER --inputs texts.csv --attributions ig.jsonl --unit word --report result.html",
    "verax evaluate --model m.onnx --inputs 'rows/*.parquet' --attributions shap='shap/*.parquet' --out scores/",
)


class SeveralPaths(TyperCommand):
    """Lets several paths follow one ``--attributions``; it may be repeated as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option for each path, which is the form that the parser knows."""
        return super().parse_args(ctx, _repeated(args))


def evaluate(
    model: model_options.ModelFile,
    inputs: Annotated[
        str,
        typer.Option(
            metavar="FILE|LAKE",
            help="What the model takes: .npy, .npz, .safetensors, .parquet or .csv. A table for a .skops model may "
            "have text and gaps. A folder, a pattern in quotes or a URL of .parquet files is a lake.",
        ),
    ],
    attributions: Annotated[
        list[str],
        typer.Option(
            _SEVERAL, metavar="FILE...", help="One or several files, each an attribution; of a lake NAME=PATTERN."
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|FOLDER", help="A .parquet file: one row per attribution and input; of a lake a folder."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="An .html file with table, rankings and charts.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help=f"{', '.join(METRICS)}; repeat it for several.", autocompletion=complete.metrics
        ),
    ] = None,
    target: model_options.Target = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    background: model_options.Background = None,
    missing: model_options.Missing = None,
    text_column: texts.TextColumn = None,
    word_column: texts.WordColumn = None,
    unit: texts.UnitWord = None,
    replace: texts.ReplaceWord = None,
    returns: model_options.Returned = None,
    output: model_options.FollowedScore = "probability",
    trust_model: model_options.TrustModel = False,
    replacement: model_options.SeveralReplacements = None,
    steps: model_options.StepsWord = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Adaptive steps: the error of a score to stop at; 0.01 by default.")
    ] = None,
    distance: Annotated[
        bool, typer.Option("--distance", help="Also measure how far perturbed rows lie from the --background.")
    ] = False,
    limits: Annotated[
        bool, typer.Option("--limits", help="PC, DPC, LPC: also find what the best possible attribution would score.")
    ] = False,
    samples: Annotated[int | None, typer.Option(help="Draws per input; the metric's own number by default.")] = None,
    sigma: model_options.Sigma = None,
    subset: Annotated[int | None, typer.Option(help="Infidelity: features in each draw; all by default.")] = None,
    perturbation: Annotated[
        str | None, typer.Option(help="Infidelity: gaussian (default) or baseline, which replaces a random subset.")
    ] = None,
    effect: model_options.EffectWord = None,
    normalize: Annotated[
        bool | None, typer.Option(help="Infidelity: fit the scale of each attribution first, as by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same draws; 0 by default.")] = None,
    level: model_options.Level = 0.95,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    key: lakes.Key = None,
    engine: lakes.Engine = None,
    address: lakes.Address = None,
    workers: lakes.Workers = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rankings as JSON.")] = False,
) -> None:
    """Rank attributions of a model by how faithful they are.

    Measures PC, DPC and Infidelity, or what --metric says, with intervals; the table says which attribution is better,
    and whether the difference is real. Attributions are arrays like the inputs: one number for each feature of each
    input. Every file is one attribution, called by its name; an .npz or .safetensors file may hold several.

    Texts: the model is a folder of transformers (config.json, .safetensors, tokenizer), the inputs are a .csv, .jsonl
    or .parquet file of texts, and attributions are .jsonl or .parquet files, a list of numbers per text: one for each
    token, special ones included, or one for each feature.

    Lakes: --inputs and --attributions are folders, patterns in quotes or URLs of .parquet files, in which --key says
    which row is which. The scores of each part are written to the folder --out; run it again to go on.
    """
    with common.one_line_errors():
        from verax.evaluation.compare import compare

        extensions.load(imports or ())
        for name in metric or ():
            common.checked_name("--metric", name, list(METRICS))
        model_options.check_words(output=output, effect=effect)
        if perturbation is not None:
            checked_choice("--perturbation", perturbation, typing.get_args(Perturbation))
        if distance and background is None:
            raise ValueError("--distance: it is measured from the training data; pass --background FILE as well.")
        replaced = [model_options.replacement_of(words, background) for words in replacement or ()]
        measured: dict[str, Any] = {
            "steps": model_options.steps_of(steps),
            "tolerance": tolerance,
            "samples": samples,
            "sigma": model_options.sigma_of(sigma, background),
            "subset": subset,
            "perturbation": perturbation,
            "effect": effect,
            "normalize": normalize,
            "seed": seed,
            "replacement": replaced[0] if replaced else None,
            "limits": limits,
            "output": output,
        }
        files = model_inputs.Files(
            model=model,
            inputs=Path(inputs),
            background=background,
            features=features,
            baselines=baselines,
            returns=returns,
            missing=missing,
            device=device,
            trust=trust_model,
        )
        options = lakes.LakeOptions(key, engine, address, workers)
        wording = texts.TextOptions(text_column, word_column, unit, replace)
        if lakes.is_lake(inputs):
            lakes.refuse_with_lake(report=report, features=features, replacement=replaced[1:], distance=distance)
            lakes.refuse_with_lake(**vars(wording))
            settings = lakes.settings_of(metric, target, baselines, background, measured)
            lakes.evaluate_lake(files, inputs, attributions, out, options, settings, batch_size, level, as_json)
            return
        options.refuse(inputs)
        paths, table = [Path(path) for path in attributions], None if out is None else Path(out)
        _check_written(table, report, [model, files.inputs, *paths, *([] if background is None else [background])])
        subject = texts.open_explained(files, wording)
        given = subject.attributions(paths)  # before the model of texts is opened
        measured["perturbation"] = perturbation or subject.perturbation
        found = compare(
            subject.scorer,
            subject.inputs,
            given,
            metric or subject.metrics,
            target=model_options.target_of(target),
            background=subject.background,
            replacements=replaced[1:],
            distance=distance,
            batch_size=batch_size,
            level=level,
            **measured,
        )
        facts = {"model": model, "inputs": inputs, "attributions": ", ".join(attributions)}
        facts |= {"target": target or subject.explained, "baselines": baselines or subject.removed}
        if not metric and subject.left_out:
            common.tell(f"verax: {subject.left_out}")
        written = _write(found, table, report, {name: str(value) for name, value in facts.items()})
    text = f"{found}\n\nModel {model}, inputs {inputs}: {found.rows:,} model rows."
    common.show(ranking_facts(found), text, as_json=as_json, written=written)


def _check_written(table: Path | None, report: Path | None, taken: list[Path]) -> None:
    """Refuse places that cannot be written, or that are read."""
    if table is not None:
        common.check_file("--out", table, ".parquet", taken)
    if report is not None:
        common.check_file("--report", report, ".html", [*taken, *([] if table is None else [table])])


def ranking_facts(comparison: "Comparison") -> dict[str, Any]:
    """The rankings as plain values; numbers that are none, such as the interval of a single input, are NaN."""

    def place(ranked: "Ranked") -> dict[str, Any]:
        after = ranked.against_next
        return asdict(ranked) | {"against_next": None if after is None else asdict(after) | {"word": after.word}}

    metrics = {
        name: {
            "higher_is_better": comparison.evaluation[name].metric.higher_is_better,
            "best": comparison.best(name),
            "ranking": [place(ranked) for ranked in comparison.ranking(name)],
        }
        for name in comparison.metrics
    }
    whole: dict[str, Any] = {"inputs": comparison.inputs, "rows": comparison.rows, "level": comparison.level}
    whole |= {"replacement": comparison.replacement, "survival": [one.facts() for one in comparison.survival()]}
    first = next(iter(comparison.evaluation.values())).context
    whole |= {"about": first.about.facts(first.class_counts), "notes": list(first.about.notes)}
    if comparison.evaluation.distance is not None:
        whole["distance"] = comparison.evaluation.distance.to_frame(comparison.level).to_dicts()
    return whole | {"metrics": metrics}


def _repeated(args: Iterable[str]) -> list[str]:
    """Turn ``--attributions a b`` into ``--attributions a --attributions b``."""
    repeated: list[str] = []
    inside = False
    for arg in args:
        if arg.startswith("-"):
            inside = arg.split("=")[0] == _SEVERAL
        elif inside and repeated[-1] != _SEVERAL:
            repeated.append(_SEVERAL)
        repeated.append(arg)
    return repeated


def _write(comparison: "Comparison", out: Path | None, report: Path | None, facts: dict[str, str]) -> list[Path]:
    """Write what was asked for: all of it, or nothing."""
    files: dict[Path, bytes] = {}
    if out is not None:
        files[out] = table_bytes(comparison.to_frame(), ".parquet")
    if report is not None:
        from verax.report.comparison import comparison_page

        files[report] = comparison_page(comparison, facts).encode()
    common.write_together(files)
    return list(files)
