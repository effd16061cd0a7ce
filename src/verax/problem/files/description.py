"""The files of a problem as named by the user: checked before anything is opened; and texts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verax.data.array_files import SUFFIXES, Array, read_inputs, read_words
from verax.problem.problem import Problem, problem_of
from verax.problem.text.files import read_texts, read_token_attributions
from verax.problem.text.model_folder import check_folder, open_classifier, open_tokenizer
from verax.problem.text.problems import TokenLabelScore, words_in_question
from verax.problem.text.tokens import TextInputs, tokenized
from verax.scoring.model_files.opening import check_model_name
from verax.scoring.scorer import Scorer, checked_device

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
    check_word("missing", files.missing, ("allow", "raise"))
    if isinstance(files.baselines, str) and files.baselines in STATISTICS and files.background is None:
        raise ValueError(f"baselines: {files.baselines} is one of the training data; pass background=FILE as well.")
    if not files.model.is_file():
        raise FileNotFoundError(f"model: there is no file {files.model}.")


def check_returns(word: Any) -> None:
    check_word("returns", word, _RETURNS)


def check_word(argument: str, word: Any, known: tuple[str, ...]) -> None:
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


UNITS = ("token", "word", "sentence")
REPLACEMENTS = ("mask", "pad", "unk", "delete")
_COLUMN = "text"
_ABOUT_TEXTS = ("text_column", "word_column", "unit", "replace")


def check_no_texts(files: ProblemFiles) -> None:
    """Raise for arguments about texts beside a model that takes none."""
    for name in _ABOUT_TEXTS:
        if getattr(files, name) is not None:
            raise ValueError(f"{name}: is about texts, and their model is a folder of transformers; got {files.model}.")


def open_texts(
    files: ProblemFiles, attributions: Sequence[Path], settings: Mapping[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """Check the folder, read and tokenize the texts, read attributions; the model itself is opened last."""
    _check(files)
    tagger = check_folder(files.model)
    if tagger != (files.word_column is not None):
        got = "there are none for each word in" if files.word_column else "say the word whose class counts, for"
        raise ValueError(f"word_column: it is about classes of words; {got} {files.model}.")
    texts = read_texts(files.inputs, files.text_column or _COLUMN)
    words = None if files.word_column is None else read_texts(files.inputs, files.word_column, "--word-column")
    tokenizer = open_tokenizer(files.model)

    def read(other: Any) -> TextInputs:
        unit: Any = files.unit or "token"
        how: Any = files.replace
        if words is None:
            return tokenized(tokenizer, other, unit=unit, replace=how)
        return words_in_question(tokenizer, other, words, unit, how)

    try:
        rows = read(texts)
    except ValueError as error:
        raise ValueError(f"{files.inputs}: {error}") from None
    numbers = read_token_attributions(attributions, rows)
    model = open_classifier(files.model, words=tagger)
    scorer = Scorer(TokenLabelScore(model) if tagger else model, returns=files.returns, device=files.device)
    return problem_of(scorer, rows, None if tagger else read, **settings), numbers


def _check(files: ProblemFiles) -> None:
    """Raise for what is wrong before anything is opened."""
    others = {
        "background": files.background,
        "features": files.features,
        "baselines": files.baselines,
        "missing": files.missing,
        "trust": files.trust or None,
    }
    hints = {"features": "; unit= says what a feature is", "baselines": "; replace= says what tokens become"}
    for argument, value in others.items():
        if value is not None:
            raise ValueError(
                f"{argument}: texts and a folder of transformers have no use for it{hints.get(argument, '')}."
            )
    check_word("unit", files.unit, UNITS)
    check_word("replace", files.replace, REPLACEMENTS)
    check_returns(files.returns)
    checked_device(files.device)
