"""Files of texts and of token attributions: what they hold comes back; anything else is refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verax.problem.files.texts import read_texts, read_token_attributions
from verax.problem.text.example import small_tokenizer
from verax.problem.text.tokens import tokenized

pytest.importorskip("transformers")

TEXTS = ["a good film", "null", '"quoted",\nwith a line']
INPUTS = tokenized(small_tokenizer(*TEXTS), TEXTS)
LENGTHS = [len(one) for one in INPUTS.tokens]
ROWS = [[float(at) for at in range(length)] for length in LENGTHS]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_texts_come_back_as_they_are(tmp_path: Path) -> None:
    """A cell that says null is a word, quotes and line breaks are kept, and a compressed file is not unpacked."""
    frame = pl.DataFrame({"number": [1, 2, 3], "review": TEXTS})
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    lines(tmp_path / "x.jsonl", [{"review": text} for text in TEXTS])
    for suffix in (".csv", ".parquet", ".jsonl"):
        assert read_texts(tmp_path / f"x{suffix}", "review") == TEXTS
    assert read_texts(lines(tmp_path / "plain.jsonl", TEXTS)) == TEXTS
    (tmp_path / "packed.csv").write_bytes(b"\x1f\x8b" + b"0" * 20)
    with pytest.raises(ValueError, match="got a compressed file"):
        read_texts(tmp_path / "packed.csv")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", b"good", "expected a file that ends in .csv, .jsonl, .parquet"),
        ("x.csv", b"review\ngood\n", "expected a column 'text' with texts, got review; --text-column"),
        ("x.csv", b"text,number\ngood,1\n,2\n", "got None in row 1"),
        ("x.jsonl", b'{"review": "good"}', "line 1: expected a text, or an object with one as 'text', got the keys"),
        ("x.jsonl", b'"good"\n7', "line 2: expected a text"),
        ("x.jsonl", b'"\\ud800"', "line 1: expected a text, got half of a character"),
        ("x.jsonl", b"\xff", "expected text in UTF-8"),
        ("x.jsonl", b'"good"\n{', "line 2 is no JSON"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(tmp_path / name)


def test_attributions_of_every_kind_of_file(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", ROWS)
    lines(tmp_path / "b.jsonl", [{"attributions": row, "of": "me"} for row in ROWS])
    pl.DataFrame({"values": ROWS, "of": ["me"] * 3}).write_parquet(tmp_path / "c.parquet")
    tokens = [list(one) for one in INPUTS.tokens]
    pl.DataFrame({"attributions": ROWS, "more": ROWS, "tokens": tokens}).write_parquet(tmp_path / "d.parquet")
    expected = INPUTS.fitted(ROWS)
    np.savez(tmp_path / "e.npz", one=expected, two=expected)
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.parquet", "d.parquet", "e.npz")]
    result = read_token_attributions(paths, INPUTS)
    assert list(result) == ["a", "b", "c", "d", "one", "two"]
    for array in result.values():
        np.testing.assert_array_equal(array, expected)
    with pytest.raises(ValueError, match=r"a second attribution called 'a', after .*a\.jsonl"):
        read_token_attributions([paths[0], lines(tmp_path / "a.JSONL", ROWS)], INPUTS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"tokens": ["a"], "attributions": [1.0, 2.0]}, "line 1: expected one token for each of its 2 attributions"),
        ({"tokens": "ab", "attributions": [1.0, 2.0]}, "line 1: expected one token"),
        ([10**400], "line 1: expected finite numbers, got 1000"),
        ([True], "line 1: expected a list of numbers"),
        (1.0, "line 1: expected a list of numbers"),
    ],
)
def test_lines_that_are_no_attributions(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_token_attributions([lines(tmp_path / "x.jsonl", [rows])], INPUTS)


def test_tables_without_lists_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": ROWS, "b": ROWS}).write_parquet(tmp_path / "two.parquet")
    pl.DataFrame({"attributions": [[1.0], None, [1.0]]}).write_parquet(tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match="expected a column 'attributions' with a list of numbers per text, got a, b"):
        read_token_attributions([tmp_path / "two.parquet"], INPUTS)
    with pytest.raises(ValueError, match="row 1: expected a list of numbers"):
        read_token_attributions([tmp_path / "gap.parquet"], INPUTS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["attributions", "tokens", "text"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=30)
@given(
    st.one_of(
        st.binary(max_size=60), st.lists(JSON, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
    )
)
def test_any_lines_are_read_or_refused_by_name(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    for read in (read_texts, lambda path: read_token_attributions([path], INPUTS)):
        message = str(path)
        try:
            read(path)
        except ValueError as error:
            message = str(error)
        assert str(path) in message
