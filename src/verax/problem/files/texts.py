"""Texts as problems from files: CSV, JSONL and Parquet; what is wrong names the file and the line."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verax.data.array_files import SUFFIXES, listed, named_attributions, read_arrays, read_table
from verax.data.limits import check_bytes
from verax.problem.files.tables import ProblemFiles, check_settings
from verax.problem.problem import Problem, problem_of
from verax.problem.text.model_folder import check_folder, open_classifier, open_tokenizer
from verax.problem.text.problems import TokenLabelScore, words_in_question
from verax.problem.text.tokens import TextInputs, tokenized
from verax.scoring.scorer import Scorer

_ABOUT_TEXTS = ("text_column", "word_column", "unit", "replace")
_NOT_ABOUT_TEXTS = {
    "background": "",
    "features": "; unit= says what a feature is",
    "baselines": "; replace= says what tokens become",
    "missing": "",
    "trust": "",
}


def check_no_texts(files: ProblemFiles) -> None:
    """Raise for arguments about texts beside a model that takes none."""
    for name in _ABOUT_TEXTS:
        if getattr(files, name) is not None:
            raise ValueError(f"{name}: is about texts, and their model is a folder of transformers; got {files.model}.")


def open_texts(
    files: ProblemFiles, attributions: Sequence[Path], settings: Mapping[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """Check the folder, read and tokenize the texts, read attributions; the model itself is opened last."""
    for argument, hint in _NOT_ABOUT_TEXTS.items():
        if getattr(files, argument) not in (None, False):
            raise ValueError(f"{argument}: texts and a folder of transformers have no use for it{hint}.")
    check_settings(files)
    tagger = check_folder(files.model)
    if tagger != (files.word_column is not None):
        got = "there are none for each word in" if files.word_column else "say the word whose class counts, for"
        raise ValueError(f"word_column: it is about classes of words; {got} {files.model}.")
    texts = read_texts(files.inputs, files.text_column or "text")
    words = None if files.word_column is None else read_texts(files.inputs, files.word_column, "--word-column")
    tokenizer = open_tokenizer(files.model)
    unit: Any = files.unit or "token"
    how: Any = files.replace

    def read(other: Any) -> TextInputs:
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


TEXTS = (".csv", ".jsonl", ".parquet")
_ATTRIBUTIONS, _TOKENS = "attributions", "tokens"  # keys of a line, or columns


@dataclass(frozen=True)
class TokenNumbers:
    """One attribution of some texts."""

    rows: Any  # the numbers of each text, or an array of them all
    tokens: Sequence[list[str] | None] | None  # what they belong to, of each text where the file says it
    source: str  # the file


def read_texts(path: Path, column: str = "text", option: str = "--text-column") -> list[str]:
    suffix = _checked_suffix(path, TEXTS)
    if suffix == ".jsonl":
        return [_text(path, number, line, column, option) for number, line in _lines(path)]
    table = read_table(path, words=True)
    if column not in table.columns:
        raise ValueError(
            f"{path}: expected a column {column!r} with texts, got {listed(table.columns)}; {option} says which."
        )
    texts: list[str] = table[column].to_list()
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{path}: expected a text in column {column!r}, got {text!r} in row {row}.")
    return texts


def read_token_attributions(paths: Iterable[Path], inputs: TextInputs) -> dict[str, Any]:
    """Read attributions of these texts, by the name of their file or, where a file holds several, of each array."""
    return {name: _fitted(numbers, inputs) for name, numbers in named_attributions(paths, _attributions).items()}


def _attributions(path: Path) -> dict[str, TokenNumbers]:
    suffix = _checked_suffix(path, (".jsonl", *(suffix_name for suffix_name in SUFFIXES if suffix_name != ".csv")))
    if suffix not in (".jsonl", ".parquet"):
        return {name: TokenNumbers(array.values, None, array.source) for name, array in read_arrays(path).items()}
    lines = _list_column(path) if suffix == ".parquet" else {f"line {number}": line for number, line in _lines(path)}
    rows, tokens = zip(*(_numbers(path, where, line) for where, line in lines.items()), strict=True)
    return {path.stem: TokenNumbers(list(rows), tokens, str(path))}


def _list_column(path: Path) -> dict[str, Any]:
    """Lists of numbers in a table, as lines: the column called attributions, or the only one that holds such lists."""
    table = read_table(path)
    inner = {column.name: getattr(column.dtype, "inner", None) for column in table}
    numeric = [name for name, kind in inner.items() if kind is not None and kind.is_numeric()]
    name = _ATTRIBUTIONS if _ATTRIBUTIONS in numeric else numeric[0] if len(numeric) == 1 else None
    if name is None:
        raise ValueError(
            f"{path}: expected a column {_ATTRIBUTIONS!r} with a list of numbers per text, got {listed(table.columns)}."
        )
    tokens = table[_TOKENS].to_list() if _TOKENS in table.columns else [None] * table.height
    rows = zip(table[name].to_list(), tokens, strict=True)
    return {f"row {number}": {_ATTRIBUTIONS: row, _TOKENS: named} for number, (row, named) in enumerate(rows)}


def _fitted(numbers: TokenNumbers, inputs: TextInputs) -> Any:
    if (count := len(numbers.rows)) != len(inputs):
        raise ValueError(f"{numbers.source}: expected one row for each of {len(inputs)} texts, got {count}.")
    for row, tokens in enumerate(numbers.tokens or ()):
        if tokens is not None:
            _check_tokens(numbers.source, row, tokens, inputs)
    try:
        return inputs.fitted(numbers.rows)
    except ValueError as error:
        raise ValueError(f"{numbers.source}: {error}") from None


def _check_tokens(source: str, row: int, tokens: list[str], inputs: TextInputs) -> None:
    """Raise for attributions of other tokens, where the file names them one by one."""
    row_tokens = inputs.tokens[row]
    numbers = inputs.features[row][inputs.present[row]].tolist()
    plain = [token for token, number in zip(row_tokens, numbers, strict=True) if number >= 0]
    expected = next((known for known in (row_tokens, plain) if len(known) == len(tokens)), None)
    if expected is None:  # of words or sentences, whose number is checked with that of the attributions
        return
    for place, (piece, known) in enumerate(zip(tokens, expected, strict=True)):
        if piece != known:
            raise ValueError(
                f"{source}: row {row} is about other tokens: {piece!r} where the model's tokenizer has {known!r} "
                f"(place {place})."
            )


def _checked_suffix(path: Path, known: tuple[str, ...]) -> str:
    suffix = path.suffix.lower()
    if suffix not in known:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(known)}.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return suffix


def _lines(path: Path) -> list[tuple[int, Any]]:
    """What stands in each line of a JSONL file, with the line's number; lines of nothing but spaces are passed over."""
    content = path.read_bytes()
    check_bytes(path, len(content))
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected text in UTF-8.") from None
    numbered = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                numbered.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}: line {number} is no JSON ({error}).") from None
    if not numbered:
        raise ValueError(f"{path}: expected a line for each text, got none.")
    return numbered


