"""The command ``verax evaluate``: a model, inputs and attributions or methods in; a table and a ranking out."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from verax.cli import common, model_options
from verax.cli.lake import is_lake
from verax.core.files import table_bytes

if TYPE_CHECKING:
    from verax.evaluation.comparison import Comparison, Ranked

_SEVERAL = "--attributions"

EXAMPLES = common.examples(
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy lime.npy --out result.parquet",
    "verax evaluate --model m.onnx --inputs x.npy --method KernelShap --method 'LimeTabular(samples=256)'",
    "verax evaluate --model m.pt2 --trust-model --inputs x.csv --attributions ig.csv --report result.html",
    "verax evaluate --model m.skops --inputs rows.csv --background train.csv --attributions shap.csv",
    "verax evaluate --model m.safetensors --inputs x.npy --attributions ig.npy --metric 'dpc(order=magnitude)' --json",
    "verax evaluate --model m.onnx --inputs x.npy --attributions ig.npy --replacement conditional --background b.npy",
    "verax evaluate --model FOLDER --inputs texts.csv --attributions ig.jsonl --unit word --report result.html",
)


class SeveralPaths(TyperCommand):
    """Lets several paths follow one ``--attributions``; it may be repeated as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeated(args))


def evaluate(
    model: model_options.ModelFile,
    inputs: model_options.InputsFile,
    attributions: Annotated[
        list[Path] | None,
        typer.Option(_SEVERAL, metavar="FILE...", help="One or several files, each an attribution."),
    ] = None,
    method: model_options.MethodWords = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .parquet file: one row per attribution and input.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="An .html file with table, rankings and charts.")] = None,
    metric: model_options.MetricWords = None,
    target: model_options.Target = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    background: model_options.Background = None,
    missing: model_options.Missing = None,
    text_column: model_options.TextColumn = None,
    word_column: model_options.WordColumn = None,
    unit: model_options.UnitWord = None,
    replace: model_options.ReplaceWord = None,
    returns: model_options.Returned = None,
    output: model_options.TrackedScore = "probability",
    trust_model: model_options.TrustModel = False,
    replacement: model_options.SeveralReplacements = None,
    distance: Annotated[
        bool, typer.Option("--distance", help="Also measure how far perturbed rows lie from the --background.")
    ] = False,
    limits: model_options.Limits = False,
    level: model_options.Level = 0.95,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print answers, verdicts and rankings as JSON.")] = False,
) -> None:
    """Say which explanations of a model to believe.

    Two questions, each with a verdict on every explanation, a random one of its own beside them: what would a small
    change of the input do (effect correlation under noise), and what made the score what it is (under removal).
    --metric measures something else: --metric paper is PC, DPC and Infidelity, --metric all is everything that fits.

    Attributions are arrays like the inputs: one number for each feature of each input. Every file is one attribution,
    called by its name; an .npz or .safetensors file may hold several. --method computes one.

    Texts: the model is a folder of transformers (config.json, .safetensors, tokenizer), the inputs are a .csv, .jsonl
    or .parquet file of texts, and attributions are .jsonl or .parquet files, a list of numbers per text: one for each
    token, special ones included, or one for each feature.
    """
    with common.one_line_errors(imports):
        from verax.evaluation.evaluate import compare

        if is_lake(str(inputs)):
            raise ValueError(f"--inputs: {inputs} is a folder, a pattern or a URL of many files; use verax lake.")
        metrics, methods = model_options.metric_choice(metric or ()), model_options.methods_of(method or ())
        paths = list(attributions or ())
        if not paths and not methods:
            raise ValueError("--attributions, --method: expected a file or a method, got neither.")
        if distance and background is None:
            raise ValueError("--distance: it is measured from the training data; pass --background FILE as well.")
        replaced = [model_options.replacement_of(words, background) for words in replacement or ()]
        taken = [model, inputs, *paths, *([] if background is None else [background])]
        if out is not None:
            common.check_file("--out", out, ".parquet", taken)
        if report is not None:
            common.check_file("--report", report, ".html", [*taken, *([] if out is None else [out])])
        problem, arrays = model_options.opened(locals(), paths, replacement=replaced[0] if replaced else None)
        explanations = model_options.joined(arrays, methods)
        comparison = compare(problem, explanations, metrics, replacements=replaced[1:], level=level)
        comparison = comparison.with_limits() if limits else comparison
        comparison = comparison.with_distance() if distance else comparison
        tracked = "the value" if problem.scorer.adapter.returns == "values" else "the predicted class"
        facts = {"model": model, "inputs": inputs, "attributions": ", ".join(map(str, [*paths, *methods]))}
        facts |= {"target": target or tracked} | ({} if baselines is None else {"baselines": baselines})
        written = _write(comparison, out, report, {name: str(value) for name, value in facts.items()})
    text = f"{_told(comparison)}\n\nModel {model}, inputs {inputs}: {comparison.rows:,} model rows."
    common.show(ranking_facts(comparison), text, as_json=as_json, written=written)


def _told(comparison: "Comparison") -> str:
    """The comparison in text, whose notes speak of options; a note on an attribution begins with its name."""
    lines = []
    for line in str(comparison).splitlines():
        name = next((f"{label}: " for label in comparison.evaluation.labels if line.startswith(f"{label}: ")), "")
        lines.append(name + common.as_options(line.removeprefix(name)))
    return "\n".join(lines)


def ranking_facts(comparison: "Comparison") -> dict[str, Any]:
    """Answers, verdicts and rankings as plain values; what is not known, as the interval of one input, is NaN."""

    def place(ranked: "Ranked") -> dict[str, Any]:
        after = ranked.against_next
        return asdict(ranked) | {"against_next": None if after is None else asdict(after) | {"word": after.word}}

    evaluation = comparison.evaluation
    first, distance = next(iter(evaluation.values())).context, evaluation.distance
    return {
        "answers": comparison.answers,
        "verdicts": comparison.verdicts,
        "wins": {kind: dict(judgement.wins) for kind, judgement in comparison.judgements.items()},
        "saturation": comparison.saturation_words(),
        **{name: getattr(comparison, name) for name in ("seconds", "inputs", "rows", "level", "replacement")},
        "ranking_stability": [stability.facts() for stability in comparison.ranking_stability()],
        "about": first.about.facts(first.class_counts),
        "notes": list(first.about.notes),
        **({} if distance is None else {"distance": distance.to_frame(comparison.level).to_dicts()}),
        "metrics": {
            name: {
                "higher_is_better": evaluation[name].metric.higher_is_better,
                "best": comparison.best(name),
                "ranking": [place(ranked) for ranked in comparison.ranking(name)],
            }
            for name in comparison.metrics
        },
    }


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
    files: dict[Path, bytes] = {}
    if out is not None:
        files[out] = table_bytes(comparison.to_frame(), ".parquet")
    if report is not None:
        from verax.report.comparison import comparison_page

        files[report] = comparison_page(comparison, facts).encode()
    common.write_together(files)
    return list(files)
