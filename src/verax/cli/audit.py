"""The command ``verax audit``: which metric can be trusted, on models whose truth is known or on one's own."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from verax.cli import common, complete, model_options
from verax.core.files import ENDINGS

_OF_A_MODEL = ("inputs", "attributions", "background", "text_column", "word_column", "unit", "replace")  # options
EXAMPLES = common.examples(
    "verax audit --model m.onnx --inputs x.parquet --attributions shap.parquet --out audit",
    "verax audit --model m.skops --inputs x.csv --background train.csv --metric pc --metric dpc",
    "verax audit --model FOLDER --inputs texts.csv --unit word --attributions ig.jsonl   # texts",
    "verax audit --out audit                      # all metrics on models whose truth is known; again: goes on",
    "verax audit --import my_metrics --metric mine --trial truth_wins --out mine.html",
)


def audit(
    model: Annotated[
        Path | None,
        typer.Option(help="A model of your own, as verax evaluate takes it; left out: cases of known truth."),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="What the model takes: .npy, .npz, .safetensors, .parquet or .csv; of texts .csv, .parquet or .jsonl."
        ),
    ] = None,
    attributions: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE...", help="Files of explanations; by default some are computed."),
    ] = None,
    background: model_options.Background = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar=model_options.SHORT_FORM,
            help=f"{', '.join(complete.METRICS)}; repeat it; all by default.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    replacement: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:SETTING=VALUE,...",
            help=f"What removed features become: {', '.join(complete.REPLACEMENTS)}; repeat it. By default all of "
            "them for cases; for a model baseline, with --background also marginal and conditional.",
            autocompletion=complete.replacing,
        ),
    ] = None,
    case: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A case of known truth; repeat it.")] = None,
    trial: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Such as truth_wins or tells_apart; repeat it.")
    ] = None,
    target: model_options.Target = None,
    text_column: model_options.TextColumn = None,
    word_column: model_options.WordColumn = None,
    unit: model_options.UnitWord = None,
    replace: model_options.ReplaceWord = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    missing: model_options.Missing = None,
    returns: model_options.Returned = None,
    output: model_options.TrackedScore = "probability",
    trust_model: model_options.TrustModel = False,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="A folder for audit.parquet, report.html and what is finished, to go on from; or one .html, .parquet, "
            ".csv or .json file.",
        ),
    ] = None,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    imports: common.Imports = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Find out which metric can be trusted: three sentences, then a table.

    Without a model, all metrics are tried on small models whose true explanations are known. With one, the command says
    which metric, with how many inputs, tells explanations of it apart, and which cannot. With --out DIR, the same
    command goes on where an earlier one stopped.

    Texts: --model is a folder of transformers. Metrics that need a direction, such as DPC, are left out, and said so.
    """
    folder = out is not None and out.suffix.lower() not in ENDINGS
    stopped = "Run the same again to go on with what is finished." if folder else "Nothing was written."
    with common.one_line_errors(imports, stopped):
        from verax.auditing import audit as audited
        from verax.problem.replacement.base import replacement_from

        metrics = model_options.metrics_of(metric or ()) or None
        if model is None:  # cases bring rows of their own
            replacements: list[Any] = [replacement_from(words, "--replacement") for words in replacement or ()]
        else:
            replacements = [model_options.replacement_of(words, background) for words in replacement or ()]
        if out is not None and folder:
            common.check_folder("--out", out)
        elif out is not None:
            taken = [path for path in (model, inputs, background, *(attributions or [])) if path is not None]
            common.check_file("--out", out, out.suffix.lower(), taken)
        problem: Any = case or None
        explanations: Any = None
        if model is None:
            options = locals()
            for name in _OF_A_MODEL:
                if options[name]:
                    raise ValueError(f"--{name.replace('_', '-')}: it belongs to a model; pass --model FILE as well.")
        else:
            if inputs is None:
                raise ValueError("--inputs: a model of your own needs rows to explain; pass --inputs FILE as well.")
            if case:
                raise ValueError("--case: cases have models of their own; leave --model out.")
            problem, explanations = model_options.opened(locals(), attributions or ())
        with _shown() as tell:
            result = audited(
                problem,
                explanations or None,
                metrics=metrics,
                replacements=replacements or None,
                trials=trial or None,
                seed=seed,
                store=out if folder else None,
                progress=tell,
            )
        written = [] if out is None else [out / "audit.parquet", out / "report.html"] if folder else [out]
        for path in written:
            result.save(path)
    facts = {
        "sentences": list(result.sentences),
        **{name: getattr(result, name) for name in ("blind_spots", "misled", "inputs_needed")},
        "findings": result.to_frame().to_dicts(),
        "left_out": list(result.notes),
        "about": dict(result.facts),
        "rows": result.rows,
        "seconds": result.seconds,
    }
    common.show(facts, str(result), as_json=as_json, written=written)


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """Tells how far it is: in a line that changes on a terminal, in lines elsewhere."""
    if not sys.stderr.isatty():
        yield common.tell
        return
    from rich.console import Console

    from verax.core.display import escape

    with Console(stderr=True).status("begins") as status:
        yield lambda line: status.update(escape(line))
