"""Texts and attributions of tokens from files: CSV, JSONL and Parquet; what is wrong names the file and the line."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verax.data.array_files import SUFFIXES, listed, named_attributions, read_arrays, read_table
from verax.data.limits import check_bytes
from verax.problem.text.tokens import TextInputs

TEXTS = (".csv", ".jsonl", ".parquet")
_ATTRIBUTIONS, _TOKENS = "attributions", "tokens"  # keys of a line, or columns
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class TokenNumbers:
    """One attribution of some texts."""

    rows: Any  # the numbers of each text, or an array of them all
    tokens: list[list[str] | None] | None  # what they belong to, of each text where the file says it
    source: str  # the file


def read_texts(path: Path, column: str = "text", option: str = "--text-column") -> list[str]:
    """Read the texts of a file, one per row."""
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
    if suffix == ".jsonl":
        lines = {f"line {number}": line for number, line in _lines(path)}
    elif suffix == ".parquet":
        lines = _list_column(path)
    else:
        return {name: TokenNumbers(array.values, None, array.source) for name, array in read_arrays(path).items()}
    rows = [_numbers(path, where, line) for where, line in lines.items()]
    return {path.stem: TokenNumbers([row for row, _ in rows], [tokens for _, tokens in rows], str(path))}


def _list_column(path: Path) -> dict[str, Any]:
    """Lists of numbers in a table, as lines: the column called attributions, or the only one that holds such lists."""
    table = read_table(path)
    numeric = [
        column.name for column in table if getattr(column.dtype, "inner", None) and column.dtype.inner.is_numeric()
    ]
    name = _ATTRIBUTIONS if _ATTRIBUTIONS in numeric else numeric[0] if len(numeric) == 1 else None
    if name is None:
        raise ValueError(
            f"{path}: expected a column {_ATTRIBUTIONS!r} with a list of numbers per text, got {listed(table.columns)}."
        )
    tokens = table[_TOKENS].to_list() if _TOKENS in table.columns else [None] * table.height
    rows = zip(table[name].to_list(), tokens, strict=True)
    return {f"row {number}": {_ATTRIBUTIONS: row, _TOKENS: named} for number, (row, named) in enumerate(rows)}


def _fitted(numbers: TokenNumbers, inputs: TextInputs) -> Any:
    """One attribution as an array, or what does not fit, with the file's name."""
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
    by_place = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                by_place.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}: line {number} is no JSON ({error}).") from None
    if not by_place:
        raise ValueError(f"{path}: expected a line for each text, got none.")
    return by_place


def _text(path: Path, number: int, line: Any, column: str, option: str) -> str:
    text = line.get(column) if isinstance(line, dict) else line
    if isinstance(text, str) and text.encode(errors="ignore").decode() != text:
        raise ValueError(f"{path}: line {number}: expected a text, got half of a character (a lone surrogate).")
    if not isinstance(text, str):
        keys = f", got the keys {listed(list(line))}; {option} says which" if isinstance(line, dict) else ""
        raise ValueError(f"{path}: line {number}: expected a text, or an object with one as {column!r}{keys}.")
    return text


def _numbers(path: Path, where: str, line: Any) -> tuple[list[float], list[str] | None]:
    """The attributions of a text, and their tokens where they are named."""
    if not isinstance(line, dict):
        return _checked_numbers(path, where, line), None
    values, tokens = _checked_numbers(path, where, line.get(_ATTRIBUTIONS)), line.get(_TOKENS)
    if tokens is None:
        return values, None
    listed_words = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if not listed_words or len(tokens) != len(values):
        raise ValueError(f"{path}: {where}: expected one token for each of its {len(values)} attributions.")
    return values, tokens


def _checked_numbers(path: Path, where: str, values: Any) -> list[float]:
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{path}: {where}: expected a list of numbers, or an object with one as {_ATTRIBUTIONS!r}.")
    for value in values:
        if not abs(value) <= _LARGEST:  # a whole number may be too large for a float
            raise ValueError(f"{path}: {where}: expected finite numbers, got {value!s:.20}.")
    return [float(value) for value in values]
