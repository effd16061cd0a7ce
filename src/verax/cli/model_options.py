"""Options that commands about one's own model share, and how their words are read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import common, complete
from verax.core.registry import from_dict, parse_short_form

if TYPE_CHECKING:
    from verax.attribution import Attribution
    from verax.metrics import Metric
    from verax.metrics.choose import Metrics
    from verax.problem.files import ProblemFiles
    from verax.problem.problem import Problem
    from verax.problem.replacement import Replacement

SHORT_FORM = "NAME(SETTING=VALUE,...)"

ModelFile = Annotated[
    Path,
    typer.Option(
        help=".onnx, .skops (scikit-learn), .safetensors (verax train), .json or .ubj (XGBoost), .txt (LightGBM), .cbm "
        "(CatBoost), or .pt2 (torch.export; needs --trust-model); evaluate and tune also take a folder of transformers."
    ),
]
TrustModel = Annotated[
    bool,
    typer.Option("--trust-model", help="Open .pt2, or .skops with own classes, which can run code: trust its maker."),
]
InputsFile = Annotated[
    Path,
    typer.Option(help=".npy, .npz, .safetensors, .parquet or .csv; a table for a .skops model may have text and gaps."),
]
Background = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Training rows, for some --baselines, --replacement, --metric and --method."),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The number of the feature that each element belongs to, negative for what is never removed; or one of "
        "the words element and pixel.",
        autocompletion=complete.features,
    ),
]
Baselines = Annotated[
    str | None,
    typer.Option(
        "--baselines",
        "--baseline",
        metavar="VALUE",
        help="What removed features become: a number, mean, median, mode, zero, missing, or a file. 0 by default; in "
        "tables with text or gaps the mean, and the most frequent category.",
        autocompletion=complete.baselines,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="A class or value: number, name, or label:TEXT for a name like a number; or a file of them, one per "
        "input. By default the predicted class."
    ),
]
Returned = Annotated[
    Literal["logits", "probabilities", "values"] | None,
    typer.Option(help="What the model gives; values are those of a regressor."),
]
TrackedScore = Annotated[Literal["probability", "logit"], typer.Option(help="Which class score to track.")]
Missing = Annotated[
    Literal["allow", "raise"] | None,
    typer.Option(help="Gaps and NaN: allowed by default where the model is known to take them; allow: for any model."),
]
MetricWords = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar=SHORT_FORM,
        help=f"{', '.join(complete.METRICS)}; settings in brackets, such as 'pc(steps=10)'. Repeat it for several.",
        autocompletion=complete.metrics,
    ),
]
MethodWords = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar=SHORT_FORM,
        help=f"Compute this explanation as well: {', '.join(complete.METHODS)}; settings in brackets, such as "
        "'LimeTabular(samples=256)'. Repeat it for several.",
        autocompletion=complete.methods,
    ),
]
TextColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Texts: the column, or the key of a .jsonl line; text by default.")
]
WordColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Texts of a tagger: the column, or the key, of the word whose class counts."),
]
UnitWord = Annotated[
    Literal["token", "word", "sentence"] | None, typer.Option(help="Texts: what one feature is; token by default.")
]
ReplaceWord = Annotated[
    Literal["mask", "pad", "unk", "delete"] | None,
    typer.Option(help="Texts: what a removed token becomes; by default the first of these that the tokenizer has."),
]
_BECOME = f"What removed features become: {', '.join(complete.REPLACEMENTS)}; baseline by default."
ReplacementWords = Annotated[
    str | None,
    typer.Option(metavar="NAME:SETTING=VALUE,...", help=_BECOME, autocompletion=complete.replacing),
]
SeveralReplacements = Annotated[
    list[str] | None,
    typer.Option(
        "--replacement",
        metavar="NAME:SETTING=VALUE,...",
        help=f"{_BECOME} Repeat it to see whether the ranking under the first survives the others.",
        autocompletion=complete.replacing,
    ),
]
Limits = Annotated[
    bool, typer.Option("--limits", help="PC, DPC, LPC: also find what the best possible attribution would score.")
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.")]
DeviceName = Annotated[str | None, typer.Option(help="cpu or cuda; cpu by default.", autocompletion=complete.devices)]
BatchSize = Annotated[int | None, typer.Option(help="Model rows at once; automatic by default.")]


def problem_files(options: Mapping[str, Any]) -> "ProblemFiles":
    """The files and words that a command was called with, from its ``locals()``."""
    from verax.problem.files import ProblemFiles

    named = {field.name: options[field.name] for field in fields(ProblemFiles) if field.name in options}
    device = options["device"] and common.checked_device_name(options["device"])
    return ProblemFiles(**named | {"device": device, "trust": options["trust_model"]})


def opened(
    options: Mapping[str, Any], attributions: Sequence[Path] = (), **further: Any
) -> "tuple[Problem, dict[str, Any]]":
    """The problem that a command is about, from its ``locals()``, with the attributions of files."""
    from verax.problem.files import open_explained

    question = {name: options[name] for name in ("target", "output", "batch_size")}
    return open_explained(problem_files(options), attributions, question | further)


def metric_choice(words: Sequence[str]) -> "Metrics | None":
    """What ``--metric`` says: nothing, ``paper`` or ``all`` alone, or metrics by their short forms."""
    for several in ("paper", "all"):
        if list(words) == [several]:
            return several
    return metrics_of(words) or None


def metrics_of(
    words: Sequence[str], further: Collection[str] = (), defaults: Mapping[str, Any] | None = None
) -> "list[str | Metric]":
    """Metrics from short forms: a bare name, or one ``further``, as it is; else an object, with ``defaults`` it takes.

    Example:
        >>> metrics_of(["pc", "dpc(order=magnitude)"])[1].short_form
        "dpc(order='magnitude')"
    """
    from verax.metrics import METRICS
    from verax.metrics.choose import metric_from

    listed: list[str | Metric] = []
    for word in words:
        name, settings = _parsed("--metric", word, [*METRICS, *further])
        known = METRICS.get(name).__dataclass_fields__ if name in METRICS else {}
        bare = not settings and known.keys().isdisjoint(defaults or ())
        try:
            listed.append(name if bare else metric_from({"metric": name, **settings}, defaults or {}))
        except (TypeError, ValueError) as error:
            raise ValueError(f"--metric: {name}: {error}") from None
    return listed


def methods_of(words: Sequence[str], option: str = "--method") -> "dict[str, Attribution]":
    """Methods from short forms, in small or capital letters, each under its name with its settings.

    Example:
        >>> methods_of(["kernelshap", "LimeTabular(samples=256)"])["LimeTabular(samples=256)"].samples
        256
    """
    from verax.attribution import METHODS

    known = {name.lower(): name for name in METHODS}
    methods: dict[str, Attribution] = {}
    for word in words:
        name, settings = _parsed(option, word, list(METHODS), known)
        listing = ", ".join(f"{setting}={value!r}" for setting, value in settings.items())
        label = f"{name}({listing})" if listing else name
        try:
            method: Attribution = from_dict(METHODS.get(name), settings)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{option}: {name}: {error}") from None
        methods = joined(methods, {label: method})
    return methods


def joined(attributions: Mapping[str, Any], methods: "Mapping[str, Attribution]") -> dict[str, Any]:
    """Attributions and methods by name; a name that both have is an error."""
    if twice := [name for name in methods if name in attributions]:
        raise ValueError(f"--method: a second attribution called {twice[0]}.")
    return {**attributions, **methods}


def _parsed(
    option: str, word: str, known: Collection[str], spelt: Mapping[str, str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Name and settings of a short form; an unknown name is an error that lists the known ones."""
    try:
        name, settings = parse_short_form(word)
    except ValueError as error:
        raise ValueError(f"{option}: {error}.") from None
    return common.checked_name(option, (spelt or {}).get(name.lower(), name), known), settings


def replacement_of(words: str, background: Path | None) -> "Replacement":
    """Read one ``--replacement``; what it needs of the training data must be there."""
    from verax.problem.replacement.base import needs_background, replacement_from

    replacement = replacement_from(words, "--replacement")
    if needs_background(replacement) and background is None:
        raise ValueError(f"--replacement: {words} takes rows of the training data; pass --background FILE as well.")
    return replacement
