"""The command ``verax evaluate``: a model file, inputs and attributions from files in; a table and a ranking out."""

import typing
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from verax.cli import common, complete, model_inputs, model_options, texts
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
    "verax evaluate --model FOLDER --inputs texts.csv --attributions ig.jsonl --unit word --report result.html",
)


class SeveralPaths(TyperCommand):
    """Lets several paths follow one ``--attributions``; it may be repeated as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option for each path, which is the form that the parser knows."""
        return super().parse_args(ctx, _repeated(args))


def evaluate(
    model: model_options.ModelFile,
    inputs: model_options.InputsFile,
    attributions: Annotated[
        list[Path], typer.Option(_SEVERAL, metavar="FILE...", help="One or several files, each an attribution.")
    ],
    out: Annotated[Path | None, typer.Option(help="A .parquet file: one row per attribution and input.")] = None,
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
    unit: texts.UnitWord = None,
    replace: texts.ReplaceWord = None,
    returns: model_options.Returned = None,
    output: model_options.FollowedScore = "probability",
    trust_model: model_options.TrustModel = False,
    steps: Annotated[int | None, typer.Option(help="PC and DPC: steps from input to baseline; 20 by default.")] = None,
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
    """
    with common.one_line_errors():
        from verax.evaluation.compare import compare

        extensions.load(imports or ())
        for name in metric or ():
            common.checked_name("--metric", name, list(METRICS))
        model_options.check_words(output=output, effect=effect)
        if perturbation is not None:
            checked_choice("--perturbation", perturbation, typing.get_args(Perturbation))
        noise = model_options.sigma_of(sigma, background)
        taken = [model, inputs, *attributions, *([] if background is None else [background])]
        if out is not None:
            common.check_file("--out", out, ".parquet", taken)
            taken.append(out)
        if report is not None:
            common.check_file("--report", report, ".html", taken)
        files = model_inputs.Files(
            model=model,
            inputs=inputs,
            background=background,
            features=features,
            baselines=baselines,
            returns=returns,
            missing=missing,
            device=device,
            trust=trust_model,
        )
        subject = _open(files, texts.TextOptions(text_column, unit, replace))
        given = subject.attributions(attributions)
        found = compare(
            subject.scorer,
            subject.inputs,
            given,
            metric or subject.metrics,
            target=model_options.target_of(target),
            steps=steps,
            samples=samples,
            sigma=noise,
            subset=subset,
            perturbation=perturbation or subject.perturbation,  # type: ignore[arg-type]  # checked above
            effect=effect,  # type: ignore[arg-type]
            normalize=normalize,
            seed=seed,
            background=subject.background,
            output=output,  # type: ignore[arg-type]
            batch_size=batch_size,
            level=level,
        )
        facts = {"model": model, "inputs": inputs, "attributions": ", ".join(map(str, attributions))}
        facts |= {"target": target or subject.explained, "baselines": baselines or subject.removed}
        if not metric and subject.left_out:
            common.tell(f"verax: {subject.left_out}")
        written = _write(found, out, report, {name: str(value) for name, value in facts.items()})
    text = f"{found}\n\n{found.evaluation.rows:,} model rows."
    common.show(ranking_facts(found), text, as_json=as_json, written=written)


def _open(files: model_inputs.Files, options: texts.TextOptions) -> model_inputs.Subject | texts.TextSubject:
    """What is explained: texts where the model is a folder, otherwise rows."""
    if files.model.is_dir():
        return texts.open_texts(files, options)
    options.refuse(files.model)
    return model_inputs.open_subject(files)


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
    whole = {"inputs": comparison.inputs, "rows": comparison.evaluation.rows, "level": comparison.level}
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
