"""The command ``verax monitor``: one more batch into a small state file; whether the fidelity fell comes out."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, model_options
from verax.core.display import escape
from verax.core.files import finite
from verax.core.registry import parse_short_form

if TYPE_CHECKING:
    from verax.attribution import Attribution
    from verax.metrics import Metric
    from verax.monitoring import Monitor, Window
    from verax.problem.files import ProblemFiles

ALARM = 3  # the exit code that schedulers look for
PERTURBATIONS = {"contributions": "baseline", "slopes": "gaussian"}
"""What the attributions are, and the perturbation under which they predict changes of the score."""

EXAMPLES = common.examples(
    "verax monitor --state s.json --model m.onnx --inputs x.parquet --attributions shap=a.parquet --kind contributions",
    "verax monitor --state s.json --model m.onnx --inputs x.npy --method Gradient --kind slopes",
    "verax monitor --state s.json --model m.onnx --inputs x.npy --attributions ig=a.npy --metric pc --report s.html",
)


def monitor(
    state: Annotated[Path, typer.Option(help="A .json file, made by the first call and kept by every one.")],
    model: model_options.ModelFile,
    inputs: model_options.InputsFile,
    attributions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE...",
            help="Attributions of these inputs; each keeps its name from call to call, 'attribution' where one file "
            "has none.",
        ),
    ] = None,
    method: model_options.MethodWords = None,
    kind: Annotated[
        Literal["contributions", "slopes"] | None,
        typer.Option(
            help="What the attributions are: contributions (SHAP, Integrated Gradients), judged by removing features, "
            "or slopes (gradients, coefficients of LIME), judged by noise. Needed unless --metric names a perturbation "
            "or metrics for which it makes no difference.",
        ),
    ] = None,
    metric: model_options.MetricWords = None,
    window: Annotated[int | None, typer.Option(help="Rows of a window; by default each call is one.")] = None,
    reference: Annotated[
        int | None, typer.Option(help="First windows, which later ones are compared with; 1 by default.")
    ] = None,
    alarm: Annotated[
        float | None, typer.Option(help="False alarms, at most, over all calls together; 0.05 by default.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="What the windows are called; by default the time, UTC.")] = None,
    report: Annotated[Path | None, typer.Option(help="An .html file with a chart of all windows.")] = None,
    target: model_options.Target = None,
    features: model_options.Features = None,
    baselines: model_options.Baselines = None,
    background: model_options.Background = None,
    missing: model_options.Missing = None,
    returns: model_options.Returned = None,
    output: model_options.TrackedScore = "probability",
    trust_model: model_options.TrustModel = False,
    device: model_options.DeviceName = None,
    batch_size: model_options.BatchSize = None,
    imports: common.Imports = None,
    as_json: Annotated[
        bool, typer.Option("--json/--text", help="Print a line of JSON for each window, or one to read.")
    ] = True,
) -> None:
    """Watch the fidelity of a model's attributions in production.

    Folds one batch of inputs and attributions into the state file and prints a line of JSON for each window that it
    finishes: mean score with a 95 % interval, and whether it fell since the first windows. The test may be asked as
    often as you like: the chance of a false alarm, ever, stays below --alarm. A batch that was folded before changes
    nothing. First windows whose score is not above chance are an error: no fall could be seen after them. Exit code 3:
    the fidelity fell, in this call or before. Begin a new state for a new model.
    """
    with common.one_line_errors(imports, "The state is what it was."):
        from verax.evaluation.stream import stream
        from verax.metrics.about import fact_line
        from verax.problem.files import attributions_of, check_model

        metrics = _metrics(metric or ["effect_correlation"], kind)
        named, methods = _named(attributions or ()), model_options.methods_of(method or ())
        if not named and not methods:
            raise ValueError("--attributions, --method: expected a file or a method, got neither.")
        taken = [model, inputs, *named.values(), *([] if background is None else [background])]
        common.check_file("--state", state, ".json", taken)
        if report is not None:
            common.check_file("--report", report, ".html", [*taken, state])
        files = model_options.problem_files(locals())
        check_model(files)
        held = _opened(state, _about(files, metrics, methods, target, output), reference, window, alarm)
        batch = _content([inputs, *named.values()])
        windows: list[Window] = []
        followed: dict[str, str] = {}
        if held.knows(batch):
            common.tell(f"verax: {inputs} was folded before, and is left out.")
        else:
            problem, _ = model_options.opened(locals())
            explanations = {name: _single(attributions_of(problem, [path])) for name, path in named.items()}
            measured = stream(problem, None, model_options.joined(explanations, methods), metrics)
            windows = held.fold(measured, label or datetime.now(UTC).isoformat(timespec="seconds"), batch)
            followed = {} if measured.so_far is None else measured.so_far.facts
            common.tell(f"verax: {fact_line(followed)}.")
            for note in held.notes:
                common.tell(f"verax: {common.as_options(note)}")
        _write(held, state, report, {"model file": str(model)} | followed)
    for result in windows:
        typer.echo(json.dumps(finite(asdict(result)), allow_nan=False) if as_json else escape(_line(result)))
    if held.alarmed:
        raise typer.Exit(ALARM)


def _write(held: "Monitor", state: Path, report: Path | None, facts: dict[str, str]) -> None:
    """Write the state and, where there is something to show, the page: both or none."""
    files = {state: held.content()}
    if report is not None and held.windows:
        from verax.report.result_pages import monitoring_page

        files[report] = monitoring_page(held, facts).encode()
    elif report is not None:
        common.tell(f"verax: no window is finished yet, so {report} is not written.")
    common.write_together(files)


def _line(window: "Window") -> str:
    from verax.statistics.intervals import Estimate

    mean = Estimate(window.mean, math.nan, window.low, window.high)
    state = "it fell" if window.alarm else "reference" if window.reference else "no sign of a fall"
    many = f"{window.rows:,} rows"
    return f"{window.label}, window {window.window}: {window.metric} of {window.attribution} {mean}, {many}; {state}"


def _named(attributions: Sequence[str]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for word in attributions:
        name, equals, path = word.partition("=")
        name, path = (name, path) if equals else ("attribution", word)
        if name in named or not name or not path:
            raise ValueError(f"--attributions: expected a name of its own for each file, NAME=FILE, got {word}.")
        named[name] = Path(path)
    return named


def _single(attributions: dict[str, Any]) -> Any:
    if len(attributions) != 1:
        raise ValueError(
            f"--attributions: expected one attribution in each file, got {', '.join(attributions)} in one."
        )
    return next(iter(attributions.values()))


def _metrics(words: Sequence[str], kind: str | None) -> "list[str | Metric]":
    """Metrics with the perturbation that the attributions are for: noise for slopes, removal for contributions."""
    from verax.metrics import METRICS

    metrics = model_options.metrics_of(words, defaults={} if kind is None else {"perturbation": PERTURBATIONS[kind]})
    if kind is not None:
        return metrics
    for name, settings in map(parse_short_form, words):
        if "perturbation" in METRICS.get(name).__dataclass_fields__ and "perturbation" not in settings:
            raise ValueError(
                f"--kind: {name} must know what the attributions are; pass --kind contributions (SHAP, Integrated "
                "Gradients: what each feature adds) or --kind slopes (gradients, coefficients of LIME)."
            )
    return metrics


def _about(
    files: "ProblemFiles",
    metrics: "Sequence[str | Metric]",
    methods: "dict[str, Attribution]",
    target: str | None,
    output: str,
) -> dict[str, str]:
    """What is watched, as the state keeps it: later calls must ask for the same."""
    from verax.problem.files.tables import is_file

    facts = {
        "metrics": ", ".join(metric if isinstance(metric, str) else metric.short_form for metric in metrics),
        "methods": ", ".join(method.canonical for method in methods.values()) or None,
        "target": "one per row" if is_file(target) else target,
        "output": output,
        "features": files.features,
        "baselines": files.baselines,
        "returns": files.returns,
    }
    return {"model": _content([files.model])} | {name: str(value) for name, value in facts.items() if value is not None}


def _content(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _opened(
    state: Path, about: dict[str, str], reference: int | None, window: int | None, alarm: float | None
) -> "Monitor":
    """The monitor of a state file, or a new one; what is asked must be what the state began with."""
    from verax.monitoring import Monitor

    if not state.exists():
        share = 0.05 if alarm is None else alarm
        return Monitor(reference=1 if reference is None else reference, window=window, alarm=share, about=about)
    held = Monitor.load(state)
    for name, value in (("reference", reference), ("window", window), ("alarm", alarm)):
        if value is not None and value != getattr(held, name):
            raise ValueError(f"--{name}: {state} began with {getattr(held, name)}, got {value}; leave it out.")
    different = [name for name in {**held.about, **about} if held.about.get(name) != about.get(name)]
    if different:
        raise ValueError(
            f"--state: {state} watches another question: {', '.join(different)} differ; begin a new file for this one."
        )
    return held
