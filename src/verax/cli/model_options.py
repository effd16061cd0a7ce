"""Options that commands about one's own model share, and how their words are read."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verax.cli import complete
from verax.problem.replacement.words import needs_background, replacement_from, sayable

if TYPE_CHECKING:
    from verax.datasets.array_files import Array
    from verax.problem.replacement import Replacement

ModelFile = Annotated[
    Path,
    typer.Option(
        help=".onnx, .skops (scikit-learn), .safetensors (verax train), .json or .ubj (XGBoost), .txt (LightGBM), .cbm "
        "(CatBoost), or .pt2 (torch.export; needs --trust-model); evaluate and tune also take a folder of transformers."
    ),
]
TrustModel = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="Open a .pt2 file, or a .skops file with classes of your own, which can run any code: only if you trust "
        "whoever made it.",
    ),
]
InputsFile = Annotated[
    Path,
    typer.Option(
        help="What the model takes: .npy, .npz, .safetensors, .parquet or .csv. A table for a .skops model may have "
        "text and gaps."
    ),
]
Background = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Rows of the training data, which some words for --baselines, --sigma and --replacement need, --distance, "
        "and some methods.",
    ),
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
    str | None,
    typer.Option(
        metavar="KIND",
        help="What the model gives: logits, probabilities, or values (a regressor).",
        autocompletion=complete.returns,
    ),
]
FollowedScore = Annotated[
    str,
    typer.Option(
        metavar="probability|logit", help="The score of a class that is followed.", autocompletion=complete.outputs
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="allow|refuse",
        help="Gaps and NaN: by default allowed where the model is known to take them; allow passes them on to any "
        "model, as verax.Inputs does.",
        autocompletion=complete.missing,
    ),
]
Sigma = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|std",
        help="Infidelity: standard deviation of the perturbation, or std for those of the background; 0.2 by default.",
        autocompletion=complete.sigma,
    ),
]
EffectWord = Annotated[
    str | None,
    typer.Option(
        metavar="dot|sum",
        help="Infidelity: dot where attributions are slopes, sum where they are contributions. By default dot for "
        "noise, sum for baselines.",
        autocompletion=complete.effects,
    ),
]
_BECOME = f"What removed features become: {', '.join(sayable().values())}; baseline by default."
ReplacementWords = Annotated[
    str | None,
    typer.Option(
        metavar="NAME:SETTING=VALUE,...",
        help=_BECOME,
        autocompletion=complete.replacing,
    ),
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
StepsWord = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|adaptive",
        help="PC, DPC and LPC: steps from input to baseline, 20 by default, or adaptive: as many as --tolerance needs.",
        autocompletion=complete.steps,
    ),
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.")]
DeviceName = Annotated[str | None, typer.Option(help="cpu or cuda; cpu by default.", autocompletion=complete.devices)]
BatchSize = Annotated[int | None, typer.Option(help="Model rows at once; automatic by default.")]

_LABEL = "label:"  # before a label that looks like a number or like a file


def check_word(option: str, word: str | None, known: tuple[str, ...]) -> None:
    """Refuse a word that an option does not know."""
    if word is not None and word not in known:
        raise ValueError(f"{option}: expected {', '.join(known[:-1])} or {known[-1]}, found {word}.")


def check_words(*, output: str, effect: str | None) -> None:
    """Refuse scores and effects that there are not, before anything is opened."""
    check_word("--output", output, ("probability", "logit"))
    check_word("--effect", effect, ("dot", "sum"))


def target_of(text: str | None) -> Any:
    """Read ``--target``: a number, a name, or a file with one of either per input."""
    from verax.datasets.array_files import read_words

    if text is None:
        return None
    if not is_file(text):
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else text.removeprefix(_LABEL)
    words = read_words(Path(text))
    return class_numbers("--target", text) if words is None else words


def class_numbers(option: str, text: str) -> Any:
    """Read a file with a class number per row."""
    found = whole_numbers(option, text, "class numbers").values
    return found[:, 0] if found.shape[1:] == (1,) else found


def whole_numbers(option: str, text: str, what: str) -> "Array":
    """Read a file of whole numbers."""
    from verax.datasets.array_files import Array, read_inputs

    found = read_inputs(Path(text))
    if not ((found.values == found.values.round()) & (abs(found.values) < 1 << 31)).all():
        raise ValueError(f"{option}: {text}: expected {what}, found others.")
    return Array(found.values.astype("int64"), found.source, found.columns)


def sigma_of(text: str | None, background: Path | None) -> float | str | None:
    """Read ``--sigma``: a number, or std, which is one of the background."""
    if text != "std":
        return None if text is None else number("--sigma", text, "a number or std")
    if background is None:
        raise ValueError("--sigma: std is that of the training data; pass --background FILE as well.")
    return "std"


def steps_of(text: str | None) -> int | Literal["adaptive"] | None:
    """Read ``--steps``: a whole number, or adaptive."""
    if text is None:
        return None
    if text == "adaptive":
        return "adaptive"
    if not re.fullmatch(r"\d+", text):
        raise ValueError(f"--steps: expected a whole number or adaptive, found {text}.")
    return int(text)


def replacement_of(words: str, background: Path | None) -> "Replacement":
    """Read one ``--replacement``; what it needs of the training data must be there."""
    found = replacement_from(words, "--replacement")
    if needs_background(found) and background is None:
        raise ValueError(f"--replacement: {words} takes rows of the training data; pass --background FILE as well.")
    return found


def number(option: str, text: str, wanted: str) -> float:
    """Read a number, or say what was wanted."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{option}: expected {wanted}, found {text}.") from None


def is_file(text: str) -> bool:
    """Whether a word is the name of a file of numbers."""
    from verax.datasets.array_files import SUFFIXES

    return Path(text).suffix.lower() in SUFFIXES
