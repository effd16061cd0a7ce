"""What is said of a problem's files, how its words are read, and what is wrong with them before anything is opened."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verax.data.array_files import SUFFIXES, Array, read_inputs, read_words
from verax.scoring.model_files.opening import check_model_name
from verax.scoring.scorer import checked_device

STATISTICS = ("mean", "median", "mode")  # of the background
_RETURNS = ("logits", "probabilities", "values")
_LABEL = "label:"  # before a label that looks like a number or like a file


@dataclass(frozen=True)
class ProblemFiles:
    """Files of a problem and what is said about them, as ``verax.open_problem`` explains it."""

    model: Path
    inputs: Path
    background: Path | None = None
    baselines: Any = None
    features: Any = None
    returns: Any = None
    missing: str | None = None
    device: Any = None
    trust: bool = False
    text_column: str | None = None
    word_column: str | None = None
    unit: str | None = None
    replace: str | None = None


def check_model(files: ProblemFiles) -> None:
    """Raise for what is wrong before anything is opened.

    Args:
        files: A model file, and what is said about it.
    """
    checked_device(files.device)
    try:
        check_model_name(files.model)
    except ValueError as error:
        raise ValueError(f"model: {files.model}: {error}.") from None
    check_returns(files.returns)
    check_word("missing", files.missing, ("allow", "refuse"))
    if isinstance(files.baselines, str) and files.baselines in STATISTICS and files.background is None:
        raise ValueError(f"baselines: {files.baselines} is one of the training data; pass background=FILE as well.")
    if not files.model.is_file():
        raise FileNotFoundError(f"model: there is no file {files.model}.")


def check_returns(word: Any) -> None:
    """Raise for what no model returns."""
    check_word("returns", word, _RETURNS)


def check_word(argument: str, word: Any, known: tuple[str, ...]) -> None:
    """Raise for a word that an argument does not know."""
    if word is not None and word not in known:
        raise ValueError(f"{argument}: expected {', '.join(known[:-1])} or {known[-1]}, got {word}.")


def read_target(target: Any) -> Any:
    """Read a target: a number, a name, or a file with one of either per row; arrays as they are."""
    if not isinstance(target, str | Path):
        return target
    if not is_file(target):
        text = str(target)
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else text.removeprefix(_LABEL)
    words = read_words(Path(target))
    return class_numbers("target", target) if words is None else words


def class_numbers(argument: str, path: str | Path) -> Any:
    """Read a file with a class number per row."""
    numbers = whole_numbers(argument, path, "class numbers").values
    return numbers[:, 0] if numbers.shape[1:] == (1,) else numbers


def whole_numbers(argument: str, path: str | Path, what: str) -> Array:
    """Read a file of whole numbers."""
    read = read_inputs(Path(path))
    if not ((read.values == read.values.round()) & (abs(read.values) < 1 << 31)).all():
        raise ValueError(f"{argument}: {path}: expected {what}, got others.")
    return Array(read.values.astype("int64"), read.source, read.columns)


def number(argument: str, value: Any, expected: str) -> float:
    """Read a number, or say what was expected."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{argument}: expected {expected}, got {value}.") from None


def is_file(word: Any) -> bool:
    """Whether a word is the name of a file of numbers."""
    return isinstance(word, str | Path) and Path(word).suffix.lower() in SUFFIXES