def _text(path: Path, number: int, line: Any, column: str, option: str) -> str:
    text = line.get(column) if isinstance(line, dict) else line
    if isinstance(text, str) and text.encode(errors="ignore").decode() != text:
        raise ValueError(f"{path}: line {number}: expected a text, got half of a character (a lone surrogate).")
    if not isinstance(text, str):
        keys = f", got the keys {listed(list(line))}; {option} says which" if isinstance(line, dict) else ""
        raise ValueError(f"{path}: line {number}: expected a text, or an object with one as {column!r}{keys}.")
    return text


def _numbers(path: Path, where: str, line: Any) -> tuple[list[float], list[str] | None]:
    values, tokens = (line.get(_ATTRIBUTIONS), line.get(_TOKENS)) if isinstance(line, dict) else (line, None)
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{path}: {where}: expected a list of numbers, or an object with one as {_ATTRIBUTIONS!r}.")
    for value in values:
        if not abs(value) <= sys.float_info.max:  # a whole number may be too large for a float
            raise ValueError(f"{path}: {where}: expected finite numbers, got {value!s:.20}.")
    words = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if tokens is not None and not (words and len(tokens) == len(values)):
        raise ValueError(f"{path}: {where}: expected one token for each of its {len(values)} attributions.")
    return [float(value) for value in values], tokens
